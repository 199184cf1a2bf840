"""Inline intrinsics: replaces every use of a hardware operation by the loops of its declaration's body.

    rewrite:  mma: m16n8k8(C[0:16, 0:8], A[0:16, 8:16], B[8:16, 0:8])
              ->  for mma.i in 16: for mma.j in 8: for mma.k in 8: mma.sum: C[mma.i, mma.j] += A[...] * B[...]

The inverse of tensorize. The program's meaning stays the same, so that it can run on hardware without the operation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..ir.expr import FALSE, FIRST, Buffer, Const, Expr, Load, Var, all_of, select
from ..ir.stmt import Alloc, Assign, Copy, For, Intrinsic, Program, Reduce, Region, Seq, Stmt
from ..ir.visit import map_expressions, map_operands, map_stmt


def inline_intrinsics(program: Program) -> Program:
    """`program` without intrinsics; names in the inlined bodies begin with the statement's name (and a number)."""
    used: dict[str, int] = {}

    def rewrite(statement: Stmt) -> Stmt:
        if not isinstance(statement, Intrinsic):
            return statement
        count = used.get(statement.name, 0)
        used[statement.name] = count + 1
        return _Use(statement, f"{statement.name}.{count}" if count else statement.name).body()

    return map_stmt(program, rewrite)


class _Use:
    """The expansion of one intrinsic. `operands` maps the name of a formal buffer to (the formal buffer, region of the
    actual operand). `values` maps the name of a variable of the declaration's body to the expression that replaces the
    variable.
    """

    def __init__(self, use: Intrinsic, prefix: str) -> None:
        self.use = use
        self.prefix = prefix
        self.operands: Mapping[str, tuple[Buffer, Region]] = {
            formal.name: (formal, region)
            for formal, region in zip(use.declaration.parameters, use.operands, strict=True)
        }
        self.values: dict[str, Expr] = {FIRST.name: FALSE if use.first is None else use.first}

    def body(self) -> Stmt:
        return self.statement(self.use.declaration.body)

    def statement(self, node: Stmt) -> Stmt:
        match node:
            case For(var=var, extent=extent, body=body):
                new = Var(f"{self.prefix}.{var.name}")
                self.values[var.name] = new
                return For(var=new, extent=self.expr(extent), body=self.statement(body), kind=node.kind)
            case Seq(statements=statements):
                return Seq(statements=tuple([self.statement(s) for s in statements]))
            case Alloc(buffer=buffer, body=body):
                return Alloc(buffer=self.local(buffer), body=self.statement(body))
            case Assign() | Reduce():
                box = self.region(_at(node.buffer, node.indices))
                changed = map_expressions(node, self.expr)
                assert isinstance(changed, Assign | Reduce)
                name = f"{self.prefix}.{node.name}"
                return replace(changed, name=name, buffer=box.buffer, indices=box.starts)
            case Copy():
                return replace(
                    node,
                    name=f"{self.prefix}.{node.name}",
                    destination=self.region(node.destination),
                    source=self.region(node.source),
                    pad=self.use.pad if node.pad is None else node.pad,
                )
        raise TypeError(
            f"the body of the intrinsic {self.use.declaration.name} contains a {type(node).__name__}, which cannot be "
            "inlined"
        )

    def local(self, buffer: Buffer) -> Buffer:
        return replace(buffer, name=f"{self.prefix}.{buffer.name}")

    def region(self, box: Region) -> Region:
        """The box (rectangle of elements) of the operand that corresponds to `box`, a box of a formal buffer. For a
        buffer that the declaration's body allocates: the same box of the renamed buffer.
        """
        starts = tuple([self.expr(e) for e in box.starts])
        extents = tuple([self.expr(e) for e in box.extents])
        held = self.operands.get(box.buffer.name)
        if held is None:
            return Region(buffer=self.local(box.buffer), starts=starts, extents=extents)
        formal, operand = held
        wide = [d for d, size in enumerate(formal.shape) if size != 1]
        first = list(operand.starts)
        places = [d for d, extent in enumerate(operand.extents) if extent != Const(1)]
        sizes: list[Expr] = [Const(1)] * len(first)
        for d, place in zip(wide, places, strict=True):
            first[place] = first[place] + starts[d]
            sizes[place] = extents[d]
        return Region(buffer=operand.buffer, starts=tuple(first), extents=tuple(sizes))

    def expr(self, expr: Expr) -> Expr:
        """An expression of the declaration's body, with operands in place of formal buffers, and variables renamed."""
        if isinstance(expr, Load):
            return self.load(expr)
        if isinstance(expr, Var):
            return self.values.get(expr.name, expr)
        return map_operands(expr, self.expr)

    def load(self, load: Load) -> Expr:
        box = self.region(_at(load.buffer, load.indices))
        value = Load(box.buffer, box.starts)
        pad = self.use.pad
        if pad is None or load.buffer.name not in self.operands:
            return value
        inside: list[Expr] = []
        for index, size in zip(box.starts, box.buffer.shape, strict=True):
            inside += [Const(0) <= index, index < size]
        return select(all_of(*inside), value, pad)


def _at(buffer: Buffer, indices: tuple[Expr, ...]) -> Region:
    return Region(buffer=buffer, starts=indices, extents=(Const(1),) * len(indices))

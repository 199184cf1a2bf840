"""tensorize: replaces a part of a program that equals the body of a hardware operation by a use of that operation."""

from __future__ import annotations

from ..ir.affine import linear_form
from ..ir.expr import FIRST, TRUE, Binary, Buffer, Call, Cast, Const, Expr, Load, Select, Var, all_of
from ..ir.expression_printer import format_expr
from ..ir.printer import format_buffer, summarize
from ..ir.stmt import (
    Alloc,
    Assign,
    For,
    Intrinsic,
    IntrinsicDeclaration,
    NamedStmt,
    Node,
    Program,
    Reduce,
    Region,
    Seq,
    Stmt,
)
from ..ir.visit import free_vars, substitute_expr, walk, walk_expr
from .errors import LegalityError
from .legality import conjuncts
from .tree import locate, locate_alloc, minus, rebuild

Attributes = tuple[tuple[str, int | float | str], ...]


def tensorize(
    program: Program, name: str, declaration: IntrinsicDeclaration, attributes: Attributes = ()
) -> Program:
    """Replaces the loop, statement or allocation called `name`, with its body, by a use of a hardware operation.

    rewrite (`dot` computes c[i] += a[k] * b[i, k] for i < 4, k < 8):
        for i in range(4):
            for k in range(8):                                   ->   sum: dot(C[x, 0:4], A[y, 0:8], B[x, 0:4, 0:8])
                sum: C[x, i] += A[y, k] * B[x, i, k] ...              first ...
    Legal if the tree equals the declaration's body: loops, extents, statements and operators are the same and in the
    same order (a Reduce without `first` may stand for an Assign). Each parameter of the declaration stands for one
    buffer of the program, of the same type and scope; the buffer's last indices must be the parameter's indices plus
    values that are constant in these loops; indices read from memory must be equal. A predicate `first and k == 0` of
    the declaration matches a conjunction with `k == 0`, whose other conditions become the operation's `first`. The use
    is named like the last statement that it replaces; the emitter gets `attributes`."""
    path = locate_alloc(program, name) or locate(program, name)
    target = path[-1]
    try:
        intrinsic = _Match(declaration).intrinsic(target, attributes)
    except _Mismatch as mismatch:
        reason = f"cannot tensorize {name} with {declaration.name}: {mismatch.describe()}"
        raise LegalityError(reason, program, name) from None
    return rebuild(path, intrinsic)


class _Mismatch(Exception):
    """Raised at a difference between program and declaration; `describe` makes the text when it is needed."""

    def __init__(
        self, text: str, actual: Node | Expr | None = None, formal: Node | Expr | None = None
    ) -> None:
        super().__init__(text)
        self.text, self.actual, self.formal = text, actual, formal

    def describe(self) -> str:
        parts = [_show(p) for p in (self.actual, self.formal) if p is not None]
        return f"{self.text} {' against '.join(parts)}".strip()


def _differ(what: str, a: Buffer, f: Buffer) -> _Mismatch:
    return _Mismatch(f"buffer {format_buffer(a)} needs the {what} of the intrinsic's {format_buffer(f)}")


def _show(part: Node | Expr) -> str:
    expression = isinstance(part, Const | Var | Binary | Cast | Select | Load | Call)
    return f"`{format_expr(part) if expression else summarize(part)}`"


class _Match:
    """Unification of a program tree with an intrinsic's body; binds the body's loops and buffers to the tree's."""

    __slots__ = (
        "actual_names",
        "declaration",
        "first",
        "last",
        "locals",
        "operands",
        "seen_first",
        "variables",
    )

    def __init__(self, declaration: IntrinsicDeclaration) -> None:
        self.declaration = declaration
        self.variables: dict[str, Expr] = {}
        self.actual_names: set[str] = set()
        self.locals: dict[str, str] = {}
        self.operands: dict[str, tuple[Buffer, tuple[Expr, ...]]] = {}
        self.first: Expr | None = None
        self.seen_first = False
        self.last = ""

    def intrinsic(self, target: Node, attributes: Attributes) -> Intrinsic:
        assert not isinstance(target, Program)
        # All loop variables in the tree, which an operand's start must not contain.
        self.actual_names = {s.name for s in walk(target) if isinstance(s, For)}
        self.statement(target, self.declaration.body)
        regions: list[Region] = []
        for formal in self.declaration.parameters:
            if formal.name not in self.operands:
                raise _Mismatch(f"the program accesses nothing like the intrinsic's {formal.name}")
            buffer, starts = self.operands[formal.name]
            lead = (Const(1),) * (len(starts) - len(formal.shape))
            extents = lead + tuple([Const(size) for size in formal.shape])
            regions.append(Region(buffer=buffer, starts=starts, extents=extents))
        return Intrinsic(
            name=self.last,
            declaration=self.declaration,
            operands=tuple(regions),
            first=self.first,
            attributes=attributes,
        )

    def statement(self, actual: Stmt, formal: Stmt) -> None:
        match actual, formal:
            case For(), For():
                if actual.extent != formal.extent:
                    has, needs = format_expr(actual.extent), format_expr(formal.extent)
                    where = f"the intrinsic's loop {formal.name}"
                    raise _Mismatch(f"loop {actual.name} has `{has}` iterations, but {where} has `{needs}`")
                self.variables[formal.name] = actual.var
                self.statement(actual.body, formal.body)
            case Seq(statements=a), Seq(statements=f) if len(a) == len(f):
                for x, y in zip(a, f, strict=True):
                    self.statement(x, y)
            case Alloc(buffer=a), Alloc(buffer=f):
                if a.shape != f.shape or a.dtype is not f.dtype:
                    raise _differ("shape and type", a, f)
                self.locals[f.name] = a.name
                self.statement(actual.body, formal.body)
            case Assign(), Assign():
                self.target(actual, formal)
                self.expr(actual.value, formal.value)
            case Reduce(first=None), Assign():
                # A sum that never starts anew assigns its element plus the value.
                element = Load(actual.buffer, actual.indices)
                self.target(actual, formal)
                self.expr(Binary("+" if actual.op == "add" else "max", element, actual.value), formal.value)
            case Reduce(), Reduce() if actual.op == formal.op:
                self.target(actual, formal)
                self.expr(actual.value, formal.value)
                self.predicate(actual, formal)
            case _:
                raise _Mismatch("program and intrinsic differ:", actual, formal)

    def target(self, actual: NamedStmt, formal: NamedStmt) -> None:
        assert isinstance(actual, Assign | Reduce) and isinstance(formal, Assign | Reduce)
        self.last = actual.name
        self.access(actual.buffer, actual.indices, formal.buffer, formal.indices, actual)

    def access(
        self,
        buffer: Buffer,
        indices: tuple[Expr, ...],
        formal: Buffer,
        formal_indices: tuple[Expr, ...],
        where: Node | Expr,
    ) -> None:
        parts = [part for index in formal_indices for part in walk_expr(index)]
        if not all(isinstance(part, Const | Var | Binary) for part in parts):
            self.look_up(buffer, indices, formal, formal_indices)
            return
        expected = [substitute_expr(i, self.variables) for i in formal_indices]
        if formal.name in self.locals:
            own = self.locals[formal.name]
            if buffer.name != own or list(indices) != expected:
                wants = f"`{own}[{', '.join(map(format_expr, expected))}]`"
                text = f"where the intrinsic accesses {formal.name}, the program must access {wants}, not"
                raise _Mismatch(text, Load(buffer, indices))
            return
        if buffer.dtype is not formal.dtype or buffer.scope != formal.scope:
            raise _differ("type and memory", buffer, formal)
        lead = len(indices) - len(expected)
        if lead < 0:
            raise _Mismatch(f"{buffer.name} has fewer dimensions than the intrinsic's {formal.name}:", where)
        starts = [*indices[:lead], *map(minus, indices[lead:], expected)]
        for start in starts:
            if not isinstance(start, Const) and free_vars(start) & self.actual_names:
                text = f"{buffer.name} must have the indices of the intrinsic's {formal.name} plus constants:"
                raise _Mismatch(text, where)
        held = self.operands.setdefault(formal.name, (buffer, tuple(starts)))
        if held[0].name != buffer.name or not all(map(_same, held[1], starts)):
            raise _Mismatch(f"the intrinsic's {formal.name} must always stand for the same elements:", where)

    def look_up(
        self, buffer: Buffer, indices: tuple[Expr, ...], formal: Buffer, formal_indices: tuple[Expr, ...]
    ) -> None:
        """Matches accesses to `buffer` and `formal` with indices read from memory; the operand is all of `buffer`."""
        if (buffer.dtype, buffer.scope, buffer.shape) != (formal.dtype, formal.scope, formal.shape):
            raise _differ("type, memory and shape", buffer, formal)
        for index, expected in zip(indices, formal_indices, strict=True):
            self.expr(index, expected)
        held = self.operands.setdefault(formal.name, (buffer, (Const(0),) * len(indices)))
        if held[0].name != buffer.name:
            raise _Mismatch(f"the intrinsic's {formal.name} stands for both {held[0].name} and {buffer.name}")

    def expr(self, actual: Expr, formal: Expr) -> None:
        match actual, formal:
            case Load(buffer=a), Load(buffer=f):
                self.access(a, actual.indices, f, formal.indices, actual)
                return
            case Binary(op=p), Binary(op=q) if p == q:
                self.expr(actual.a, formal.a)
                self.expr(actual.b, formal.b)
                return
            case Cast(dtype=p), Cast(dtype=q) if p is q:
                self.expr(actual.value, formal.value)
                return
            case Call(function=p), Call(function=q) if p == q and len(actual.arguments) == len(
                formal.arguments
            ):
                for a, f in zip(actual.arguments, formal.arguments, strict=True):
                    self.expr(a, f)
                return
            case Select(), Select():
                self.expr(actual.condition, formal.condition)
                self.expr(actual.then, formal.then)
                self.expr(actual.otherwise, formal.otherwise)
                return
            case Const(), Const() if actual == formal:
                return
            case _, Var(name=name) if self.variables.get(name) == actual:
                return
        raise _Mismatch("program and intrinsic differ:", actual, formal)

    def predicate(self, actual: Reduce, formal: Reduce) -> None:
        """Matches the `first` of two sums or raises _Mismatch; the operation gets conditions that only `actual` has."""
        wanted = [] if formal.first is None else conjuncts(formal.first)
        outer = FIRST in wanted
        if formal.first is None:
            if actual.first is not None:
                raise _Mismatch("the sum starts at zero, but the intrinsic's sum never does:", actual)
            return
        if actual.first is None:
            if not outer:
                raise _Mismatch("the sum never starts at zero, but the intrinsic's sum does:", actual)
            rest: Expr | None = None
        else:
            left = conjuncts(actual.first)
            for condition in wanted:
                if condition == FIRST:
                    continue
                expected = substitute_expr(condition, self.variables)
                if expected not in left:
                    raise _Mismatch("the sum starts at zero without the intrinsic's condition", expected)
                left.remove(expected)
            rest = all_of(*left)
            if bad := sorted(free_vars(rest) & self.actual_names):
                raise _Mismatch(f"the sum's start at zero must not depend on loop {bad[0]}:", actual.first)
            if not outer and rest != TRUE:
                raise _Mismatch("an intrinsic without `first` cannot start its sum under the condition", rest)
            if not outer:
                return
        if self.seen_first and rest != self.first:
            raise _Mismatch("two sums start at zero under different conditions, the second one is", actual)
        self.first, self.seen_first = rest, True


def _same(a: Expr, b: Expr) -> bool:
    if a == b:
        return True
    difference = linear_form(a).plus(linear_form(b), -1)
    return not difference.terms and difference.constant == 0

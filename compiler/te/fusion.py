"""Element-wise functions fused into an operator's program: applied to its input, or to its result.

A fused operator is again one tensor expression with the operator's own loops, so its templates still apply.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..ir.expr import Buffer, Const, Expr, Load, dtype_of, select
from ..ir.replace_buffers import replace_buffers
from ..ir.stmt import Alloc, Assign, Copy, Program, Reduce, Stmt
from ..ir.types import DType
from ..ir.visit import map_all_expressions, map_expr, map_stmt, substitute_expr, walk, walk_expr
from .merge import Shape
from .scalars import ELEMENT, argument, argument_types


def operand_buffer(position: int, shape: Shape, dtype: DType = DType.FLOAT32) -> Buffer:
    """The parameter A0, A1, ... of a fused program for input `position` (0, 1, ...) of the fused function
    (`te.scalars.argument`).
    """
    return Buffer(name=f"A{position}", shape=shape, dtype=dtype)


def _buffers(body: Expr, operands: Mapping[int, Shape]) -> dict[int, Buffer]:
    """The parameters that a program gets for the operands of `body`, by number of the operand. `operands`: shapes of
    the operands; their types are those of the arguments in `body`.
    """
    types = argument_types(body)
    return {i: operand_buffer(i, shape, types[argument(i).name]) for i, shape in operands.items()}


def with_result(
    program: Program,
    body: Expr,
    operands: Mapping[int, Shape],
    *,
    statements: Sequence[str] = (),
    inside: Callable[[tuple[Expr, ...]], Expr] | None = None,
) -> Program:
    """The program with `body` applied to each element that it stores in its last parameter, which gets the body's type.

    rewrite:
        Y[i, j] = v        ->        Y[i, j] = max(v + A2[i, 0], 0)
    In `body`, `te.scalars.ELEMENT` is the element, and `argument(i)` the element of the new parameter Ai of shape
    `operands`[i] (in each dimension Y's size, or 1). `inside` is a condition on an element's indices: elements for
    which it is false are stored as zero. `statements` names the statements that store results, for programs that also
    store intermediate values in Y; if the body has another type than Y, the intermediate values are stored in a buffer
    `Y.values` instead. Without `statements`, raises ValueError if a copy or a sum writes Y, or if a statement reads Y.
    """
    y = program.parameters[-1]
    stored = replace(y, dtype=dtype_of(body))
    apart = bool(statements) and stored.dtype is not y.dtype
    written = replace(y, name=f"{y.name}.values") if apart else y
    buffers = _buffers(body, operands)

    def rewrite(statement: Stmt) -> Stmt:
        if not isinstance(statement, Assign) or statement.buffer.name != written.name:
            return statement
        if statements and statement.name not in statements:
            return statement
        values = {argument(i).name: _element(buffer, statement.indices) for i, buffer in buffers.items()}
        value = substitute_expr(body, {ELEMENT.name: statement.value, **values})
        if inside is not None:
            value = select(inside(statement.indices), value, Const(0.0, stored.dtype))
        return Assign.to(statement.name, stored[statement.indices], value)

    if not statements:
        _require_plain_stores(program, y)
    *inputs, _ = program.parameters
    stages = map_stmt(replace_buffers(program.body, {y.name: written}) if apart else program.body, rewrite)
    return Program(
        name=program.name,
        parameters=(*inputs, *buffers.values(), stored),
        body=Alloc(buffer=written, body=stages) if apart else stages,
    )


def with_data(program: Program, body: Expr, operands: Mapping[int, Shape]) -> Program:
    """The program with `body` in place of every read of its first parameter, which is removed.

    rewrite:
        sum += X[i, j]        ->        sum += exp(A0[i, j] - A1[i, 0])
    Operands are as in `with_result`, with the first parameter's number of dimensions. An element that is read more than
    once is computed more than once. Raises ValueError if a copy reads the parameter.
    """
    x, *rest = program.parameters
    buffers = _buffers(body, operands)

    def expand(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer.name == x.name:
            return substitute_expr(
                body, {argument(i).name: _element(buffer, e.indices) for i, buffer in buffers.items()}
            )
        return e

    for statement in walk(program):
        if isinstance(statement, Copy) and statement.source.buffer.name == x.name:
            raise ValueError(
                f"cannot fuse the computation of {x.name} into its readers: the copy {statement.name} moves a block, "
                "and only a read of one element can be replaced"
            )
    return Program(
        name=program.name,
        parameters=(*buffers.values(), *rest),
        body=map_all_expressions(program.body, lambda e: map_expr(e, expand)),
    )


def _element(buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
    return buffer[tuple([0 if size == 1 else at for size, at in zip(buffer.shape, indices, strict=True)])]


def _not_assigned(y: Buffer, writer: str) -> str:
    return (
        f"cannot fuse after {y.name}: {writer} writes it, but the fused step can be appended only to an assignment; "
        f"compute a buffer of its own, and assign that to {y.name}"
    )


def _require_plain_stores(program: Program, y: Buffer) -> None:
    for statement in walk(program):
        match statement:
            case Copy(destination=region) if region.buffer.name == y.name:
                raise ValueError(_not_assigned(y, f"the copy {statement.name}"))
            case Reduce(buffer=buffer) if buffer.name == y.name:
                raise ValueError(_not_assigned(y, f"the sum {statement.name}"))
            case Assign(value=value) | Reduce(value=value):
                if any(isinstance(e, Load) and e.buffer.name == y.name for e in walk_expr(value)):
                    raise ValueError(f"cannot fuse after {y.name}: {statement.name} reads it before that")

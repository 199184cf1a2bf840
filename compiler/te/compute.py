"""The user's interface for tensor expressions: placeholders, computed tensors and reduce axes become a loop program.

    a, b = placeholder("A", (64, 32)), placeholder("B", (32, 48))
    k = reduce_axis("k", 32)
    c = compute("C", (64, 48), lambda i, j: reduce_sum(a[i, k] * b[k, j], k))
    program = program_of(c)        # loops C.i, C.j, C.k around one Reduce

A statement has the name of its tensor. A loop has the name of its tensor and, after a dot, of its index: the parameter
of the tensor's function (C.i) or the reduce axis (C.k).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from vdla.util.errors import UserError

from ..ir.expr import (
    Buffer,
    Expr,
    ExprLike,
    Load,
    Operand,
    Var,
    all_of,
    dtype_of,
    equal,
    wrap,
)
from ..ir.expr import cast as convert
from ..ir.replace_buffers import replace_buffers
from ..ir.stmt import Alloc, Assign, Program, Reduce, Stmt, nest, seq
from ..ir.types import DType
from ..ir.verify import VerifyError, verify
from ..ir.visit import free_vars, loads_in, substitute_expr


class ExpressionError(UserError):
    """Raised for an invalid tensor expression, for instance with a size below 1, or with a reduction inside another
    expression.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """The sum or the maximum of `value` over reduce axes; it must be the whole body of a computed tensor."""

    op: Literal["add", "max"]
    value: Expr


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tensor(Buffer):
    """A tensor of an expression: an input (`body` None) or computed. `tensor[i, j]` is one of its elements.

    `axes` are the loop variables of a computed tensor, one for each dimension; `reduce` holds its reduce axes with
    their extents, outermost first.
    """

    axes: tuple[Var, ...] = ()
    body: Expr | Reduction | None = None
    reduce: tuple[tuple[Var, int], ...] = ()

    __hash__ = Buffer.__hash__

    def __getitem__(self, indices: ExprLike | tuple[ExprLike, ...]) -> Load:
        given = indices if isinstance(indices, tuple) else (indices,)
        if len(given) != len(self.shape):
            raise ExpressionError(
                f"{self.name} has {len(self.shape)} dimensions, but is read at {len(given)} indices"
            )
        return Buffer.__getitem__(self, given)

    @property
    def sources(self) -> tuple[Tensor, ...]:
        """The tensors that the body reads, in the order of the first read."""
        body = self.body.value if isinstance(self.body, Reduction) else self.body
        found = [] if body is None else [load.buffer for load in loads_in(body)]
        return tuple(dict.fromkeys(buffer for buffer in found if isinstance(buffer, Tensor)))


@dataclass(frozen=True, slots=True, eq=False)
class ReduceAxis(Var):
    """A loop over which a computed tensor sums or takes a maximum."""

    extent: int = 1


def placeholder(name: str, shape: Sequence[int], dtype: DType | str = DType.FLOAT32) -> Tensor:
    """An input tensor with data given at run time. Raises ExpressionError for a size below 1 or an unknown type."""
    return Tensor(name=name, shape=_shape(name, shape), dtype=_type(name, dtype))


def cast(value: ExprLike, dtype: DType | str) -> Expr:
    """`value`, an expression or a number, converted to `dtype`. In a conversion to an integer type, integers wrap, and
    floats are truncated toward zero.

    Raises ExpressionError for an unknown type. Also raises it for a number if the type has no arithmetic
    (`DType.is_code`), and for infinity or NaN if the type is an integer type.
    """
    kind = _type("cast", dtype)
    if not isinstance(value, int | float):
        return convert(wrap(value, kind), kind)
    if kind.is_float or kind is DType.BOOL:
        return wrap(value, kind)
    if kind.is_code or not math.isfinite(value):
        raise ExpressionError(f"cast: {value} cannot be represented as {kind}")
    return wrap(kind.wrap(int(value)), kind)


def reduce_axis(name: str, extent: int) -> ReduceAxis:
    """An axis of `extent` iterations to reduce over. Raises ExpressionError for an extent below 1."""
    if extent < 1:
        raise ExpressionError(f"reduce axis {name} has extent {extent}; it must be at least 1")
    return ReduceAxis(name, extent=extent)


def reduce_sum(value: Expr, *axes: ReduceAxis) -> _Reduced:
    """The sum of `value` over all iterations of the axes."""
    return _Reduced(op="add", value=value, axes=axes)


def reduce_max(value: Expr, *axes: ReduceAxis) -> _Reduced:
    """The maximum of `value` over all iterations of the axes."""
    return _Reduced(op="max", value=value, axes=axes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Reduced:
    op: Literal["add", "max"]
    value: Expr
    axes: tuple[ReduceAxis, ...]


def compute(
    name: str,
    shape: Sequence[int],
    body: Callable[..., Expr | _Reduced | float],
    dtype: DType | str | None = None,
) -> Tensor:
    """The tensor whose element at (i, j, ...) is `body(i, j, ...)`: an expression, or one `reduce_sum` or `reduce_max`.

    Its type is the type of the body, or `dtype` (float32 by default) for a body that is a number. Raises
    ExpressionError if the body's number of arguments is not the number of dimensions, if it uses a reduce axis outside
    of a reduction, if two axes have the same name, or if the body has another type than a given `dtype`."""
    names = list(inspect.signature(body).parameters)
    if len(names) != len(shape):
        raise ExpressionError(
            f"{name}: the function takes {len(names)} indices ({', '.join(names)}), but the shape {tuple(shape)} has "
            f"{len(shape)} dimensions"
        )
    axes = tuple([Var(f"{name}.{axis}") for axis in names])
    made = body(*axes)
    reduce: tuple[tuple[Var, int], ...] = ()
    expression: Expr | Reduction
    if isinstance(made, _Reduced):
        if not made.axes:
            raise ExpressionError(f"{name}: a reduction needs at least one reduce axis")
        loops = {axis.name: Var(f"{name}.{axis.name}") for axis in made.axes}
        if len(loops) < len(made.axes) or set(loops.values()) & set(axes):
            raise ExpressionError(f"{name}: two axes have the same name; give the reduce axes other names")
        reduce = tuple([(loops[axis.name], axis.extent) for axis in made.axes])
        value = substitute_expr(made.value, loops)
        expression = Reduction(op=made.op, value=value)
    else:
        value = made if isinstance(made, Operand) else wrap(made, _type(name, dtype or DType.FLOAT32))
        expression = value
    known = {axis.name for axis in (*axes, *[axis for axis, _ in reduce])}
    if unknown := sorted(free_vars(value) - known):
        raise ExpressionError(
            f"{name}: {unknown[0]} is not one of its axes; a reduce axis may be used only in reduce_sum(value, axis) "
            "or reduce_max(value, axis), which must be the whole body"
        )
    if dtype is not None and dtype_of(value) is not _type(name, dtype):
        raise ExpressionError(
            f"{name}: its body has the type {dtype_of(value)}; cast it to {_type(name, dtype)}"
        )
    return Tensor(
        name=name,
        shape=_shape(name, shape),
        dtype=dtype_of(value),
        axes=axes,
        body=expression,
        reduce=reduce,
    )


def program_of(*outputs: Tensor, name: str | None = None) -> Program:
    """The loop program `name` (by default the last output's name) that computes `outputs`. Its parameters are the
    placeholders, in the order of their first use, and then the outputs. Computed tensors that are not outputs are
    allocated.

    Raises ExpressionError if there are no outputs, two tensors have the same name, an output is a placeholder, or an
    index is outside its tensor.
    """
    if not outputs:
        raise ExpressionError("program_of needs at least one tensor to compute")
    order: dict[str, Tensor] = {}
    for output in outputs:
        _visit(output, order)
    if given := [output.name for output in outputs if output.body is None]:
        raise ExpressionError(
            f"the output {given[0]} is a placeholder, which has no value to compute; give tensors made by `compute`"
        )
    plain = {t.name: Buffer(name=t.name, shape=t.shape, dtype=t.dtype) for t in order.values()}
    body = seq(*[_nest(tensor) for tensor in order.values() if tensor.body is not None])
    wanted = [output.name for output in outputs]
    for tensor in reversed(order.values()):
        if tensor.body is not None and tensor.name not in wanted:
            body = Alloc(buffer=tensor, body=body)
    given_names = [tensor.name for tensor in order.values() if tensor.body is None]
    program = Program(
        name=name or wanted[-1],
        parameters=tuple([plain[parameter] for parameter in (*given_names, *wanted)]),
        body=replace_buffers(body, plain),
    )
    try:
        verify(program)
    except VerifyError as error:
        raise ExpressionError(str(error)) from None
    return program


def _visit(tensor: Tensor, order: dict[str, Tensor]) -> None:
    """Adds a tensor to `order`, after all tensors that it is computed from."""
    known = order.get(tensor.name)
    if known is tensor:
        return
    if known is not None:
        raise ExpressionError(f"two tensors are called {tensor.name}; give each a name of its own")
    for source in tensor.sources:
        _visit(source, order)
    order[tensor.name] = tensor


def _nest(tensor: Tensor) -> Stmt:
    loops = list(zip(tensor.axes, tensor.shape, strict=True))
    body = tensor.body
    assert body is not None
    if not isinstance(body, Reduction):
        return nest(loops, Assign.to(tensor.name, tensor[tensor.axes], body))
    first = all_of(*[equal(axis, 0) for axis, _ in tensor.reduce])
    combined = Reduce.into(tensor.name, body.op, tensor[tensor.axes], body.value, first)
    return nest([*loops, *tensor.reduce], combined)


def _type(name: str, dtype: DType | str) -> DType:
    try:
        return DType(dtype)
    except ValueError:
        raise ExpressionError(f"{name}: unknown type {dtype!r}; there are {', '.join(DType)}") from None


def _shape(name: str, shape: Sequence[int]) -> tuple[int, ...]:
    sizes = tuple([int(size) for size in shape])
    if not sizes or min(sizes) < 1:
        raise ExpressionError(f"{name}: shape {sizes}; give at least one dimension, and sizes of at least 1")
    return sizes

"""Addresses as arrays, for the detection of races: the elements that an access touches between two barriers, and the
thread that touches each.

The caller gives the values of loops over blocks, and of loops that all threads run together. Each loop over threads
becomes an axis of the arrays, as does each loop inside a loop over threads. If a loop's number of iterations varies, a
mask marks the iterations that exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ...ir.bounds import Interval, Ranges, interval, loop_range
from ...ir.expr import Binary, Cast, Const, Expr, Select, Var
from ...ir.kernels import THREAD_AXES, Access
from ...ir.stmt import For
from ...ir.visit import free_vars
from .errors import LoweringError

MOST_POINTS = 1 << 25
"""Largest number of elements of one access whose addresses are listed to find races."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """The elements that an access touches. `elements`: flat index of each element, int64[n]. `owners`: number of the
    thread or block that touches the element, int64[n].
    """

    elements: np.ndarray
    owners: np.ndarray


def touched(
    access: Access, values: Mapping[str, int], axes: Mapping[str, int], collective: bool = False
) -> Touched:
    """The elements that an access touches while the loops in `values` have the given values and all other enclosing
    loops run.

    The owner of an element is the number of the thread or block that touches the element. `axes`: the extents of the
    loops over blocks, or of the thread axes ("thread.x", ...), by name. The first axis varies fastest: with 4 threads
    along x, thread (x, y) has number x + 4 * y. If `collective` is true, all threads along thread.x count as one
    thread, with the number of the first. Raises LoweringError if there are too many elements to list, a loop has no
    constant bound, or an index is read from memory.
    """
    inner = [loop for loop in access.loops if loop.name not in values]
    ranges: dict[str, Interval | Expr] = {n: Interval(v, v) for n, v in values.items()}
    named = {loop.kind if loop.kind in THREAD_AXES else loop.name: loop for loop in inner}
    needed = _needed(access, inner, {loop.name for axis, loop in named.items() if axis in axes})
    used = [loop for loop in inner if loop.name in needed]
    sizes: list[int] = []
    for loop in used:
        sizes.append(max(0, _bound(loop.extent, ranges, access)))
        ranges[loop.name] = loop_range(loop.extent)
    boxes = [max(0, _bound(extent, ranges, access)) for extent in access.extents]
    shape = (*sizes, *boxes)
    if prod(shape) > MOST_POINTS:
        raise LoweringError(
            f"{access.statement} accesses {access.buffer.name} {prod(shape)} times, too often to look for races; "
            f"index it by plain sums of the loops' variables"
        )
    environment: dict[str, Any] = dict(values)
    mask: Any = np.True_
    for d, loop in enumerate(used):
        environment[loop.name] = _axis(d, shape)
        if not isinstance(loop.extent, Const):
            mask = mask & (environment[loop.name] < evaluate(loop.extent, environment))
    flat: Any = np.int64(0)
    for d, (start, extent, size) in enumerate(
        zip(access.starts, access.extents, access.buffer.shape, strict=True)
    ):
        index = evaluate(start, environment)
        if boxes[d] != 1 or extent != Const(1):
            offset = _axis(len(used) + d, shape)
            index = index + offset
            if not isinstance(extent, Const):
                mask = mask & (offset < evaluate(extent, environment))
        # A padded copy does not read elements outside of its source.
        mask = mask & (index >= 0) & (index < size)
        flat = flat * size + index
    owner: Any = np.int64(0)
    stride = 1
    for axis, count in axes.items():
        loop = named.get(axis)
        if loop is not None and not (collective and axis == "thread.x"):
            owner = owner + stride * environment[loop.name]
        elif axis in values:
            owner = owner + stride * values[axis]
        stride *= count
    mask = np.broadcast_to(mask, shape)
    return Touched(
        elements=np.broadcast_to(flat, shape)[mask].astype(np.int64),
        owners=np.broadcast_to(owner, shape)[mask].astype(np.int64),
    )


def _needed(access: Access, inner: list[For], names: set[str]) -> set[str]:
    """The names of the loops in `inner` that determine which elements an access touches: loops over threads or blocks
    (`names`), loops whose variables occur in the access's indices, loops with variable extents, and loops whose
    variables occur in these extents.
    """
    needed = set(names)
    for expr in (*access.starts, *access.extents):
        needed |= free_vars(expr)
    for loop in reversed(inner):
        if loop.name in needed or not isinstance(loop.extent, Const):
            needed |= {loop.name, *free_vars(loop.extent)}
    return needed


def _bound(extent: Expr, ranges: Ranges, access: Access) -> int:
    high = interval(extent, ranges).high
    if high is None:
        raise LoweringError(
            f"{access.statement}: a loop around this statement has no constant bound; give the loop one"
        )
    return high


def _axis(d: int, shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(shape[d], dtype=np.int64).reshape([-1 if e == d else 1 for e in range(len(shape))])


def evaluate(expr: Expr, environment: Mapping[str, Any]) -> Any:
    """The value of an index expression whose variables are integers or arrays. Raises LoweringError for indices read
    from memory and KeyError for variables that `environment` lacks.
    """
    match expr:
        case Const(value=value):
            return int(value)
        case Var(name=name):
            return environment[name]
        case Binary(op=op, a=a, b=b):
            x, y = evaluate(a, environment), evaluate(b, environment)
            if op in ("min", "max") and isinstance(x, int) and isinstance(y, int):
                return min(x, y) if op == "min" else max(x, y)
            return _OPERATIONS[op](x, y)
        case Select(condition=condition, then=then, otherwise=otherwise):
            chosen = evaluate(condition, environment)
            return np.where(chosen, evaluate(then, environment), evaluate(otherwise, environment))
        case Cast(value=value):
            return evaluate(value, environment)
    raise LoweringError(
        "the elements that a kernel accesses cannot be listed, as an index is read from memory; index buffers by the "
        "loops' variables"
    )


_OPERATIONS: Mapping[str, Any] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "min": np.minimum,
    "max": np.maximum,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "and": lambda a, b: np.logical_and(a, b),
    "or": lambda a, b: np.logical_or(a, b),
}

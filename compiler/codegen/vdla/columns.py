"""Columns: arrays that hold one quantity for many loop iterations, or for many instructions.

Emission evaluates every index expression once for all iterations of the enclosing loops. A column is an int that stands
for all rows, or an int64 array with one value for each row (iteration or instruction). Operands of intrinsics and
copies are addresses in columns.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...ir.affine import LinearForm, linear_form
from ...ir.expr import Binary, Const, Expr, Var
from ...ir.quick_init import quick_init
from ...ir.stmt import Region
from ...ir.visit import variables_in

Rows: TypeAlias = NDArray[np.int64]
Column: TypeAlias = int | NDArray[np.int64]

_MOST_KEYS = 1 << 31


def pick(column: Column, rows: NDArray[Any]) -> Column:
    """A column of only the rows `rows` (ascending row numbers, or a bool for each row); an int stays an int."""
    return column[rows] if isinstance(column, np.ndarray) else column


def item(column: Column, row: int) -> int:
    """The value of a column in row `row`."""
    return int(column[row]) if isinstance(column, np.ndarray) else column


def full(column: Column, count: int) -> Rows:
    """A column as an array of `count` rows."""
    return column if isinstance(column, np.ndarray) else np.full(count, column, dtype=np.int64)


def lesser(a: Any, b: Any) -> Any:
    """The lesser of two columns, row by row."""
    return np.minimum(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else min(a, b)


def greater(a: Any, b: Any) -> Any:
    """The greater of two columns, row by row."""
    return np.maximum(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else max(a, b)


def where(condition: Any, then: Column, otherwise: Column) -> Column:
    """The column `then` in the rows in which a bool column is true, `otherwise` in all others."""
    if isinstance(condition, np.ndarray):
        return np.where(condition, then, otherwise)
    return then if condition else otherwise


def counted_loops(
    counts: Sequence[Column], steps: Mapping[str, Sequence[Column]]
) -> tuple[dict[str, Column], dict[str, Column]]:
    """Returns the fields of an instruction that counts at most two loops, and the distance from the first to the last
    address of each operand. `counts`: iterations of the loops, outermost first. `steps`: for each operand, the steps of
    its address along the loops.
    """
    free = 2 - len(counts)
    fields: dict[str, Column] = dict(zip(("iter_out", "iter_in"), [1] * free + [*counts], strict=True))
    reach: dict[str, Column] = {}
    for operand, own in steps.items():
        # A loop that runs once changes no address, and its step could exceed the field.
        moves = [where(count > 1, step, 0) for step, count in zip(own, counts, strict=True)]
        names = (f"{operand}_factor_out", f"{operand}_factor_in")
        fields |= dict(zip(names, [0] * free + moves, strict=True))
        reach[operand] = sum(step * (count - 1) for step, count in zip(moves, counts, strict=True))
    return fields, reach


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows grouped by equal values in some columns. `first`: first row of each group. `of`: the group of each row."""

    first: Rows
    of: Rows

    def __iter__(self):
        """Iterates over the groups, each as its row numbers."""
        if len(self.first) == 1:
            yield np.arange(len(self.of))
            return
        for group in range(len(self.first)):
            yield np.flatnonzero(self.of == group)


def group_rows(columns: Iterable[Column], count: int) -> Groups:
    """Puts rows 0 .. `count` - 1 of a table into groups: rows with equal values in all `columns` are in one group."""
    key, keys = np.zeros(count, dtype=np.int64), 1
    for column in columns:
        if not isinstance(column, np.ndarray) or not count:
            continue
        low, high = int(column.min()), int(column.max())
        if low == high:
            continue
        if keys * (high - low + 1) > _MOST_KEYS:
            _, key = np.unique(key, return_inverse=True)
            keys = count
        key, keys = key * (high - low + 1) + (column - low), keys * (high - low + 1)
    if keys == 1:
        return Groups(np.zeros(min(count, 1), dtype=np.int64), key)
    _, first, of = np.unique(key, return_index=True, return_inverse=True)
    return Groups(first, of)


KERNEL = ""
"""Name of the variable of an outermost loop over kernels that differ only in the addresses of their buffers."""
Environment: TypeAlias = Mapping[str, Any]
"""Values of loop variables, by name: an int, or an int64 array with one value for each iteration."""
Evaluator: TypeAlias = Callable[[Environment], Any]

_OPERATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "min": lesser,
    "max": greater,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    "and": operator.and_,
    "or": operator.or_,
}


def evaluate(expr: Expr, environment: Environment) -> Any:
    """The value of an index expression, with variables from `environment`; raises ValueError for other expressions."""
    if type(expr) is Var:
        return environment[expr.name]
    if type(expr) is Const:
        return expr.value
    if type(expr) is Binary:
        a, b = evaluate(expr.a, environment), evaluate(expr.b, environment)
        return _OPERATIONS[expr.op](a, b)
    raise ValueError(f"not an index expression: {expr!r}")


def evaluator(expr: Expr) -> Evaluator:
    """A function from an environment (values of loop variables) to `evaluate(expr, environment)`."""
    return partial(evaluate, expr)


@quick_init
@dataclass(frozen=True, slots=True, eq=False)
class Iterations:
    """Many loop iterations, one in each row: the values of the loop variables by name, and the iteration's `position`.

    Positions increase in program order over all statements of a layer; some numbers are unused. Sorting by position
    brings the instructions of different statements into program order.
    """

    values: Mapping[str, Column]
    position: Rows

    def __len__(self) -> int:
        return len(self.position)

    def chosen(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Iterations:
        """The iterations in `rows`: ascending row numbers, or a bool for each iteration."""
        values = {name: pick(value, rows) for name, value in self.values.items()}
        return Iterations(values, self.position[rows])

    def shifted(self, positions: int) -> Iterations:
        """The same iterations, with `positions` added to their positions."""
        return Iterations(self.values, self.position + positions) if positions else self

    def fixed(self, names: Iterable[str]) -> Iterations:
        """The same iterations, with the variables of the inner loops `names` at 0."""
        return Iterations({**self.values, **dict.fromkeys(names, 0)}, self.position)

    def first_of_kernels(self) -> Rows:
        """The positions (numbers in program order) of the first iteration of each kernel."""
        kernel = self.values[KERNEL]
        if not isinstance(kernel, np.ndarray):
            return self.position[:1]
        return self.position[np.flatnonzero(np.diff(kernel, prepend=-1))]

    def kernels(self) -> Environment:
        """Values of the kernel loop's variable only: one for each kernel, not one for each iteration."""
        kernel = self.values[KERNEL]
        return {KERNEL: np.unique(kernel) if isinstance(kernel, np.ndarray) else kernel}

    def expanded(self, name: str, extent: Column, positions: int) -> Iterations:
        """Replaces each row by rows for iterations 0 .. `extent` - 1 of loop `name`, `positions` apart in position."""
        count = len(self)
        if isinstance(extent, np.ndarray):
            extent = np.maximum(extent, 0)
            outer = np.repeat(np.arange(count), extent)
            inner = np.arange(len(outer)) - np.repeat(np.cumsum(extent) - extent, extent)
        elif extent == 1:
            return self.fixed((name,))
        else:
            outer = np.repeat(np.arange(count), max(extent, 0))
            inner = np.tile(np.arange(max(extent, 0)), count)
        within = self.chosen(outer)
        return Iterations({**within.values, name: inner}, within.position + inner * positions)


class Access:
    """The addresses of one operand: start and extents of its region, and the strides, in elements, of its leading
    dimensions.

    In a scratchpad, addresses are element numbers, and the first dimension selects the copy of the buffer (double
    buffering). In DRAM, addresses count elements from the buffer's address. A stride is a product of the buffer's
    sizes. Sizes below those in `least` (innermost first) count as the size in `least`: a buffer may have only some rows
    of a weight tile. `slots`: for each kernel the first element of each copy. A buffer without slots begins at element
    `begin`. The last `element_dimensions` dimensions are one element.
    """

    def __init__(
        self,
        region: Region,
        slots: Mapping[str, tuple[tuple[int, ...], ...]],
        element_dimensions: int,
        least: tuple[int, ...] = (),
        begin: int = 0,
    ) -> None:
        buffer, self._begin = region.buffer, begin
        self.buffer = buffer
        self.slots = None if buffer.name not in slots else np.array(slots[buffer.name], dtype=np.int64)
        leading = len(buffer.shape) - element_dimensions
        strides, stride = [0] * leading, 1
        for d in range(leading - 1, -1, -1):
            strides[d] = stride
            room = least[leading - 1 - d] if leading - 1 - d < len(least) else 1
            stride *= max(buffer.shape[d], room)
        skip = 0 if self.slots is None else 1
        self._copy = evaluator(region.starts[0]) if skip else None
        self.strides = tuple(strides[skip:])
        starts = region.starts[skip:leading]
        self.starts = tuple([evaluator(start) for start in starts])
        form = LinearForm({}, 0)
        for start, stride in zip(starts, self.strides, strict=True):
            if isinstance(start, Const):
                form = form.offset(int(start.value) * stride)
            elif stride:
                form = form.plus(linear_form(start), stride)
        self._least = form.constant
        self._variables = {atom.name: c for atom, c in form.terms.items() if isinstance(atom, Var)}
        self._others = [(atom, c) for atom, c in form.terms.items() if not isinstance(atom, Var)]
        self.sizes = buffer.shape[skip:leading]
        self.extents = tuple([evaluator(extent) for extent in region.extents[skip:leading]])

    def base(self, environment: Environment) -> Column:
        """The first element of the buffer copy (double buffering) that each iteration uses; `begin` without slots."""
        if self.slots is None or self._copy is None:
            return self._begin
        first = self.slots[environment[KERNEL], self._copy(environment)]
        return first if isinstance(first, np.ndarray) else int(first)

    def offset(self, environment: Environment) -> Column:
        """For each iteration, the number of elements from the start of the buffer (or of its copy) to the region."""
        total: Column = self._least
        for name, factor in self._variables.items():
            total = total + environment[name] * factor
        for atom, factor in self._others:
            total = total + evaluate(atom, environment) * factor
        return total

    def slope(self, loop: str) -> int | None:
        """Number of elements by which the access moves in an iteration of `loop`; None if not linear in `loop`."""
        if any(loop in variables_in(atom) for atom, _ in self._others):
            return None
        return self._variables.get(loop, 0)

    def step(self, environment: Environment, loop: str | None) -> Column:
        """Number of elements by which one iteration of `loop` moves the access, as a column; 0 if `loop` is None."""
        if loop is None:
            return 0
        if (slope := self.slope(loop)) is not None:
            return slope
        following = {**environment, loop: environment[loop] + 1}
        return self.offset(following) - self.offset(environment)

"""The interpreter: runs any program on numpy arrays, element by element. The interpreter is slow, and is the reference
in tests of rewrites.

Expressions become Python closures once, so that loops don't walk trees. Integers are Python ints wrapped to their dtype
after each operation; float32 values are numpy scalars, so they round as the hardware does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from vdla.util.errors import CodeError

from .expr import COMPARISONS, FIRST, Binary, Buffer, Call, Cast, Const, Expr, Load, Select, Var, dtype_of
from .printer import format_buffer, format_region, summarize
from .regions import operand_access
from .stmt import (
    Alloc,
    Assign,
    Barrier,
    Commit,
    Copy,
    For,
    Intrinsic,
    Program,
    Reduce,
    Region,
    Seq,
    Stmt,
    Wait,
)
from .types import DType


class InterpretError(CodeError):
    """Raised if a program does something undefined, or gets the wrong arrays; the message names the statement."""


Functions = Mapping[str, Callable[..., Any]]
"""By name, the implementation of each function in Call nodes: takes and returns numpy scalars (or anything that
converts to the call's dtype).
"""

_VALID, _UNDEFINED, _IN_FLIGHT = 0, 1, 2
_BLAME = {
    _UNDEFINED: "reads {} before anything was written there",
    _IN_FLIGHT: "touches {} before the wait for its copy",
}


def interpret(
    program: Program,
    arrays: Mapping[str, np.ndarray],
    *,
    functions: Functions | None = None,
    poison: bool = False,
) -> dict[str, np.ndarray]:
    """Runs `program` and returns every parameter's contents by name; `arrays` are not changed.

    Parameters without an array start as zeros. With `poison`, reading unwritten elements of such a parameter or of an
    allocation is an error, and so is touching elements of an asynchronous copy in flight. Without `poison`, allocations
    start as zeros, and asynchronously copied data stays invisible until its wait. Raises InterpretError for these
    errors, for an index out of bounds, a missing function, an array of an unknown name or of the wrong shape or dtype,
    or copies that nothing waits for.
    """
    machine = _Machine(functions=functions or {}, poison=poison)
    unknown = arrays.keys() - {p.name for p in program.parameters}
    if unknown:
        raise InterpretError(f"{program.name} has no parameter named {', '.join(sorted(unknown))}")
    for parameter in program.parameters:
        given = arrays.get(parameter.name)
        if given is None:
            machine.allocate(parameter)
            continue
        if not isinstance(given, np.ndarray):
            raise InterpretError(
                f"{format_buffer(parameter)} was passed {type(given).__name__}, not a numpy array"
            )
        if given.shape != parameter.shape or given.dtype != parameter.dtype.numpy:
            raise InterpretError(
                f"{format_buffer(parameter)} was passed an array of another type or shape, "
                f"{given.dtype}{list(given.shape)}"
            )
        data = np.array(given, order="C")
        machine.cells[parameter.name] = _Cell(data, np.zeros(data.shape, np.uint8) if poison else None)
    run = machine.statement(program.body)
    try:
        # Infinities and NaN are normal results.
        with np.errstate(all="ignore"):
            run()
    except ZeroDivisionError as error:
        raise machine.fail("division by zero") from error
    if machine.open_group or machine.groups:
        names = [c.name for group in (*machine.groups, machine.open_group) for c in group]
        raise InterpretError(
            f"{program.name} ends without waiting for the asynchronous copies {', '.join(names)}"
        )
    return {p.name: machine.cells[p.name].data for p in program.parameters}


@dataclass(slots=True)
class _Cell:
    """A buffer's contents, and its `state`: for each element _VALID, _UNDEFINED or _IN_FLIGHT (None: not tracked)."""

    data: np.ndarray
    state: np.ndarray | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _InFlight:
    """An asynchronous copy that was issued and not yet waited for: target and values to be written, source, and the
    source's contents at issue.
    """

    name: str
    target: np.ndarray
    target_state: np.ndarray | None
    values: np.ndarray
    source: np.ndarray
    seen: np.ndarray


@dataclass(slots=True, kw_only=True)
class _Machine:
    functions: Functions
    poison: bool
    cells: dict[str, _Cell] = field(default_factory=dict)
    variables: dict[str, Any] = field(default_factory=dict)
    open_group: list[_InFlight] = field(default_factory=list)
    groups: list[list[_InFlight]] = field(default_factory=list)
    where: Stmt | None = None

    def allocate(self, buffer: Buffer) -> None:
        data = np.zeros(buffer.shape, buffer.dtype.numpy)
        self.cells[buffer.name] = _Cell(
            data, np.full(buffer.shape, _UNDEFINED, np.uint8) if self.poison else None
        )

    def fail(self, reason: str) -> InterpretError:
        where = f"at `{summarize(self.where)}`: " if self.where is not None else ""
        values = ", ".join(f"{name}={value}" for name, value in self.variables.items())
        return InterpretError(f"{where}{reason} ({values})")

    # Statements

    def statement(self, statement: Stmt) -> Callable[[], None]:
        match statement:
            case Seq(statements=statements):
                steps = [self.statement(s) for s in statements]

                def run_sequence() -> None:
                    for step in steps:
                        step()

                return run_sequence
            case For(var=Var(name=name), extent=extent, body=body):
                count, step = self.expr(extent), self.statement(body)

                def run_loop() -> None:
                    for i in range(count()):
                        self.variables[name] = i
                        step()
                    self.variables.pop(name, None)

                return run_loop
            case Alloc(buffer=buffer, body=body):
                step = self.statement(body)

                def run_alloc() -> None:
                    self.allocate(buffer)
                    step()
                    del self.cells[buffer.name]

                return run_alloc
            case Assign(buffer=buffer, indices=indices, value=value):
                at, evaluate = self.indices(indices), self.expr(value)

                def run_assign() -> None:
                    self.where = statement
                    self.write(buffer, at(), evaluate())

                return run_assign
            case Reduce():
                return self.reduce(statement)
            case Copy():
                return self.copy(statement)
            case Intrinsic():
                return self.intrinsic(statement)
            case Commit():

                def run_commit() -> None:
                    self.groups.append(self.open_group)
                    self.open_group = []

                return run_commit
            case Wait(pending=pending):

                def run_wait() -> None:
                    self.where = statement
                    while len(self.groups) > pending:
                        for copy in self.groups.pop(0):
                            self.complete(copy)

                return run_wait
            case Barrier():
                return lambda: None

    def reduce(self, statement: Reduce) -> Callable[[], None]:
        buffer, dtype = statement.buffer, statement.buffer.dtype
        at, evaluate = self.indices(statement.indices), self.expr(statement.value)
        is_first = (lambda: False) if statement.first is None else self.expr(statement.first)
        combine = _operation("+" if statement.op == "add" else "max", dtype)

        def run() -> None:
            self.where = statement
            position, value = at(), evaluate()
            if not is_first():
                value = combine(self.read(buffer, position), value)
            self.write(buffer, position, value)

        return run

    def copy(self, statement: Copy) -> Callable[[], None]:
        destination, source, pad = statement.destination, statement.source, statement.pad
        to, of = self.box(destination), self.box(source)

        def run() -> None:
            self.where = statement
            starts, extents = of()
            cell = self.cells[source.buffer.name]
            # The part of the region inside the source; the rest is padding.
            inside = [
                slice(min(max(s, 0), size), max(min(s + e, size), 0))
                for s, e, size in zip(starts, extents, source.buffer.shape, strict=True)
            ]
            values = np.full(extents, 0 if pad is None else pad.value, cell.data.dtype)
            filled = tuple(slice(i.start - s, i.stop - s) for i, s in zip(inside, starts, strict=True))
            origin = cell.data[tuple(inside)]
            if pad is None and origin.shape != extents:
                raise self.fail(
                    f"{format_region(source)} reaches outside of {format_buffer(source.buffer)}, but no pad value is "
                    "given"
                )
            if origin.size:
                values[filled] = origin
                self.touch(cell, tuple(inside), source.buffer)
            target, state = self.view(destination, *to())
            shape = tuple(n for n in target.shape if n != 1)
            if shape != tuple(n for n in extents if n != 1):
                raise self.fail(
                    f"copies a region of extents {list(extents)} to a region of other extents, {list(target.shape)}"
                )
            values = values.reshape(target.shape)
            if state is not None and (state == _IN_FLIGHT).any():
                raise self.fail(_BLAME[_IN_FLIGHT].format(destination.buffer.name))
            if not statement.asynchronous:
                target[...] = values
                if state is not None:
                    state[...] = _VALID
                return
            if state is not None:
                state[...] = _IN_FLIGHT
            copy = _InFlight(
                name=statement.name,
                target=target,
                target_state=state,
                values=values,
                source=origin,
                seen=origin.copy(),
            )
            self.open_group.append(copy)

        return run

    def complete(self, copy: _InFlight) -> None:
        if self.poison and not np.array_equal(copy.source, copy.seen):
            raise self.fail(f"the source of copy {copy.name} was overwritten before this wait")
        copy.target[...] = copy.values
        if copy.target_state is not None:
            copy.target_state[...] = _VALID

    def intrinsic(self, statement: Intrinsic) -> Callable[[], None]:
        declaration = statement.declaration
        boxes = [self.box(operand) for operand in statement.operands]
        is_first = (lambda: False) if statement.first is None else self.expr(statement.first)
        access = operand_access(declaration)
        # The body runs on a separate machine, whose buffers are views into this machine's buffers.
        inner = _Machine(functions=self.functions, poison=self.poison)
        body = inner.statement(declaration.body)

        def run() -> None:
            self.where = statement
            for formal, operand, box, (_, written) in zip(
                declaration.parameters, statement.operands, boxes, access, strict=True
            ):
                if statement.pad is None or written:
                    data, state = self.view(operand, *box())
                else:
                    data, state = self.padded_view(operand, statement.pad, *box())
                if [n for n in data.shape if n != 1] != [n for n in formal.shape if n != 1]:
                    raise self.fail(
                        f"{format_region(operand)} has the wrong extents for {format_buffer(formal)}"
                    )
                shaped = None if state is None else state.reshape(formal.shape)
                # Adding and dropping dimensions of size 1 keeps these views; writes go through.
                inner.cells[formal.name] = _Cell(data.reshape(formal.shape), shaped)
            inner.variables[FIRST.name] = is_first()
            try:
                body()
            except InterpretError as error:
                raise self.fail(f"in {declaration.name}: {error}") from error

        return run

    # Memory

    def read(self, buffer: Buffer, position: tuple[int, ...]) -> Any:
        cell = self.at(buffer, position)
        if cell.state is not None and cell.state[position]:
            place = f"{buffer.name}{list(position)}"
            raise self.fail(_BLAME[int(cell.state[position])].format(place))
        return cell.data[position] if buffer.dtype.is_float else cell.data.item(*position)

    def write(self, buffer: Buffer, position: tuple[int, ...], value: Any) -> None:
        cell = self.at(buffer, position)
        if cell.state is not None:
            if cell.state[position] == _IN_FLIGHT:
                raise self.fail(f"writes {buffer.name}{list(position)} before the wait for its copy")
            cell.state[position] = _VALID
        cell.data[position] = value

    def at(self, buffer: Buffer, position: tuple[int, ...]) -> _Cell:
        cell = self.cells.get(buffer.name)
        if cell is None:
            raise self.fail(f"{format_buffer(buffer)} is used outside of its allocation")
        # numpy would count a negative index from the end.
        if len(position) != len(buffer.shape) or not all(map(_inside, position, buffer.shape)):
            raise self.fail(f"{buffer.name}{list(position)} is outside {format_buffer(buffer)}")
        return cell

    def view(
        self, region: Region, starts: tuple[int, ...], extents: tuple[int, ...]
    ) -> tuple[np.ndarray, np.ndarray | None]:
        for start, extent, size in zip(starts, extents, region.buffer.shape, strict=True):
            if not 0 <= start <= start + extent <= size:
                raise self.fail(f"{format_region(region)} leaves {format_buffer(region.buffer)}")
        cell = self.cells[region.buffer.name]
        box = tuple(slice(s, s + e) for s, e in zip(starts, extents, strict=True))
        return cell.data[box], None if cell.state is None else cell.state[box]

    def padded_view(
        self, region: Region, pad: Const, starts: tuple[int, ...], extents: tuple[int, ...]
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Returns a copy of a region that may extend beyond its buffer: elements outside of the buffer are `pad`. Also
        returns the state (written, undefined, in flight) of each element, or None if states are not tracked. `starts`,
        `extents`: the values of the region's first indices and sizes. Writes to the copy do not change the buffer.
        """
        cell = self.cells[region.buffer.name]
        inside = tuple(
            slice(min(max(s, 0), size), max(min(s + e, size), 0))
            for s, e, size in zip(starts, extents, region.buffer.shape, strict=True)
        )
        filled = tuple(slice(i.start - s, i.stop - s) for i, s in zip(inside, starts, strict=True))
        data = np.full(extents, pad.value, cell.data.dtype)
        state = None if cell.state is None else np.zeros(extents, np.uint8)
        if (origin := cell.data[inside]).size:
            data[filled] = origin
            if state is not None and cell.state is not None:
                state[filled] = cell.state[inside]
        return data, state

    def touch(self, cell: _Cell, box: tuple[slice, ...], buffer: Buffer) -> None:
        if cell.state is None:
            return
        worst = int(cell.state[box].max())
        if worst:
            raise self.fail(_BLAME[worst].format(f"part of {buffer.name}"))

    # Expressions

    def box(self, region: Region) -> Callable[[], tuple[tuple[int, ...], tuple[int, ...]]]:
        starts, extents = self.indices(region.starts), self.indices(region.extents)
        return lambda: (starts(), tuple([max(e, 0) for e in extents()]))

    def indices(self, exprs: tuple[Expr, ...]) -> Callable[[], tuple[int, ...]]:
        parts = [self.expr(e) for e in exprs]
        return lambda: tuple([part() for part in parts])

    def expr(self, expr: Expr) -> Callable[[], Any]:
        match expr:
            case Const(value=value, dtype=dtype):
                constant = dtype.numpy.type(value) if dtype.is_float else value
                return lambda: constant
            case Var(name=name):
                # Verified programs bind every variable, so a missing one is not worth a check in this hot path.
                return partial(self.variables.__getitem__, name)
            case Binary(op=op, a=a, b=b):
                x, y = self.expr(a), self.expr(b)
                if op == "and":
                    return lambda: x() and y()
                if op == "or":
                    return lambda: x() or y()
                combine = _operation(op, dtype_of(a))
                return lambda: combine(x(), y())
            case Load(buffer=buffer, indices=indices):
                at = self.indices(indices)
                return lambda: self.read(buffer, at())
            case Cast(value=value, dtype=dtype):
                x, convert = self.expr(value), _conversion(dtype)
                return lambda: convert(x())
            case Select(condition=condition, then=then, otherwise=otherwise):
                c, x, y = self.expr(condition), self.expr(then), self.expr(otherwise)
                return lambda: x() if c() else y()
            case Call(function=function, arguments=arguments, dtype=dtype):
                if function not in self.functions:
                    raise self.fail(f"no implementation of the function {function} was given")
                call = self.functions[function]
                typed = [(self.expr(a), dtype_of(a).numpy.type) for a in arguments]
                convert = _conversion(dtype)
                return lambda: convert(call(*[t(x()) for x, t in typed]))


def _inside(index: int, size: int) -> bool:
    return 0 <= index < size


def _conversion(dtype: DType) -> Callable[[Any], Any]:
    if dtype.is_float:
        return dtype.numpy.type
    if dtype is DType.BOOL:
        return bool
    low, high = dtype.limits

    def wrapping(value: Any) -> int:
        whole = int(value)
        return whole if low <= whole <= high else dtype.wrap(whole)

    return wrapping


def _operation(op: str, dtype: DType) -> Callable[[Any, Any], Any]:
    """The function of a binary operator on values of `dtype`; "and" and "or" are not among the operators."""
    if op in COMPARISONS:
        return _COMPARE[op]
    compute = _COMPUTE[op]
    if dtype.is_float:
        kind = dtype.numpy.type
        if op in ("min", "max"):
            # NaN on either side makes the result NaN, as in IEEE 754's minimum and maximum.
            compute = np.minimum if op == "min" else np.maximum
        return lambda a, b: kind(compute(a, b))
    low, high = dtype.limits

    def wrapping(a: int, b: int) -> int:
        result = compute(a, b)
        return result if low <= result <= high else dtype.wrap(result)

    return wrapping


_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    "==": lambda a, b: bool(a == b),
    "!=": lambda a, b: bool(a != b),
}
_COMPUTE: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "min": min,
    "max": max,
}

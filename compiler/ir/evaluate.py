"""Programs on numpy arrays, whole nests of loops at a time: what the interpreter computes, thousands of times faster.

An iteration space becomes axes of arrays. Where several statements share a loop, each of them goes through all of its
iterations before the next one does, if no iteration touches what another one writes; buffers allocated inside get an
axis for it. Other loops run one iteration after the other. Float32 is computed in float32, as the interpreter has it,
but sums are added up in float64 and rounded once: so results are a reference for every order of adding them up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided

from .affine import LinearForm, linear_form
from .expr import Binary, Buffer, Call, Cast, Const, Expr, Load, Select, Var
from .independence import is_independent
from .interp import Functions
from .stmt import Alloc, Assign, Copy, For, Program, Reduce, Region, Seq, Stmt
from .types import DType
from .visit import free_vars

MOST_ELEMENTS = 1 << 23
"""Of an array on the way, as far as the iteration space can be cut along what a statement writes."""
MOST_FACTOR = 1 << 26
"""Elements of a factor, as a product of matrices takes it, of sums that are computed whole: half a gigabyte."""

MOST_MATRICES = 256
"""Of a batch that are multiplied one by one, rather than all of their elements."""


class EvaluateError(Exception):
    """A program that only the interpreter can run: of integers, with intrinsics, with sums that begin in the middle."""


def evaluate(
    program: Program, arrays: Mapping[str, np.ndarray], *, functions: Functions | None = None
) -> dict[str, np.ndarray]:
    """The contents of every parameter by name when the program has run; `arrays` are not changed.

    Parameters without an array, and allocations, start as zeros. `functions` take arrays. EvaluateError where the
    program is none that this can run.
    """
    machine = _Machine(functions=functions or {})
    for parameter in program.parameters:
        _float32(parameter)
        given = arrays.get(parameter.name)
        data = np.zeros(parameter.shape, np.float32) if given is None else np.array(given, np.float32)
        machine.cells[parameter.name] = _Cell(data=data.reshape(parameter.shape), axes=())
    with np.errstate(all="ignore"):
        machine.run(program.body, _Place())
    return {p.name: machine.cells[p.name].data for p in program.parameters}


_Factor: TypeAlias = tuple[np.ndarray, list[int]]
"""A factor of products, with the axes of loops that its dimensions are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    """A buffer's contents, with an axis ahead for each of the loops `axes` around its allocation."""

    data: np.ndarray
    axes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where in a program: loops that are axes, with their first iteration and how many, and values of the others.

    `guards` are loops whose extent depends on others: an iteration exists where the variable is below it.
    """

    axes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    values: Mapping[str, int] = field(default_factory=dict)
    guards: tuple[tuple[str, Expr], ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple([count for _, count in self.axes.values()])

    def variable(self, name: str) -> Any:
        """The variable's values along its axis, int64, or its one value."""
        if name in self.values:
            return np.int64(self.values[name])
        position = list(self.axes).index(name)
        first, count = self.axes[name]
        shape = [1] * len(self.axes)
        shape[position] = count
        return np.arange(first, first + count, dtype=np.int64).reshape(shape)

    def pieces(self, names: list[str]) -> list[_Place]:
        """This place cut along the loops `names`, so that arrays keep to MOST_ELEMENTS if possible."""
        places: list[_Place] = [self]
        for name in names:
            first, count = self.axes[name]
            size = prod(places[0].shape)
            if size <= MOST_ELEMENTS:
                break
            step = max(1, count * MOST_ELEMENTS // size)
            places = [
                replace(p, axes={**p.axes, name: (start, min(step, first + count - start))})
                for p in places
                for start in range(first, first + count, step)
            ]
        return places


@dataclass(slots=True, kw_only=True)
class _Machine:
    functions: Functions
    cells: dict[str, _Cell] = field(default_factory=dict)
    loops: dict[int, bool] = field(default_factory=dict)

    def run(self, node: Stmt, place: _Place) -> None:
        match node:
            case Seq(statements=statements):
                for statement in statements:
                    self.run(statement, place)
            case Alloc(buffer=buffer, body=body):
                _float32(buffer)
                data = np.zeros((*place.shape, *buffer.shape), np.float32)
                self.cells[buffer.name] = _Cell(data=data, axes=tuple(place.axes))
                self.run(body, place)
                del self.cells[buffer.name]
            case For(var=Var(name=name), extent=extent, body=body):
                count = int(np.max(self.value(extent, place)))
                guards = place.guards if isinstance(extent, Const) else (*place.guards, (name, extent))
                if count <= 0:
                    return
                if self.independent(node):
                    self.run(body, replace(place, axes={**place.axes, name: (0, count)}, guards=guards))
                    return
                for i in range(count):
                    self.run(body, replace(place, values={**place.values, name: i}, guards=guards))
            case Assign() | Reduce():
                kept = [name for name in place.axes if name in self.kept(node)]
                factors = self.factors(node, place) if isinstance(node, Reduce) else None
                for piece in place.pieces(kept) if factors is None else [place]:
                    self.store(node, piece, kept, factors)
            case Copy(asynchronous=False) if not place.axes:
                self.copy(node, place)
            case Copy(asynchronous=False) if not place.guards:
                for piece in place.pieces(list(place.axes)):
                    self.gather(node, piece)
            case _:
                raise EvaluateError(f"{type(node).__name__} cannot be evaluated here")

    def independent(self, loop: For) -> bool:
        """`is_independent`, found out once for a loop inside of others."""
        if id(loop) not in self.loops:
            self.loops[id(loop)] = is_independent(loop)
        return self.loops[id(loop)]

    def copy(self, node: Copy, place: _Place) -> None:
        (to, sizes), (of, counts) = (
            [[int(self.value(e, place)) for e in ends] for ends in (box.starts, box.extents)]
            for box in (node.destination, node.source)
        )
        source = self.cells[node.source.buffer.name].data
        values = np.full(counts, 0 if node.pad is None else node.pad.value, np.float32)
        # What of the box lies inside of the buffer.
        spans = [(max(s, 0), min(s + n, size)) for s, n, size in zip(of, counts, source.shape, strict=True)]
        if all(low < high for low, high in spans):
            inner = tuple([slice(low - s, high - s) for (low, high), s in zip(spans, of, strict=True)])
            values[inner] = source[tuple([slice(*span) for span in spans])]
        box = tuple([slice(s, s + n) for s, n in zip(to, sizes, strict=True)])
        self.cells[node.destination.buffer.name].data[box] = values.reshape(sizes)

    def gather(self, node: Copy, place: _Place) -> None:
        """A copy in all iterations, its boxes' dimensions behind the loops' axes."""
        count = len(place.axes)
        read, written = self.box(node.source, place), self.box(node.destination, place)
        cell = self.cells[node.source.buffer.name]
        around = [place.variable(name)[(..., *[None] * len(read))] for name in cell.axes]
        inside = np.ones((), bool)
        for index, size in zip(read, node.source.buffer.shape, strict=True):
            inside = inside & (index >= 0) & (index < size)
        clipped = [np.clip(i, 0, n - 1) for i, n in zip(read, node.source.buffer.shape, strict=True)]
        shape = np.broadcast_shapes(*[i.shape for i in (*around, *clipped)])
        pad = np.float32(0 if node.pad is None else node.pad.value)
        values = np.where(inside, cell.data[(*around, *clipped)], pad)
        sizes = [index.shape[count + d] for d, index in enumerate(written)]
        values = np.broadcast_to(values, (*place.shape, *shape[count:])).reshape(*place.shape, *sizes)
        to = self.cells[node.destination.buffer.name]
        around = [place.variable(name)[(..., *[None] * len(written))] for name in to.axes]
        # As of several iterations in `write`.
        first, *others = [*around, *written]
        to.data[(np.broadcast_to(first, values.shape), *others)] = values

    def box(self, region: Region, place: _Place) -> list[np.ndarray]:
        """The indices that a box has in each dimension: loops' axes first, then an axis for each dimension."""
        found: list[np.ndarray] = []
        for d, (start, extent) in enumerate(zip(region.starts, region.extents, strict=True)):
            count = np.asarray(self.value(extent, place))
            if count.min() != count.max():
                raise EvaluateError(f"a box of {region.buffer.name} is not the same in all iterations")
            begin = np.asarray(self.value(start, place))
            begin = begin.reshape((1,) * (len(place.axes) - begin.ndim) + begin.shape)
            steps = np.arange(int(count.max()), dtype=np.int64)
            own = [1] * len(region.starts)
            own[d] = len(steps)
            found.append(begin[(..., *[None] * len(own))] + steps.reshape(own))
        return found

    def kept(self, node: Assign | Reduce) -> set[str]:
        """The loops on which it depends what is written."""
        names = set(self.cells[node.buffer.name].axes)
        return names.union(*map(free_vars, node.indices))

    def store(
        self, node: Assign | Reduce, place: _Place, kept: list[str], factors: tuple[_Factor, _Factor] | None
    ) -> None:
        """Writes what a statement computes in all iterations; of sums of products from `factors`, if they are known."""
        mask: np.ndarray | None = None
        for name, extent in place.guards:
            here = np.asarray(place.variable(name) < self.value(extent, place))
            mask = here if mask is None else np.logical_and(mask, here)
        if isinstance(node, Assign):
            self.write(node, place, np.asarray(self.value(node.value, place)), mask)
            return
        gone = tuple([k for k, name in enumerate(place.axes) if name not in kept])
        begins = self.begins(node, place, gone)
        small = replace(
            place, axes={name: span if name in kept else (0, 1) for name, span in place.axes.items()}
        )
        total = self.total(node, place, kept, gone, mask, factors)
        if mask is not None:
            mask = np.any(np.broadcast_to(mask, place.shape), axis=gone, keepdims=True)
        if not begins:
            before = self.cells[node.buffer.name].data[self.positions(node.buffer, node.indices, small)]
            total = before + total if node.op == "add" else np.maximum(before, total)
        self.write(node, small, total, mask)

    def begins(self, node: Reduce, place: _Place, gone: tuple[int, ...]) -> bool:
        """Whether this is the begin of the sums, rather than more of them."""
        if node.first is None:
            return False
        first = np.asarray(self.value(node.first, place))
        if not first.any():
            return False
        whole = first.reshape((1,) * (len(place.axes) - first.ndim) + first.shape)
        outside = [size for k, size in enumerate(whole.shape) if k not in gone]
        reduced = prod([place.shape[k] for k in gone if whole.shape[k] == 1])
        if max(outside, default=1) > 1 or reduced > 1 or first.sum() > 1 or not first.flat[0]:
            raise EvaluateError(f"{node.name} does not begin where its loops do")
        return True

    def total(
        self,
        node: Reduce,
        place: _Place,
        kept: list[str],
        gone: tuple[int, ...],
        mask: np.ndarray | None,
        factors: tuple[_Factor, _Factor] | None,
    ) -> np.ndarray:
        """What is added up, or the greatest of it, with an axis of one for each loop that is gone."""
        factors = factors or self.factors(node, place)
        if factors is not None:
            kept_axes = [k for k in range(len(place.axes)) if k not in gone]
            total = _sum_of_products(*factors, kept_axes, [place.shape[k] for k in kept_axes])
            return np.expand_dims(total, gone).astype(np.float32)
        found = np.broadcast_to(self.value(node.value, place), place.shape)
        if mask is not None:
            found = np.where(mask, found, np.float32(0 if node.op == "add" else -np.inf))
        if node.op == "max":
            return found.max(axis=gone, keepdims=True)
        return found.sum(axis=gone, keepdims=True, dtype=np.float64).astype(np.float32)

    def factors(self, node: Reduce, place: _Place) -> tuple[_Factor, _Factor] | None:
        """Both factors of a sum of products in float64, each with the axes that it depends on.

        Factors are loads, or functions of one (rounded ones, say). None for other sums, under guards, and where a
        factor is too large to be summed up whole. An axis on which none depends is the second one's.
        """
        value = node.value
        if node.op != "add" or place.guards or not isinstance(value, Binary) or value.op != "*":
            return None
        found: list[_Factor] = []
        for e in (value.a, value.b):
            load = e.arguments[0] if isinstance(e, Call) and len(e.arguments) == 1 else e
            view = self.view(load, place, np.float64 if load is e else np.float32)
            if view is None:
                return None
            others = found[0][1] if found else []
            axes = [k for k, step in enumerate(view.strides) if step or (found and k not in others)]
            factor = view[tuple([slice(None) if k in axes else 0 for k in range(view.ndim)])]
            if factor.size > MOST_FACTOR:
                return None
            if isinstance(e, Call):
                factor = self.call(e, [factor]).astype(np.float64)
            found.append((factor, axes))
        return found[0], found[1]

    def call(self, e: Call, arguments: list[Any]) -> np.ndarray:
        """A function's values, of the call's type."""
        if e.function not in self.functions:
            raise EvaluateError(f"no function {e.function} was given")
        return np.asarray(self.functions[e.function](*arguments)).astype(e.dtype.numpy)

    def write(self, node: Assign | Reduce, place: _Place, value: np.ndarray, mask: np.ndarray | None) -> None:
        data = self.cells[node.buffer.name].data
        at = self.positions(node.buffer, node.indices, place)
        if mask is None:
            # Of several iterations that write an element the last one counts: there is an index for each.
            data[(np.broadcast_to(at[0], place.shape), *at[1:])] = value
            return
        where = np.broadcast_to(mask, place.shape)
        data[tuple([np.broadcast_to(i, place.shape)[where] for i in at])] = np.broadcast_to(
            value, place.shape
        )[where]

    def positions(self, buffer: Buffer, indices: tuple[Expr, ...], place: _Place) -> tuple[Any, ...]:
        """Indices into a buffer's contents; those of what is guarded and not there are any that exist."""
        around = [place.variable(name) for name in self.cells[buffer.name].axes]
        own = [
            np.clip(self.value(i, place), 0, size - 1) for i, size in zip(indices, buffer.shape, strict=True)
        ]
        return (*around, *own)

    def view(self, e: Expr, place: _Place, dtype: type = np.float32) -> np.ndarray | None:
        """What is loaded in all iterations, without copying it; None unless that is steps through a buffer."""
        if not isinstance(e, Load):
            return None
        cell = self.cells[e.buffer.name]
        forms = [LinearForm({Var(name): 1}, 0) for name in cell.axes] + [linear_form(i) for i in e.indices]
        data = cell.data if dtype is np.float32 else cell.data.astype(dtype)
        steps, offset = dict.fromkeys(place.axes, 0), 0
        for form, size, stride in zip(forms, data.shape, data.strides, strict=True):
            low = high = form.constant
            for atom, c in form.terms.items():
                if not isinstance(atom, Var):
                    return None
                first, count = place.axes.get(atom.name, (place.values.get(atom.name, 0), 1))
                ends = (c * first, c * (first + count - 1))
                low, high = low + min(ends), high + max(ends)
                offset += stride * c * first
                if atom.name in steps:
                    steps[atom.name] += stride * c
            if low < 0 or high >= size:
                return None
            offset += stride * form.constant
        begin = data.reshape(-1)[offset // data.itemsize :]
        return as_strided(begin, place.shape, list(steps.values()), writeable=False)

    def value(self, e: Expr, place: _Place) -> Any:
        """An expression in all iterations: an array with an axis for each, or of one where it depends on none."""
        match e:
            case Const(value=value, dtype=dtype):
                return dtype.numpy.type(value)
            case Var(name=name):
                return place.variable(name)
            case Binary(op=op, a=a, b=b):
                return _BINARY[op](self.value(a, place), self.value(b, place))
            case Select(condition=condition, then=then, otherwise=otherwise):
                return np.where(*[self.value(part, place) for part in (condition, then, otherwise)])
            case Load(buffer=buffer, indices=indices):
                found = self.view(e, place)
                return (
                    self.cells[buffer.name].data[self.positions(buffer, indices, place)]
                    if found is None
                    else found
                )
            case Cast(value=value, dtype=dtype):
                return np.asarray(self.value(value, place)).astype(dtype.numpy)
            case Call(arguments=arguments):
                return self.call(e, [self.value(a, place) for a in arguments])


def _sum_of_products(
    first: _Factor,
    second: _Factor,
    kept: list[int],
    shape: list[int],
) -> np.ndarray:
    """The sums over all axes but `kept`, of this shape: one product of matrices, or a few, where that is possible."""
    (a, of_a), (b, of_b) = first, second
    each = [k for k in of_a if k in of_b and k in kept]
    sizes = [shape[kept.index(k)] for k in each]
    if not 1 < prod(sizes) <= MOST_MATRICES:
        return np.einsum(a, of_a, b, of_b, kept, optimize=True)
    total = np.empty(shape)
    for place in np.ndindex(*sizes):
        here = dict(zip(each, place, strict=True))

        def of(axes: list[int], here: Mapping[int, int] = here) -> tuple[int | slice, ...]:
            return tuple([here.get(k, slice(None)) for k in axes])

        total[of(kept)] = np.einsum(
            a[of(of_a)],
            [k for k in of_a if k not in here],
            b[of(of_b)],
            [k for k in of_b if k not in here],
            [k for k in kept if k not in here],
            optimize=True,
        )
    return total


_BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "//": np.floor_divide,
    "%": np.mod,
    # NaN on either side is the result.
    "min": np.minimum,
    "max": np.maximum,
    "<": np.less,
    "<=": np.less_equal,
    "==": np.equal,
    "!=": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
}


def _float32(buffer: Buffer) -> None:
    if buffer.dtype is not DType.FLOAT32:
        raise EvaluateError(f"{buffer.name} is {buffer.dtype}, not float32")

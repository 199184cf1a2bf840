"""Evaluates programs on numpy arrays, whole nests of loops at a time, thousands of times faster than the interpreter.

Loops become axes of arrays. If several statements share a loop, each runs all iterations before the next statement,
provided that no iteration touches elements that another iteration writes; buffers allocated inside the loop get an axis
for the loop. All other loops run one iteration after the other. Floats of 16 and of 32 bits are computed in their type,
as by the interpreter, but sums (of float32) are added up in float64 and rounded once, so that results are a reference
for every order of summation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from .array_values import Cell, EvaluateError, Memory
from .expr import Buffer, Const, Var
from .independence import is_independent
from .interp import Functions
from .iteration_axes import Iterations
from .stmt import Alloc, Assign, Copy, For, Program, Reduce, Region, Seq, Stmt
from .sums_of_products import Factor, factors_of, sum_of_products
from .types import HALVES, DType
from .visit import free_vars


def evaluate(
    program: Program, arrays: Mapping[str, np.ndarray], *, functions: Functions | None = None
) -> dict[str, np.ndarray]:
    """The contents of every parameter by name after the program has run; `arrays` are not changed.

    Parameters without an array, and allocations, start as zeros. `functions`: by name, the functions that Call nodes
    call, here with arrays. Raises EvaluateError for a program that only the interpreter can run.
    """
    memory = Memory(functions=functions or {})
    for parameter in program.parameters:
        dtype = _float(parameter)
        given = arrays.get(parameter.name)
        data = np.zeros(parameter.shape, dtype) if given is None else np.array(given, dtype)
        memory.cells[parameter.name] = Cell(data=data.reshape(parameter.shape), axes=())
    with np.errstate(all="ignore"):
        _Machine(memory=memory).run(program.body, Iterations())
    return {p.name: memory.cells[p.name].data for p in program.parameters}


@dataclass(slots=True, kw_only=True)
class _Machine:
    memory: Memory
    loops: dict[int, bool] = field(default_factory=dict)

    def run(self, node: Stmt, iterations: Iterations) -> None:
        match node:
            case Seq(statements=statements):
                for statement in statements:
                    self.run(statement, iterations)
            case Alloc(buffer=buffer, body=body):
                data = np.zeros((*iterations.shape, *buffer.shape), _float(buffer))
                self.memory.cells[buffer.name] = Cell(data=data, axes=tuple(iterations.axes))
                self.run(body, iterations)
                del self.memory.cells[buffer.name]
            case For(var=Var(name=name), extent=extent, body=body):
                count = int(np.max(self.memory.value(extent, iterations)))
                guards = (
                    iterations.guards if isinstance(extent, Const) else (*iterations.guards, (name, extent))
                )
                if count <= 0:
                    return
                if self.independent(node):
                    self.run(
                        body, replace(iterations, axes={**iterations.axes, name: (0, count)}, guards=guards)
                    )
                    return
                for i in range(count):
                    self.run(body, replace(iterations, values={**iterations.values, name: i}, guards=guards))
            case Assign() | Reduce():
                kept_loops = [name for name in iterations.axes if name in self.kept_loops(node)]
                factors = factors_of(self.memory, node, iterations) if isinstance(node, Reduce) else None
                for piece in iterations.pieces(kept_loops) if factors is None else [iterations]:
                    self.store(node, piece, kept_loops, factors)
            case Copy(asynchronous=False) if not iterations.axes:
                self.copy(node, iterations)
            case Copy(asynchronous=False) if not iterations.guards:
                for piece in iterations.pieces(list(iterations.axes)):
                    self.gather(node, piece)
            case _:
                raise EvaluateError(
                    f"cannot evaluate a statement {type(node).__name__} on whole arrays; use the interpreter"
                )

    def independent(self, loop: For) -> bool:
        """Whether each statement of the loop may run all iterations before the next statement (`is_independent`).
        Cached, because a loop inside other loops is queried once for each of their iterations.
        """
        if id(loop) not in self.loops:
            self.loops[id(loop)] = is_independent(loop)
        return self.loops[id(loop)]

    def copy(self, node: Copy, iterations: Iterations) -> None:
        (to, sizes), (of, counts) = (
            [[int(self.memory.value(e, iterations)) for e in ends] for ends in (box.starts, box.extents)]
            for box in (node.destination, node.source)
        )
        source = self.memory.cells[node.source.buffer.name].data
        values = np.full(counts, 0 if node.pad is None else node.pad.value, source.dtype)
        # The part of the region inside of the buffer.
        spans = [(max(s, 0), min(s + n, size)) for s, n, size in zip(of, counts, source.shape, strict=True)]
        if all(low < high for low, high in spans):
            inner = tuple([slice(low - s, high - s) for (low, high), s in zip(spans, of, strict=True)])
            values[inner] = source[tuple([slice(*span) for span in spans])]
        box = tuple([slice(s, s + n) for s, n in zip(to, sizes, strict=True)])
        self.memory.cells[node.destination.buffer.name].data[box] = values.reshape(sizes)

    def gather(self, node: Copy, iterations: Iterations) -> None:
        """Runs a copy in all iterations at once. The arrays have an axis for each loop, then an axis for each dimension
        of the copied regions.
        """
        count = len(iterations.axes)
        read, written = self.box(node.source, iterations), self.box(node.destination, iterations)
        cell = self.memory.cells[node.source.buffer.name]
        around = [iterations.variable(name)[(..., *[None] * len(read))] for name in cell.axes]
        inside = np.ones((), bool)
        for index, size in zip(read, node.source.buffer.shape, strict=True):
            inside = inside & (index >= 0) & (index < size)
        clipped = [np.clip(i, 0, n - 1) for i, n in zip(read, node.source.buffer.shape, strict=True)]
        shape = np.broadcast_shapes(*[i.shape for i in (*around, *clipped)])
        pad = cell.data.dtype.type(0 if node.pad is None else node.pad.value)
        values = np.where(inside, cell.data[(*around, *clipped)], pad)
        sizes = [index.shape[count + d] for d, index in enumerate(written)]
        values = np.broadcast_to(values, (*iterations.shape, *shape[count:])).reshape(
            *iterations.shape, *sizes
        )
        to = self.memory.cells[node.destination.buffer.name]
        around = [iterations.variable(name)[(..., *[None] * len(written))] for name in to.axes]
        # An index for each iteration, so that the last one wins, as in `write`.
        first, *others = [*around, *written]
        to.data[(np.broadcast_to(first, values.shape), *others)] = values

    def box(self, region: Region, iterations: Iterations) -> list[np.ndarray]:
        """The indices of the elements of a region, in all iterations: an int64 array for each dimension of the region's
        buffer. Each array has one axis for each loop, and behind these one axis for each dimension.
        """
        found: list[np.ndarray] = []
        for d, (start, extent) in enumerate(zip(region.starts, region.extents, strict=True)):
            count = np.asarray(self.memory.value(extent, iterations))
            if count.min() != count.max():
                raise EvaluateError(
                    f"a copied region of {region.buffer.name} has {count.min()} to {count.max()} elements along "
                    f"dimension {d}, but must have the same number in all iterations"
                )
            begin = np.asarray(self.memory.value(start, iterations))
            begin = begin.reshape((1,) * (len(iterations.axes) - begin.ndim) + begin.shape)
            steps = np.arange(int(count.max()), dtype=np.int64)
            own = [1] * len(region.starts)
            own[d] = len(steps)
            found.append(begin[(..., *[None] * len(own))] + steps.reshape(own))
        return found

    def kept_loops(self, node: Assign | Reduce) -> set[str]:
        """Names of the loops whose iterations write different elements: loops around the buffer's allocation, and loops
        whose variables occur in the indices of the written element.
        """
        names = set(self.memory.cells[node.buffer.name].axes)
        return names.union(*map(free_vars, node.indices))

    def store(
        self,
        node: Assign | Reduce,
        iterations: Iterations,
        kept_loops: list[str],
        factors: tuple[Factor, Factor] | None,
    ) -> None:
        """Runs a statement in all iterations at once. `kept_loops`: the loops whose iterations write different
        elements; a Reduce sums over all others. `factors`: the two factors of a sum of products, if known.
        """
        mask: np.ndarray | None = None
        for name, extent in iterations.guards:
            here = np.asarray(iterations.variable(name) < self.memory.value(extent, iterations))
            mask = here if mask is None else np.logical_and(mask, here)
        if isinstance(node, Assign):
            self.write(node, iterations, np.asarray(self.memory.value(node.value, iterations)), mask)
            return
        if node.buffer.dtype is not DType.FLOAT32:
            raise EvaluateError(f"{node.name} sums {node.buffer.dtype}; only sums of float32 are evaluated")
        reduced_axes = tuple([k for k, name in enumerate(iterations.axes) if name not in kept_loops])
        begins = self.begins(node, iterations, reduced_axes)
        small = replace(
            iterations,
            axes={name: span if name in kept_loops else (0, 1) for name, span in iterations.axes.items()},
        )
        total = self.total(node, iterations, kept_loops, reduced_axes, mask, factors)
        if mask is not None:
            mask = np.any(np.broadcast_to(mask, iterations.shape), axis=reduced_axes, keepdims=True)
        if not begins:
            before = self.memory.cells[node.buffer.name].data[
                self.memory.positions(node.buffer, node.indices, small)
            ]
            total = before + total if node.op == "add" else np.maximum(before, total)
        self.write(node, small, total, mask)

    def begins(self, node: Reduce, iterations: Iterations, reduced_axes: tuple[int, ...]) -> bool:
        """Whether a Reduce overwrites its target in the first iteration of the loops that it sums over (the axes
        `reduced_axes`), instead of adding to an earlier sum. Raises EvaluateError if it overwrites its target in any
        other iteration.
        """
        if node.first is None:
            return False
        first = np.asarray(self.memory.value(node.first, iterations))
        if not first.any():
            return False
        whole = first.reshape((1,) * (len(iterations.axes) - first.ndim) + first.shape)
        outside = [size for k, size in enumerate(whole.shape) if k not in reduced_axes]
        reduced = prod([iterations.shape[k] for k in reduced_axes if whole.shape[k] == 1])
        if max(outside, default=1) > 1 or reduced > 1 or first.sum() > 1 or not first.flat[0]:
            raise EvaluateError(
                f"the sum {node.name} does not start at zero in the first iteration of its loops"
            )
        return True

    def total(
        self,
        node: Reduce,
        iterations: Iterations,
        kept_loops: list[str],
        reduced_axes: tuple[int, ...],
        mask: np.ndarray | None,
        factors: tuple[Factor, Factor] | None,
    ) -> np.ndarray:
        """The sum, or maximum, of a Reduce over `reduced_axes`, which have size 1 in the result. `kept_loops`: loops of
        all other axes; `mask`: bool array, False for iterations that do not exist; `factors`: the two factors of a sum
        of products, if known.
        """
        factors = factors or factors_of(self.memory, node, iterations)
        if factors is not None:
            kept_axes = [k for k in range(len(iterations.axes)) if k not in reduced_axes]
            total = sum_of_products(*factors, kept_axes, [iterations.shape[k] for k in kept_axes])
            return np.expand_dims(total, reduced_axes).astype(np.float32)
        found = np.broadcast_to(self.memory.value(node.value, iterations), iterations.shape)
        if mask is not None:
            found = np.where(mask, found, np.float32(0 if node.op == "add" else -np.inf))
        if node.op == "max":
            return found.max(axis=reduced_axes, keepdims=True)
        return found.sum(axis=reduced_axes, keepdims=True, dtype=np.float64).astype(np.float32)

    def write(
        self, node: Assign | Reduce, iterations: Iterations, value: np.ndarray, mask: np.ndarray | None
    ) -> None:
        data = self.memory.cells[node.buffer.name].data
        at = self.memory.positions(node.buffer, node.indices, iterations)
        if mask is None:
            # If several iterations write an element, the last one wins: there is an index for each iteration.
            data[(np.broadcast_to(at[0], iterations.shape), *at[1:])] = value
            return
        where = np.broadcast_to(mask, iterations.shape)
        data[tuple([np.broadcast_to(i, iterations.shape)[where] for i in at])] = np.broadcast_to(
            value, iterations.shape
        )[where]


def _float(buffer: Buffer) -> np.dtype:
    """The numpy dtype of a buffer of floats of 16 or 32 bits; raises EvaluateError for other types."""
    if buffer.dtype not in (DType.FLOAT32, *HALVES):
        raise EvaluateError(f"{buffer.name} is {buffer.dtype}, not a float of 16 or 32 bits")
    return buffer.dtype.numpy

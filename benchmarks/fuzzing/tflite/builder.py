"""A random TFLite graph under construction. LiteRT runs each operator as soon as the operator is added. The shapes of
the operator's outputs, and the scales of quantized outputs, follow from LiteRT's results.

In this folder a tensor is an index into the model's list of tensors; an activation is a tensor that is not constant; a
grid is the pair (scale, zero point) of a quantized tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vdla.benchmarks.harness.tflite_files import Written, WrittenOperator, litert

from ..drawing import Draw

FORMS = ("int8", "uint8", "int16", "float", "hybrid")
"""Forms of a graph, by the element type of its activations; "hybrid": float activations with int8 weights."""
DTYPES = {"int8": np.int8, "uint8": np.uint8, "int16": np.int16, "float": np.float32, "hybrid": np.float32}
MOST_ELEMENTS = 4_000
"""Largest number of elements of an activation."""
SMALLEST, LARGEST = 1e-7, 20.0
"""Smallest and largest scale of an activation."""
SEARCHES = 8
"""Largest number of scales with which an operator is run to find the scale of its output."""


class UnfitError(Exception):
    """Raised if LiteRT cannot run a random operator on its random operands; the operator is then drawn again."""


@dataclass(kw_only=True)
class TfliteBuilder:
    """A random TFLite graph under construction. `form`: the element type of its activations, one of FORMS. `arrays`:
    the values of each activation by the number of the tensor: random for inputs, else as LiteRT computed them.
    """

    draw: Draw
    form: str
    model: Written = field(default_factory=Written)
    arrays: dict[int, np.ndarray] = field(default_factory=dict)
    expected: Sequence[np.ndarray] = ()
    """LiteRT's outputs of the finished graph."""
    following: int | None = None
    """The activation that the next drawn operator reads, if it fits; None: any."""

    def dtype(self, index: int) -> np.dtype[Any]:
        """The element type of a tensor."""
        return self.model.tensors[index]["dtype"]

    def shape(self, index: int) -> tuple[int, ...]:
        """The shape of a tensor."""
        return self.model.shape(index)

    def quantized(self, index: int) -> bool:
        """Whether a tensor has a scale."""
        return self.model.tensors[index]["scale"] is not None

    # Operands.

    def input(self, shape: Sequence[int], dtype: Any = None) -> int:
        """Adds an input of the model with random values and returns it: int8, uint8 and int16 over their whole range,
        floats around 0, int32 and int64 from 0 to 3, since they may be indices. `dtype`: by default the element type of
        `form`.
        """
        dtype = np.dtype(DTYPES[self.form] if dtype is None else dtype)
        scale, zero = self.grid(dtype) if dtype.name in ("int8", "uint8", "int16") else (None, 0)
        index = self.model.tensor(shape, dtype, scale, zero)
        self.model.inputs.append(index)
        self.arrays[index] = self.numbers(shape, dtype)
        return index

    def grid(self, dtype: Any) -> tuple[float, int]:
        """A random (scale, zero point) for the quantized type `dtype`: int8, uint8 or int16."""
        dtype = np.dtype(dtype)
        scale = float(np.exp(self.draw.rng.uniform(np.log(0.004), np.log(0.2))))
        if dtype == np.int16:
            return scale / 256, 0
        limits = np.iinfo(dtype)
        ends = (limits.min, limits.max, (limits.min + limits.max + 1) // 2)
        return scale, self.draw.of(ends) if self.draw.chance(0.4) else limits.min + self.draw.below(256)

    def numbers(self, shape: Sequence[int], dtype: Any) -> np.ndarray:
        """An array of random values of the element type `dtype`."""
        rng, dtype = self.draw.rng, np.dtype(dtype)
        if dtype.kind == "f":
            return np.asarray(rng.normal(0, self.draw.of((0.5, 1.0, 1.0, 3.0)), shape), dtype)
        if dtype == np.bool_:
            return np.asarray(rng.random(shape) < 0.5)
        if dtype.name in ("int32", "int64"):
            return np.asarray(rng.integers(0, 4, shape), dtype)
        limits = np.iinfo(dtype)
        return np.asarray(rng.integers(limits.min, limits.max + 1, shape), dtype)

    def activation(
        self,
        ranks: Sequence[int] = (4, 4, 4, 3, 2, 1),
        fits: Callable[[int], bool] | None = None,
        kinds: Sequence[Any] | None = None,
    ) -> int:
        """An activation that `fits` accepts, of one of `ranks` and of one of the element types `kinds` (None: int8,
        uint8, int16 and float32). The activation `following` is taken first, if it fits. Sometimes, and whenever the
        graph has no such activation, a new input is added and returned. Raises UnfitError if `fits` accepts none of ten
        random inputs.
        """

        def usable(index: int) -> bool:
            name = self.dtype(index).name
            known = name in ("int8", "uint8", "int16", "float32") if kinds is None else name in kinds
            return known and len(self.shape(index)) in ranks and (fits is None or fits(index))

        index, self.following = self.following, None
        if index is not None and usable(index):
            return index
        found = [index for index in self.arrays if usable(index)]
        if found and self.draw.chance(0.88):
            return found[-1] if self.draw.chance(0.6) else self.draw.of(found)
        dtype = DTYPES[self.form] if kinds is None or np.dtype(DTYPES[self.form]).name in kinds else kinds[0]
        for _ in range(10):
            shape = self.random_shape(self.draw.of(ranks))
            index = self.input(shape, dtype)
            if fits is None or fits(index):
                return index
            self.model.inputs.pop()
            self.model.tensors.pop()
            del self.arrays[index]
        raise UnfitError("no input fits")

    def random_shape(self, rank: int) -> tuple[int, ...]:
        """A random shape of `rank` sizes from 1 to 9; the first of four sizes, the batch, is 1 or 2."""
        sizes = [1 + self.draw.below(9) for _ in range(rank)]
        if rank == 4:
            sizes[0] = 1 + self.draw.chance(0.15)
        return tuple(sizes)

    def same_kind(self, index: int) -> Callable[[int], bool]:
        """A predicate on tensors: whether a tensor has the element type of the tensor `index`."""
        return lambda other: self.dtype(other) == self.dtype(index)

    def same_grid(self, index: int) -> Callable[[int], bool]:
        """A predicate on tensors: whether a tensor has the element type and the grid of the tensor `index`."""
        own = self.model.tensors[index]

        def fits(other: int) -> bool:
            tensor = self.model.tensors[other]
            if tensor["dtype"] != own["dtype"] or (tensor["scale"] is None) != (own["scale"] is None):
                return False
            return own["scale"] is None or (tensor["scale"] == own["scale"] and tensor["zero"] == own["zero"])

        return fits

    def integers(self, values: Any, dtype: Any = np.int32) -> int:
        """Adds a constant with the integers `values`, without a scale (sizes, axes, indices); returns its tensor."""
        return self.model.constant(np.asarray(values, dtype))

    def like(self, index: int, shape: Sequence[int], *, same: bool = False) -> int:
        """Adds a constant of random values, of the element type of the tensor `index`; returns the constant. If that
        tensor is quantized, the constant has its grid (`same`) or a random one.
        """
        tensor = self.model.tensors[index]
        values = self.numbers(shape, tensor["dtype"])
        if tensor["scale"] is None:
            return self.model.constant(values)
        scale, zero = (tensor["scale"][0], tensor["zero"][0]) if same else self.grid(tensor["dtype"])
        return self.model.constant(values, scale, zero)

    # Operators.

    def node(
        self,
        kind: str,
        inputs: Sequence[int],
        options: str = "",
        *,
        dtype: Any = None,
        grid: tuple[float, int] | str = "free",
        count: int = 1,
        shape: Sequence[int] = (1,),
        **fields: Any,
    ) -> list[int]:
        """Adds an operator `kind`, such as "ADD"; returns its `count` outputs. `options`: name of the table of its
        options; `fields`: their values. `dtype`: element type of the outputs (None: that of the first activation among
        `inputs`). `grid`: the outputs' (scale, zero point); "same" is that of the first activation, "free" a random one
        that the results mostly fill. `shape`: declared shape of the outputs, for operators whose kernels need it.
        Raises UnfitError if LiteRT refuses the operator, or if a result is too large, empty or not finite.
        """
        source = next(index for index in inputs if index in self.arrays)
        dtype = self.dtype(source) if dtype is None else np.dtype(dtype)
        scaled = dtype.name in ("int8", "uint8", "int16")
        operator: WrittenOperator = (kind, inputs, range(count), options, fields)
        found: Any = None
        if scaled and grid == "same":
            tensor = self.model.tensors[source]
            found = tensor["scale"], tensor["zero"]
        elif scaled and grid == "free":
            found = self._free_grid(operator, dtype)
        elif scaled:
            found = grid
        scale, zero = found if found is not None else (None, 0)
        if scale is not None and not SMALLEST <= float(np.max(scale)) <= LARGEST:
            raise UnfitError("the scale is extreme")
        arrays = self._run(operator, dtype, scale, zero, shape)
        if max(array.size for array in arrays) > MOST_ELEMENTS or not min(array.size for array in arrays):
            raise UnfitError("the result is too large, or empty")
        if dtype.kind == "f" and not all(
            np.isfinite(array).all() and np.abs(array).max() < 1e6 for array in arrays
        ):
            raise UnfitError("the result is not finite")
        outputs = [self.model.tensor(array.shape, dtype, scale, zero) for array in arrays]
        self.arrays.update(zip(outputs, arrays, strict=True))
        self.model.operators.append((kind, tuple(inputs), tuple(outputs), options, fields))
        return outputs

    def _free_grid(self, operator: WrittenOperator, dtype: np.dtype[Any]) -> tuple[float, int]:
        """A random grid (scale, zero point) of the type `dtype`, whose range is about that of an operator's results."""
        limits, scale = np.iinfo(dtype), 0.05 if dtype.itemsize == 1 else 0.0005
        middle = 0 if dtype.kind == "i" else 128
        most = (limits.max - limits.min) // 2
        # Kernels expect no scale far below those of the operands; some give wrong results or end the process.
        operands = [self.model.tensors[index]["scale"] for index in operator[1] if index >= 0]
        largest, least = (
            0.0,
            max(scale / 6**3, *(float(s.max()) / 100 for s in operands if s is not None), 0.0),
        )
        for _ in range(SEARCHES):
            values = np.concatenate([a.reshape(-1) for a in self._run(operator, dtype, scale, middle)])
            if not values.size:
                raise UnfitError("the result is empty")
            largest = float(np.abs(values.astype(np.int64) - middle).max())
            if largest >= most - 1:
                scale *= 5
            elif largest < most / 10 and scale > least:
                scale /= 6
            else:
                break
        scale = max(largest * scale / (most * self.draw.rng.uniform(0.5, 1.5)), least)
        zero = 0 if dtype == np.int16 else int(middle + self.draw.below(161) - 80)
        return float(np.float32(scale)), zero

    def _run(
        self,
        operator: WrittenOperator,
        dtype: np.dtype[Any],
        scale: Any,
        zero: Any,
        shape: Sequence[int] = (1,),
    ) -> list[np.ndarray]:
        """LiteRT's results of `operator` on the values of the graph's tensors. The outputs have the type `dtype`, the
        grid (`scale`, `zero`) and the declared shape `shape`. Raises UnfitError.
        """
        kind, inputs, places, options, fields = operator
        outputs = [{"name": "y", "shape": shape, "dtype": dtype, "axis": 0, "data": None,
                    "scale": None if scale is None else np.atleast_1d(np.float32(scale)),
                    "zero": np.atleast_1d(np.int64(zero))} for _ in places]  # fmt: skip
        one, read = one_operator(self.model, (kind, inputs, (), options, fields), outputs)
        try:
            return litert(one.content(), [self.arrays[index] for index in read], delegates=False)
        except (RuntimeError, ValueError) as error:
            raise UnfitError(f"LiteRT: {error}") from None

    def drawn(self, drawing: Callable[[TfliteBuilder], None]) -> bool:
        """Calls `drawing`, which adds a random operator; returns whether that was possible. If it was not, the graph is
        unchanged.
        """
        model = self.model
        sizes = len(model.tensors), len(model.operators), len(model.inputs)
        try:
            drawing(self)
        except UnfitError:
            self.following = None
            del model.tensors[sizes[0] :], model.operators[sizes[1] :], model.inputs[sizes[2] :]
            self.arrays = {index: array for index, array in self.arrays.items() if index < sizes[0]}
            return False
        return True

    def close(self) -> bool:
        """Finishes the graph: all results that no operator reads, and a few other random ones, become outputs; inputs
        that no operator reads are removed. Returns whether LiteRT runs the whole model (XNNPACK refuses some models).
        """
        read = {index for _, inputs, *_ in self.model.operators for index in inputs}
        made = [index for _, _, outputs, *_ in self.model.operators for index in outputs]
        self.model.inputs = [index for index in self.model.inputs if index in read]
        self.model.outputs = [index for index in made if index not in read or self.draw.chance(0.12)]
        try:
            self.expected = litert(self.model.content(), self.feeds())
        except (RuntimeError, ValueError):
            return False
        return True

    def feeds(self) -> list[np.ndarray]:
        """The values of the model's inputs."""
        return [self.arrays[index] for index in self.model.inputs]


def one_operator(
    model: Written, operator: WrittenOperator, outputs: Sequence[dict[str, Any]] | None = None
) -> tuple[Written, list[int]]:
    """A model that consists only of `operator`, and the activations of `model` that are the new model's inputs, in
    their order. `outputs`: descriptions of the output tensors, by default those of `model`.
    """
    kind, inputs, places, options, fields = operator
    one, known, read = Written(custom=model.custom), {-1: -1}, []
    for index in dict.fromkeys(inputs):
        if index < 0:
            continue
        known[index] = len(one.tensors)
        one.tensors.append(model.tensors[index])
        if model.tensors[index]["data"] is None:
            one.inputs.append(known[index])
            read.append(index)
    made = [model.tensors[index] for index in places] if outputs is None else outputs
    one.outputs = list(range(len(one.tensors), len(one.tensors) + len(made)))
    one.tensors.extend(made)
    one.operators.append((kind, [known[index] for index in inputs], one.outputs, options, fields))
    return one, read

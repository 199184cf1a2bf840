"""Graphs with quantized tensors: a "pair" of QuantizeLinear and DequantizeLinear follows each node that computes a
tensor, as static quantizers write it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from ..drawing import Draw
from .builder import Builder, Fit, UnfitError
from .spread import Spread
from .tables import Operator
from .values import SHAPES

PAIRED = 0.92
"""Share of float results that are quantized, by QuantizeLinear and DequantizeLinear; the others stay float."""
REREAD = 0.05
"""Share of quantized tensors that are dequantized twice, with different scales and zero points."""
KEPT = 0.4
"""Share of the quantized results of MOVES that have the scale and zero point of the tensor that is moved."""
MOVES = frozenset(
    (
        "Slice",
        "Transpose",
        "Gather",
        "Reshape",
        "Concat",
        "Split",
        "Tile",
        "Expand",
        "Pad",
        "MaxPool",
        "Identity",
    )
)
"""Operators whose results are elements of their first input, or pads."""
TWO_ROUNDINGS = frozenset(("Resize", "Upsample"))
"""Operators whose results may be off by one quantization step, because the accelerator rounds twice: a linear Resize
rounds after its columns and after its rows.
"""
QUANTIZE, DEQUANTIZE = Operator("", "QuantizeLinear"), Operator("", "DequantizeLinear")


class QuantizedBuilder(Builder):
    """A graph of float operators on dequantized tensors, as static quantizers write it.

    `kind` is the type of activations.
    """

    def __init__(self, draw: Draw, opset: int) -> None:
        super().__init__(draw, opset)
        self.kind = draw.of(("uint8", "int8"))
        self.paired = PAIRED

    def tensor(
        self,
        dtypes: Sequence[str] = ("float32",),
        *,
        shape: Sequence[int] | None = None,
        ranks: Sequence[int] = (0, 1, 2, 3, 4),
        fit: Fit = lambda array: True,
        constant: float = 0.2,
        old: float = 0.65,
    ) -> str:
        """The name of a tensor of `shape` (None: of one of `ranks`) whose value fulfils `fit`. If `dtypes` contains
        float32, the tensor is a dequantized tensor; otherwise its type is in `dtypes`. The tensor `following` is
        returned if it is set and fits. Else, with probability `old` (0.2 more for dequantized tensors), an existing
        tensor is returned, else a new tensor, which is a constant with probability `constant`. A new dequantized tensor
        has at least one dimension. Raises UnfitError if no value fits.
        """
        if "float32" not in dtypes:
            return super().tensor(dtypes, shape=shape, ranks=ranks, fit=fit, constant=constant, old=old)
        dtypes = ("float32",)
        if self._follows(dtypes, shape, ranks, fit):
            name, self.following = self.following, ""
            return name
        if any(v.array.dtype == np.float32 and not v.held for v in self.values.values()) and self.draw.chance(
            old + 0.2
        ):
            try:
                return self._old(dtypes, shape, ranks, fit)
            except UnfitError:
                pass
        known = [1, 2, 3, 4] if shape is None else []
        usable = [rank for rank in ranks if rank in known] or [4]
        size = self.draw.of(SHAPES[self.draw.of(usable)]) if shape is None else tuple(shape)
        for _ in range(8):
            name = self.weight(size) if self.draw.chance(constant) else self.input_pair(size)
            if fit(self.array(name)):
                return name
        raise UnfitError("no new value fits")

    def _old(self, dtypes: Sequence[str], shape: Sequence[int] | None, ranks: Sequence[int], fit: Fit) -> str:
        names = [
            v.name
            for v in self.values.values()
            if not v.held
            and not v.constant
            and v.array.dtype.name in dtypes
            and (v.array.ndim in ranks if shape is None else v.array.shape == tuple(shape))
            and fit(v.array)
        ]
        if not names:
            raise UnfitError("nothing fits")
        return names[-1] if self.draw.chance(0.5) else self.draw.of(names)

    def input_pair(self, shape: Sequence[int]) -> str:
        """Adds a float input of the model with QuantizeLinear and DequantizeLinear, or an integer input with
        DequantizeLinear; returns the name of the dequantized tensor.
        """
        if self.draw.chance(0.15):
            limits = np.iinfo(self.kind)
            integers = self.draw.rng.integers(limits.min, limits.max + 1, tuple(shape)).astype(self.kind)
            scale, zero = self._grid(1.0)
            name = self.new(integers, constant=False, held=True)
            (made,) = super().node(DEQUANTIZE, [name, scale, zero])
            self.scales[made] = scale
            return made
        name = self.new(self.draw.rng.normal(size=tuple(shape)).astype(np.float32), constant=False, held=True)
        return self.pair(name)

    def pair(self, name: str, *, steps: float = 0.0, grid: tuple[str, str] | None = None) -> str:
        """Adds a QuantizeLinear and a DequantizeLinear for the tensor `name`, and sometimes a second DequantizeLinear
        with another scale and zero point; returns the name of the last dequantized tensor. `steps`: by how much the
        quantized integers may differ from the expected ones. `grid`: the names of the scale and the zero point (None:
        new ones).
        """
        largest = float(np.abs(self.array(name)).max(initial=0)) or 1.0
        scale, zero = grid or self._grid(largest)
        (integers,) = super().node(QUANTIZE, [name, scale, zero])
        quantized = self.values[integers]
        spread = Spread(np.maximum(quantized.spread.array, steps))
        self.values[integers] = replace(quantized, spread=spread)
        (made,) = super().node(DEQUANTIZE, [integers, scale, zero])
        self.values[integers] = replace(self.values[integers], held=True)
        self.scales[made] = scale
        return self.reread(made) if self.draw.chance(REREAD) else made

    def reread(self, name: str) -> str:
        """Adds a second DequantizeLinear of the integers of the dequantized tensor `name`, with another zero point and
        sometimes another scale; returns the name of the result, or `name` if no DequantizeLinear computes this tensor.
        Sometimes no other node reads `name` from then on.
        """
        node = self._maker(name)
        if node is None or node.op_type != DEQUANTIZE.name:
            return name
        scale, zero = self._grid(float(np.abs(self.array(name)).max(initial=0)) or 1.0)
        scale = node.input[1] if self.draw.chance(0.5) else scale
        (made,) = super().node(DEQUANTIZE, [node.input[0], scale, zero])
        self.scales[made] = scale
        self.values[name] = replace(self.values[name], held=self.draw.chance(0.5))
        return made

    def _maker(self, name: str) -> onnx.NodeProto | None:
        """The node that computes the tensor `name`; None for an input or a constant."""
        return next((node for node in self.nodes if name in node.output), None)

    def _moved_grid(self, name: str) -> tuple[str, str] | None:
        """Names of the scale and the zero point of the quantized tensor from which the tensor `name` is made by
        operators that only move or pool elements. None if other operators compute `name`.
        """
        while (node := self._maker(name)) is not None and node.op_type in MOVES:
            name = node.input[0]
        found = node is not None and node.op_type == DEQUANTIZE.name and len(node.input) == 3
        return (node.input[1], node.input[2]) if node is not None and found else None

    def weight(self, shape: Sequence[int], *, channel: int | None = None, spread: float = 1.0) -> str:
        """Adds random constant int8 or uint8 weights of `shape` and a DequantizeLinear, with one scale for all weights
        (`channel` None, or opset below 13) or one for each index of axis `channel`; returns the name of the dequantized
        tensor. `spread`: factor by which scales are larger than usual.
        """
        many = () if channel is None or self.opset < 13 else (shape[channel],)
        scales = self.draw.rng.uniform(0.005, 0.01, many).astype(np.float32) * np.float32(spread)
        kind = "int8" if self.kind == "int8" or self.draw.chance(0.85) else "uint8"
        limits = np.iinfo(kind)
        integers = self.draw.rng.integers(max(limits.min, -127), limits.max + 1, tuple(shape)).astype(kind)
        zeros = np.zeros(many, kind) if kind == "int8" else np.full(many, 128, kind)
        names = [self.new(array, constant=True) for array in (integers, scales, zeros)]
        self.scales[names[0]] = names[1]
        attributes = {"axis": channel} if many else {}
        return self.constants_alone(DEQUANTIZE, names, scale=names[1], **attributes)

    def bias(self, data: str, weights: str, count: int) -> str:
        """Adds `count` constant int32 biases, whose scale is the product of the scales of the dequantized tensors
        `data` and `weights`, and a DequantizeLinear. If `data` or `weights` has no scale, adds float biases. Returns
        the name of the float tensor.
        """
        first, second = self.scales.get(data), self.scales.get(weights)
        if first is None or second is None:
            return self.new(self.draw.rng.normal(size=count).astype(np.float32), constant=True)
        scales = self.array(first) * self.array(second)
        integers = self.draw.rng.integers(-400, 400, count).astype(np.int32)
        many = scales.ndim and scales.size > 1
        names = [self.new(integers, constant=True), self.new(np.asarray(scales, np.float32), constant=True)]
        return self.constants_alone(DEQUANTIZE, names, scale=names[1], **({"axis": 0} if many else {}))

    def constants_alone(
        self, operator: Operator, names: Sequence[str], *, scale: str, **attributes: Any
    ) -> str:
        """Adds a node of `operator` whose inputs `names` are all constants, for example a transposition of weights, and
        notes the tensor named `scale` as the scale of its output; returns the output's name.
        """
        for _ in range(200):
            try:
                (made,) = super().node(operator, names, **attributes)
            except UnfitError as error:
                if "constants alone" not in str(error):
                    raise
                continue
            self.scales[made] = scale
            self.values[made] = replace(self.values[made], held=True)
            return made
        raise UnfitError("of constants alone")

    def _grid(self, largest: float) -> tuple[str, str]:
        limits = np.iinfo(self.kind)
        middle = 128 if self.kind == "uint8" else 0
        zero = (
            middle if self.draw.chance(0.5) else self.draw.below(120) + (60 if self.kind == "uint8" else -60)
        )
        scale = largest / 110 * self.draw.rng.uniform(0.7, 1.4)
        if self.kind == "int8" and self.draw.chance(0.5):
            zero = 0
        assert limits.min <= zero <= limits.max
        return (
            self.new(np.asarray(scale, np.float32), constant=True),
            self.new(np.asarray(zero, self.kind), constant=True),
        )

    def node(
        self, operator: Operator, inputs: Sequence[str], *, outputs: int = 1, **attributes: Any
    ) -> list[str]:
        """Adds a node, as `Builder.node` does, and a QuantizeLinear and DequantizeLinear after most of its float32
        results. Returns the names of the node's own outputs, not of the dequantized tensors.
        """
        names = super().node(operator, inputs, outputs=outputs, **attributes)
        if operator in (QUANTIZE, DEQUANTIZE):
            return names
        for name in names:
            array = self.values[name].array
            usable = array.dtype == np.float32 and bool(array.size) and bool(np.isfinite(array).all())
            if usable and self.draw.chance(self.paired):
                grid = self._moved_grid(name) if self.draw.chance(KEPT) else None
                self.pair(name, steps=1.0 if operator.name in TWO_ROUNDINGS else 0.0, grid=grid)
                self.values[name] = replace(self.values[name], held=True)
        return names

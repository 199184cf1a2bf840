"""The conversion of one TFLite operator: its tensors and options, and functions that add ONNX nodes for its output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import tflite
from onnx import helper

from .flatbuffer import damaged
from .model import Grid, Operator, Tensor
from .writer import PLANE_AXES, TO_PLANES, Writer, refuse

_KINDS = tflite.ActivationFunctionType
BOUNDS: Mapping[int, tuple[float, float]] = MappingProxyType(
    {
        _KINDS.NONE: (-np.inf, np.inf),
        _KINDS.RELU: (0.0, np.inf),
        _KINDS.RELU_N1_TO_1: (-1.0, 1.0),
        _KINDS.RELU6: (0.0, 6.0),
    }
)
"""Limits (least, largest) to which a fused activation clamps, by the activation's number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The conversion of one TFLite operator, `operator`, to ONNX nodes, which `writer` collects. `onnx`: the ONNX
    operator that the table of conversions (`rows.py`) names, or "". `options`: the operator's options (None: not read).
    `inputs`: numbers of its input tensors (-1: left out); `output`: number of its first output tensor.

    Several methods have a parameter `planes`: whether a value has the layout (N, C, H, W) instead of (N, H, W, C).
    """

    writer: Writer
    operator: Operator
    onnx: str
    options: Any
    inputs: tuple[int, ...]
    output: int

    @property
    def activation(self) -> int:
        """The number of the operator's fused activation; 0 if it has none."""
        fused = getattr(self.options, "FusedActivationFunction", None)
        return fused() if fused else 0

    @property
    def name(self) -> str:
        """Name for the real values of the operator's result. It is "TENSOR/exact" if a fused activation or a
        quantization follows, else the name of the output tensor itself.
        """
        name, plain = self.tensor(self.output).name, not self.writer.quantized(self.output)
        return name if plain and not self.activation else f"{name}/exact"

    def tensor(self, index: int) -> Tensor:
        """The TFLite tensor of this index."""
        return self.writer.network.tensors[index]

    def shape(self, index: int) -> tuple[int, ...]:
        """The shape of a tensor in TFLite's order."""
        return self.tensor(index).shape

    def quantized(self, *indices: int) -> bool:
        """Whether all tensors with these `indices` are quantized."""
        return all(self.tensor(index).grid is not None for index in indices)

    def numbers(self, place: int, role: str) -> np.ndarray:
        """The constant values of the operator's input at `place`, flat; `role` names them in messages."""
        return self.writer.values(self.inputs[place], role).reshape(-1)

    def constant(self, values: Any, part: str, dtype: Any = None) -> str:
        """Adds a constant called "NAME/part", where NAME is the operator's `name`; returns its name."""
        return self.writer.constant(np.array(values, dtype), f"{self.name}/{part}")

    def node(self, op_type: str, inputs: Sequence[str], part: str = "", **attributes: Any) -> str:
        """Adds a node; returns the name of its output: "NAME/part", where NAME is the operator's `name`, or NAME
        without a `part`.
        """
        return self.writer.node(op_type, inputs, f"{self.name}/{part}".rstrip("/"), **attributes)

    def axis(self, index: int, axis: int, planes: bool = False) -> int:
        """Converts TFLite's `axis` of tensor `index`, which may be negative, to an axis of 0 or more. With `planes`,
        the result is the axis in the layout (N, C, H, W).
        """
        rank = self.writer.rank(index)
        if not -rank <= axis < rank:
            raise damaged(f"tensor '{self.tensor(index).name}' has no axis {axis}")
        return PLANE_AXES[axis % rank] if planes else axis % rank

    def operands(self, inputs: Sequence[int] | None = None) -> tuple[list[str], bool]:
        """The names of the real values of `inputs` (by default all inputs), all in one layout; and whether this layout
        is planes, (N, C, H, W).
        """
        inputs = self.inputs if inputs is None else inputs
        if not inputs:
            raise IndexError("an operator has no inputs")
        planes = self.writer.prefer_planes(inputs)
        return [self._aligned(index, planes) for index in inputs], planes

    def _aligned(self, index: int, planes: bool) -> str:
        """The name of an operand's real values, in the layout (N, C, H, W) if `planes`. A constant of 1 to 3 axes first
        gets leading axes of size 1, to be (N, H, W, C), so that it broadcasts as in TFLite.
        """
        tensor, array = self.tensor(index), self.writer.known(index)
        if not planes or array is None or array.ndim in (0, 4):
            return self.writer.real(index, planes=planes)
        image = array.reshape((1,) * (4 - array.ndim) + array.shape).transpose(TO_PLANES)
        name = self.writer.constant(image, tensor.name)
        if tensor.grid is None:
            return name
        if not tensor.grid.one:
            refuse(f"its constant '{tensor.name}' has a scale for each channel", "quantize it with one scale")
        return self.writer.dequantized(name, tensor.grid, f"{tensor.name}/real", array.dtype)

    def cast(self, name: str, part: str = "") -> str:
        """Adds a conversion of the value `name` to the element type of the output; returns the name of the result."""
        to = helper.np_dtype_to_tensor_dtype(np.dtype(self.tensor(self.output).dtype.name))
        return self.node("Cast", [name], part, to=to)

    def put(self, name: str, planes: bool = False) -> None:
        """Applies the fused activation to the value `name`, and makes the result the value of the output."""
        tensor = self.tensor(self.output)
        if self.activation == _KINDS.TANH:
            name = self.writer.node("Tanh", [name], f"{tensor.name}/tanh")
        else:
            name = self.clamped(name, *self.bounds(), tensor.grid)
        self.writer.put(self.output, name, planes=planes)

    def bounds(self) -> tuple[float, float]:
        """The limits (least, largest) to which the fused activation clamps. Raises RefusedOperator for TANH and
        SIGN_BIT.
        """
        if self.activation in (_KINDS.TANH, _KINDS.SIGN_BIT):
            refuse("has the fused activation TANH or SIGN_BIT", "use an operator of its own")
        if self.activation not in BOUNDS:
            raise damaged(f"an operator has the unknown fused activation {self.activation}")
        return BOUNDS[self.activation]

    def clamped(self, name: str, low: float, high: float, grid: Grid | None) -> str:
        """Clamps the value `name` to low .. high; returns the result's name. A limit outside of the range that the
        output's quantization `grid` can represent is left out; without any limit no node is added.
        """
        tensor = self.tensor(self.output)
        if grid is not None and grid.one:
            limits, scale = np.iinfo(tensor.dtype), np.float64(grid.scale[0])
            least, most = ((end - grid.zero[0]) * scale for end in (limits.min, limits.max))
            low, high = (-np.inf if low <= least else low), (np.inf if high >= most else high)
        if (low, high) == (-np.inf, np.inf):
            return name
        if (low, high) == (0.0, np.inf):
            return self.writer.node("Relu", [name], f"{tensor.name}/clamped")
        ends = [
            "" if np.isinf(end) else self.writer.constant(np.array(end, np.float32), f"{tensor.name}/bound")
            for end in (low, high)
        ]
        return self.writer.node("Clip", [name, *ends], f"{tensor.name}/clamped")

    def same_type(self) -> bool:
        """Whether the first input and the output have the same type and, if quantized, the same quantization."""
        a, b = self.tensor(self.inputs[0]), self.tensor(self.output)
        if a.dtype != b.dtype or a.grid is None or b.grid is None:
            return a.dtype == b.dtype and a.grid is b.grid
        return np.array_equal(a.grid.scale, b.grid.scale) and np.array_equal(a.grid.zero, b.grid.zero)

    def same_integers(self) -> bool:
        """Whether the output can have the stored integers of the first input, a quantized activation, unchanged."""
        source = self.inputs[0]
        return self.writer.quantized(source) and self.writer.known(source) is None and self.same_type()

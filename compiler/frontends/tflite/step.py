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
from .model import Operator, Tensor
from .writer import PLANE_AXES, Writer, refuse

_KINDS = tflite.ActivationFunctionType
_ENDS = {"RELU": (0.0, np.inf), "RELU_N1_TO_1": (-1.0, 1.0), "RELU_0_TO_1": (0.0, 1.0), "RELU6": (0.0, 6.0)}
RANGES: Mapping[str, tuple[float, float]] = MappingProxyType({"NONE": (-np.inf, np.inf), **_ENDS})
"""Limits (least, largest) of the results of RELU and its variants. Without an activation ("NONE") there are no limits.
"""
BOUNDS: Mapping[int, tuple[float, float]] = MappingProxyType(
    {getattr(_KINDS, name): ends for name, ends in RANGES.items() if hasattr(_KINDS, name)}
)
"""Limits (least, largest) to which a fused activation clamps, by the activation's number."""


@dataclass(slots=True)
class Step:
    """The conversion of one TFLite operator, `operator`, to ONNX nodes, which `writer` collects. `onnx`: the ONNX
    operator that the table of conversions (`rows.py`) names, or "". `options`: the operator's options (None: not read).
    `inputs`: numbers of its input tensors (-1: left out); `output`: number of its first output tensor. `planes`:
    whether images are read and written as (N, C, H, W) instead of (N, H, W, C).
    """

    writer: Writer
    operator: Operator
    onnx: str
    options: Any
    inputs: tuple[int, ...]
    output: int
    planes: bool

    @property
    def activation(self) -> int:
        """The number of the operator's fused activation; 0 if it has none."""
        fused = getattr(self.options, "FusedActivationFunction", None)
        return fused() if fused else 0

    @property
    def name(self) -> str:
        """Name for the real values of the operator's result. This is "TENSOR/exact" if they then pass a fused
        activation or a quantization, else the name of the output tensor itself.
        """
        tensor = self.tensor(self.output)
        return tensor.name if tensor.grid is None and not self.activation else f"{tensor.name}/exact"

    def tensor(self, index: int) -> Tensor:
        """The TFLite tensor with the number `index` in the subgraph."""
        return self.writer.network.tensors[index]

    def shape(self, index: int) -> tuple[int, ...]:
        """The shape of the tensor with the number `index`, in TFLite's order."""
        return self.tensor(index).shape

    def present(self, place: int | None) -> int | None:
        """`place` if the operator has an input at this place; None if it has none, or if the input is left out."""
        return place if place is not None and (*self.inputs, -1)[place : place + 1] > (-1,) else None

    def operand(self, place: int = 0, stored: bool = False) -> str:
        """The name of the values of the operator's input at `place`: real values or, if `stored`, the integers of a
        quantized tensor.
        """
        return self.writer.value(self.inputs[place], self.planes, stored)

    def operands(self) -> list[str]:
        """The names of the real values of all inputs."""
        return [self.operand(place) for place in range(len(self.inputs))]

    def numbers(self, place: int, role: str) -> np.ndarray:
        """The values of the operator's input at `place`, which must be a constant; `role` names them in messages.
        Raises RefusedOperator.
        """
        array = self.writer.known(self.inputs[place])
        if array is None:
            name = self.tensor(self.inputs[place]).name
            refuse(f"its {role} '{name}' is computed by the model", "make it a constant")
        return array

    def reals(self, place: int, role: str) -> np.ndarray:
        """The values of the constant input at `place` as float32, dequantized where the tensor is quantized."""
        array, grid = self.numbers(place, role).astype(np.float32), self.tensor(self.inputs[place]).grid
        if grid is None:
            return array
        shape = () if grid.one else [-1 if axis == grid.axis else 1 for axis in range(array.ndim)]
        return (array - grid.zero.reshape(shape)).astype(np.float32) * grid.scale.reshape(shape)

    def constant(self, values: Any, part: str, dtype: Any = np.int64) -> str:
        """Adds the constant `values`, of numpy type `dtype`, called "NAME/part", where NAME is `self.name`; returns its
        name.
        """
        return self.writer.constant(np.array(values, dtype), f"{self.name}/{part}")

    def node(self, op_type: str, inputs: Sequence[str], part: str = "", **attributes: Any) -> str:
        """Adds a node with the inputs called `inputs`; returns the name of its output. This name is "NAME/part" or,
        without a `part`, NAME. NAME stands for `self.name`.
        """
        return self.writer.node(op_type, inputs, f"{self.name}/{part}".rstrip("/"), **attributes)

    def axis(self, index: int, axis: int) -> int:
        """Converts TFLite's `axis` of tensor `index`, which may be negative, to an axis of 0 or more in the layout that
        the operator reads.
        """
        rank = len(self.shape(index))
        if not -rank <= axis < rank:
            raise damaged(f"tensor '{self.tensor(index).name}' has no axis {axis}")
        return PLANE_AXES[axis % rank] if self.planes else axis % rank

    def cast(self, name: str) -> str:
        """Adds a conversion of the value `name` to the element type of the output; returns the name of the result."""
        to = helper.np_dtype_to_tensor_dtype(np.dtype(self.tensor(self.output).dtype.name))
        return self.node("Cast", [name], to=to)

    def put(self, name: str, *, stored: bool = False, output: int | None = None) -> None:
        """Writes the value `name` as the tensor with the number `output` (default: the operator's first output). First
        applies the fused activation, and quantizes the result if the tensor is quantized. If `stored`, `name` already
        has the tensor's final integers, and neither step is done.
        """
        output = self.output if output is None else output
        tensor = self.tensor(output)
        if not stored:
            if self.activation == _KINDS.TANH:
                name = self.writer.node("Tanh", [name], f"{tensor.name}/tanh")
            else:
                name = self.clamped(name, *self.bounds())
            if tensor.grid is not None and not tensor.grid.one:
                refuse(f"its result '{tensor.name}' has several scales", "convert the model again")
            if tensor.grid is not None:
                name = self.writer.scaled("QuantizeLinear", name, tensor.grid, tensor.name, tensor.dtype)
        self.writer.values[output, self.planes and len(tensor.shape) == 4, tensor.grid is not None] = name

    def bounds(self) -> tuple[float, float]:
        """The limits (least, largest) to which the fused activation clamps. Raises RefusedOperator for an activation
        without limits.
        """
        if self.activation not in BOUNDS:
            refuse(f"has the fused activation {self.activation} (4: TANH)", "use an operator of its own")
        return BOUNDS[self.activation]

    def clamped(self, name: str, low: float, high: float) -> str:
        """Clamps the value `name` to low .. high; returns the result's name. An infinite limit does not clamp."""
        tensor = self.tensor(self.output)
        if (low, high) == (-np.inf, np.inf):
            return name
        if (low, high) == (0.0, np.inf):
            return self.writer.node("Relu", [name], f"{tensor.name}/clamped")
        ends = ["" if np.isinf(end) else self.constant(end, "bound", np.float32) for end in (low, high)]
        return self.writer.node("Clip", [name, *ends], f"{tensor.name}/clamped")

    def same_type(self, first: int, second: int) -> bool:
        """Whether the tensors numbered `first` and `second` have the same element type and, if quantized, the same
        quantization.
        """
        a, b = self.tensor(first), self.tensor(second)
        grids = [grid and (grid.scale.tolist(), grid.zero.tolist()) for grid in (a.grid, b.grid)]
        return a.dtype == b.dtype and grids[0] == grids[1]

    def move(self, op_type: str, *numbers: Any, **attributes: Any) -> None:
        """Converts an operator that only moves elements of its first input to the ONNX operator `op_type`, which also
        reads the constants `numbers`. If input and output have the same quantization, stored integers are moved.
        """
        stored = self.same_type(self.inputs[0], self.output)
        constants = [self.constant(array, "numbers") for array in numbers]
        self.put(self.node(op_type, [self.operand(0, stored), *constants], **attributes), stored=stored)

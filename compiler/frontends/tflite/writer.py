"""The ONNX model under construction when a TFLite model is converted: nodes, and TFLite's tensors in two layouts.

An image tensor is (N, H, W, C) in TFLite ("rows") and (N, C, H, W) in ONNX ("planes"). `Writer` makes the tensor of a
layout when an operator first reads it in this layout. Tensors of other ranks have one layout. A quantized tensor is two
ONNX tensors: its integers, and the floats that a DequantizeLinear makes of them, on which the operators compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .model import Grid, Network, Tensor

TO_PLANES, TO_ROWS = (0, 3, 1, 2), (0, 2, 3, 1)
"""Permutations of axes, for Transpose: from (N, H, W, C) to (N, C, H, W), and back."""
PLANE_AXES = (0, 2, 3, 1)
"""For each axis of (N, H, W, C) the same axis in (N, C, H, W)."""
OPSET, WIDE_OPSET = 20, 21
"""The opset of the written models, and the first opset with QuantizeLinear to 16 bits, for models that need it."""


class RefusedOperator(Exception):
    """Raised for an operator, or a variant of one, that is not converted; the message is "problem; remedy"."""


def refuse(problem: str, way_out: str) -> NoReturn:
    """Raises RefusedOperator with the message "`problem`; `way_out`"."""
    raise RefusedOperator(f"{problem}; {way_out}")


@dataclass(slots=True, kw_only=True)
class Writer:
    """The ONNX model under construction. `reals`: names of float tensors that hold the values of TFLite's tensors;
    `integers`: names of integer tensors that hold the integers of TFLite's quantized tensors. The keys of both are
    (number of the TFLite tensor, whether the layout is (N, C, H, W)).
    """

    network: Network
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)
    reals: dict[tuple[int, bool], str] = field(default_factory=dict)
    integers: dict[tuple[int, bool], str] = field(default_factory=dict)
    constants: dict[int, np.ndarray] = field(default_factory=dict)
    columns: dict[int, np.ndarray] = field(default_factory=dict)
    """For each tensor that is an image flattened as (C, H, W), an array with the position of each element in TFLite's
    order (H, W, C). The keys are numbers of tensors.
    """
    taken: set[str] = field(default_factory=set)
    node_names: set[str] = field(default_factory=set)
    outputs: set[str] = field(default_factory=set)
    """Names of the model's outputs that already have a value."""

    def tensor(self, index: int) -> Tensor:
        """The TFLite tensor of this index."""
        return self.network.tensors[index]

    def name(self, wanted: str) -> str:
        """`wanted` or, if that name is taken, `wanted` with a number. No name is returned twice."""
        return _unused(wanted, self.taken)

    def constant(self, array: np.ndarray, name: str) -> str:
        """Adds `array` as an initializer; returns its name, which is `name` made unique."""
        name = self.name(name)
        self.initializers.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def node(self, op_type: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Adds a node; returns the name of its output, `output` made unique."""
        output = self.name(output)
        self.add(op_type, inputs, [output], **attributes)
        return output

    def add(self, op_type: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> None:
        """Adds a node with outputs of these names. The node has the name of the TFLite tensor that it computes. Nodes
        that the file does not have (conversions and changes of layout) are named by this tensor and their operator.
        """
        whole = outputs[0].removesuffix("/exact")
        added = op_type in ("QuantizeLinear", "DequantizeLinear", "Transpose", "Reshape")
        name = _unused(f"{whole.removesuffix('/real')}/{op_type}" if added else whole, self.node_names)
        self.nodes.append(helper.make_node(op_type, inputs, outputs, name=name, **attributes))

    def reshaped(self, name: str, shape: Sequence[int], output: str) -> str:
        """Adds a Reshape of the value `name`; returns the name of its output."""
        numbers = self.constant(np.array(shape, np.int64), f"{output}/shape")
        return self.node("Reshape", [name, numbers], output)

    def exchange(self, first: str, second: str) -> None:
        """Exchanges two names of values in all nodes and initializers."""
        other = {first: second, second: first}
        for node in self.nodes:
            for names in (node.input, node.output):
                names[:] = [other.get(name, name) for name in names]
        for tensor in self.initializers:
            tensor.name = other.get(tensor.name, tensor.name)

    # Values of tensors.

    def known(self, index: int) -> np.ndarray | None:
        """The values of a constant tensor in TFLite's order, integers if it is quantized; None for an activation."""
        return self.constants.get(index, self.tensor(index).data)

    def values(self, index: int, role: str) -> np.ndarray:
        """The values of a tensor that must be constant; `role` names them in messages. Raises RefusedOperator."""
        array = self.known(index)
        if array is None:
            refuse(f"its {role} '{self.tensor(index).name}' is computed by the model", "make it a constant")
        return array

    def real_values(self, index: int, role: str) -> np.ndarray:
        """The values of a constant tensor as float32, dequantized where it is quantized. Raises RefusedOperator."""
        array, grid = self.values(index, role), self.tensor(index).grid
        if grid is None:
            return array.astype(np.float32)
        shape = () if grid.one else [-1 if axis == grid.axis else 1 for axis in range(array.ndim)]
        return (array.astype(np.float32) - grid.zero.reshape(shape)).astype(np.float32) * grid.scale.reshape(
            shape
        )

    def rank(self, index: int) -> int:
        """Number of dimensions of a tensor."""
        return len(self.tensor(index).shape)

    def quantized(self, index: int) -> bool:
        """Whether a tensor consists of integers with a scale."""
        return self.tensor(index).grid is not None

    def in_planes(self, index: int) -> bool:
        """Whether an activation already has its value as planes (N, C, H, W), or is an image input of a network with
        convolutions or pools.
        """
        given = index in self.network.inputs and self.rank(index) == 4 and self.network.has_windows
        return given or (index, True) in self.integers or (index, True) in self.reals

    def prefer_planes(self, indices: Sequence[int]) -> bool:
        """Whether an element-wise operator on the tensors `indices` reads its operands in the layout of planes, (N, C,
        H, W). This is so if one activation already exists in this layout, and all activations are images or scalars.
        """
        activations = [index for index in indices if self.known(index) is None]
        return any(self.in_planes(index) for index in activations) and all(
            self.rank(index) in (0, 4) for index in activations
        )

    def real(self, index: int, *, planes: bool = False) -> str:
        """The name of a tensor's real values (or integers, if it has no scale), as planes (N, C, H, W) or as rows."""
        planes = planes and self.rank(index) == 4
        key = (index, planes)
        if key in self.reals:
            return self.reals[key]
        tensor, array = self.tensor(index), self.known(index)
        if array is not None:
            name = self.constant(array.transpose(TO_PLANES) if planes else array, tensor.name)
            if tensor.grid is not None:
                axis = PLANE_AXES[tensor.grid.axis % 4] if planes else tensor.grid.axis
                name = self.dequantized(name, tensor.grid, f"{tensor.name}/real", array.dtype, axis)
            self.reals[key] = name
        elif tensor.grid is not None and {key, (index, not planes)} & self.integers.keys():
            integers = self.integral(index, planes=planes)
            self.reals[key] = self.dequantized(integers, tensor.grid, f"{tensor.name}/real", tensor.dtype)
        else:
            other = self.reals[index, not planes]
            self.reals[key] = self.turned(other, tensor, planes, tensor.name)
        return self.reals[key]

    def integral(self, index: int, *, planes: bool = False) -> str:
        """The name of the integers of a quantized activation, as planes (N, C, H, W) or as rows."""
        planes = planes and self.rank(index) == 4
        key = (index, planes)
        if key not in self.integers:
            other, tensor = self.integers[index, not planes], self.tensor(index)
            self.integers[key] = self.turned(other, tensor, planes, tensor.name)
        return self.integers[key]

    def turned(self, name: str, tensor: Tensor, planes: bool, output: str) -> str:
        """Converts an image `name` from (N, H, W, C) to (N, C, H, W) if `planes`, else from (N, C, H, W) to (N, H, W,
        C). Returns the name of the result. The conversion is a Transpose; where no element moves it is a Reshape
        instead, except for inputs of the model.
        """
        batch, height, width, channels = tensor.shape
        given = any(self.tensor(index) is tensor for index in self.network.inputs)
        if not given and (channels == 1 or height * width == 1):
            shape = (batch, channels, height, width) if planes else tensor.shape
            return self.reshaped(name, shape, output)
        return self.node("Transpose", [name], output, perm=TO_PLANES if planes else TO_ROWS)

    def dequantized(self, name: str, grid: Grid, output: str, dtype: np.dtype[Any], axis: int = 0) -> str:
        """Adds a DequantizeLinear of the integers `name`; returns the name of the real values. `axis`: the axis of
        `name` to which several scales belong.
        """
        operands = [name, *self.scales(grid, output.removesuffix("/real"), dtype)]
        more = {} if grid.one else {"axis": axis}
        return self.node("DequantizeLinear", operands, output, **more)

    def scales(self, grid: Grid, name: str, dtype: np.dtype[Any]) -> tuple[str, str]:
        """Adds scale and zero point (of type `dtype`) of a quantization as constants; returns both names."""
        scale, zero = (grid.scale[0], grid.zero[0]) if grid.one else (grid.scale, grid.zero)
        zero_name = self.constant(np.asarray(zero).astype(dtype), f"{name}/zero")
        return self.constant(np.asarray(scale), f"{name}/scale"), zero_name

    def put(self, index: int, name: str, *, planes: bool = False) -> None:
        """Makes `name` the real values of tensor `index`, in the layout (N, C, H, W) if `planes`. If the tensor is
        quantized, a QuantizeLinear is added.
        """
        tensor = self.tensor(index)
        planes = planes and len(tensor.shape) == 4
        if tensor.grid is None:
            self.reals[index, planes] = name
            return
        if not tensor.grid.one:
            refuse(f"its result '{tensor.name}' has several scales", "convert the model again")
        self.integers[index, planes] = self.quantized_node(name, tensor.grid, tensor)

    def quantized_node(self, name: str, grid: Grid, tensor: Tensor) -> str:
        """Adds a QuantizeLinear of the real values `name` with `grid`; returns the name of the integers, which is the
        tensor's.
        """
        return self.node("QuantizeLinear", [name, *self.scales(grid, tensor.name, tensor.dtype)], tensor.name)

    def put_integers(self, index: int, name: str, *, planes: bool = False) -> None:
        """Makes `name` the integers of the quantized tensor `index`, in the layout (N, C, H, W) if `planes`."""
        self.integers[index, planes and self.rank(index) == 4] = name


def _unused(wanted: str, taken: set[str]) -> str:
    """`wanted` or, if it is in `taken`, `wanted` with a number; the name is added to `taken`."""
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}#{number}", number + 1
    taken.add(name)
    return name

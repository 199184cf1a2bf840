"""Collects the ONNX model while a TFLite model is converted: nodes, and TFLite's tensors in two layouts.

An image tensor is (N, H, W, C) in TFLite ("rows") and (N, C, H, W) in ONNX ("planes"). When an operator first reads a
tensor in one of the layouts, `Writer` adds the tensor in this layout. Tensors of other ranks have one layout. A
quantized tensor becomes two ONNX tensors: its integers, and the floats that a DequantizeLinear computes from them.
Operators compute on the floats.
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


class RefusedOperator(Exception):
    """Raised for an operator, or a variant of one, that is not converted; the message is "problem; remedy"."""


def refuse(problem: str, way_out: str) -> NoReturn:
    """Raises RefusedOperator with the message "`problem`; `way_out`"."""
    raise RefusedOperator(f"{problem}; {way_out}")


@dataclass(slots=True, kw_only=True)
class Writer:
    """The ONNX model under construction. `values`: names of the ONNX tensors that hold TFLite's tensors. The keys are
    (number of the TFLite tensor, whether the layout is (N, C, H, W), whether the ONNX tensor holds the integers of a
    quantized tensor). `constants`: values of tensors that the conversion itself computed.
    """

    network: Network
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)
    values: dict[tuple[int, bool, bool], str] = field(default_factory=dict)
    constants: dict[int, np.ndarray] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    node_names: set[str] = field(default_factory=set)

    def name(self, wanted: str) -> str:
        """`wanted` or, if that name is taken, `wanted` with a number. No name is returned twice."""
        return _unused(wanted, self.taken)

    def constant(self, array: np.ndarray, name: str) -> str:
        """Adds `array` as an initializer; returns its name, which is `name` made unique."""
        name = self.name(name)
        self.initializers.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def node(self, op_type: str, inputs: Sequence[str], *outputs: str, **attributes: Any) -> str:
        """Adds a node that reads the tensors `inputs`; returns the name of its first output. The outputs are called
        `outputs`, with numbers appended to names that are taken.

        The node has the name of the TFLite tensor that it computes. Nodes that the file does not have (conversions and
        changes of layout) are named by this tensor and their operator.
        """
        whole = outputs[0].removesuffix("/exact")
        added = op_type in ("QuantizeLinear", "DequantizeLinear", "Transpose", "Reshape")
        name = _unused(f"{whole.removesuffix('/real')}/{op_type}" if added else whole, self.node_names)
        outputs = tuple(self.name(output) for output in outputs)
        self.nodes.append(helper.make_node(op_type, inputs, outputs, name=name, **attributes))
        return outputs[0]

    def reshaped(self, name: str, shape: Sequence[int], output: str) -> str:
        """Adds a Reshape of the value `name`; returns the name of its output."""
        numbers = self.constant(np.array(shape, np.int64), f"{output}/shape")
        return self.node("Reshape", [name, numbers], output)

    def known(self, index: int) -> np.ndarray | None:
        """The values of the constant tensor with the number `index`, with axes as in TFLite; integers if the tensor is
        quantized. Returns None if the tensor is not constant.
        """
        return self.constants.get(index, self.network.tensors[index].data)

    def in_planes(self, index: int) -> bool:
        """Whether tensor number `index` is already stored as planes (N, C, H, W). Also true for an image input of a
        network with convolutions or pools.
        """
        if index in self.network.inputs and len(self.network.tensors[index].shape) == 4:
            windows = ("CONV_2D", "POOL_2D", "TRANSPOSE_CONV")
            return any(operator.kind.endswith(windows) for operator in self.network.operators)
        return (index, True, True) in self.values or (index, True, False) in self.values

    def prefer_planes(self, indices: Sequence[int]) -> bool:
        """An operator can read its operands, the tensors `indices`, in both layouts. Returns whether it reads them as
        planes, (N, C, H, W). This is so if one activation already exists in this layout, and all activations are images
        or scalars.
        """
        activations = [index for index in indices if index >= 0 and self.known(index) is None]
        images = all(len(self.network.tensors[index].shape) in (0, 4) for index in activations)
        return images and any(self.in_planes(index) for index in activations)

    def value(self, index: int, planes: bool = False, stored: bool = False) -> str:
        """The name of the values of tensor number `index`. With `planes` they are in the layout (N, C, H, W), else in
        rows. With `stored` they are the integers of a quantized tensor, else real values. If a constant of fewer than
        four axes is read as planes, it gets leading axes of size 1, so that it broadcasts as in TFLite.
        """
        tensor, array = self.network.tensors[index], self.known(index)
        rank, grid = len(tensor.shape), tensor.grid
        planes, stored = (
            planes and (rank == 4 or (rank > 0 and array is not None)),
            stored and grid is not None,
        )
        key = (index, planes, stored)
        if key in self.values:
            return self.values[key]
        if grid is not None and not stored:
            axis = PLANE_AXES[grid.axis + 4 - rank] if planes else grid.axis
            dtype = tensor.dtype if array is None else array.dtype
            integers = self.value(index, planes, True)
            name = self.scaled("DequantizeLinear", integers, grid, f"{tensor.name}/real", dtype, axis)
        elif array is None:
            name = self._turned(self.values[index, not planes, stored], tensor, planes)
        else:
            image = array.reshape((1,) * (4 - rank) + array.shape).transpose(TO_PLANES) if planes else array
            name = self.constant(image, tensor.name)
        self.values[key] = name
        return name

    def _turned(self, name: str, tensor: Tensor, planes: bool) -> str:
        """Converts an image `name` to (N, C, H, W) if `planes`, else to (N, H, W, C). Returns the name of the result.
        The conversion is a Transpose. If no element moves, it is a Reshape instead, except for inputs of the model.
        """
        batch, height, width, channels = tensor.shape
        given = any(self.network.tensors[index] is tensor for index in self.network.inputs)
        if not given and (channels == 1 or height * width == 1):
            shape = (batch, channels, height, width) if planes else tensor.shape
            return self.reshaped(name, shape, tensor.name)
        return self.node("Transpose", [name], tensor.name, perm=TO_PLANES if planes else TO_ROWS)

    def scaled(
        self, op_type: str, name: str, grid: Grid, output: str, dtype: np.dtype[Any], axis: int = 0
    ) -> str:
        """Adds a DequantizeLinear or QuantizeLinear (`op_type`) of the value `name`; returns the name of its output. It
        converts between integers of type `dtype` and real values, by the scales of `grid`. `axis`: the axis of `name`
        along which there may be several scales.
        """
        scale, zero = (grid.scale[0], grid.zero[0]) if grid.one else (grid.scale, grid.zero)
        part = output.removesuffix("/real")
        operands = [
            name,
            self.constant(scale, f"{part}/scale"),
            self.constant(zero.astype(dtype), f"{part}/zero"),
        ]
        return self.node(op_type, operands, output, **({} if grid.one else {"axis": axis}))


def _unused(wanted: str, taken: set[str]) -> str:
    """`wanted` or, if it is in `taken`, `wanted` with a number; the name is added to `taken`."""
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}#{number}", number + 1
    taken.add(name)
    return name

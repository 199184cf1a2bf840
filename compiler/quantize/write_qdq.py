"""Writes a model in QDQ form, given a plan and its scales.

Weights and biases are integer initializers followed by a DequantizeLinear. Every quantized tensor passes one
QuantizeLinear and one DequantizeLinear, which all its readers share. Inputs of the model and results of float operators
are not quantized for float operators that read them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper

from vdla.isa.scales import quantize

from ..frontends.onnx.attributes import read_node
from ..frontends.onnx.model.builder import OnnxGraph
from ..graph.int8_convolution import Quantization
from .float_model import FloatModel, assemble, input_name
from .fold import weight_axis
from .plan import CLAMPS, Plan
from .scales import bias_scales, quantize_bias, quantize_weights, weight_scales


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QuantizedModel:
    """The model in QDQ form; `dequantized` maps the plan's tensors to the outputs of their DequantizeLinear nodes."""

    proto: onnx.ModelProto
    dequantized: Mapping[str, str]


def write_qdq(
    model: FloatModel,
    plan: Plan,
    quantizations: Mapping[str, Quantization],
    *,
    per_tensor: Collection[str] = (),
) -> QuantizedModel:
    """Writes `model` in QDQ form and checks the result with ONNX's checker. Weights have one scale per output channel,
    or a single scale for the nodes in `per_tensor`. `quantizations`: by name of the plan's tensors.

    Raises ScaleError if a product of scales is not finite in float32.
    """
    writer = _Writer(model, plan, quantizations, per_tensor)
    for node in model.nodes:
        if plan.computes(node):
            writer.quantized_node(node)
        else:
            writer.float_node(node)
    graph = writer.graph
    own = (numpy_helper.from_array(array, name) for name, array in model.constants.items())
    initializers = {tensor.name: tensor for tensor in (*own, *graph.initializers.values())}
    proto = assemble(model.header, graph.nodes, initializers.values())
    proto.producer_name = "vdla"
    proto.producer_version = ""
    onnx.checker.check_model(proto, full_check=True)
    return QuantizedModel(proto=proto, dequantized=dict(writer.dequantized))


class _Writer:
    """Writes the nodes of a model in QDQ form, in order. If a quantized node has a quantized result, a QuantizeLinear
    and a DequantizeLinear follow the node. For other quantized tensors they are inserted before the first quantized
    node that reads the tensor.
    """

    def __init__(
        self,
        model: FloatModel,
        plan: Plan,
        quantizations: Mapping[str, Quantization],
        per_tensor: Collection[str],
    ) -> None:
        self.model, self.plan, self.quantizations = model, plan, quantizations
        self.per_tensor = per_tensor
        self.graph = OnnxGraph()
        self.dequantized: dict[str, str] = {}
        self._computed: set[str] = set()
        self._taken = {*model.types, *model.constants}
        self._weights: dict[tuple[object, ...], str] = {}

    def float_node(self, node: onnx.NodeProto) -> None:
        """Adds a float node, which reads results of quantized nodes after their DequantizeLinear."""
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        for index, name in enumerate(copy.input):
            if name in self._computed:
                copy.input[index] = self.dequantized[name]
        self.graph.nodes.append(copy)

    def quantized_node(self, node: onnx.NodeProto) -> None:
        """Adds a quantized node: it reads dequantized operands, and its outputs are quantized."""
        data = self.plan.operands[node.output[0]]
        if node.op_type in CLAMPS and data[0] in self.plan.fused and self._clamps_nothing(node):
            self._rename(data[0], node.output[0])
        else:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            for index, name in enumerate(node.input):
                if name in data:
                    copy.input[index] = self._operand(name)
            if self.plan.has_weights(node):
                self._weigh(copy, self.quantizations[data[0]].scale)
            self.graph.nodes.append(copy)
        for name in node.output:
            if name and name not in self.plan.fused:
                self._pair(name)
                self._computed.add(name)

    def _operand(self, name: str) -> str:
        """Name of a dequantized operand; adds its QuantizeLinear and DequantizeLinear on first use."""
        if name in self.plan.fused:
            return name
        if name not in self.dequantized:
            array = self.model.constants.get(name)
            if array is None:
                self.dequantized[name] = self.graph.quantize_dequantize(
                    self._unused_name(name), self.quantizations[name], source=name
                )
            else:
                quantization = self.quantizations[name]
                stored = quantize(array, quantization.scale, quantization.stored_zero_point)
                integers = (stored.astype(np.int16) + quantization.offset).astype(quantization.dtype)
                self.dequantized[name] = self.graph.dequantized(
                    self._unused_name(name), integers, np.asarray(quantization.scale), quantization.zero_point
                )
        return self.dequantized[name]

    def _pair(self, name: str) -> None:
        """Adds the QuantizeLinear and DequantizeLinear of a result. If the result is an output of the model, the
        DequantizeLinear's result takes the output's name.
        """
        if name in self.model.outputs:
            before = self._unused_name(f"{name}_QuantizeLinear_Input")
            self._rename(name, before)
            self.dequantized[name] = self.graph.quantize_dequantize(
                self._unused_name(name), self.quantizations[name], source=before, output=name
            )
        else:
            self._operand(name)

    def _rename(self, name: str, new: str) -> None:
        """Renames an output from `name` to `new`, in the latest node that computes an output of this name."""
        for node in reversed(self.graph.nodes):
            if name in node.output:
                node.output[list(node.output).index(name)] = new
                return

    def _clamps_nothing(self, node: onnx.NodeProto) -> bool:
        """Whether a clamp has no effect: its bounds include every value that its quantized result can represent. An
        example is a ReLU whose result is uint8 with zero point 0.
        """
        bounds = [0.0, np.inf]
        if node.op_type == "Clip":
            given = [self.model.array(read_node(node, 0), index, "bound") for index in (1, 2)]
            bounds = [
                default if array is None else float(array.reshape(-1)[0])
                for array, default in zip(given, (-np.inf, np.inf), strict=True)
            ]
        quantization = self.quantizations[self.plan.behind_clamps(node.output[0])]
        ends = quantize(np.array(bounds, np.float32), quantization.scale, quantization.stored_zero_point)
        return ends.tolist() == [-128, 127]

    def _weigh(self, copy: onnx.NodeProto, input_scale: np.float32) -> None:
        """Replaces the weights and bias of `copy`, a product (Conv, Gemm, MatMul ...), by dequantized integers.
        `input_scale`: the scale of the product's activation.
        """
        node = read_node(copy, 0)
        weight_name, bias_name = copy.input[1], input_name(copy, 2)
        weight, bias = self.model.constants[weight_name], self.model.constants.get(bias_name)
        axis = None if copy.name in self.per_tensor else weight_axis(node)
        groups = node.integer("group", 1) if node.op_type == "ConvTranspose" else 1
        # All groups of a transposed convolution share the scales, one for each channel of a group.
        most = None if bias is None else np.abs(bias).reshape(groups, -1).max(axis=0)
        scale = weight_scales(weight, axis, bias=most, input_scale=float(input_scale))
        key = (weight_name, axis, scale.tobytes())
        if key not in self._weights:
            integers = quantize_weights(weight, scale, axis)
            self._weights[key] = self.graph.dequantized(
                self._unused_name(weight_name), integers, scale, axis=axis
            )
        copy.input[1] = self._weights[key]
        if bias is None:
            return
        step = bias_scales(input_scale, scale)
        if axis is not None:
            step = np.tile(step, groups)
        key = (bias_name, None, step.tobytes())
        if key not in self._weights:
            self._weights[key] = self.graph.dequantized(
                self._unused_name(bias_name),
                quantize_bias(bias, step),
                step,
                axis=None if axis is None else 0,
            )
        copy.input[2] = self._weights[key]

    def _unused_name(self, name: str) -> str:
        """`name`, with a number appended if `name`, or a name that `OnnxGraph` derives from `name`, is taken."""
        suffixes = (
            "",
            "_scale",
            "_zero_point",
            "_quantized",
            "_QuantizeLinear_Output",
            "_DequantizeLinear_Output",
        )
        unique, number = name, 1
        while any(f"{unique}{suffix}" in self._taken for suffix in suffixes if f"{unique}{suffix}" != name):
            number += 1
            unique = f"{name}#{number}"
        self._taken.update(f"{unique}{suffix}" for suffix in suffixes)
        return unique

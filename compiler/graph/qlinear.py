"""Operators on integers that ONNX Runtime's quantizer writes (QOperator form), as DequantizeLinear, the operator on
floats and QuantizeLinear: what they mean, in the operators that ONNX infers shapes of and that every importer has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

import onnx
from onnx import helper

from .errors import NodeErrors
from .foreign_domains import BEFORE_OPTIMIZATION
from .onnx_context import OnnxNode, read_node
from .operator_rows import CONTRIBUTED, STANDARD, Row, RowContext, row

AXES_ARE_AN_INPUT = 18
"""The opset from which on ReduceMean has them so."""
CHANNELS_LAST = ("NhwcMaxPool",)
"""Operators whose data is (N, ..., C) without saying so."""
SOFTMAX_HAS_ONE_AXIS = 13
"""The opset from which on Softmax is along one axis, not along all behind one."""


class StepsContext(RowContext, Protocol):
    """What writing steps needs of an import, or of whoever writes them into a model."""

    integer_biases: ClassVar[bool]
    """Whether products take int32 biases as they are, in steps of the product of both scales."""

    def rank(self, node: OnnxNode, index: int) -> int:
        """How many dimensions an input has; fails where that is not known."""
        ...


@dataclass(slots=True)
class _Steps:
    """The nodes so far in place of `node`."""

    context: StepsContext
    node: OnnxNode
    nodes: list[onnx.NodeProto] = field(default_factory=list)

    def input(self, index: int) -> str:
        """The name of an input, "" where it is left out."""
        return self.node.inputs[index] if index < len(self.node.inputs) else ""

    def attributes(self, *without: str) -> dict[str, Any]:
        """Those of the node, but for some."""
        return {name: value for name, value in self.node.attributes.items() if name not in without}

    def add(self, operator: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        """A node of `operator`, the node's own result unless it has no `output`; returns what it makes."""
        number = len(self.nodes)
        given = list(inputs)
        while given and not given[-1]:
            given.pop()
        made = output or f"{self.node.outputs[0]}/{operator}_{number}"
        name = f"{self.node.name}/{operator}_{number}"
        self.nodes.append(helper.make_node(operator, given, [made], name, **attributes))
        return made

    def real(self, index: int, *, axis: int | None = None) -> str:
        """The input at `index` through the scale and zero point behind it."""
        along: dict[str, Any] = {} if axis is None else {"axis": axis}
        return self.add("DequantizeLinear", [self.input(index + i) for i in range(3)], **along)

    def compute(self, operator: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        """The float operator, which has the node's name."""
        made = self.add(operator, inputs, output, **attributes)
        self.nodes[-1].name = self.node.name
        return made

    def _rank(self) -> int:
        """How many dimensions the data of a window has."""
        if kernel := self.node.integers("kernel_shape", ()):
            return len(kernel) + 2
        return self.context.rank(self.node, 3 if self.node.op_type == "QLinearConv" else 0)

    def on_planes(self, operator: str, data: str, *others: str, output: str = "", **attributes: Any) -> str:
        """The same of an operator that takes (N, C, ...), for a node whose data is (N, ..., C) if it says
        `channels_last`."""
        if not self.node.integer("channels_last", self.node.op_type in CHANNELS_LAST):
            return self.compute(operator, [data, *others], output, **attributes)
        rank = self._rank()
        first = self.add("Transpose", [data], perm=[0, rank - 1, *range(1, rank - 1)])
        made = self.compute(operator, [first, *others], **attributes)
        return self.add("Transpose", [made], output, perm=[0, *range(2, rank), 1])

    def round(self, made: str, scale: int) -> None:
        """The node's result, by the scale at input `scale` and the zero point behind it."""
        self.add("QuantizeLinear", [made, self.input(scale), self.input(scale + 1)], self.node.outputs[0])

    def bias(self, index: int, scales: tuple[int, int]) -> list[str]:
        """An int32 input in steps of the product of two scales, where it is given."""
        if not self.input(index):
            return []
        if self.context.integer_biases:
            return [self.input(index)]
        step = self.add("Mul", [self.input(scale) for scale in scales])
        return [self.add("DequantizeLinear", [self.input(index), step], axis=0)]


def _conv(steps: _Steps) -> None:
    operands = [steps.real(0), steps.real(3, axis=0), *steps.bias(8, (1, 4))]
    steps.round(steps.on_planes("Conv", *operands, **steps.attributes("channels_last")), 6)


def _matmul(steps: _Steps) -> None:
    steps.round(steps.compute("MatMul", [steps.real(0), steps.real(3, axis=1)]), 6)


def _gemm(steps: _Steps) -> None:
    attributes = steps.attributes()
    axis = 0 if attributes.get("transB", 0) else 1
    rounded = bool(steps.input(7))
    operands = [steps.real(0), steps.real(3, axis=axis), *steps.bias(6, (1, 4))]
    made = steps.compute("Gemm", operands, "" if rounded else steps.node.outputs[0], **attributes)
    if rounded:
        steps.round(made, 7)


def _pair(operator: str) -> Callable[[_Steps], None]:
    def write(steps: _Steps) -> None:
        steps.round(steps.compute(operator, [steps.real(0), steps.real(3)]), 6)

    return write


def _single(operator: str) -> Callable[[_Steps], None]:
    def write(steps: _Steps) -> None:
        steps.round(steps.compute(operator, [steps.real(0)], **steps.attributes()), 3)

    return write


def _pool(operator: str) -> Callable[[_Steps], None]:
    def write(steps: _Steps) -> None:
        steps.round(steps.on_planes(operator, steps.real(0), **steps.attributes("channels_last")), 3)

    return write


def _maximum(steps: _Steps) -> None:
    """Of integers, which have one scale before and after it."""
    steps.on_planes("MaxPool", steps.input(0), output=steps.node.outputs[0], **steps.attributes())


def _in_blocks(operator: str) -> Callable[[_Steps], None]:
    """What ONNX Runtime computes in blocks of channels, each by itself: the blocks are seen by nobody else."""

    def write(steps: _Steps) -> None:
        if operator == "Identity" and steps.node.integer("channels_last", 0):
            steps.context.fail(steps.node, "reorders channels that are last", BEFORE_OPTIMIZATION)
        attributes = {} if operator == "Identity" else steps.attributes()
        steps.compute(operator, [steps.input(0)], steps.node.outputs[0], **attributes)

    return write


def _convolution_in_blocks(steps: _Steps) -> None:
    steps.context.fail(
        steps.node,
        "has weights in blocks of ONNX Runtime's own, which no standard tells",
        BEFORE_OPTIMIZATION,
    )


def _softmax(steps: _Steps) -> None:
    if steps.node.integer("opset", steps.context.opset) < SOFTMAX_HAS_ONE_AXIS:
        steps.context.fail(
            steps.node, "is a softmax along several axes at once", "export the model for opset 13 or later"
        )
    steps.round(steps.compute("Softmax", [steps.real(0)], **steps.attributes("opset")), 3)


def _mean(steps: _Steps) -> None:
    operands, attributes = [steps.real(0)], steps.attributes()
    if steps.context.opset >= AXES_ARE_AN_INPUT and "axes" in attributes:
        operands.append(steps.add("Constant", [], value_ints=attributes.pop("axes")))
    steps.round(steps.compute("ReduceMean", operands, **attributes), 3)


def _concat(steps: _Steps) -> None:
    parts = [steps.real(index) for index in range(2, len(steps.node.inputs), 3)]
    steps.round(steps.compute("Concat", parts, **steps.attributes()), 0)


def _where(steps: _Steps) -> None:
    steps.round(steps.compute("Where", [steps.input(0), steps.real(1), steps.real(4)]), 7)


def _row(write: Callable[[_Steps], None], *reads: str) -> Row[StepsContext, list[onnx.NodeProto]]:
    def nodes(context: StepsContext, node: OnnxNode) -> list[onnx.NodeProto]:
        steps = _Steps(context, node)
        write(steps)
        return steps.nodes

    return row(nodes, *reads)


_CONVOLUTION = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
_WINDOW = ("auto_pad", "ceil_mode", "kernel_shape", "pads", "strides")
Writers = Mapping[str, Row[StepsContext, list[onnx.NodeProto]]]
WRITERS: Writers = MappingProxyType(
    {
        "QLinearConv": _row(_conv, *_CONVOLUTION, "channels_last"),
        "QLinearMatMul": _row(_matmul),
        "QGemm": _row(_gemm, "alpha", "transA", "transB"),
        "QLinearAdd": _row(_pair("Add")),
        "QLinearMul": _row(_pair("Mul")),
        "QLinearSigmoid": _row(_single("Sigmoid")),
        "QLinearLeakyRelu": _row(_single("LeakyRelu"), "alpha"),
        "QLinearSoftmax": _row(_softmax, "axis", "opset"),
        "QLinearAveragePool": _row(_pool("AveragePool"), *_WINDOW, "channels_last", "count_include_pad"),
        "QLinearGlobalAveragePool": _row(_pool("GlobalAveragePool"), "channels_last"),
        "QLinearReduceMean": _row(_mean, "axes", "keepdims"),
        "QLinearConcat": _row(_concat, "axis"),
        "QLinearWhere": _row(_where),
        "NhwcMaxPool": _row(_maximum, *_WINDOW, "dilations"),
    }
)
"""What each operator on integers is in steps: the operator on floats has the node's name."""
BLOCKED: Writers = MappingProxyType(
    {
        "ReorderInput": _row(_in_blocks("Identity"), "channels_last"),
        "ReorderOutput": _row(_in_blocks("Identity"), "channels", "channels_last"),
        "MaxPool": _row(_in_blocks("MaxPool"), *_WINDOW, "dilations", "storage_order"),
        "AveragePool": _row(_in_blocks("AveragePool"), *_WINDOW, "dilations", "count_include_pad"),
        "GlobalMaxPool": _row(_in_blocks("GlobalMaxPool")),
        "GlobalAveragePool": _row(_in_blocks("GlobalAveragePool")),
        "Conv": _row(_convolution_in_blocks, *_CONVOLUTION, "activation", "activation_params"),
    }
)
"""The same of ONNX Runtime's operators on blocks of channels."""
_TABLES: Mapping[str, Writers] = MappingProxyType(
    {**dict.fromkeys((*STANDARD, CONTRIBUTED), WRITERS), "com.microsoft.nchwc": BLOCKED}
)
"""The tables by domain."""


def writer_of(node: OnnxNode) -> Row[StepsContext, list[onnx.NodeProto]] | None:
    """The row of a node's operator in these tables, if there is one."""
    return _TABLES.get(node.domain, {}).get(node.op_type)


@dataclass(slots=True, kw_only=True)
class _Writing(NodeErrors):
    """Steps on their way into `model`: `nodes` are those that take the place of its first nodes."""

    integer_biases: ClassVar[bool] = False
    opset: int
    model: onnx.ModelProto
    nodes: list[onnx.NodeProto] = field(default_factory=list)

    def rank(self, node: OnnxNode, index: int) -> int:
        """How many dimensions an input has, by ONNX's inference; fails where that is not known."""
        graph, name = self.model.graph, node.inputs[index]
        for tensor in graph.initializer:
            if tensor.name == name:
                return len(tensor.dims)
        inputs = {info.name: info for info in graph.input}
        for tensor in graph.initializer:
            # Shapes are enough here.
            inputs[tensor.name] = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        before = helper.make_graph(self.nodes, "before", [*inputs.values()], [onnx.ValueInfoProto(name=name)])
        model = helper.make_model(before, opset_imports=self.model.opset_import)
        inferred = onnx.shape_inference.infer_shapes(model).graph
        for info in (*inferred.input, *inferred.output):
            if info.name == name and info.type.tensor_type.HasField("shape"):
                return len(info.type.tensor_type.shape.dim)
        return self.fail(
            node, "has channels last, and data whose dimensions are not known", BEFORE_OPTIMIZATION
        )


def write_steps(label: str, model: onnx.ModelProto) -> bool:
    """Puts the steps of every such node of a model, which messages call `label`, in its place; whether there was one.

    Raises NodeError for what no steps have.
    """
    opset = max((entry.version for entry in model.opset_import if entry.domain in STANDARD), default=0)
    context = _Writing(source=label, opset=opset, model=model)
    found = False
    for index, proto in enumerate(model.graph.node):
        node = read_node(proto, index)
        writer = writer_of(node)
        found |= writer is not None
        context.nodes.extend(
            [onnx.NodeProto.FromString(proto.SerializeToString())]
            if writer is None
            else writer(context, node)
        )
    if found:
        del model.graph.node[:]
        model.graph.node.extend(context.nodes)
    return found

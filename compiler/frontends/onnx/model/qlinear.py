"""Replaces the integer operators that ONNX Runtime's quantizer writes (QOperator form). Each becomes DequantizeLinear,
the float operator and QuantizeLinear.

ONNX infers shapes for the new operators, and every importer supports them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

import onnx
from onnx import helper

from ....graph.errors import NodeErrors
from ..attributes import OnnxNode, opset_of, read_node
from ..operator_rows import RowContext
from ..steps import Nodes
from ..table import rows_of
from .foreign_domains import BEFORE_OPTIMIZATION
from .inference import inferred_shapes
from .model_rewrites import SOFTMAX_HAS_ONE_AXIS

AXES_ARE_AN_INPUT = 18
"""The first opset in which the axes of ReduceMean are an input."""
CHANNELS_LAST = ("NhwcMaxPool",)
"""Operators without an attribute `channels_last` whose data is always (N, ..., C)."""


class StepsContext(RowContext, Protocol):
    """The functions that a rewrite of an integer operator needs from its caller, to write the nodes that replace the
    operator. The importer and other rewrites of models implement this interface.
    """

    integer_biases: ClassVar[bool]
    """Whether products read int32 biases as integers, without a DequantizeLinear. The unit of such a bias is the
    product of the scales of data and weights.
    """

    def rank(self, node: OnnxNode, index: int) -> int:
        """Number of dimensions of the node's input at `index`; raises NodeError where it is unknown."""
        ...


@dataclass(slots=True, kw_only=True)
class IntegerSteps(Nodes[StepsContext]):
    """Collects the ONNX nodes that replace one node, which computes on integers or on blocks of channels."""

    @property
    def stem(self) -> str:
        """The first part of the names of new tensors."""
        return self.node.outputs[0]

    def operator(self) -> str:
        """Name of the plain operator for an operator on integers or blocks of channels, or with channels last."""
        return self.node.op_type.removeprefix("QLinear").removeprefix("Nhwc")

    def real(self, index: int, *, axis: int | None = None) -> str:
        """Adds a DequantizeLinear of input `index`, with the scale and zero point at the next two inputs. Returns the
        name of its output. `axis`: the axis along which there may be several scales.
        """
        along: dict[str, Any] = {} if axis is None else {"axis": axis}
        return self.add("DequantizeLinear", *[self.input(index + i) for i in range(3)], **along)

    def compute(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Adds the float operator under the name of the replaced node; returns the result's name, `output` ("": a new
        one).
        """
        made = self.add(operator, *inputs, output=output, **attributes)
        self.nodes[-1].name = self.node.name
        return made

    def _rank(self) -> int:
        """Number of dimensions of the data that the replaced node, an operator with windows, reads."""
        if kernel := self.node.integers("kernel_shape", ()):
            return len(kernel) + 2
        return self.context.rank(self.node, 3 if self.node.op_type == "QLinearConv" else 0)

    def on_planes(self, operator: str, data: str, *others: str, output: str = "", **attributes: Any) -> str:
        """Adds an operator under the name of the replaced node; returns the result's name, `output` ("": a new one).
        The operator reads data (N, C, ...). If the data of the replaced node is (N, ..., C) (`channels_last`),
        Transposes are added before and after the operator.
        """
        if not self.node.integer("channels_last", self.node.op_type in CHANNELS_LAST):
            return self.compute(operator, data, *others, output=output, **attributes)
        rank = self._rank()
        first = self.add("Transpose", data, perm=[0, rank - 1, *range(1, rank - 1)])
        made = self.compute(operator, first, *others, **attributes)
        return self.add("Transpose", made, output=output, perm=[0, *range(2, rank), 1])

    def round(self, made: str, scale: int) -> None:
        """Adds the QuantizeLinear that computes the node's result from `made`. Its scale is the node's input with index
        `scale`, its zero point the input after that.
        """
        grid = self.input(scale), self.input(scale + 1)
        self.add("QuantizeLinear", made, *grid, output=self.node.outputs[0])

    def bias(self, index: int, scales: tuple[str, str]) -> list[str]:
        """The operands that follow the weights: a list with the int32 bias (input `index`), or an empty list if the
        bias is left out. The unit of the bias is the product of the two `scales`. If one of the scales has an element
        for each channel, the channels are the last axis of the bias. Its shape is (channels,) or, in QGemm, also (1,
        channels).
        """
        if not self.input(index):
            return []
        if self.context.integer_biases:
            return [self.input(index)]
        step = self.add("Mul", *scales)
        return [self.add("DequantizeLinear", self.input(index), step, axis=-1)]


_FORMS: Mapping[str, tuple[tuple[int, ...], int]] = MappingProxyType(
    {
        **dict.fromkeys(("QLinearAdd", "QLinearMatMul", "QLinearMul"), ((0, 3), 6)),
        **dict.fromkeys(("QLinearLeakyRelu", "QLinearSigmoid"), ((0,), 3)),
        **dict.fromkeys(("QLinearAveragePool", "QLinearGlobalAveragePool"), ((0,), 3)),
    }
)
"""For each operator that `plain_steps` replaces: the indices of its integer inputs, and the index of the input with the
result's scale. The scale and zero point of an integer input follow it in the list of inputs; the result's zero point
follows the result's scale.
"""


def plain_steps(steps: IntegerSteps) -> None:
    """Adds the ONNX nodes that replace an operator of `_FORMS`: its inputs are dequantized, the float operator has the
    same attributes, and its result is quantized.
    """
    data, scale = _FORMS[steps.node.op_type]
    made = steps.on_planes(
        steps.operator(), *[steps.real(index) for index in data], **steps.attributes("channels_last")
    )
    steps.round(made, scale)


def convolution_steps(steps: IntegerSteps) -> None:
    """Adds the ONNX nodes that replace QLinearConv."""
    operands = [steps.real(0), steps.real(3, axis=0), *steps.bias(8, (steps.input(1), steps.input(4)))]
    steps.round(steps.on_planes("Conv", *operands, **steps.attributes("channels_last")), 6)


def gemm_steps(steps: IntegerSteps) -> None:
    """Adds the ONNX nodes that replace QGemm. The unit of its bias is alpha times the product of both scales. Therefore
    the scale of the weights is multiplied by alpha, and the bias needs no change.
    """
    attributes = steps.attributes("alpha")
    alpha = float(steps.node.attributes.get("alpha", 1.0))
    axis = 0 if attributes.get("transB", 0) else 1
    rounded = bool(steps.input(7))
    scale = steps.input(4)
    if alpha != 1:
        scale = steps.add("Mul", scale, steps.add("Constant", value_float=alpha))
    weights = steps.add("DequantizeLinear", steps.input(3), scale, steps.input(5), axis=axis)
    operands = [steps.real(0), weights, *steps.bias(6, (steps.input(1), scale))]
    output = "" if rounded else steps.node.outputs[0]
    made = steps.compute("Gemm", *operands, output=output, **attributes)
    if rounded:
        steps.round(made, 7)


def pool_steps(steps: IntegerSteps) -> None:
    """Adds the nodes that replace NhwcMaxPool (a MaxPool of integers whose scale does not change), or a pool on blocks
    of channels. Both become plain pools, which treat each channel by itself.
    """
    output = steps.node.outputs[0]
    steps.on_planes(steps.operator(), steps.input(0), output=output, **steps.attributes())


def reorder_steps(steps: IntegerSteps) -> None:
    """Adds an Identity, which replaces ReorderInput or ReorderOutput. No reordering is needed: each operator between
    the two is replaced by an operator on plain tensors.
    """
    if steps.node.integer("channels_last", 0):
        steps.context.fail(steps.node, "channels_last = 1 is not supported", BEFORE_OPTIMIZATION)
    steps.compute("Identity", steps.input(0), output=steps.node.outputs[0])


def refuse_weights(steps: IntegerSteps) -> None:
    """Raises NodeError for a convolution on blocks of channels: its weights are stored in blocks, which no importer
    reads.
    """
    steps.context.fail(
        steps.node,
        "has weights in ONNX Runtime's internal block format, which cannot be read",
        BEFORE_OPTIMIZATION,
    )


def softmax_steps(steps: IntegerSteps) -> None:
    """Adds the ONNX nodes that replace QLinearSoftmax. Its attribute `opset` selects one of two definitions: a softmax
    along the axis `axis` (opset 13 or later), or over all axes from `axis` to the last.

    In a model of opset 12 or less, Softmax has only the second definition. For the first one, a Transpose moves the
    axis to the end before the Softmax, and a second Transpose moves it back.
    """
    node, context, axis = steps.node, steps.context, steps.node.integer("axis", -1)
    along_one_axis = node.integer("opset", context.opset) >= SOFTMAX_HAS_ONE_AXIS
    if along_one_axis and context.opset >= SOFTMAX_HAS_ONE_AXIS:
        steps.round(steps.compute("Softmax", steps.real(0), axis=axis), 3)
        return
    rank = context.rank(node, 0)
    if not -rank <= axis < rank:
        context.fail(
            node,
            f"its axis {axis} is not an axis of its input, which has {rank} dimensions",
            "export the model again",
        )
    order = [*range(rank)]
    order[axis], order[-1] = order[-1], order[axis]
    if order == sorted(order):
        result = steps.compute("Softmax", steps.real(0), axis=rank - 1)
    elif along_one_axis:
        moved = steps.compute("Transpose", steps.real(0), perm=order)
        shares = steps.compute("Softmax", moved, axis=rank - 1)
        result = steps.compute("Transpose", shares, perm=order)
    else:
        context.fail(
            node,
            "a softmax along several axes at once is not supported",
            "export the model for opset 13 or later",
        )
    steps.round(result, 3)


def mean_steps(steps: IntegerSteps) -> None:
    """Adds the ONNX nodes that replace QLinearReduceMean."""
    operands, attributes = [steps.real(0)], steps.attributes()
    if steps.context.opset >= AXES_ARE_AN_INPUT and "axes" in attributes:
        operands.append(steps.add("Constant", value_ints=attributes.pop("axes")))
    steps.round(steps.compute("ReduceMean", *operands, **attributes), 3)


def concat_steps(steps: IntegerSteps) -> None:
    """Adds the ONNX nodes that replace QLinearConcat."""
    parts = [steps.real(index) for index in range(2, len(steps.node.inputs), 3)]
    steps.round(steps.compute("Concat", *parts, **steps.attributes()), 0)


def where_steps(steps: IntegerSteps) -> None:
    """Adds the ONNX nodes that replace QLinearWhere."""
    steps.round(steps.compute("Where", steps.input(0), steps.real(1), steps.real(4)), 7)


@dataclass(slots=True, kw_only=True)
class _Writing(NodeErrors):
    """A context for `write_steps`, which replaces nodes of `model`; `nodes`: the new nodes so far."""

    integer_biases: ClassVar[bool] = False
    opset: int
    model: onnx.ModelProto
    nodes: list[onnx.NodeProto] = field(default_factory=list)

    def rank(self, node: OnnxNode, index: int) -> int:
        """Number of dimensions of the node's input at `index`, by ONNX's inference; raises NodeError where it is
        unknown.
        """
        graph, name = self.model.graph, node.inputs[index]
        for tensor in graph.initializer:
            if tensor.name == name:
                return len(tensor.dims)
        inputs = {info.name: info for info in graph.input}
        for tensor in graph.initializer:
            # Inference of ranks needs no values.
            inputs[tensor.name] = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        before = helper.make_graph(self.nodes, "before", [*inputs.values()], [onnx.ValueInfoProto(name=name)])
        model = helper.make_model(before, opset_imports=self.model.opset_import)
        inferred = inferred_shapes(model).graph
        for info in (*inferred.input, *inferred.output):
            if info.name == name and info.type.tensor_type.HasField("shape"):
                return len(info.type.tensor_type.shape.dim)
        return self.fail(
            node, f"reads '{name}', whose number of dimensions is not known", BEFORE_OPTIMIZATION
        )


def write_steps(label: str, model: onnx.ModelProto) -> bool:
    """Replaces every integer operator (QOperator form), and every operator on blocks of channels, by DequantizeLinear,
    float operators and QuantizeLinear. Changes the model in place; returns whether any node was replaced.

    `label` names the model in messages. Raises NodeError for a node that cannot be replaced.
    """
    context = _Writing(source=label, opset=opset_of(model), model=model)
    found = False
    for index, proto in enumerate(model.graph.node):
        writers = rows_of(proto.domain, proto.op_type, "integers", "blocked")
        found |= bool(writers)
        context.nodes.extend(
            [onnx.NodeProto.FromString(proto.SerializeToString())]
            if not writers
            else writers[0](context, read_node(proto, index))
        )
    if found:
        del model.graph.node[:]
        model.graph.node.extend(context.nodes)
    return found

"""Operators on integers that ONNX Runtime's quantizer writes (QOperator form), as DequantizeLinear, the operator on
floats and QuantizeLinear: what they mean, in the operators that ONNX infers shapes of and that every importer has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import onnx
from onnx import helper

AXES_ARE_AN_INPUT = 18
"""The opset from which on ReduceMean has them so."""
SOFTMAX_HAS_ONE_AXIS = 13
"""The opset from which on Softmax is along one axis, not along all behind one."""


@dataclass(slots=True)
class _Steps:
    """The nodes so far in place of `node`; `opset` is the model's."""

    node: onnx.NodeProto
    name: str
    opset: int
    nodes: list[onnx.NodeProto] = field(default_factory=list)

    def input(self, index: int) -> str:
        """The name of an input, "" where it is left out."""
        return self.node.input[index] if index < len(self.node.input) else ""

    def attributes(self, *without: str) -> dict[str, Any]:
        """Those of the node, but for some."""
        return {
            entry.name: helper.get_attribute_value(entry)
            for entry in self.node.attribute
            if entry.name not in without
        }

    def add(self, operator: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        """A node of `operator`, the node's own result unless it has no `output`; returns what it makes."""
        number = len(self.nodes)
        given = list(inputs)
        while given and not given[-1]:
            given.pop()
        made = output or f"{self.node.output[0]}/{operator}_{number}"
        name = f"{self.name}/{operator}_{number}"
        self.nodes.append(helper.make_node(operator, given, [made], name, **attributes))
        return made

    def real(self, index: int, *, axis: int | None = None) -> str:
        """The input at `index` through the scale and zero point behind it."""
        along: dict[str, Any] = {} if axis is None else {"axis": axis}
        return self.add("DequantizeLinear", [self.input(index + i) for i in range(3)], **along)

    def compute(self, operator: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        """The float operator, which has the node's name."""
        made = self.add(operator, inputs, output, **attributes)
        self.nodes[-1].name = self.name
        return made

    def round(self, made: str, scale: int) -> None:
        """The node's result, by the scale at input `scale` and the zero point behind it."""
        self.add("QuantizeLinear", [made, self.input(scale), self.input(scale + 1)], self.node.output[0])

    def bias(self, index: int, scales: tuple[int, int]) -> list[str]:
        """An int32 input in steps of the product of two scales, where it is given."""
        if not self.input(index):
            return []
        step = self.add("Mul", [self.input(scale) for scale in scales])
        return [self.add("DequantizeLinear", [self.input(index), step], axis=0)]


def _conv(steps: _Steps) -> None:
    operands = [steps.real(0), steps.real(3, axis=0), *steps.bias(8, (1, 4))]
    steps.round(steps.compute("Conv", operands, **steps.attributes()), 6)


def _matmul(steps: _Steps) -> None:
    steps.round(steps.compute("MatMul", [steps.real(0), steps.real(3, axis=1)]), 6)


def _gemm(steps: _Steps) -> None:
    attributes = steps.attributes()
    axis = 0 if attributes.get("transB", 0) else 1
    rounded = bool(steps.input(7))
    operands = [steps.real(0), steps.real(3, axis=axis), *steps.bias(6, (1, 4))]
    made = steps.compute("Gemm", operands, "" if rounded else steps.node.output[0], **attributes)
    if rounded:
        steps.round(made, 7)


def _pair(operator: str) -> Callable[[_Steps], None]:
    def write(steps: _Steps) -> None:
        steps.round(steps.compute(operator, [steps.real(0), steps.real(3)]), 6)

    return write


def _single(operator: str) -> Callable[[_Steps], None]:
    def write(steps: _Steps) -> None:
        attributes = steps.attributes("channels_last", "opset")
        steps.round(steps.compute(operator, [steps.real(0)], **attributes), 3)

    return write


def _mean(steps: _Steps) -> None:
    operands, attributes = [steps.real(0)], steps.attributes()
    if steps.opset >= AXES_ARE_AN_INPUT and "axes" in attributes:
        operands.append(steps.add("Constant", [], value_ints=attributes.pop("axes")))
    steps.round(steps.compute("ReduceMean", operands, **attributes), 3)


def _concat(steps: _Steps) -> None:
    parts = [steps.real(index) for index in range(2, len(steps.node.input), 3)]
    steps.round(steps.compute("Concat", parts, **steps.attributes()), 0)


def _where(steps: _Steps) -> None:
    steps.round(steps.compute("Where", [steps.input(0), steps.real(1), steps.real(4)]), 7)


WRITERS: Mapping[str, Callable[[_Steps], None]] = MappingProxyType(
    {
        "QLinearConv": _conv,
        "QLinearMatMul": _matmul,
        "QGemm": _gemm,
        "QLinearAdd": _pair("Add"),
        "QLinearMul": _pair("Mul"),
        "QLinearSigmoid": _single("Sigmoid"),
        "QLinearLeakyRelu": _single("LeakyRelu"),
        "QLinearSoftmax": _single("Softmax"),
        "QLinearAveragePool": _single("AveragePool"),
        "QLinearGlobalAveragePool": _single("GlobalAveragePool"),
        "QLinearReduceMean": _mean,
        "QLinearConcat": _concat,
        "QLinearWhere": _where,
    }
)
"""What each operator is in steps."""


def in_steps(node: onnx.NodeProto, index: int, opset: int) -> list[onnx.NodeProto] | None:
    """The nodes that mean what the node at `index` of a model of `opset` does; None where that is not known.

    The operator on floats has the node's name.
    """
    write = WRITERS.get(node.op_type)
    if write is None or node.domain not in ("", "ai.onnx", "com.microsoft"):
        return None
    numbers = {entry.name: entry.i for entry in node.attribute}
    if numbers.get("channels_last", 0) or numbers.get("opset", opset) < SOFTMAX_HAS_ONE_AXIS:
        return None
    steps = _Steps(node, node.name or f"{node.op_type}_{index}", opset)
    write(steps)
    return steps.nodes


def write_steps(model: onnx.ModelProto, opset: int) -> bool:
    """Puts the steps of every such node in its place; whether there was one."""
    written = [in_steps(node, index, opset) for index, node in enumerate(model.graph.node)]
    if not any(written):
        return False
    nodes = [
        part
        for node, steps in zip(model.graph.node, written, strict=True)
        for part in (steps or [onnx.NodeProto.FromString(node.SerializeToString())])
    ]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return True

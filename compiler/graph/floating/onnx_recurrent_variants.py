"""Recurrent layers without a kernel for all their steps: the reason, and the ONNX nodes that replace them."""

from __future__ import annotations

from onnx import helper

from ...ir.types import DType
from ..onnx_attributes import OnnxNode
from ..onnx_context import GraphContext
from ..onnx_steps import FloatSteps
from .onnx_recurrent_steps import DEFAULTS, FUNCTIONS, activations_of, recurrent_steps


def recurrent_body(s: FloatSteps) -> None:
    """The ONNX nodes for a layer without kernel: for layout 1 a layer between Transposes, else nodes for each step."""
    if s.node.integer("layout", 0):
        _transposed(s)
        return
    why, way_out = in_steps_since(s.context, s.node) or ("", "")
    shorter = "export the model for shorter sequences"
    recurrent_steps(s, why=f" as {why}", way_out=f"{way_out}, or {shorter}" if way_out else shorter)


def in_steps_since(context: GraphContext, node: OnnxNode) -> tuple[str, str] | None:
    """The reason why a layer needs nodes for each step, and a way out; None if one kernel computes all steps."""
    kind = node.op_type
    if kind not in context.recurrent:
        return f"the target has no kernel for all steps of {kind}", "compile it for a processor"
    for index, what in ((1, "W"), (2, "R"), (3, "B"), (4, "sequence_lens")):
        if index < len(node.inputs) and node.inputs[index] and not context.is_constant(node, index):
            return f"its input {what} is no constant", f"make {what} an initializer"
    if context.tensor(node, 0).dtype is not DType.FLOAT32:
        return "it is not float32", "export it in float32"
    if node.integer("layout", 0):
        return "it has layout 1", "export it with layout 0"
    if kind == "LSTM" and node.integer("input_forget", 0):
        return "it couples its gates (input_forget)", "export it without that"
    if "clip" in node.attributes:
        return "it clips its sums", "export it without clip"
    if kind == "LSTM" and len(node.inputs) > 7 and node.inputs[7]:
        return "it has peepholes P", "train it without them"
    if not _activations_have_kernels(node):
        return "of its activations", f"use {', '.join(DEFAULTS[kind])}"
    lengths = context.array(node, 4, "sequence_lens")
    if lengths is not None and (lengths != context.tensor(node, 0).shape[0]).any():
        return "its sequences end earlier (sequence_lens)", ""
    return None


def _activations_have_kernels(node: OnnxNode) -> bool:
    default, names = DEFAULTS[node.op_type], activations_of(node)
    if node.op_type == "LSTM":
        return names == default * (len(names) // len(default))
    return not len(names) % len(default) and all(name in FUNCTIONS for name in names)


def _transposed(s: FloatSteps) -> None:
    """The ONNX nodes of a layer of layout 1 (X, states and outputs batch first): a layer of layout 0 and Transposes."""
    inputs = list(s.node.inputs)
    for index in (0, 5, 6):
        if s.input(index):
            inputs[index] = s.add("Transpose", s.input(index), perm=[1, 0, 2])
    outputs = [f"{s.node.name}/{name}" if name else "" for name in s.node.outputs]
    # The inner layer needs a name of its own: the nodes of its steps are named after it.
    name = f"{s.node.name}/{s.node.op_type}"
    s.nodes.append(helper.make_node(s.node.op_type, inputs, outputs, name=name, **s.attributes("layout")))
    for index, (inner, output) in enumerate(zip(outputs, s.node.outputs, strict=True)):
        if output:
            s.add("Transpose", inner, output=output, perm=[2, 0, 1, 3] if index == 0 else [1, 0, 2])

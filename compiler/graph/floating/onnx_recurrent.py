"""LSTM of a float model: a matrix product for all steps' inputs, then the steps."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from ...te.epilogue import Epilogue
from ...te.ops.lstm import Direction, input_weights, recurrent_weights
from ..onnx_context import OnnxNode
from ..operators import Dense, LstmSteps
from .onnx_context import FloatContext

DIRECTIONS: Mapping[str, tuple[Direction, ...]] = MappingProxyType(
    {"forward": ("forward",), "reverse": ("reverse",), "bidirectional": ("forward", "reverse")}
)
DEFAULT_ACTIVATIONS = ("Sigmoid", "Tanh", "Tanh")


def import_lstm(context: FloatContext, node: OnnxNode) -> None:
    """LSTM with constant weights, ONNX's default activations and all sequences of full length."""
    data = context.operand(node, 0)
    directions = DIRECTIONS.get(node.text("direction", "forward"))
    weight, recurrence = context.array(node, 1, "weights W"), context.array(node, 2, "weights R")
    bias = context.array(node, 3, "bias B")
    if directions is None or len(data.shape) != 3 or weight is None or recurrence is None:
        context.refuse(node, "has no known direction, or lacks X, W or R", "export the model again")
    _refuse_variants(context, node, len(directions))
    steps, batch, inputs = data.shape
    count, hidden = len(directions), recurrence.shape[-1]
    wanted = [
        ("W", weight, (count, 4 * hidden, inputs)),
        ("R", recurrence, (count, 4 * hidden, hidden)),
        *([] if bias is None else [("B", bias, (count, 8 * hidden))]),
    ]
    for what, array, shape in wanted:
        if array.shape != shape or array.dtype != np.float32:
            context.refuse(
                node,
                f"has {what} of shape {array.shape} and type {array.dtype} where float32 {shape} fits",
                "export the model again",
            )
    if (size := node.integer("hidden_size", hidden)) != hidden:
        context.refuse(node, f"has hidden_size {size} and weights for {hidden}", "export the model again")
    lengths = context.array(node, 4, "sequence_lens")
    if lengths is not None and (lengths != steps).any():
        context.fail(node, f"has sequences of {lengths} steps", f"use sequences of all {steps} steps")
    states = tuple(_initial_state(context, node, i, (count, batch, hidden)) for i in (5, 6))
    matrix, addend = input_weights(weight, bias)
    columns = len(addend)
    flat = context.view(node, data, (steps * batch, inputs), output=context.temporary(node, "rows"))
    operands = [flat, context.store(node.inputs[1], matrix)]
    if bias is not None:
        operands.append(context.store(node.inputs[3], addend))
    gates = context.temporary(node, "gates")
    epilogue = Epilogue(bias=bias is not None)
    context.add(node, Dense(epilogue=epilogue), tuple(operands), (steps * batch, columns), output=gates)
    context.add_outputs(
        node,
        LstmSteps(steps=steps, directions=directions),
        (gates, context.store(node.inputs[2], recurrent_weights(recurrence)), *states),
        ((steps, count, batch, hidden), (count, batch, hidden), (count, batch, hidden)),
    )


def _refuse_variants(context: FloatContext, node: OnnxNode, count: int) -> None:
    """Fails for what ONNX's LSTM can be told to do otherwise."""
    if len(node.inputs) > 7 and node.inputs[7]:
        context.fail(node, "has peepholes P", "train the model without them")
    if node.integer("layout", 0):
        context.fail(node, "has layout 1", "transpose its input and outputs instead")
    if node.integer("input_forget", 0) or "clip" in node.attributes:
        context.fail(node, "couples its gates or clips its sums", "export the model without that")
    given = node.attributes.get("activations", DEFAULT_ACTIVATIONS * count)
    names = tuple(a.decode(errors="backslashreplace") if isinstance(a, bytes) else str(a) for a in given)
    if tuple(name.lower() for name in names) != tuple(a.lower() for a in DEFAULT_ACTIVATIONS * count):
        context.fail(node, f"has the activations {', '.join(names)}", f"use {', '.join(DEFAULT_ACTIVATIONS)}")


def _initial_state(context: FloatContext, node: OnnxNode, index: int, shape: tuple[int, ...]) -> str:
    """An initial state, zeros where it is left out."""
    if index >= len(node.inputs) or not node.inputs[index]:
        return context.store(f"{node.outputs[0] or node.name}.zeros", np.zeros(shape, np.float32))
    state = context.operand(node, index)
    if state.shape != shape:
        context.refuse(
            node, f"has an initial state of shape {state.shape}, not {shape}", "export the model again"
        )
    return state.name

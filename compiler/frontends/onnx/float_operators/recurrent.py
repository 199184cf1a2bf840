"""LSTM, GRU and RNN of a float model. One matrix product computes the contribution of the inputs of all steps, then one
kernel computes all steps. A layer without a kernel is replaced by simpler ONNX nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import helper

from ....graph.operators import Dense, LstmSteps, RecurrentSteps
from ....ir.types import DType
from ....te.ops import lstm, recurrent
from ....te.ops.lstm import Direction
from ....te.ops.sums import Epilogue
from ..attributes import OnnxNode
from ..context import GraphContext
from ..steps import FloatSteps
from .recurrent_steps import (
    DEFAULTS,
    FUNCTIONS,
    GATES,
    activations_of,
    check_activations,
    check_hidden_size,
    directions_of,
    recurrent_steps,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    """A recurrent layer's sizes and constants, for inputs X [steps, batch, inputs]: weights W [directions, gates *
    hidden, inputs] and R [directions, gates * hidden, hidden], bias B [directions, 2 * gates * hidden].
    """

    directions: tuple[Direction, ...]
    steps: int
    batch: int
    hidden: int
    w: np.ndarray
    r: np.ndarray
    b: np.ndarray | None

    @property
    def state(self) -> tuple[int, int, int]:
        """The shape (directions, batch, hidden) of an initial or final state."""
        return (len(self.directions), self.batch, self.hidden)

    @property
    def states(self) -> tuple[int, int, int, int]:
        """The shape (steps, directions, batch, hidden) of the hidden states after each step."""
        return (self.steps, *self.state)


def import_recurrent(context: GraphContext, node: OnnxNode) -> None:
    """Imports an LSTM, GRU or RNN for which one kernel computes all steps. (Other layers become separate nodes for each
    step; `in_steps_since` gives the reason.)
    """
    layer = _layer(context, node)
    states = [
        _initial_state(context, node, i, layer.state) for i in ((5, 6) if node.op_type == "LSTM" else (5,))
    ]
    if node.op_type == "LSTM":
        matrix, addend = lstm.input_weights(layer.w, layer.b)
        parts = [lstm.recurrent_weights(layer.r)]
        operator = LstmSteps(steps=layer.steps, directions=layer.directions)
    else:
        after = node.op_type == "GRU" and node.integer("linear_before_reset", 0)
        cell: recurrent.Cell = "RNN" if node.op_type == "RNN" else "GRU, reset after" if after else "GRU"
        added, behind = recurrent.split_bias(cell, layer.b, (len(layer.directions), layer.hidden))
        matrix, addend = np.ascontiguousarray(layer.w.reshape(-1, layer.w.shape[-1]).T), added.reshape(-1)
        parts = [*recurrent.recurrent_parts(cell, layer.r), *([behind] if after else [])]
        names, size = activations_of(node), len(DEFAULTS[node.op_type])
        activations = tuple([names[i : i + size] for i in range(0, len(names), size)])
        operator = RecurrentSteps(
            cell=cell, steps=layer.steps, directions=layer.directions, activations=activations
        )
    gates = _from_inputs(context, node, layer, matrix, addend)
    stored = [context.store(node.inputs[2], part) for part in parts]
    finals = [(layer.state, DType.FLOAT32)] * len(states)
    context.add(node, operator, (gates, *stored, *states), layer.states, beside=finals)


def _layer(context: GraphContext, node: OnnxNode) -> _Layer:
    """Sizes and constants of a recurrent node. Raises InvalidNodeError if constants have wrong shapes or dtypes."""
    data = context.operand(node, 0)
    directions = directions_of(context, node, data.shape)
    weight, recurrence = context.array(node, 1, "weights W"), context.array(node, 2, "weights R")
    bias = context.array(node, 3, "bias B")
    assert weight is not None and recurrence is not None
    steps, batch, inputs = data.shape
    count, hidden, gates = len(directions), recurrence.shape[-1], GATES[node.op_type]
    wanted = [
        ("W", weight, (count, gates * hidden, inputs)),
        ("R", recurrence, (count, gates * hidden, hidden)),
        *([] if bias is None else [("B", bias, (count, 2 * gates * hidden))]),
    ]
    for what, array, shape in wanted:
        if array.shape != shape or array.dtype != np.float32:
            context.refuse(
                node,
                f"its {what} must be float32 of shape {shape}, not {array.dtype} of shape {array.shape}",
            )
    check_hidden_size(context, node, hidden)
    check_activations(context, node, count)
    return _Layer(
        directions=directions, steps=steps, batch=batch, hidden=hidden, w=weight, r=recurrence, b=bias
    )


def _from_inputs(
    context: GraphContext, node: OnnxNode, layer: _Layer, matrix: np.ndarray, addend: np.ndarray
) -> str:
    """Adds a node that computes the inputs' contribution to all gates: the inputs X times `matrix`, plus `addend` if
    `layer` has a bias. Returns the name of the result, [steps * batch, directions * gates * hidden].
    """
    data = context.operand(node, 0)
    rows = layer.steps * layer.batch
    flat = context.view(node, data, (rows, data.shape[2]), output=context.temporary(node, "rows"))
    operands = [flat, context.store(node.inputs[1], matrix)]
    if layer.b is not None:
        operands.append(context.store(node.inputs[3], addend))
    gates = context.temporary(node, "gates")
    epilogue = Epilogue(bias=layer.b is not None)
    context.add(node, Dense(epilogue=epilogue), tuple(operands), (rows, len(addend)), output=gates)
    return gates


def _initial_state(context: GraphContext, node: OnnxNode, index: int, shape: tuple[int, ...]) -> str:
    """Name of the tensor, of `shape`, with an initial state (input `index`); zeros if the node has no such input."""
    if index >= len(node.inputs) or not node.inputs[index]:
        return context.store(f"{node.outputs[0] or node.name}.zeros", np.zeros(shape, np.float32))
    state = context.operand(node, index)
    if state.shape != shape:
        context.refuse(node, f"its initial state must have the shape {shape}, not {state.shape}")
    return state.name


def recurrent_body(s: FloatSteps) -> None:
    """Adds the ONNX nodes that replace a layer without a kernel. If the layer has the attribute `layout` 1 (batch
    first), they are a layer with layout 0 between Transposes. For any other layer they are the nodes of each step.
    """
    if s.node.integer("layout", 0):
        _transposed(s)
        return
    why, way_out = in_steps_since(s.context, s.node) or ("", "")
    shorter = "export the model for shorter sequences"
    recurrent_steps(s, why=f" as {why}", way_out=f"{way_out}, or {shorter}" if way_out else shorter)


def in_steps_since(context: GraphContext, node: OnnxNode) -> tuple[str, str] | None:
    """The reason why a layer needs ONNX nodes for each step, for error messages: (reason, remedy). None if one kernel
    computes all steps.
    """
    kind = node.op_type
    if kind not in context.recurrent:
        return f"the target has no kernel for all steps of {kind}", "compile the model for a processor"
    for index, what in ((1, "W"), (2, "R"), (3, "B"), (4, "sequence_lens")):
        if index < len(node.inputs) and node.inputs[index] and not context.is_constant(node, index):
            return f"its input {what} is not constant", f"make {what} an initializer"
    if context.tensor(node, 0).dtype is not DType.FLOAT32:
        return "its input X is not float32", "export the layer in float32"
    if node.integer("layout", 0):
        return "its layout is 1 (batch first)", "export the layer with layout 0"
    if kind == "LSTM" and node.integer("input_forget", 0):
        return "it couples its gates (input_forget)", "export the layer without input_forget"
    if "clip" in node.attributes:
        return "it clips its sums", "export the layer without clip"
    if kind == "LSTM" and len(node.inputs) > 7 and node.inputs[7]:
        return "it has peepholes (input P)", "train the layer without peepholes"
    if not _activations_have_kernels(node):
        return "its activations have no kernel", f"use {', '.join(DEFAULTS[kind])}"
    lengths = context.array(node, 4, "sequence_lens")
    if lengths is not None and (lengths != context.tensor(node, 0).shape[0]).any():
        return "its sequences differ in length (sequence_lens)", ""
    return None


def _activations_have_kernels(node: OnnxNode) -> bool:
    default, names = DEFAULTS[node.op_type], activations_of(node)
    if node.op_type == "LSTM":
        return names == default * (len(names) // len(default))
    return not len(names) % len(default) and all(name in FUNCTIONS for name in names)


def _transposed(s: FloatSteps) -> None:
    """Adds the ONNX nodes for a layer of layout 1, whose X, states and outputs have the batch as their first axis: a
    layer of layout 0 with Transposes before and after it.
    """
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

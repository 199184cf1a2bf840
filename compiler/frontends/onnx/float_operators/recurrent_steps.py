"""RNN, GRU and LSTM as simpler ONNX operators for each step. Layers whose weights are not constant, and variants
without a kernel, are computed in this way.

Equations and names are from ONNX's operator pages: W, R, B and P of one direction, states h and c, gates in the order
"zrh" (GRU) and "iofc" (LSTM). ONNX Runtime's DynamicQuantizeLSTM has weights of 8 bits and quantizes inputs and states
by DynamicQuantizeLinear before their products.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from onnx import TensorProto

from ....graph.graph import Shape
from ....te.ops.lstm import Direction
from ..attributes import OnnxNode
from ..steps import StepContext, Steps

MOST_STEPS = 256
"""Largest number of steps of all directions together; a step becomes some twenty nodes."""
DYNAMIC = "DynamicQuantizeLSTM"
DIRECTIONS: Mapping[str, tuple[Direction, ...]] = MappingProxyType(
    {"forward": ("forward",), "reverse": ("reverse",), "bidirectional": ("forward", "reverse")}
)
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
DEFAULTS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
FUNCTIONS = ("Relu", "Tanh", "Sigmoid", "Softsign", "Softplus")
"""Activations without parameters."""


def recurrent_steps(
    s: Steps[Any], *, why: str = "", way_out: str = "export the model for shorter sequences"
) -> None:
    """Adds the ONNX nodes that compute all steps of an RNN, GRU or LSTM. Raises NodeError for too many steps; its
    message has the texts `why` (the reason why each step needs its own nodes) and `way_out`.
    """
    directions = directions_of(s.context, s.node, s.shape(0))
    check_activations(s.context, s.node, len(directions))
    first = bool(s.node.integer("layout", 0))
    steps, batch = (s.shape(0)[1], s.shape(0)[0]) if first else s.shape(0)[:2]
    if (count := steps * len(directions)) > MOST_STEPS:
        s.fail(
            f"must be unrolled into nodes for each of its {count} steps{why}, but at most {MOST_STEPS} steps are "
            "supported",
            way_out,
        )
    x = s.add("Transpose", s.input(0), perm=[1, 0, 2]) if first else s.input(0)
    outputs: list[list[str]] = []
    finals: list[list[str]] = []
    for number, direction in enumerate(directions):
        listed, last = _Direction(s, number, batch, first).run(x, steps, direction == "reverse")
        outputs.append(listed)
        finals.append(last)
    # Y is [steps, directions, batch, hidden], or with layout 1 [batch, steps, directions, hidden].
    both = [
        s.add("Concat", *[s.add("Unsqueeze", of[t], s.axes(0)) for of in outputs], axis=0)
        for t in range(steps)
    ]
    y = s.add("Concat", *[s.add("Unsqueeze", item, s.axes(0)) for item in both], axis=0)
    s.done(s.add("Transpose", y, perm=[2, 0, 1, 3]) if first else y)
    for index in range(len(finals[0])):
        held = s.add("Concat", *[s.add("Unsqueeze", last[index], s.axes(0)) for last in finals], axis=0)
        s.done(s.add("Transpose", held, perm=[1, 0, 2]) if first else held, index + 1)


def directions_of(context: StepContext, node: OnnxNode, data: Shape) -> tuple[Direction, ...]:
    """The directions ("forward", "reverse") of a layer with inputs X of shape `data`. Raises InvalidNodeError for an
    unknown direction, an X that has not three dimensions, and a layer without X, W or R."""
    found = DIRECTIONS.get(node.text("direction", "forward"))
    if found is None or len(data) != 3 or not all((*node.inputs, "", "")[:3]):
        context.refuse(
            node,
            f"its direction is '{node.text('direction', 'forward')}' and its input X has the shape {data}; it must "
            f"have the direction {' or '.join(DIRECTIONS)}, an input X of three dimensions, and weights W and R",
        )
    return found


def check_hidden_size(context: StepContext, node: OnnxNode, hidden: int) -> None:
    """Raises InvalidNodeError for a layer whose attribute `hidden_size` is not `hidden`, the size of its weights."""
    if (size := node.integer("hidden_size", hidden)) != hidden:
        context.refuse(
            node, f"its hidden_size ({size}) does not match its weights, which have {hidden} hidden elements"
        )


def kind_of(node: OnnxNode) -> str:
    """The kind of cell of a recurrent node: "RNN", "GRU" or "LSTM"."""
    return "LSTM" if node.op_type == DYNAMIC else node.op_type


def activations_of(node: OnnxNode) -> tuple[str, ...]:
    """Names of the activations of all directions; a name in `FUNCTIONS` is returned in ONNX's spelling, any other
    unchanged.
    """
    count = len(DIRECTIONS.get(node.text("direction", "forward"), ("forward",)))
    given: Sequence[object] = node.attributes.get("activations", DEFAULTS[kind_of(node)] * count)
    names = [name.decode(errors="replace") if isinstance(name, bytes) else str(name) for name in given]
    if node.op_type == "RNN" and (count, len(names)) == (1, 2):
        # ONNX's default of the attribute is written for two directions.
        names = names[:1]
    known = {name.lower(): name for name in FUNCTIONS}
    return tuple([known.get(name.lower(), name) for name in names])


def check_activations(context: StepContext, node: OnnxNode, directions: int) -> None:
    """Raises InvalidNodeError for a layer whose number of activations is wrong for its kind of cell and its number of
    `directions`.
    """
    names, count = activations_of(node), directions * len(DEFAULTS[kind_of(node)])
    if len(names) != count:
        context.refuse(node, f"must have {count} activations, not {len(names)}")


class _Direction:
    """One direction of a node: its weights, activations and states."""

    def __init__(self, s: Steps[Any], number: int, batch: int, batch_first: bool) -> None:
        self.s, self.node, self.number = s, s.node, number
        self.dynamic = s.node.op_type == DYNAMIC
        self.kind = kind_of(s.node)
        self.hidden = s.shape(2)[1 if self.dynamic else -1]
        check_hidden_size(s.context, s.node, self.hidden)
        gates = GATES[self.kind]
        self.w, self.r = (self.weights(i) for i in (1, 2))
        self.wb = self.rb = ""
        if s.input(3):
            size = gates * self.hidden
            self.wb, self.rb = (self.part(self.of(3), 0, k, size) for k in (0, 1))
        self.batch_first = batch_first
        zeros = s.constant(np.zeros((batch, self.hidden)), np.float32)
        along = 1 if batch_first else 0
        self.h = self.of(5, along) if s.input(5) else zeros
        self.c = (self.of(6, along) if s.input(6) else zeros) if self.kind == "LSTM" else ""
        # R and the bias of h are sliced once for all steps.
        self.r_parts, self.rb_parts = [""] * 3, [""] * 3
        if self.kind == "GRU":
            self.r_parts = [self.part(self.r, 1, k, self.hidden) for k in range(3)]
            if self.rb:
                self.rb_parts = [self.part(self.rb, 0, k, self.hidden) for k in range(3)]
        peepholes = self.of(7) if self.kind == "LSTM" and s.input(7) else ""
        self.peepholes = [self.part(peepholes, 0, k, self.hidden) if peepholes else "" for k in range(3)]
        self.activations = self._activations()
        self.clip = float(self.node.attributes.get("clip", 0.0))

    def of(self, index: int, axis: int = 0) -> str:
        """Adds the slice of input `index` (W, R, B ...) that belongs to this direction; returns its name. `axis`: the
        axis of directions.
        """
        place = self.s.constant(self.number, np.int64)
        return self.s.add("Gather", self.s.input(index), place, axis=axis)

    def weights(self, index: int) -> str:
        """Adds W or R (input `index`) of this direction, transposed to [inputs or hidden, gates * hidden]. If it has 8
        bits, it is dequantized and not transposed. Returns its name.
        """
        s = self.s
        if not self.dynamic:
            return s.add("Transpose", self.of(index), perm=[1, 0])
        # After P come scale and zero point of W, then scale and zero point of R: one for each column, or one for all.
        scale, zero_point = (self.of(2 * index + 6 + k) for k in (0, 1))
        number, zero = (s.add("Cast", name, to=TensorProto.FLOAT) for name in (self.of(index), zero_point))
        return s.add("Mul", s.add("Sub", number, zero), scale)

    def product(self, data: str, weights: str) -> str:
        """Adds `data` x `weights`; returns its name. DynamicQuantizeLSTM first rounds `data` to 8 bits."""
        s = self.s
        if self.dynamic:
            rounded, scale, zero_point = s.add_all("DynamicQuantizeLinear", data, count=3)
            data = s.add("DequantizeLinear", rounded, scale, zero_point)
        return s.add("MatMul", data, weights)

    def part(self, data: str, axis: int, number: int, size: int) -> str:
        """Adds a slice of `data` along `axis`, from `number` * `size` on, of `size` elements; returns its name."""
        starts, ends = self.s.axes(number * size), self.s.axes((number + 1) * size)
        return self.s.add("Slice", data, starts, ends, self.s.axes(axis))

    def gate(self, data: str, number: int) -> str:
        """Adds the slice [batch, hidden] of gate `number` from all gates `data`, [batch, gates * hidden]; returns its
        name.
        """
        return self.part(data, 1, number, self.hidden)

    def _activations(self) -> tuple[str, ...]:
        """Names of this direction's activation functions; raises NodeError for functions not in `FUNCTIONS`."""
        names, count = activations_of(self.node), len(DEFAULTS[self.kind])
        own = names[self.number * count : (self.number + 1) * count]
        if not set(own) <= set(FUNCTIONS):
            self.s.context.fail(
                self.node,
                f"not all of its activations {', '.join(names)} are supported",
                f"use {', '.join(FUNCTIONS)}",
            )
        return own

    def apply(self, index: int, *terms: str) -> str:
        """Applies the activation function with index `index` to the sum of `terms` ("" stands for no term). If the node
        has the attribute `clip`, the sum is clipped first. Returns the result's name.
        """
        s = self.s
        terms = tuple(term for term in terms if term)
        total = terms[0]
        for term in terms[1:]:
            total = s.add("Add", total, term)
        if self.clip:
            bounds = (s.constant(value, np.float32) for value in (-self.clip, self.clip))
            total = s.add("Clip", total, *bounds)
        return s.add(self.activations[index], total)

    def run(self, x: str, steps: int, back: bool) -> tuple[list[str], list[str]]:
        """Adds the nodes of all steps, from the first step to the last or, with `back`, from the last to the first.
        Returns two lists of names: the hidden state after each step, in the order of time, and the final states. `x`:
        name of the inputs.
        """
        s = self.s
        listed = [""] * steps
        lengths = s.input(4)
        inputs = self.from_inputs(x, steps)
        for t in reversed(range(steps)) if back else range(steps):
            h, c = self.step(s.add("Gather", inputs, s.constant(t, np.int64), axis=0))
            if lengths:
                # After a sequence's end the state stays unchanged and the output is 0.
                inside = s.add("Less", s.constant(t, np.int32), s.add("Unsqueeze", lengths, s.axes(1)))
                listed[t] = s.add("Where", inside, h, s.constant(0, np.float32))
                h = s.add("Where", inside, h, self.h)
                c = s.add("Where", inside, c, self.c) if c else ""
            else:
                listed[t] = h
            self.h, self.c = h, c
        return listed, [self.h, self.c] if self.c else [self.h]

    def from_inputs(self, x: str, steps: int) -> str:
        """Adds the contribution of all inputs `x` to the gates, [steps, batch, gates * hidden]; returns its name."""
        s = self.s
        batch, size = s.shape(0)[0 if self.batch_first else 1], s.shape(0)[2]
        rows = s.add("Reshape", x, s.axes(1, steps * batch, size))
        product = self.product(rows, self.w)
        if self.wb:
            product = s.add("Add", product, self.wb)
        return s.add("Reshape", product, s.axes(steps, batch, GATES[self.kind] * self.hidden))

    def step(self, from_input: str) -> tuple[str, str]:
        """Adds the nodes of one step; returns the names of the states h and c after it (c is "" for RNN and GRU).
        `from_input`: the contribution of this step's input to the gates.
        """
        s = self.s
        if self.kind == "GRU":
            return self._gru(from_input), ""
        from_state = self.product(self.h, self.r)
        if self.rb:
            from_state = s.add("Add", from_state, self.rb)
        if self.kind == "RNN":
            return self.apply(0, from_input, from_state), ""
        return self._lstm(s.add("Add", from_input, from_state))

    def _gru(self, from_input: str) -> str:
        s = self.s
        parts, biases = self.r_parts, self.rb_parts
        z, r = (
            self.apply(0, self.gate(from_input, k), s.add("MatMul", self.h, parts[k]), biases[k])
            for k in (0, 1)
        )
        if self.node.integer("linear_before_reset", 0):
            inner = s.add("MatMul", self.h, parts[2])
            inner = s.add("Mul", r, s.add("Add", inner, biases[2]) if biases[2] else inner)
            new = self.apply(1, self.gate(from_input, 2), inner)
        else:
            inner = s.add("MatMul", s.add("Mul", r, self.h), parts[2])
            new = self.apply(1, self.gate(from_input, 2), inner, biases[2])
        carried = s.add("Mul", z, self.h)
        return s.add("Add", s.add("Mul", s.add("Sub", s.constant(1, np.float32), z), new), carried)

    def _lstm(self, gates: str) -> tuple[str, str]:
        s = self.s
        i, o, f, c = (self.gate(gates, k) for k in range(4))
        p_i, p_o, p_f = self.peepholes
        i = self.apply(0, i, s.add("Mul", p_i, self.c) if p_i else "")
        if self.node.integer("input_forget", 0):
            f = s.add("Sub", s.constant(1, np.float32), i)
        else:
            f = self.apply(0, f, s.add("Mul", p_f, self.c) if p_f else "")
        cell = s.add("Add", s.add("Mul", f, self.c), s.add("Mul", i, self.apply(1, c)))
        o = self.apply(0, o, s.add("Mul", p_o, cell) if p_o else "")
        return s.add("Mul", o, s.add(self.activations[2], cell)), cell

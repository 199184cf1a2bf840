"""RNN, GRU and LSTM layers, as defined by ONNX.

A layer is two programs: `product` multiplies the inputs of all steps by W at once, and `recurrent_steps` computes the
sequential part, step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

import numpy as np

from ...ir.expr import Buffer, Expr, Var, equal
from ...ir.stmt import Alloc, Assign, Program, Reduce, Stmt, allocated, nest, seq
from ...ir.types import DType
from ..scalars import Scalar, relu, sigmoid, softplus, softsign, tanh
from .lstm import CELL, FORGET, INPUT, OUTPUT, Direction

Cell = Literal["RNN", "GRU", "GRU, reset after", "LSTM"]
"""Kinds of recurrent cells. "GRU, reset after" is ONNX's GRU with linear_before_reset = 1."""
GATES: Mapping[Cell, int] = MappingProxyType({"RNN": 1, "GRU": 3, "GRU, reset after": 3, "LSTM": 4})
UPDATE, RESET, NEW = range(3)
"""Indices of a GRU's gates in ONNX's order "zrh"."""
FUNCTIONS = MappingProxyType(
    {"Relu": relu, "Tanh": tanh, "Sigmoid": sigmoid, "Softsign": softsign, "Softplus": softplus}
)
"""Activation functions that have no parameters (attributes alpha, beta), by ONNX's names."""
_F32 = DType.FLOAT32


def split_bias(cell: Cell, bias: np.ndarray | None, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Splits ONNX's bias B [directions, 2 * gates * hidden] in two; `shape` is (directions, hidden).

    The first result [directions, gates, hidden] is added to the products of the inputs. The second [directions, hidden]
    is BN of `recurrent_steps`, added to the products of the states before the reset gate: zeros for other cells than
    "GRU, reset after".
    """
    directions, hidden = shape
    both = np.zeros((directions, 2, GATES[cell], hidden), np.float32)
    if bias is not None:
        both = bias.reshape(both.shape).copy()
    behind = np.zeros((directions, hidden), np.float32)
    if cell == "GRU, reset after":
        behind = both[:, 1, NEW].copy()
        both[:, 1, NEW] = 0
    return both.sum(axis=1), behind


def recurrent_parts(cell: Cell, r: np.ndarray) -> tuple[np.ndarray, ...]:
    """The recurrent weights as `recurrent_steps` needs them, from ONNX's R [directions, gates * hidden, hidden]: R
    [directions, hidden, gates, hidden]. For the cell "GRU" there are two arrays: R with the gates UPDATE and RESET, and
    RN with the gate NEW.
    """
    directions, _, hidden = r.shape
    gates = r.reshape(directions, GATES[cell], hidden, hidden).transpose(0, 3, 1, 2)
    parts = (gates[:, :, :NEW], gates[:, :, NEW:]) if cell == "GRU" else (gates,)
    return tuple([np.ascontiguousarray(part) for part in parts])


def recurrent_steps(
    *,
    cell: Cell,
    steps: int,
    batch: int,
    hidden: int,
    directions: Sequence[Direction] = ("forward",),
    activations: Sequence[tuple[str, ...]] = (),
    name: str = "recurrent",
) -> Program:
    """The program that computes the states of a layer from G, the products of all inputs and W. `activations`: for each
    direction one (RNN) or two (GRU) names of FUNCTIONS; ONNX's defaults if empty. An LSTM always has ONNX's defaults.

        RNN                H[t] = tanh(G[t] + H[t - 1] @ R)
        GRU                z, r = sigmoid(G[t] + H[t - 1] @ R)       n = tanh(G[t] + (r * H[t - 1]) @ RN)
        GRU, reset after   z, r = sigmoid(G[t] + H[t - 1] @ R)       n = tanh(G[t] + r * (H[t - 1] @ R + BN))
                           H[t] = (1 - z) * n + z * H[t - 1]
        LSTM               i, o, f, c = G[t] + H[t - 1] @ R
                           C[t] = sigmoid(f) * C[t - 1] + sigmoid(i) * tanh(c)       H[t] = sigmoid(o) * tanh(C[t])

    Float32 parameters, with D directions and g gates: G [steps, batch, D, g, hidden], which is X [steps * batch,
    inputs] times W plus the first result of `split_bias`; R, and for "GRU" RN, from `recurrent_parts`; for "GRU, reset
    after" BN [D, hidden], the second result of `split_bias`; H0 [D, batch, hidden]; Y [steps, D, batch, hidden] and YH
    [D, batch, hidden], which are ONNX's outputs Y and Y_h. For an LSTM, `lstm.py` makes G and R, and C0 and YC hold the
    first and last states of the cells.

    Each direction d has its own statements. "start.h.d" copies H0 to the state h.d [batch, hidden]. Loop t.d runs over
    the steps; it contains the stages of a step, then "carry.d", which copies the new state to h.d. At the end "end.h.d"
    stores YH. For an LSTM, "start.c.d" copies C0 to c.d, "cell.d" updates c.d in each step, and "end.c.d" stores YC.

    A step is one stage named d. For "GRU", a stage reset.d precedes this stage and computes z and r * H. A stage s
    first computes sum.s [batch, gates, hidden] by the statement "product.s" (loops product.s.n, q, j, k), then the
    state, in loops n.s, j.s.
    """
    count, gates = len(directions), GATES[cell]
    activations = activations or (("Tanh",) if cell == "RNN" else ("Sigmoid", "Tanh"),) * count
    given = Buffer(name="G", shape=(steps, batch, count, gates, hidden), dtype=_F32)
    weight = Buffer(
        name="R", shape=(count, hidden, gates - 1 if cell == "GRU" else gates, hidden), dtype=_F32
    )
    new = Buffer(name="RN", shape=(count, hidden, 1, hidden), dtype=_F32)
    behind = Buffer(name="BN", shape=(count, hidden), dtype=_F32)
    y = Buffer(name="Y", shape=(steps, count, batch, hidden), dtype=_F32)
    own = {"GRU": (new,), "GRU, reset after": (behind,)}.get(cell, ())
    kinds = "hc" if cell == "LSTM" else "h"
    starts, ends = (
        [Buffer(name=name.format(n.upper()), shape=(count, batch, hidden), dtype=_F32) for n in kinds]
        for name in ("{}0", "Y{}")
    )
    body: list[Stmt] = []
    for d, direction in enumerate(directions):
        states = [Buffer(name=f"{n}.{d}", shape=(batch, hidden), dtype=_F32) for n in kinds]
        t = Var(f"t.{d}")
        time: Expr = t if direction == "forward" else steps - 1 - t
        parts = _Step(d, time, given, (weight, *own), states, y, activations[d])
        step = _STEPS[cell](parts)
        around = seq(
            *(
                _copied(f"start.{n}.{d}", h, (), x, (d,))
                for n, h, x in zip(kinds, states, starts, strict=True)
            ),
            nest([(t, steps)], seq(step, _copied(f"carry.{d}", states[0], (), y, (time, d)))),
            *(_copied(f"end.{n}.{d}", x, (d,), h, ()) for n, h, x in zip(kinds, states, ends, strict=True)),
        )
        body.append(allocated(states, around))
    return Program(name=name, parameters=(given, weight, *own, *starts, y, *ends), body=seq(*body))


class _Step:
    """One step of direction `d`: its buffers, and the loops of its stages."""

    def __init__(
        self,
        d: int,
        time: Expr,
        given: Buffer,
        weights: tuple[Buffer, ...],
        states: Sequence[Buffer],
        y: Buffer,
        activations: tuple[str, ...],
    ) -> None:
        self.d, self.time, self.given, self.weights, self.y = d, time, given, weights, y
        self.h, *self.cells = states
        self.functions = [FUNCTIONS[name] for name in activations]
        self.batch, self.hidden = self.h.shape

    def state(self, value: Expr, n: Var, j: Var) -> Assign:
        """The statement that stores `value`, the new state of sample `n` and cell `j`, in Y at this time step."""
        return Assign.to(f"state.{self.d}", self.y[self.time, self.d, n, j], value)

    def activated(self, index: int, value: Scalar) -> Expr:
        """Activation function number `index` of this direction, applied to `value`."""
        return self.functions[index](value)  # type: ignore[arg-type]

    def intermediate(self, name: str) -> Buffer:
        """A buffer [batch, hidden] for a value that later statements of the step read."""
        return Buffer(name=f"{name}.{self.d}", shape=(self.batch, self.hidden), dtype=_F32)

    def loops(self, label: str) -> tuple[Var, Var]:
        """The loop variables n and j of the stage `label`."""
        return Var(f"n.{label}"), Var(f"j.{label}")

    def total(self, label: str, gates: int) -> Buffer:
        """The buffer [batch, gates, hidden] for the matrix products of stage `label`, one value for each gate of each
        cell.
        """
        return Buffer(name=f"sum.{label}", shape=(self.batch, gates, self.hidden), dtype=_F32)

    def stage(self, label: str, total: Buffer, source: Buffer, weight: Buffer, *cells: Stmt) -> Stmt:
        """The stage `label` of a step: first matrix products, which write `source` times `weight` to the buffer
        `total`; then the statements `cells`, in loops over the samples and hidden cells.
        """
        n, q, j, k = (Var(f"product.{label}.{v}") for v in ("n", "q", "j", "k"))
        product = Reduce.into(
            f"product.{label}", "add", total[n, q, j], source[n, k] * weight[self.d, k, q, j], equal(k, 0)
        )
        loops = [(n, self.batch), (q, total.shape[1]), (j, self.hidden), (k, self.hidden)]
        around = list(zip(self.loops(label), (self.batch, self.hidden), strict=True))
        return Alloc(buffer=total, body=seq(nest(loops, product), nest(around, seq(*cells))))


def _rnn(s: _Step) -> Stmt:
    label = str(s.d)
    n, j = s.loops(label)
    total = s.total(label, 1)
    value = s.activated(0, total[n, 0, j] + s.given[s.time, n, s.d, 0, j])
    return s.stage(label, total, s.h, s.weights[0], s.state(value, n, j))


def _gru(s: _Step) -> Stmt:
    label = f"reset.{s.d}"
    n, j = s.loops(label)
    total, update, kept = s.total(label, 2), s.intermediate("update"), s.intermediate("kept")

    def gate(number: int) -> Expr:
        return s.activated(0, total[n, number, j] + s.given[s.time, n, s.d, number, j])

    first = s.stage(
        label,
        total,
        s.h,
        s.weights[0],
        Assign.to(f"update.{s.d}", update[n, j], gate(UPDATE)),
        Assign.to(f"kept.{s.d}", kept[n, j], gate(RESET) * s.h[n, j]),
    )
    label = str(s.d)
    n, j = s.loops(label)
    total = s.total(label, 1)
    new = s.activated(1, total[n, 0, j] + s.given[s.time, n, s.d, NEW, j])
    state = s.state(_mixed(update[n, j], new, s.h[n, j]), n, j)
    second = s.stage(label, total, kept, s.weights[1], state)
    return Alloc(buffer=update, body=Alloc(buffer=kept, body=seq(first, second)))


def _gru_reset_after(s: _Step) -> Stmt:
    label = str(s.d)
    n, j = s.loops(label)
    total, update = s.total(label, 3), s.intermediate("update")

    def gate(number: int) -> Expr:
        return s.activated(0, total[n, number, j] + s.given[s.time, n, s.d, number, j])

    inner = gate(RESET) * (total[n, NEW, j] + s.weights[1][s.d, j])
    new = s.activated(1, s.given[s.time, n, s.d, NEW, j] + inner)
    step = s.stage(
        label,
        total,
        s.h,
        s.weights[0],
        Assign.to(f"update.{s.d}", update[n, j], gate(UPDATE)),
        s.state(_mixed(update[n, j], new, s.h[n, j]), n, j),
    )
    return Alloc(buffer=update, body=step)


def _lstm(s: _Step) -> Stmt:
    label = str(s.d)
    n, j = s.loops(label)
    (c,), total = s.cells, s.total(label, 4)

    def gate(number: int) -> Expr:
        return total[n, number, j] + s.given[s.time, n, s.d, number, j]

    kept = sigmoid(gate(FORGET)) * c[n, j]
    cell = Assign.to(f"cell.{s.d}", c[n, j], kept + sigmoid(gate(INPUT)) * tanh(gate(CELL)))
    state = s.state(sigmoid(gate(OUTPUT)) * tanh(c[n, j]), n, j)
    return s.stage(label, total, s.h, s.weights[0], cell, state)


_STEPS: Mapping[Cell, Callable[[_Step], Stmt]] = MappingProxyType(
    {"RNN": _rnn, "GRU": _gru, "GRU, reset after": _gru_reset_after, "LSTM": _lstm}
)


def _copied(
    name: str, to: Buffer, at: tuple[Expr | int, ...], source: Buffer, of: tuple[Expr | int, ...]
) -> Stmt:
    """Copies a state [batch, hidden]: to[*at, n, j] = source[*of, n, j], in loops `name`.n, `name`.j around `name`."""
    n, j = Var(f"{name}.n"), Var(f"{name}.j")
    move = Assign.to(name, to[(*at, n, j)], source[(*of, n, j)])
    return nest([(n, to.shape[-2]), (j, to.shape[-1])], move)


def _mixed(update: Expr, new: Expr, old: Expr) -> Expr:
    return (1.0 - update) * new + update * old

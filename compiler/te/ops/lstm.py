"""LSTM layers, as defined by ONNX.

A layer is two programs: `dense` multiplies the inputs of all steps by W at once, and `lstm_steps` computes the
sequential part, step by step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from ...ir.expr import Buffer, Expr, Var, equal
from ...ir.stmt import Alloc, Assign, Program, Reduce, Stmt, nest, seq
from ...ir.types import DType
from ..scalars import sigmoid, tanh

Direction = Literal["forward", "reverse"]
INPUT, OUTPUT, FORGET, CELL = range(4)
"""The gates in ONNX's order "iofc"."""


def input_weights(w: np.ndarray, bias: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Weights and bias of the `dense` that computes G of `lstm_steps`, from ONNX's W and B.

    ONNX's W [directions, 4 * hidden, inputs] becomes [inputs, directions * 4 * hidden]. ONNX's B [directions, 8 *
    hidden], two biases for each gate, becomes their sum [directions * 4 * hidden]; zeros without a bias.
    """
    directions, gates, inputs = w.shape
    both = np.zeros((directions, 2, gates), w.dtype) if bias is None else bias.reshape(directions, 2, gates)
    return np.ascontiguousarray(w.reshape(-1, inputs).T), both.sum(axis=1).reshape(-1)


def recurrent_weights(r: np.ndarray) -> np.ndarray:
    """R [directions, hidden, 4, hidden] of `lstm_steps`, from ONNX's R [directions, 4 * hidden, hidden]."""
    directions, gates, hidden = r.shape
    return np.ascontiguousarray(r.transpose(0, 2, 1)).reshape(directions, hidden, 4, gates // 4)


def lstm_steps(
    *, steps: int, batch: int, hidden: int, directions: Sequence[Direction] = ("forward",), name: str = "lstm"
) -> Program:
    """The states of an LSTM layer with ONNX's default activations, from the product G of all inputs and W.

        i, o, f, c' = G[t] + H[t - 1] @ R          C[t] = sigmoid(f) * C[t - 1] + sigmoid(i) * tanh(c')
                                                   H[t] = sigmoid(o) * tanh(C[t])

    Float32 parameters, with D directions: G [steps, batch, D, 4, hidden], which is X [steps * batch, inputs] times W
    plus B of `input_weights`; R [D, hidden, 4, hidden] of `recurrent_weights`; H0 and C0 [D, batch, hidden];
    Y [steps, D, batch, hidden], YH and YC [D, batch, hidden], which are ONNX's outputs Y, Y_h and Y_c.

    Statements for each direction d: "start.h.d" and "start.c.d" copy H0 and C0 to h.d and c.d [batch, hidden]. Loop t.d
    contains "product.d" (loops product.d.n, q, j, k), which computes sum.d [batch, 4, hidden]; loops n.d, j.d around
    "cell.d" and "state.d"; and "carry.d", which copies the new state to h.d. "end.h.d" and "end.c.d" store YH and YC.
    """
    count = len(directions)
    f32 = DType.FLOAT32
    gates = Buffer(name="G", shape=(steps, batch, count, 4, hidden), dtype=f32)
    weight = Buffer(name="R", shape=(count, hidden, 4, hidden), dtype=f32)
    h0, c0, yh, yc = (
        Buffer(name=n, shape=(count, batch, hidden), dtype=f32) for n in ("H0", "C0", "YH", "YC")
    )
    y = Buffer(name="Y", shape=(steps, count, batch, hidden), dtype=f32)
    body: list[Stmt] = []
    for d, direction in enumerate(directions):
        h, c = (Buffer(name=f"{n}.{d}", shape=(batch, hidden), dtype=f32) for n in ("h", "c"))
        t = Var(f"t.{d}")
        time: Expr = t if direction == "forward" else steps - 1 - t
        step = _step(d, time, (gates, weight, h, c, y))
        around = seq(
            copied_state(f"start.h.{d}", h, (), h0, (d,)),
            copied_state(f"start.c.{d}", c, (), c0, (d,)),
            nest([(t, steps)], seq(step, copied_state(f"carry.{d}", h, (), y, (time, d)))),
            copied_state(f"end.h.{d}", yh, (d,), h, ()),
            copied_state(f"end.c.{d}", yc, (d,), c, ()),
        )
        body.append(Alloc(buffer=h, body=Alloc(buffer=c, body=around)))
    return Program(name=name, parameters=(gates, weight, h0, c0, y, yh, yc), body=seq(*body))


def _step(d: int, time: Expr, buffers: tuple[Buffer, ...]) -> Stmt:
    """One step of direction `d`: the sums of all gates, then the cells and states."""
    gates, weight, h, c, y = buffers
    batch, hidden = h.shape
    total = Buffer(name=f"sum.{d}", shape=(batch, 4, hidden), dtype=DType.FLOAT32)
    n, q, j, k = (Var(f"product.{d}.{v}") for v in ("n", "q", "j", "k"))
    product = Reduce.into(f"product.{d}", "add", total[n, q, j], h[n, k] * weight[d, k, q, j], equal(k, 0))
    summed = nest([(n, batch), (q, 4), (j, hidden), (k, hidden)], product)
    n, j = Var(f"n.{d}"), Var(f"j.{d}")

    def gate(number: int) -> Expr:
        return total[n, number, j] + gates[time, n, d, number, j]

    kept = sigmoid(gate(FORGET)) * c[n, j]
    cell = Assign.to(f"cell.{d}", c[n, j], kept + sigmoid(gate(INPUT)) * tanh(gate(CELL)))
    state = Assign.to(f"state.{d}", y[time, d, n, j], sigmoid(gate(OUTPUT)) * tanh(c[n, j]))
    return Alloc(buffer=total, body=seq(summed, nest([(n, batch), (j, hidden)], seq(cell, state))))


def copied_state(
    name: str, to: Buffer, at: tuple[Expr | int, ...], source: Buffer, of: tuple[Expr | int, ...]
) -> Stmt:
    """Copies a state [batch, hidden]: to[*at, n, j] = source[*of, n, j], in loops `name`.n, `name`.j around `name`."""
    n, j = Var(f"{name}.n"), Var(f"{name}.j")
    move = Assign.to(name, to[(*at, n, j)], source[(*of, n, j)])
    return nest([(n, to.shape[-2]), (j, to.shape[-1])], move)

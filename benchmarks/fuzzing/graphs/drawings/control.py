"""Drawings (random nodes) of If, Loop and Scan: their bodies have a few nodes, which also read tensors from outside the
body.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from ..builder import Builder
from ..tables import Operator

FUNCTIONS = ("Relu", "Neg", "Abs", "Tanh", "Sigmoid")
PAIRS = ("Add", "Sub", "Mul", "Max")
_FLOAT = TensorProto.FLOAT


def _steps(b: Builder, first: str, others: list[str], last: str) -> list[onnx.NodeProto]:
    """Makes a chain of one to three random nodes that starts at the tensor `first`, ends at the tensor `last` and may
    also read the tensors `others`; returns the nodes, which the caller puts into a body.
    """
    nodes: list[onnx.NodeProto] = []
    name = first
    count = 1 + b.draw.below(3)
    for i in range(count):
        made = last if i == count - 1 else f"{last}_{i}"
        if others and b.draw.chance(0.5) and i:
            nodes.append(
                helper.make_node(
                    b.draw.of(PAIRS[:1] if b.opset < 8 else PAIRS), [name, b.draw.of(others)], [made], made
                )
            )
        else:
            nodes.append(helper.make_node(b.draw.of(FUNCTIONS), [name], [made], made))
        name = made
    return nodes


def _info(name: str, shape: Any, kind: int = _FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def branches(b: Builder, operator: Operator) -> None:
    """Adds an If whose condition is a constant, or is known at run time only."""
    data = b.tensor(["float32"], ranks=(1, 2, 3))
    shape = b.array(data).shape
    other = b.tensor(["float32"], shape=shape)
    made = f"if{len(b.nodes)}"
    graphs: dict[str, Any] = {
        f"{side}_branch": helper.make_graph(
            _steps(b, data, [other], f"{made}_{side}"), side, [], [_info(f"{made}_{side}", shape)]
        )
        for side in ("then", "else")
    }
    condition = b.new(np.asarray(b.draw.chance(0.5)), constant=b.draw.chance(0.4), held=True)
    b.node(operator, [condition], **graphs)


def loop(b: Builder, operator: Operator) -> None:
    """Adds a Loop with a known number of iterations, a state, and an output for each iteration."""
    data = b.tensor(["float32"], ranks=(1, 2, 3))
    shape = b.array(data).shape
    other = b.tensor(["float32"], shape=shape)
    stem = f"loop{len(b.nodes)}"
    scans = b.draw.below(2)
    nodes = [
        *_steps(b, f"{stem}_in", [other, f"{stem}_in"], f"{stem}_out"),
        helper.make_node("Identity", [f"{stem}_cond"], [f"{stem}_on"], f"{stem}_on"),
    ]
    outputs = [_info(f"{stem}_on", [], TensorProto.BOOL), _info(f"{stem}_out", shape)]
    if scans:
        nodes.append(helper.make_node("Neg", [f"{stem}_out"], [f"{stem}_scan"], f"{stem}_scan"))
        outputs.append(_info(f"{stem}_scan", shape))
    inputs = [
        _info(f"{stem}_i", [], TensorProto.INT64),
        _info(f"{stem}_cond", [], TensorProto.BOOL),
        _info(f"{stem}_in", shape),
    ]
    body = helper.make_graph(nodes, stem, inputs, outputs)
    turns = b.parameter(np.asarray(1 + b.draw.below(4), np.int64), run_time=0)
    going = b.parameter(np.asarray(True), run_time=0)
    b.node(operator, [turns, going, data], outputs=1 + scans, body=body)


def scan(b: Builder, operator: Operator) -> None:
    """Adds a random Scan over the elements of one or two tensors, along any axis in any direction."""
    data = b.tensor(["float32"], ranks=(2, 3))
    shape = list(b.array(data).shape)
    axis = b.draw.below(len(shape)) if b.opset >= 9 else 0
    inner = [*shape[:axis], *shape[axis + 1 :]]
    state = b.tensor(["float32"], shape=inner, old=0.2)
    stem = f"scan{len(b.nodes)}"
    nodes = [
        helper.make_node("Add", [f"{stem}_s", f"{stem}_x"], [f"{stem}_sum"], f"{stem}_sum"),
        *_steps(b, f"{stem}_sum", [f"{stem}_x", f"{stem}_s"], f"{stem}_next"),
        helper.make_node(b.draw.of(FUNCTIONS), [f"{stem}_sum"], [f"{stem}_y"], f"{stem}_y"),
    ]
    body = helper.make_graph(
        nodes,
        stem,
        [_info(f"{stem}_s", inner), _info(f"{stem}_x", inner)],
        [_info(f"{stem}_next", inner), _info(f"{stem}_y", inner)],
    )
    attributes: dict[str, Any] = {"num_scan_inputs": 1, "body": body}
    if axis or b.draw.chance(0.3):
        attributes["scan_input_axes"] = [axis]
    if b.draw.chance(0.4):
        attributes["scan_input_directions"] = [b.draw.below(2)]
    if b.draw.chance(0.4):
        attributes["scan_output_axes"] = [b.draw.below(len(inner) + 1)]
    if b.draw.chance(0.4):
        attributes["scan_output_directions"] = [b.draw.below(2)]
    b.node(operator, [state, data], outputs=2, **attributes)

"""Imports If, Loop and Scan. The condition or the trip count must be known at compilation, so that the nodes of the
body are imported once for each iteration.

In iteration t, nodes are named NODE/t/OPERATOR_i and tensors NODE/t/NAME. NODE is the model's node, so messages name
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ..attributes import OnnxNode, read_node
from ..axes import described
from ..context import GraphContext
from ..steps import Nodes
from ..table import import_body, import_node
from .functions import renamed

MOST_NODES = 4096
"""Largest number of ONNX nodes in all iterations of the bodies of If, Loop and Scan together."""


def import_control(context: GraphContext, node: OnnxNode) -> None:
    """Imports If, Loop or Scan into a float graph, or If into an integer graph."""
    match node.op_type:
        case "If":
            for name, result in zip(node.outputs, _branch(context, node), strict=True):
                _bind(context, node, name, result)
        case "Loop":
            _loop(context, node)
        case _:
            _scan(context, node)


def _branch(context: GraphContext, node: OnnxNode) -> list[str]:
    """Imports the nodes of the branch that the constant condition of the If `node` selects; returns the names of the
    branch's results.
    """
    condition = context.array(node, 0, "condition")
    if condition is None or condition.size != 1:
        context.refuse(node, f"its condition ({described(condition)}) must be a single value")
    chosen = "then_branch" if condition.reshape(-1)[0] else "else_branch"
    return _iteration(context, node, _body(context, node, chosen), [], 0)


def _loop(context: GraphContext, node: OnnxNode) -> None:
    body = _body(context, node, "body")
    trips = context.array(node, 0, "trip count")
    if trips is None or trips.size != 1:
        context.fail(
            node,
            "its trip count is missing or is not a single number",
            "give the trip count as an initializer",
        )
    count = int(trips.reshape(-1)[0])
    _check_turns(context, node, body, count)
    states = [_input_name(context, node, i) for i in range(2, len(node.inputs))]
    going, listed = (
        _input_name(context, node, 1) if len(node.inputs) > 1 and node.inputs[1] else "",
        list[list[str]](),
    )
    for t in range(count):
        if going:
            known = context.constants.get(context.resolve(going))
            if known is None:
                context.fail(
                    node,
                    "its number of iterations depends on data, which is not supported",
                    "export the model with a constant number of iterations",
                )
            if not known.reshape(-1)[0]:
                break
        first = context.store(context.temporary(node, "turn"), np.array(t, np.int64))
        condition = going or context.store(context.temporary(node, "condition"), np.array(True))
        going, *rest = _iteration(context, node, body, [first, condition, *states], t)
        states = rest[: len(states)]
        listed.append(rest[len(states) :])
    for name, state in zip(node.outputs, states, strict=False):
        _bind(context, node, name, state)
    for k, name in enumerate(node.outputs[len(states) :]):
        if not listed:
            context.fail(
                node,
                f"runs no iteration, so it has no results to stack in its output '{name}'",
                "export the model again",
            )
        _stack(context, node, name, [turn[k] for turn in listed], 0)


def _scan(context: GraphContext, node: OnnxNode) -> None:
    body = _body(context, node, "body")
    scanned = node.integer("num_scan_inputs", 0)
    count = len(node.inputs) - scanned
    if scanned < 1 or count < 0:
        context.refuse(
            node,
            f"its num_scan_inputs is {scanned}, but must be 1 to {len(node.inputs)} (its number of inputs)",
        )
    inputs = [context.tensor(node, count + i) for i in range(scanned)]
    axes = _numbers(node, "scan_input_axes", scanned)
    backwards = _numbers(node, "scan_input_directions", scanned)
    lengths = {tensor.shape[axis] for tensor, axis in zip(inputs, axes, strict=True)}
    if len(lengths) != 1:
        context.refuse(node, f"the inputs that it scans must have the same length, not {sorted(lengths)}")
    steps = lengths.pop()
    _check_turns(context, node, body, steps)
    states = [_input_name(context, node, i) for i in range(count)]
    listed: list[list[str]] = []
    for t in range(steps):
        slices: list[str] = []
        for i, (axis, back) in enumerate(zip(axes, backwards, strict=True)):
            place = context.store(context.temporary(node, "place"), np.array(steps - 1 - t if back else t))
            taken = f"{node.name}/{t}/input{i}"
            proto = helper.make_node("Gather", [inputs[i].name, place], [taken], name=taken, axis=axis)
            import_node(context, read_node(proto, 0))
            slices.append(taken)
        results = _iteration(context, node, body, [*states, *slices], t)
        states = results[:count]
        listed.append(results[count:])
    for name, state in zip(node.outputs, states, strict=False):
        _bind(context, node, name, state)
    outputs = node.outputs[count:]
    places = _numbers(node, "scan_output_axes", len(outputs))
    reverse = _numbers(node, "scan_output_directions", len(outputs))
    for k, name in enumerate(outputs):
        turns = [turn[k] for turn in listed]
        _stack(context, node, name, turns[::-1] if reverse[k] else turns, places[k])


def _numbers(node: OnnxNode, attribute: str, count: int) -> list[int]:
    return list(node.integers(attribute, [0] * count))


def _body(context: GraphContext, node: OnnxNode, attribute: str) -> onnx.GraphProto:
    body = node.attributes.get(attribute)
    if not isinstance(body, onnx.GraphProto):
        context.refuse(
            node,
            f"its attribute {attribute} is {'missing' if body is None else 'no graph'}, but must be a graph",
        )
    return body


def _check_turns(context: GraphContext, node: OnnxNode, body: onnx.GraphProto, turns: int) -> None:
    if turns * max(len(body.node), 1) > MOST_NODES:
        context.fail(
            node,
            f"unrolled, its {turns:,} iterations of {len(body.node)} nodes are more than {MOST_NODES:,} nodes",
            "export the model for shorter sequences",
        )


def _input_name(context: GraphContext, node: OnnxNode, index: int) -> str:
    """Name of input `index` of the node, a tensor or constant; raises InvalidNodeError if no node computes it."""
    context.tensor(node, index)
    return context.resolve(node.inputs[index])


def _iteration(
    context: GraphContext, node: OnnxNode, body: onnx.GraphProto, inputs: Sequence[str], turn: int
) -> list[str]:
    """Imports the nodes of `body` for the iteration number `turn` (from 0); returns the names of the results. `inputs`:
    names of the tensors that become the body's inputs. The body may also read tensors outside of it, whose names stay
    unchanged.
    """
    context.body_nodes += len(body.node)
    if context.body_nodes > MOST_NODES:
        # The iterations of nested bodies multiply.
        context.fail(
            node,
            f"unrolled together with the loops around it, it has more than {MOST_NODES:,} nodes",
            "export the model for shorter sequences",
        )
    prefix = f"{node.name}/{turn}/"
    names = dict(zip([info.name for info in body.input], inputs, strict=False))
    for tensor in body.initializer:
        names[tensor.name] = context.store(f"{prefix}{tensor.name}", numpy_helper.to_array(tensor))
    for inner in body.node:
        names |= {name: f"{prefix}{name}" for name in inner.output if name}
    for number, inner in enumerate(body.node):
        made = renamed(inner, names, f"{prefix}{inner.op_type}_{number}")
        import_node(context, read_node(made, number))
    return [names.get(info.name, info.name) for info in body.output]


def _bind(context: GraphContext, node: OnnxNode, name: str, result: str) -> None:
    """Makes the node's output `name` another name of `result`, unless the output is left out."""
    if name:
        context.bind_same(replace(node, inputs=(result,), outputs=(name,)))


def _stack(context: GraphContext, node: OnnxNode, name: str, turns: list[str], axis: int) -> None:
    """Adds the tensor `name`: the tensors `turns`, one for each iteration, stacked along a new axis `axis`."""
    if not name:
        return
    along = context.store(context.temporary(node, "axis"), np.array([axis], np.int64))
    steps = Nodes(context=context, node=node)
    wide = [steps.add("Unsqueeze", turn, along, output=f"{name}/turn{t}") for t, turn in enumerate(turns)]
    steps.add("Concat", *wide, output=name, axis=axis)
    import_body(context, steps.nodes)

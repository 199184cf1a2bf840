"""Verdict on a compiled random graph: the outputs of the compiled model are compared with the values that were computed
node by node.
"""

from __future__ import annotations

import traceback

import numpy as np
import onnx

import vdla
from vdla.compiler.graph.errors import NodeError, NodesError
from vdla.compiler.runtime.accelerator import AcceleratorExecutable
from vdla.util.errors import UserError

from ..outcome import Outcome
from .builder import Builder, outer_names
from .oracle import NoValueError, node_run
from .spread import ALLOWED, Spread, distance


def compiled_outcome(builder: Builder, model: onnx.ModelProto, target: str, **options: object) -> Outcome:
    """Compiles `model`, made from the graph `builder`, for a target, and compares its outputs with the values that the
    builder has computed node by node.
    """
    operators = tuple(dict.fromkeys(operator_text(node) for node in builder.nodes))
    try:
        network = vdla.compile(model.SerializeToString(), target=target, cache=False, **options)  # pyright: ignore
        got = network.run(builder.feeds())
    except UserError as error:
        return refused(error, operators)
    except MemoryError:
        return Outcome("memory", traced(), operators)
    except Exception:
        return Outcome("traceback", traced(), operators)
    halves = own_half_steps(network, model)
    for info in model.graph.output:
        value = builder.values[info.name]
        spread = Spread(value.spread.array + halves.get(info.name, 0.0) / ALLOWED)
        problem = distance(np.asarray(got[info.name]), value.array, spread)
        if problem is not None:
            if (node := disputed(builder)) is not None:
                return Outcome("unchecked", f"the oracles disagree on {node}", operators)
            return Outcome("wrong", f"output '{info.name}' ({value.array.dtype}): {problem}", operators)
    return Outcome("right", "", operators)


def own_half_steps(network: vdla.Executable, model: onnx.ModelProto) -> dict[str, float]:
    """On the accelerator, the rounding error of float outputs that the model itself does not quantize: half a
    quantization step, by output. The compiler chooses the scale of such an output from its bounds (`onnx_own_grids`).
    """
    if not isinstance(network, AcceleratorExecutable):
        return {}
    makers = {name: node.op_type for node in model.graph.node for name in node.output}
    return {
        output.name: float(output.quantization.scale) / 2
        for output in network.compiled.graph.outputs
        if output.quantization is not None and makers.get(output.name) != "DequantizeLinear"
    }


def operator_text(node: onnx.NodeProto) -> str:
    """An operator as text: DOMAIN:NAME, or NAME for ONNX's own."""
    return f"{node.domain}:{node.op_type}" if node.domain else node.op_type


def refused(error: UserError, operators: tuple[str, ...]) -> Outcome:
    """The outcome for a rejected model: "wrong" if the message is badly formed, else "refused" with the operators of
    the nodes that the message names.
    """
    text = str(error)
    lines = text.splitlines()
    if not all(line.isprintable() for line in lines) or (
        len(lines) > 1 and not isinstance(error, NodesError)
    ):
        return Outcome("wrong", f"refused in {len(lines)} lines: {text[:300]!r}", operators)
    parts = error.parts if isinstance(error, NodesError) else (error,)
    names = {part.op_type for part in parts if isinstance(part, NodeError)}
    # If a node stands for a step of another operator, its own operator is not in the graph.
    blamed = tuple(name for name in operators if name.rpartition(":")[2] in names)
    return Outcome("refused", text, operators, blamed)


def disputed(builder: Builder) -> str | None:
    """The first node on which ONNX's reference implementation and ONNX Runtime disagree; None if they agree on all
    nodes.
    """
    for node in builder.nodes:
        outputs = [name for name in node.output if name]
        if builder.values[outputs[0]].engine != "onnxruntime":
            continue
        read = [name for name in dict.fromkeys((*node.input, *outer_names(node))) if name]
        feeds = {name: builder.array(name) for name in read}
        try:
            results = node_run(node, builder.opsets, feeds, "reference")(feeds)
        except NoValueError:
            continue
        for name, other in zip(outputs, results, strict=True):
            value = builder.values[name]
            if distance(other, value.array, value.spread) is not None:
                return f"{node.name}"
    return None


def traced() -> str:
    """The exception that is being handled, and the place where it was raised, as text."""
    lines = traceback.format_exc().strip().splitlines()
    places = [line.strip() for line in lines if line.strip().startswith("File ")]
    return f"{lines[-1]} at {places[-1]}"

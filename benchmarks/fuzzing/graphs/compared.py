"""Verdict on a compiled random graph: the outputs of the compiled model are compared with the values that were computed
node by node.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping

import numpy as np
import onnx

import vdla
from vdla.compiler.graph.errors import NodeError, NodesError
from vdla.compiler.runtime.accelerator import AcceleratorExecutable
from vdla.util.errors import UserError

from ..outcome import Outcome
from .builder import Builder, outer_names
from .oracle import NoValueError, node_run
from .spread import ALLOWED, Spread, UnstableError, distance, spread_of

COARSE = 25.0
"""Factor by which the largest tolerance of a float result may grow if the accelerator stores an earlier result in 8
bits. The tolerance is then up to 1/20 of the largest element; half a step of 8 bits is 1/510.
"""


def compiled_outcome(builder: Builder, model: onnx.ModelProto, target: str, **options: object) -> Outcome:
    """Compiles `model`, made from the graph `builder`, for a target with the other `options` of `vdla.compile`, runs
    it, and compares its outputs with the values that the builder has computed node by node; returns the verdict.
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
    halves = own_half_steps(builder, network)
    for info in model.graph.output:
        value = builder.values[info.name]
        problem = distance(np.asarray(got[info.name]), value.array, value.spread)
        if problem is not None and halves:
            try:
                wider = own_spreads(builder, halves)[info.name]
            except UnstableError as error:
                return Outcome("unchecked", f"with roundings of the compiler's own: {error}", operators)
            problem = distance(np.asarray(got[info.name]), value.array, wider)
        if problem is not None:
            if (node := disputed(builder)) is not None:
                return Outcome("unchecked", f"the oracles disagree on {node}", operators)
            return Outcome("wrong", f"output '{info.name}' ({value.array.dtype}): {problem}", operators)
    return Outcome("right", "", operators)


def own_half_steps(builder: Builder, network: vdla.Executable) -> dict[str, float]:
    """For float tensors that the model does not quantize, but that the accelerator stores in 8 bits: the largest
    rounding error, half a quantization step, by name of the tensor. The compiler chooses the scales of these tensors
    from their bounds (`own_grids`). Empty for other targets.
    """
    if not isinstance(network, AcceleratorExecutable):
        return {}
    steps: dict[str, float] = {}
    for name, tensor in network.compiled.graph.tensors.items():
        if tensor.quantization is not None:
            # A Concat of unlike grids is computed in parts, which have the name of its result, a dot and a number.
            whole, _, number = name.rpartition(".")
            key = whole if number.isdigit() else name
            steps[key] = max(float(tensor.grid.scale) / 2, steps.get(key, 0.0))
    return {
        name: steps[name]
        for node in builder.nodes
        for name in node.output
        if node.op_type != "DequantizeLinear" and name in steps and builder.array(name).dtype == np.float32
    }


def own_spreads(builder: Builder, halves: Mapping[str, float]) -> dict[str, Spread]:
    """The spread (tolerance of each element) of every tensor of the graph on a target that rounds some tensors itself.
    `halves`: for each of these tensors, the largest error of the rounding.

    Raises UnstableError if a result cannot be checked, because these roundings could change it to any value.
    """
    spreads = {name: value.spread for name, value in builder.values.items()}
    wider: set[str] = set()
    for node in builder.nodes:
        read = [name for name in dict.fromkeys((*node.input, *outer_names(node))) if name]
        outputs = [name for name in node.output if name]
        if wider & {*read}:
            feeds = {name: (builder.array(name), spreads[name]) for name in read}
            run = node_run(node, builder.opsets, {name: array for name, (array, _) in feeds.items()})
            results = [builder.array(name) for name in outputs]
            found = spread_of(run, node, feeds, results, coarse=COARSE)
            for name, spread in zip(outputs, found, strict=True):
                spreads[name] = Spread(np.maximum(spread.array, spreads[name].array))
        for name in halves.keys() & {*outputs}:
            spreads[name] = Spread(spreads[name].array + halves[name] / ALLOWED)
        if wider & {*read} or halves.keys() & {*outputs}:
            wider.update(outputs)
    return spreads


def operator_text(node: onnx.NodeProto) -> str:
    """An operator as text: DOMAIN:NAME, or NAME for ONNX's own."""
    return f"{node.domain}:{node.op_type}" if node.domain else node.op_type


def refused(error: UserError, operators: tuple[str, ...]) -> Outcome:
    """The outcome for a model with `operators` that is rejected with `error`: "wrong" if the message is badly formed,
    else "refused" with the operators of the nodes that the message names.
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
    """Name of the first node on which ONNX's reference implementation and ONNX Runtime disagree; None if they agree on
    all nodes that both can compute.
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

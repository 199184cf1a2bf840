"""Kind "qdq_graphs": random quantized graphs over every operator of the importers' tables of quantized networks.

Each runs on the accelerator, on accelerator and processor together, or on the processor alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import onnx

from vdla.isa.config import Config, load_config

from .drawing import Draw
from .float_graphs import outputs_of, random_opset, since
from .graphs.builder import Builder
from .graphs.compared import compiled_outcome
from .graphs.drawings.quantized_layers import layer
from .graphs.drawings.table import Drawing, drawing_of
from .graphs.quantized_builder import QuantizedBuilder
from .graphs.tables import Operator, float_operators, quantized_operators
from .outcome import FAILURES, Outcome

LENGTHS = (1, 1, 2, 2, 3, 4, 6)
"""Values from which the number of operators of a random graph is drawn; nodes that only quantize or dequantize are not
counted.
"""
ATTEMPTS = 40
OLDEST_OPSET = 10
"""The first opset that has QuantizeLinear."""
ISLANDS = 0.12
"""Share of the operators of a quantized graph that are drawn from the importers' tables for networks that are not
quantized.
"""


def qdq_graph_case(seed: int, index: int, folder: Path) -> Outcome:
    """Compiles one random graph for each of its targets; returns the first failure or, if there is none, the best
    outcome: right, else unchecked, else refused. `seed`, `index`: the seed of the campaign and the number of the case.
    `folder` is not used.
    """
    draw = Draw("qdq_graphs", seed, index)
    builder = random_qdq_graph(draw, index)
    if builder is None:
        return Outcome("unchecked", "nothing was drawn")
    model = builder.model(outputs_of(builder))
    found: list[Outcome] = []
    for target, config in targets(draw):
        options = {} if config is None else {"config": config}
        outcome = compiled_outcome(builder, model, target, **options)
        detail = (
            outcome.detail if outcome.verdict in ("right", "unchecked") else f"{target}: {outcome.detail}"
        )
        found.append(Outcome(outcome.verdict, detail, outcome.operators, outcome.blamed))
        if outcome.verdict in FAILURES:
            return found[-1]
    order = ("right", "unchecked", "refused")
    return min(found, key=lambda outcome: order.index(outcome.verdict))


def targets(draw: Draw) -> list[tuple[str, Config | None]]:
    """The (target, machine) pairs for which a case's graph is compiled: the accelerator alone, on one of two small
    machines; and either that accelerator together with the processor, or the processor alone.
    """
    machine = load_config("tiny") if draw.chance(0.6) else small_machine()
    chosen: list[tuple[str, Config | None]] = [("vdla", machine)]
    chosen.append(("vdla,llvm", machine) if draw.chance(0.5) else ("llvm", None))
    return chosen


def small_machine() -> Config:
    """A machine (accelerator configuration) that differs from the preset `tiny`: it computes twice as many output
    channels at a time, and has a smaller input buffer.
    """
    return replace(load_config("tiny"), name="fuzz", block_in=4, block_out=8, inp_buffer_bytes=2048)


def random_qdq_graph(draw: Draw, index: int) -> Builder | None:
    """A random quantized graph that starts with operator `index` modulo the number of operators; None if every attempt
    to draw that operator failed.
    """
    operators = quantized_operators()
    first = operators[index % len(operators)]
    for _ in range(4):
        builder = QuantizedBuilder(
            draw, max(OLDEST_OPSET, random_opset(draw, max(OLDEST_OPSET, since(first))))
        )
        if any(_drawn(builder, first) for _ in range(ATTEMPTS // 4)):
            _grow(builder, operators, draw.of(LENGTHS))
            return builder
    return None


def _grow(builder: QuantizedBuilder, operators: Sequence[Operator], length: int) -> None:
    others = float_operators()
    weighted = [*operators, *[operator for operator in operators if operator.name in LAYERS] * 4]
    done = 1
    for _ in range(4 * length):
        if done >= length:
            return
        done += _drawn(builder, builder.draw.of(others if builder.draw.chance(ISLANDS) else weighted))


def _drawn(builder: QuantizedBuilder, operator: Operator) -> bool:
    drawing = quantized_drawing(builder, operator)
    return builder.drawn(lambda: drawing(builder, operator))


LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""Operators with weights."""


def quantized_drawing(builder: Builder, operator: Operator) -> Drawing:
    """The drawing (function that adds a random node) of `operator` in a quantized graph. For operators with weights,
    the drawing is chosen with the random numbers of `builder`; in most cases it is `layer`.
    """
    if operator.name in LAYERS and builder.draw.chance(0.8):
        return layer
    return drawing_of(operator)


def shown(seed: int, index: int) -> tuple[Builder, onnx.ModelProto, Outcome]:
    """The graph, the model and the outcome of the fuzzing case with this seed and index, for debugging."""
    draw = Draw("qdq_graphs", seed, index)
    builder = random_qdq_graph(draw, index)
    assert builder is not None
    model = builder.model(outputs_of(builder))
    return builder, model, qdq_graph_case(seed, index, Path())

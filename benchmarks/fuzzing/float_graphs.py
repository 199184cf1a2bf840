"""Kind "float_graphs": random valid graphs over every operator of the importers' tables, compiled for this processor.

A graph's expected values are computed node by node with ONNX Runtime or, if it has no kernel for the node, with ONNX's
reference implementation.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import onnx

from .drawing import Draw
from .graphs.builder import Builder
from .graphs.compared import compiled_outcome
from .graphs.drawings.table import drawing_of
from .graphs.tables import Operator, float_operators
from .outcome import Outcome

OLDEST_OPSET = 7
ATTEMPTS = 60
"""Number of attempts to draw the first operator of a graph; without a success the graph is given up."""
LENGTHS = (1, 1, 1, 2, 2, 3, 4, 6, 8, 11)
"""Values from which the least number of nodes of a random graph is drawn."""


def float_graph_case(seed: int, index: int, folder: Path) -> Outcome:
    """Compiles one random graph for this processor and compares its outputs with the expected values; returns the
    verdict. `seed`, `index`: the seed of the campaign and the number of the case; `folder` is not used.
    """
    draw = Draw("float_graphs", seed, index)
    builder = random_float_graph(draw, index)
    if builder is None:
        return Outcome("unchecked", "nothing was drawn")
    model = builder.model(outputs_of(builder))
    return compiled_outcome(builder, model, "llvm")


def random_float_graph(draw: Draw, index: int) -> Builder | None:
    """A random graph that starts with operator `index` modulo the number of operators; None if every attempt to draw
    that operator failed.
    """
    operators = float_operators()
    first = operators[index % len(operators)]
    for _ in range(4):
        builder = Builder(draw, random_opset(draw, since(first)))
        if any(drawn(builder, first) for _ in range(ATTEMPTS // 4)):
            grow(builder, operators, draw.of(LENGTHS))
            return builder
    return None


def random_opset(draw: Draw, oldest: int = OLDEST_OPSET) -> int:
    """A random opset from `oldest` to the newest; opsets that current exporters write are more frequent."""
    newest = onnx.defs.onnx_opset_version()
    usual = [opset for opset in (13, 17, 18, 20, 21, 22, 23) if opset >= oldest]
    if usual and draw.chance(0.5):
        return draw.of(usual)
    return oldest + draw.below(newest - oldest + 1)


@cache
def since(operator: Operator) -> int:
    """The first supported opset that has `operator`; for operators of other domains the oldest supported opset."""
    if operator.domain:
        return OLDEST_OPSET
    versions = [
        s.since_version
        for s in onnx.defs.get_all_schemas_with_history()
        if s.name == operator.name and not s.domain
    ]
    return max(OLDEST_OPSET, min(versions))


def grow(builder: Builder, operators: Sequence[Operator], length: int) -> None:
    """Adds random nodes of `operators` to the graph until it has `length` nodes, in at most 4 x `length` attempts."""
    for _ in range(4 * length):
        if len(builder.nodes) >= length:
            return
        drawn(builder, builder.draw.of(operators))


def drawn(builder: Builder, operator: Operator) -> bool:
    """Tries to add a node of `operator` with random inputs to the graph. Returns whether that gave valid nodes."""
    return builder.drawn(lambda: drawing_of(operator)(builder, operator))


def outputs_of(builder: Builder) -> list[str]:
    """Names of the tensors that become the graph's outputs: all tensors that no node reads, and some of the others."""
    made = [value.name for value in builder.made()]
    left = [name for name in made if name not in builder.reads]
    return [name for name in made if name in left or builder.draw.chance(0.15)] or made[-1:]

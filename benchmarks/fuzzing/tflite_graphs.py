"""Kind "tflite_graphs": random TFLite graphs over every operator of the frontend's table. Each is compiled for this
processor, some also for the accelerator; outputs are compared with LiteRT's.
"""

from __future__ import annotations

from pathlib import Path

from vdla.compiler.frontends.tflite.rows import ROWS

from .drawing import Draw
from .outcome import FAILURES, Outcome
from .tflite.builder import FORMS, TfliteBuilder
from .tflite.compared import compiled_outcome
from .tflite.drawings import DRAWINGS, FREQUENT

ATTEMPTS = 60
"""Number of attempts to draw the first operator of a graph; without a success the graph is given up."""
LENGTHS = (2, 2, 3, 4, 5, 6, 8, 10, 12)
"""Values from which the number of operators of a graph is drawn."""
MACHINES = 0.35
"""Share of the int8 graphs that also run on a simulated accelerator."""


def tflite_graph_case(seed: int, index: int, folder: Path) -> Outcome:
    """Compiles one random graph for this processor and, at random, also for accelerator and processor together; returns
    the first failure or, if there is none, the outcome on the processor. `seed`, `index`: the seed of the campaign and
    the number of the case. `folder` is not used.
    """
    draw = Draw("tflite_graphs", seed, index)
    builder = random_tflite_graph(draw, index)
    if builder is None:
        return Outcome("unchecked", "nothing was drawn")
    first = compiled_outcome(builder, "llvm")
    if first.verdict in FAILURES or builder.form != "int8" or not draw.chance(MACHINES):
        return first
    second = compiled_outcome(builder, "vdla,llvm", config=draw.of(("tiny", "vta")))
    return second if second.verdict in FAILURES else first


def random_tflite_graph(draw: Draw, index: int) -> TfliteBuilder | None:
    """A random graph of 2 to 12 operators that starts with operator `index` modulo the number of operators; None if
    every attempt to draw that operator failed.
    """
    kinds = sorted(ROWS)
    first = kinds[index % len(kinds)]
    length = draw.of(LENGTHS)
    for attempt in range(ATTEMPTS):
        # The last attempts are in the form that every operator has.
        form = draw.of(FORMS) if attempt < ATTEMPTS - 20 else "float"
        builder = TfliteBuilder(draw=draw, form=form)
        if not builder.drawn(DRAWINGS[first]):
            continue
        for _ in range(6 * length):
            if len(builder.model.operators) >= length:
                break
            kind = draw.of(FREQUENT) if draw.chance(0.35) else draw.of(kinds)
            builder.drawn(DRAWINGS[kind])
        if len(builder.model.operators) >= min(LENGTHS) and builder.close():
            return builder
    return None

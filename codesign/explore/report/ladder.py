"""Kinds of sources of figures ("rungs" of a ladder), from the measurement closest to a real machine to the most distant
estimate.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """A kind of source of figures, such as synthesis or a fitted model. A figure has this kind if the text on the
    figure's source contains `word`. If the text contains the words of several kinds, the last of these kinds in
    `LADDER` counts. `meaning` explains the kind in the report.
    """

    name: str
    word: str
    meaning: str


LADDER = (
    Rung(
        name="co-simulation",
        word="co-simulation",
        meaning="the network ran on the Verilated RTL, and every cycle, counter and byte equals the simulator's",
    ),
    Rung(
        name="exact simulation",
        word="exact",
        meaning="the cycle-exact simulator ran the compiled network; milliseconds are only as certain as the clock",
    ),
    Rung(
        name="activity replay",
        word="replay",
        meaning="the mapped netlist simulated with the program's own data: switching of every net",
    ),
    Rung(name="synthesis", word="synthesis", meaning="the Verilog mapped onto a cell library"),
    Rung(
        name="model with interval",
        word="model",
        meaning="fitted to syntheses or activity simulations of other machines, with an interval",
    ),
    Rung(name="table", word="table", meaning="published figures of components, added up"),
)


def rung_of(text: str) -> Rung | None:
    """The kind of source (`Rung`) that the text on a figure's source names; None if no kind matches."""
    # From the bottom: a model's prediction is no synthesis, although the model was fitted to syntheses.
    return next((rung for rung in reversed(LADDER) if rung.word in text), None)

"""Compares the synthesis of a machine with the model's prediction, for the page."""

from __future__ import annotations

from typing import Any

from vdla.isa.config import Config

from ...technology.clock import predicted as predicted_cells
from ...technology.components import Components
from ..evaluate import figures_of_machine
from ..syntheses import Synthesis
from .layers import rounded


def beside_predicted(machine: Config, synthesis: Synthesis, components: Components) -> dict[str, Any]:
    """Compares the prediction for a machine with its synthesis. Returns pairs (predicted, measured) of the total area
    and the area of each unit, in square millimetres, and of the clock in MHz (None: not measured). Also returns the 90%
    intervals of the predicted total area and clock, and the library and the seconds of the synthesis.
    """
    predicted, cells = figures_of_machine(machine, components), predicted_cells(machine)
    clock = cells.clock_mhz
    return {
        "library": f"{synthesis.library} ({synthesis.node})",
        "seconds": round(synthesis.seconds, 1),
        "area": [rounded(predicted.square_millimetres), rounded(sum(synthesis.area.values()))],
        "area_interval": [rounded(predicted.square_millimetres * end) for end in predicted.intervals["area"]],
        "clock": [rounded(clock), None if synthesis.clock_mhz is None else rounded(synthesis.clock_mhz)],
        # The interval of the longest path, inverted.
        "clock_interval": [rounded(clock / end) for end in reversed(cells.path_ends)],
        "units": {
            unit: [rounded(predicted.area.get(unit, 0.0)), rounded(synthesis.area.get(unit, 0.0))]
            for unit in {**predicted.area, **synthesis.area}
        },
    }

"""The source of each figure of a machine (its "rung") as a short text; all commands and reports use it."""

from __future__ import annotations

from vdla.isa.config import CLOCK_IS, Config

from .cell_model import shipped_cell_model
from .clock import has_modelled_clock
from .components import Components
from .modelled_energy import rung as rung_of_energy

EXACT = "exact simulation"
TABLE = "assumed: table of components"


def rungs_of_machine(config: Config, components: Components) -> dict[str, str]:
    """Maps each figure (clock, latency, area, energy, edp) to its source. A figure comes from the models or from the
    table of components; clock and latency come from the models or from the configuration's own clock
    (`clock.has_modelled_clock`).
    """
    of_cells = f"model of syntheses ({shipped_cell_model().node})" if components.modelled else TABLE
    of_energy = rung_of_energy(config) if components.modelled else TABLE
    modelled = has_modelled_clock(config, components)
    return {
        "clock": of_cells if modelled else CLOCK_IS,
        "latency": f"{EXACT}, clock by model" if modelled else f"{EXACT}, {CLOCK_IS} clock",
        "area": of_cells,
        "energy": of_energy,
        "edp": of_energy,
    }

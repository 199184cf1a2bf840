"""The source of each figure of a machine (its "rung") as a short text; all commands and reports use it."""

from __future__ import annotations

from vdla.isa.config import CLOCK_IS, Config

from .cell_model import shipped_cell_model
from .components import Components
from .modelled_energy import rung as rung_of_energy

EXACT = "exact simulation"
TABLE = "assumed: table of components"


def rungs_of_machine(config: Config, components: Components) -> dict[str, str]:
    """Maps each figure (clock, latency, area, energy, edp) to its source: the models, or the table of components and
    the configuration's own clock.
    """
    if not components.modelled:
        return {
            "clock": CLOCK_IS,
            "latency": f"{EXACT}, {CLOCK_IS} clock",
            "area": TABLE,
            "energy": TABLE,
            "edp": TABLE,
        }
    of_cells, of_energy = f"model of syntheses ({shipped_cell_model().node})", rung_of_energy(config)
    return {
        "clock": of_cells,
        "latency": f"{EXACT}, clock by model",
        "area": of_cells,
        "energy": of_energy,
        "edp": of_energy,
    }

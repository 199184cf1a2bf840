"""The clock of a machine (accelerator configuration) and the source of that clock; all commands, reports and models use
it.

A configuration states an assumed clock. The model of syntheses predicts a clock from the configuration; the predicted
clock is used wherever area and energy come from models, except on machines with a DRAM. A synthesis of the machine
measures its clock (`explore.syntheses`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from vdla.isa.config import CLOCK_IS, Config
from vdla.isa.dram_memory import DRAM

from .cell_model import CellFigures, shipped_cell_model
from .components import Components

MODELLED = "modelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """A clock in hertz; `source` is "assumed" or "modelled"."""

    hertz: float
    source: str

    @property
    def megahertz(self) -> float:
        """The clock in MHz."""
        return self.hertz / 1e6

    def seconds(self, cycles: float) -> float:
        """Seconds that `cycles` cycles take."""
        return cycles / self.hertz

    def __str__(self) -> str:
        """The clock as text, such as "117.5 MHz (modelled clock)"."""
        return f"{self.megahertz:.4g} MHz ({self.source} clock)"


def clock_of(config: Config, components: Components) -> Clock:
    """The clock of a machine. It is the clock that the model of syntheses predicts if `has_modelled_clock`, otherwise
    the configuration's own clock.
    """
    if not has_modelled_clock(config, components):
        return Clock(hertz=config.clock_hertz, source=CLOCK_IS)
    return Clock(hertz=predicted(config).clock_mhz * 1e6, source=MODELLED)


def has_modelled_clock(config: Config, components: Components) -> bool:
    """Whether the clock of a machine is predicted by the model of syntheses. It is the configuration's own clock if
    `components` is a table, or if the memory is a DRAM, whose timing in cycles holds for that clock only.
    """
    return components.modelled and config.memory.kind != DRAM


@lru_cache(maxsize=512)
def predicted(config: Config) -> CellFigures:
    """Predictions of the shipped model of syntheses for a machine."""
    return shipped_cell_model().predict(config)

"""How the accelerator's clock is named beside times that follow from it."""

from __future__ import annotations

from vdla.isa.config import CLOCK_IS


def clock_text(hertz: float) -> str:
    """The clock and the rung it stands on: "100 MHz (assumed clock)"."""
    return f"{hertz / 1e6:g} MHz ({CLOCK_IS} clock)"

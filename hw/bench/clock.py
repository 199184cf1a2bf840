"""Clock and reset of a bench."""

from __future__ import annotations

from typing import Any

from cocotb.clock import Clock
from cocotb.triggers import ClockCycles

RESET_CYCLES = 3


def start_clock(dut: Any, *, period_ns: int = 10) -> None:
    """Starts the clock `clk` of `dut`."""
    Clock(dut.clk, period_ns, unit="ns").start()


async def reset(dut: Any) -> None:
    """Sets `rst` of `dut` to 1 for RESET_CYCLES cycles, then to 0, and waits one more cycle. A bench must begin with
    this reset: Icarus 11 evaluates no `always @*` at time 0.
    """
    dut.rst.value = 1
    await ClockCycles(dut.clk, RESET_CYCLES)
    dut.rst.value = 0
    await ClockCycles(dut.clk, 1)

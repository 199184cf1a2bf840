"""Records the cycles in which each instruction begins and ends, from the trace ports of a bench."""

from __future__ import annotations

from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from numpy.typing import NDArray

from vdla.isa.config import Config
from vdla.isa.layout import Unit

from ..trace import instruction_times


class TraceMonitor:
    """Records the begin and end of instructions from the trace ports of `dut` while a program runs; builds of
    `run_bench` have these ports.
    """

    def __init__(self, dut: Any) -> None:
        """The monitor must be constructed, and `start` called, before the launch."""
        self._dut = dut
        self._events: list[tuple[int, int, int, int, int]] = []

    def start(self) -> None:
        """Starts to record the begin and end of instructions."""
        cocotb.start_soon(self._run())

    def times(
        self, config: Config, instructions: NDArray[np.uint64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns two arrays, int64 (n,): the cycles of the last run in which each of `instructions`, uint64 (n,
        words), begins and ends; -1 for an event that did not happen.
        """
        events = np.array(self._events, np.int64).reshape(-1, 5)
        return instruction_times(config, instructions, events)

    async def _run(self) -> None:
        ports = [
            (
                unit,
                [
                    getattr(self._dut, f"trace_{unit.name.lower()}_{what}")
                    for what in ("begin", "end", "end_config")
                ],
            )
            for unit in Unit
        ]
        edge, running = RisingEdge(self._dut.clk), self._dut.running
        cycle = 0
        while True:
            await edge
            if not running.value.is_resolvable or not running.value:
                cycle = 0
                continue
            cycle += 1
            if cycle == 1:
                self._events.clear()
            for unit, wires in ports:
                begin, end, end_config = (int(wire.value) for wire in wires)
                if begin or end or end_config:
                    self._events.append((cycle, int(unit), begin, end, end_config))

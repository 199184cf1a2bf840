"""Checks the accelerator's memory port against the rules of AXI4, whatever memory is behind it."""

from __future__ import annotations

from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from vdla.isa.config import Memory

from .rules import Address, AxiRules
from .wires import AxiWires


class AxiMonitor:
    """Watches AR, AW, W, R and B of `dut`; a broken rule fails the test. MemoryModel makes the same checks itself.

    `bursts` lists the accepted bursts: channel (ar or aw) and Address. `partial_beats` counts the write beats with
    lanes strobed out.
    """

    def __init__(self, dut: Any, *, timing: Memory, prefix: str = "axi") -> None:
        """`timing` gives the bus and the limits of outstanding bursts. Create it before the reset."""
        self.bursts: list[tuple[str, Address]] = []
        self.partial_beats = 0
        self._dut, self._timing = dut, timing
        self._wires = AxiWires(dut, prefix=prefix, bus_bytes=timing.bus_bytes)
        self._all_lanes = (1 << timing.bus_bytes) - 1
        self._rules = self._new_rules()

    def start(self) -> None:
        """Starts the checks."""
        cocotb.start_soon(self._run())

    def finish(self) -> None:
        """Raises RuleError if a transaction is incomplete."""
        self._rules.finish()

    async def _run(self) -> None:
        edge, rst, get = RisingEdge(self._dut.clk), self._dut.rst, self._wires.get
        while True:
            await edge
            if not rst.value.is_resolvable or rst.value:
                self._rules = self._new_rules()
                continue
            for channel in ("ar", "aw"):
                shown, ready = self._wires.address(channel), bool(get(f"{channel}ready"))
                self._rules.address(channel, shown, ready=ready)
                if shown is not None and ready:
                    self.bursts.append((channel, shown))
            beat, ready = self._wires.write_beat(), bool(get("wready"))
            self.partial_beats += beat is not None and ready and beat.strobe != self._all_lanes
            self._rules.data(beat, ready=ready)
            if get("rvalid") and get("rready") and get("rlast"):
                self._rules.read_done()
            if get("bvalid") and get("bready"):
                self._rules.write_done()

    def _new_rules(self) -> AxiRules:
        return AxiRules(
            bus_bytes=self._timing.bus_bytes,
            outstanding_reads=self._timing.outstanding_reads,
            outstanding_writes=self._timing.outstanding_writes,
        )

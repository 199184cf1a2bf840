"""Checks the accelerator's memory port against the rules of AXI4, with any memory model."""

from __future__ import annotations

from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from vdla.isa.config import Memory

from .rules import Address, AxiRules
from .wires import AxiWires


class AxiMonitor:
    """Watches the channels AR, AW, W, R and B of `dut`; a broken rule fails the test. MemoryModel has the same checks.

    `bursts`: the bursts accepted since the start, in their order, each (channel "ar" or "aw", Address).
    `partial_beats`: number of transferred write beats with at least one strobe 0.
    """

    def __init__(self, dut: Any, *, timing: Memory, prefix: str = "axi") -> None:
        """`timing`: width of the bus and limits of outstanding bursts. `prefix`: first part of the names of the AXI
        ports of `dut`. The monitor must be created before the reset.
        """
        self.bursts: list[tuple[str, Address]] = []
        self.partial_beats = 0
        self._dut, self._timing = dut, timing
        self._wires = AxiWires(dut, prefix=prefix, bus_bytes=timing.bus_bytes)
        self._all_lanes = (1 << timing.bus_bytes) - 1
        self._rules = self._new_rules()

    def start(self) -> None:
        """Starts to check the channels in each clock cycle."""
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

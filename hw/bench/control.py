"""Access to the control registers over AXI4-Lite for a cocotb bench (the register map is in `vdla.hw.control`)."""

from __future__ import annotations

from typing import Any

from cocotb.triggers import RisingEdge

from ..control import (
    CLEAR_BIT,
    DONE_BIT,
    ERROR_BIT,
    LAUNCH_BIT,
    QUIET_BIT,
    REGISTERS,
    RUNNING_BIT,
    STOP_BIT,
    counter_address,
)
from ..counters import COUNTERS
from .program import LoadedProgram

_INPUTS = ("awvalid", "awaddr", "wvalid", "wdata", "wstrb", "bready", "arvalid", "araddr", "rready")


class ControlRegisters:
    """An AXI4-Lite master on the control port of `dut`, one access at a time."""

    def __init__(self, dut: Any, *, prefix: str = "control") -> None:
        """Sets all input signals of the port (`PREFIX_awvalid` ... of `dut`) to 0; must be called before the reset."""
        self._dut, self._prefix = dut, prefix
        self._edge = RisingEdge(dut.clk)
        for name in _INPUTS:
            self._port(name).value = 0

    async def write(self, address: int, value: int, *, strobe: int = 15) -> None:
        """Writes the 32-bit `value` to the register at byte `address`. A byte is written only if its bit in `strobe` is
        1 (bit 0: lowest byte). Returns after the response. Raises AssertionError for an error response.
        """
        self._drive(awvalid=1, awaddr=address, wvalid=1, wdata=value, wstrb=strobe, bready=1)
        await self._edge
        while not (self._is("awready") and self._is("wready")):
            await self._edge
        self._drive(awvalid=0, wvalid=0)
        await self._edge
        while not self._is("bvalid"):
            await self._edge
        response = int(self._port("bresp").value)
        self._drive(bready=0)
        assert response == 0, f"write of register {address:#x} answered with {response}"

    async def read(self, address: int) -> int:
        """Reads the 32-bit register at byte `address`. Raises AssertionError for an error response."""
        self._drive(arvalid=1, araddr=address, rready=1)
        await self._edge
        while not self._is("arready"):
            await self._edge
        self._drive(arvalid=0)
        await self._edge
        while not self._is("rvalid"):
            await self._edge
        value, response = int(self._port("rdata").value), int(self._port("rresp").value)
        self._drive(rready=0)
        assert response == 0, f"read of register {address:#x} answered with {response}"
        return value

    async def read_long(self, address: int) -> int:
        """Reads a 64-bit register: the low word at byte `address`, then the high word at `address` + 4."""
        low = await self.read(address)
        return low | await self.read(address + 4) << 32

    async def digest(self) -> str:
        """Reads the digest of the configuration from which the hardware was generated: 64 hexadecimal digits."""
        words = [await self.read(REGISTERS["DIGEST"] + 4 * word) for word in range(8)]
        return b"".join(word.to_bytes(4, "little") for word in words).hex()

    async def status(self) -> dict[str, bool]:
        """Reads STATUS; returns the bits `running`, `finished`, `error` and `quiet` (no burst outstanding) by name."""
        bits = await self.read(REGISTERS["STATUS"])
        places = {"running": RUNNING_BIT, "finished": DONE_BIT, "error": ERROR_BIT, "quiet": QUIET_BIT}
        return {name: bool(bits >> place & 1) for name, place in places.items()}

    async def launch(self, program: LoadedProgram) -> None:
        """Writes the registers PROGRAM, BASE and COUNT for `program`, and launches the program. `load_program` must
        have written the program to memory before. The call does not wait for the end of the run (`wait` does).
        """
        for name, value in (("PROGRAM", program.address), ("BASE", program.base)):
            await self.write(REGISTERS[name], value & 0xFFFF_FFFF)
            await self.write(REGISTERS[name] + 4, value >> 32)
        await self.write(REGISTERS["COUNT"], program.count)
        await self.write(REGISTERS["CONTROL"], 1 << LAUNCH_BIT)

    async def wait(self, *, cycles: int) -> dict[str, bool]:
        """Reads STATUS until the run has ended, with or without error, and memory has answered all bursts; returns the
        bits of STATUS by name (`status`).

        Raises TimeoutError after at least `cycles` clock cycles; `stop` ends a run that is deadlocked.
        """
        status: dict[str, bool] = {}
        for _ in range(-(-cycles // _POLL)):
            status = await self.status()
            if not status["running"] and status["quiet"]:
                return status
            for _ in range(_POLL):
                await self._edge
        raise TimeoutError(f"the run has not ended after {cycles} cycles: {status}")

    async def stop(self) -> None:
        """Tells the accelerator to end the run: it starts no new bursts and resets the units when its writes are
        complete. Does not wait for this end (`wait` does).
        """
        await self.write(REGISTERS["CONTROL"], 1 << STOP_BIT)

    async def clear_error(self) -> None:
        """Clears the error bit of STATUS."""
        await self.write(REGISTERS["CONTROL"], 1 << CLEAR_BIT)

    async def cycles(self) -> int:
        """Reads the number of cycles of the last run, or of the current one so far."""
        return await self.read_long(REGISTERS["CYCLES"])

    async def counters(self) -> dict[str, int]:
        """Reads all performance counters; returns their values by name (`vdla.hw.counters.COUNTERS`)."""
        return {name: await self.read_long(counter_address(name)) for name in COUNTERS}

    def _port(self, name: str) -> Any:
        return getattr(self._dut, f"{self._prefix}_{name}")

    def _is(self, name: str) -> bool:
        return bool(self._port(name).value)

    def _drive(self, **values: int) -> None:
        for name, value in values.items():
            self._port(name).value = value


_POLL = 16
"""Number of clock cycles between two reads of STATUS."""

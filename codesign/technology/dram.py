"""Energy of DRAM. On a machine whose memory is a DRAM part, it is computed from the commands that the DRAM receives. On
a machine with a fixed memory, it is estimated from bytes and rows.

Energies are computed as in Micron's technical note TN-41-01, from currents above standby. An activation (with its
precharge) takes IDD0 for a row cycle, a burst takes IDD4R or IDD4W for its duration, and a refresh takes IDD5 for tRFC.
Standby takes IDD3N, as if rows were always open; this current grows with the clock. Termination and the interface on
the accelerator's side are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vdla.isa.dram_memory import DRAM, design_fields, part_of_machine

from .dram_currents import CURRENTS, Currents

if TYPE_CHECKING:
    from vdla.isa.config import Config
    from vdla.sim import SimulationResult

    from .events import Events

_PUMP_VOLTS = 2.5
"""Voltage of the second supply of DDR4 (VPP), which drives the word lines."""
FIXED_PART: Final = "MT41K256M16"
"""The part whose currents give the energy of a fixed memory: DDR3L, 4 Gbit, 16 lines, 1.35 V."""
ROW_BYTES: Final = 2048
"""Number of bytes in a row of FIXED_PART."""
_BYTES_A_BURST = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class DramCommands:
    """Numbers of commands that a DRAM received in a run: ACTIVATE, READ, WRITE (one for each bus word) and REFRESH."""

    activates: int
    reads: int
    writes: int
    refreshes: int

    def share(self, read: float, written: float, cycles: float, activates: int | None = None) -> DramCommands:
        """Estimates how many of the run's commands belong to one layer. `read`, `written`, `cycles`: the layer's
        shares, 0 to 1, of the run's bytes read, bytes written and cycles.

        `activates`: the number of rows that the layer opened. If None, row activations are divided among layers in
        proportion to their bytes.
        """
        words = self.reads + self.writes
        layer = self.reads * read + self.writes * written
        if activates is None:
            activates = round(self.activates * layer / words) if words else 0
        return DramCommands(
            activates=activates,
            reads=round(self.reads * read),
            writes=round(self.writes * written),
            refreshes=round(self.refreshes * cycles),
        )


def dram_commands(simulation: SimulationResult) -> DramCommands | None:
    """The commands of a simulated program; None on a machine with a fixed memory."""
    if simulation.dram is None:
        return None
    written = simulation.traffic["out"].beats
    return DramCommands(
        activates=simulation.dram.opened,
        reads=simulation.dram.beats - written,
        writes=written,
        refreshes=simulation.dram.refreshes,
    )


def activation_pj(part: Currents) -> float:
    """Picojoules above standby of one row activation with its precharge, in one chip (mA times ns times volts)."""
    row_cycle = part.idd0 * (part.ras + part.rp) - part.idd3n * part.ras - part.idd2n * part.rp
    pumped = _PUMP_VOLTS * part.ipp0 * (part.ras + part.rp)
    bursts = part.words_in_row_cycle * read_pj(part)
    return part.clock_ns * (part.volts * row_cycle + pumped) - bursts


def read_pj(part: Currents) -> float:
    """Picojoules above standby of one burst of reads in one chip."""
    return part.volts * part.clock_ns * (part.idd4r - part.idd3n) * part.burst


def write_pj(part: Currents) -> float:
    """Picojoules above standby of one burst of writes in one chip."""
    return part.volts * part.clock_ns * (part.idd4w - part.idd3n) * part.burst


def refresh_pj(part: Currents) -> float:
    """Picojoules above standby of one refresh in one chip."""
    return part.volts * part.clock_ns * (part.idd5 - part.idd3n) * part.rfc


ACTIVATION_PJ: Final = activation_pj(CURRENTS[FIXED_PART])
READ_PJ_A_BYTE: Final = read_pj(CURRENTS[FIXED_PART]) / _BYTES_A_BURST
WRITE_PJ_A_BYTE: Final = write_pj(CURRENTS[FIXED_PART]) / _BYTES_A_BURST


def has_currents(config: Config) -> bool:
    """Whether the energy of a machine's DRAM is known: false for a part without published currents."""
    return config.memory.kind != DRAM or config.memory.part in CURRENTS


def energy_by_command(config: Config, commands: DramCommands, cycles: int) -> dict[str, float]:
    """Picojoules of all chips of a machine's DRAM in a run of `cycles` cycles of the accelerator, by cause: activate,
    read, write, refresh, and standby. A command goes to the chips of one channel; all chips are in standby. The part
    must have currents (`has_currents`).
    """
    from vdla.isa.dram import KINDS

    part, currents = part_of_machine(config), CURRENTS[config.memory.part or ""]
    chips = design_fields(config)["width"] // part.width
    all_chips = config.memory.channels * chips
    # A current of standby is measured at the data sheet's clock, and grows with the clock.
    clock_ns = 1e3 / (config.clock_mhz * KINDS[part.kind].phases)
    nanoseconds_at_full_clock = cycles * 1e3 / config.clock_mhz * currents.clock_ns / clock_ns
    return {
        "activate": chips * commands.activates * activation_pj(currents),
        "read": chips * commands.reads * read_pj(currents),
        "write": chips * commands.writes * write_pj(currents),
        "refresh": chips * commands.refreshes * refresh_pj(currents),
        "standby": all_chips * currents.volts * currents.idd3n * nanoseconds_at_full_clock,
    }


_PHY_OF_A_LINE = {"SDR": 0.0, "HBM2": 10.45 / 1024}
_PHY_OF_OTHERS = 1.45 / 32
"""Area in square millimetres that the PHY (the circuits at the pins) takes for each data line.

LLMCompass (ISCA 2024) measured areas on photographs of dies of 6 and 7 nm: 1.45 for the 32 lines of DDR5, which gives
this number, and 10.45 for the 1,024 lines of HBM2e. A PHY hardly shrinks with the technology node. DDR2 to DDR4, LPDDR
and GDDR6 are assumed to need as much for a line as DDR5. SDR needs only pads and no PHY.
"""


def phy_area(config: Config) -> dict[str, float]:
    """Square millimetres of the PHYs of all channels of a machine's DRAM, {"DRAM PHY": area}; empty without a DRAM. The
    memory controllers are left out.
    """
    if config.memory.kind != DRAM:
        return {}
    kind = part_of_machine(config).kind
    lines = config.memory.channels * design_fields(config)["width"]
    return {"DRAM PHY": lines * _PHY_OF_A_LINE.get(kind, _PHY_OF_OTHERS)}


_ROUTER, _ROUTER_CHANNEL, _ROUTER_BIT, _ROUTER_INPUT, _ROUTER_ORDER = 21_750.0, 4_250.0, 80.0, 60.0, 390.0
"""Square micrometres of the router to several channels in the library osu018: of every router, of a channel, of a data
bit, of each further input of a data bit's multiplexer, and of a bit of the orders. Fitted to syntheses of seven routers
of 2 to 8 channels; the largest error is 10%.
"""
_FLIP_FLOP = 96.0
"""Square micrometres of a flip-flop (DFFPOSX1) in the library osu018."""


def router_area(config: Config, flip_flop: float | None = None) -> dict[str, float]:
    """Square millimetres of the router to the channels of a machine's DRAM, {"DRAM router": area}; empty for one
    channel. `flip_flop`: square micrometres of a flip-flop in another technology, to which the area is scaled (None:
    the library osu018).
    """
    memory = config.memory
    if memory.channels == 1:
        return {}
    orders = (memory.outstanding_reads + 2 * memory.outstanding_writes) * (memory.channels.bit_length() - 1)
    bit = _ROUTER_BIT + _ROUTER_INPUT * (memory.channels - 1)
    square = _ROUTER + _ROUTER_CHANNEL * memory.channels + _ROUTER_ORDER * orders + 8 * memory.bus_bytes * bit
    return {"DRAM router": square / 1e6 * (1.0 if flip_flop is None else flip_flop / _FLIP_FLOP)}


def dram_energy(config: Config, events: Events) -> dict[str, float]:
    """Energy of the memory in one launch, in picojoules. On a machine with a DRAM, the result has an entry for each
    kind of command (`energy_by_command`), with keys such as "DRAM activate". On a machine with a fixed memory, the
    result has a single entry "DRAM". The result is empty if the currents of the DRAM part are not published.
    """
    if events.dram is None:
        return {"DRAM": dram_picojoules(sum(events.read.values()), events.written, events.runs)}
    if not has_currents(config):
        return {}
    found = energy_by_command(config, events.dram, events.cycles)
    return {f"DRAM {cause}": value for cause, value in found.items()}


def dram_picojoules(read: int, written: int, runs: Mapping[str, int]) -> float:
    """Picojoules of `read` and `written` bytes on the bus of a fixed memory; `runs`: number of contiguous runs by kind
    of transfer (`events.MOVERS`).

    Every run opens a row, and another row at each row boundary that it crosses. The estimate ignores rows that stay
    open from one run to the next, and rows that other transfers close in between.
    """
    activations = sum(runs.values()) + (read + written) / ROW_BYTES
    return read * READ_PJ_A_BYTE + written * WRITE_PJ_A_BYTE + activations * ACTIVATION_PJ

"""The fields of a machine's memory that describe a DRAM, and the numbers that follow from them (hw/dram.md).

Every configuration imports this module; the table of parts (`dram.py`) is imported for a machine that has a DRAM.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .errors import ConfigError, ProgramError
from .parameters import parameter
from .timing import SHARED

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .config import Config, Memory
    from .dram import Controller, Part

FIXED, DRAM = "fixed", "dram"
"""Values of `Memory.kind`."""

RESET_CYCLES = 50
"""Cycles from the end of the controller's reset to the launch of a program, in which the memory is idle."""

BANK_ROWS = 16
"""Number of rows of one bank that follow one another in memory, unless a configuration gives `bank_bytes`. A stream
then mostly opens its next row in the same bank, by auto-precharge. This takes fewer cycles than a change to another
bank (benchmarks/dram_placement.py compares both).
"""

CHANNEL_BYTES = 4096
"""Number of consecutive bytes of memory in one channel, unless a configuration gives `channel_bytes`. It is the size of
an AXI4 page; no burst crosses the end of a page.
"""

_PIPELINE = 6
"""Cycles that a request and its data spend in registers between AXI and the controller's commands."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DramFields:
    """The fields of `Memory` that describe a DRAM. With the kind "dram", bus width and latencies follow from the part
    and the machine's clock.
    """

    kind: str = parameter(
        FIXED,
        "fixed: latencies in cycles; dram: a part behind LiteDRAM's controller",
        rtl=False, holds=str, choices=(FIXED, DRAM), later=True,
    )  # fmt: skip
    part: str | None = parameter(
        None, "name of the DRAM chip, as MT41K128M16", rtl=False, holds=str, later=True
    )
    width: int | None = parameter(
        None, "data lines of all chips; left out: of one chip", unit="bits", rtl=False, later=True
    )
    grade: str | None = parameter(
        None, "speed grade, as 800 or 1600; left out: the fastest", rtl=False, holds=str, later=True
    )
    bank_bytes: int | None = parameter(
        None, "consecutive bytes in one bank; left out: 16 rows", unit="bytes", rtl=False, later=True
    )
    refresh: bool = parameter(
        True, "whether the controller refreshes the part", rtl=False, holds=bool, later=True
    )
    channels: int = parameter(
        1, "controllers, each with chips of its own", low=1, high=8, power_of_two=True, rtl=False, later=True
    )
    channel_bytes: int = parameter(
        CHANNEL_BYTES,
        "consecutive bytes in one channel",
        unit="bytes", low=4096, high=1 << 20, power_of_two=True, rtl=False, later=True,
    )  # fmt: skip


DRAM_FIELDS = tuple(DramFields.__dataclass_fields__)
"""Names of the fields of `DramFields`, in order."""


def check_dram(memory: Memory) -> None:
    """Checks the fields of a memory that describe a DRAM, except its kind and the limits that depend on the clock.
    Raises ConfigError.
    """
    from .dram import PARTS

    values: dict[str, Any] = {name: getattr(memory, name) for name in DRAM_FIELDS}
    for name in ("part", "grade"):
        if values[name] is not None and not isinstance(values[name], str):
            raise ConfigError(f"memory.{name} = {values[name]!r}: expected text")
    for name in ("width", "bank_bytes"):
        value = values[name]
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ConfigError(f"memory.{name} = {value!r}: expected an integer above 0")
    if not isinstance(values["refresh"], bool):
        raise ConfigError(f"memory.refresh = {values['refresh']!r}: give true or false")
    usual = {item.name: item.default for item in dataclasses.fields(DramFields)}
    if values["kind"] == FIXED:
        given = next(name for name in DRAM_FIELDS if values[name] != usual[name])
        raise ConfigError(f"memory.{given} is a field of a DRAM; add kind = 'dram' to the memory")
    if values["part"] is None:
        raise ConfigError(f"memory.kind = 'dram' needs the memory's part; give one of {', '.join(PARTS)}")
    for name in ("jitter", "stall"):
        if getattr(memory, name):
            raise ConfigError(
                f"memory.{name} = {getattr(memory, name)}: a DRAM has no random delays; leave it out"
            )
    if memory.data_channels != SHARED:
        raise ConfigError(
            f"memory.data_channels = {memory.data_channels!r}: it does not apply to a DRAM; leave it out"
        )


def part_of_machine(config: Config) -> Part:
    """The DRAM part of a machine whose memory is a DRAM. Raises ConfigError for a part that does not exist."""
    from .dram import part_of

    return part_of(config.memory.part or "")


def design_fields(config: Config) -> dict[str, Any]:
    """The fields of a DRAM's design (hw/harness/dram) that the machine `config` determines, by name."""
    from .dram import row_bytes

    memory, part = config.memory, part_of_machine(config)
    width = part.width if memory.width is None else memory.width
    return {
        "part": memory.part,
        "clock_mhz": float(config.clock_mhz),
        "width": width,
        "grade": memory.grade or "",
        "bank_bytes": memory.bank_bytes or BANK_ROWS * row_bytes(part, width),
        "refresh": memory.refresh,
    }


def controller_of(config: Config) -> Controller:
    """The numbers of the DRAM controller of a machine whose memory is a DRAM, or of each channel's controller. Raises
    ConfigError.
    """
    from .dram import controller

    values = design_fields(config)
    return controller(
        values["part"],
        clock_mhz=values["clock_mhz"],
        width=values["width"],
        grade=values["grade"] or None,
        bank_bytes=values["bank_bytes"],
        refresh=values["refresh"],
    )


def without_oracle(config: Config) -> str:
    """A line that tells users that no RTL confirms the cycles of a machine's DRAM, because LiteDRAM has no model of the
    part's generation. Empty for all other machines.
    """
    if config.memory.kind == FIXED:
        return ""
    from .dram import KINDS

    kind = part_of_machine(config).kind
    return "" if KINDS[kind].oracle else f"no RTL confirms these cycles: LiteDRAM has no model of {kind}"


def capacity(config: Config) -> int:
    """Returns the capacity of all channels of a machine's DRAM in bytes. A channel has at most 4 GiB: the AXI port of
    its controller has no addresses for more.
    """
    numbers, channels = controller_of(config), config.memory.channels
    return channels * min(numbers.banks * part_of_machine(config).rows * numbers.row_bytes, 1 << 32)


def check_fits(config: Config, instructions: NDArray[np.uint64], image: NDArray[np.uint8]) -> None:
    """Checks that a program fits into the memory of a machine with a DRAM: its memory image, and the instructions,
    which follow the image at the next multiple of 4,096 bytes. Raises ProgramError.
    """
    from .program import instruction_address

    end, most = instruction_address(len(image)) + instructions.nbytes, capacity(config)
    if end > most:
        channels = config.memory.channels
        several = "" if channels == 1 else f" in {channels} channels"
        raise ProgramError(
            f"the program needs {end:,} bytes of memory; {config.memory.part} with "
            f"{design_fields(config)['width']} data lines{several} has {most:,}: choose a larger part"
        )


def with_part(config: Config) -> Memory:
    """Returns the memory of a machine with a DRAM, with `read_latency` and `write_latency` filled in for the compiler
    and the sizes of FIFOs. These are the latencies of an access whose row must first be opened. If there are several
    channels, their router adds a cycle. Raises ConfigError if the part does not have the machine's bus width.
    """
    numbers, memory = controller_of(config), config.memory
    if memory.bus_bytes != numbers.word_bytes:
        raise ConfigError(
            f"memory.bus_bytes = {memory.bus_bytes}: {memory.part} transfers {numbers.word_bytes} bytes in a cycle of "
            f"its controller; give bus_bytes = {numbers.word_bytes}, or another width of data lines"
        )
    more = numbers.t_rcd + _PIPELINE + (memory.channels > 1)
    return dataclasses.replace(
        memory, read_latency=numbers.read_latency + more, write_latency=numbers.write_latency + more
    )

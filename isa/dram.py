"""The cycles that a controller of LiteDRAM derives from the nanoseconds of a DRAM part (`dram_parts.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from .dram_parts import KINDS, PARTS, Limit, Part
from .errors import ConfigError

_UNLIMITED = -1
"""Value of a time in `Controller` if the data sheet of the part sets no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """Sizes and times of a DRAM controller. Times are in controller clocks; -1: the part has no such limit.

    `phases`: DRAM clocks in a controller clock. `column_bits`: a row of a bank has 2 ** `column_bits` bus words.
    `bank_shift`: 2 ** `bank_shift` consecutive bus words are in one bank, the next ones in the next bank. `queue`:
    largest number of requests that wait at a bank, besides the request that the bank executes. `read_time`: longest
    time of reads while writes wait; `write_time`: longest time of writes while reads wait. `read_latency`,
    `write_latency`: time from a column command to its data at the controller's ports. `turnaround`: time from the end
    of reads to the first write. `t_wtp`: time from a write command to a precharge; `t_refi`: time between two
    refreshes; the other `t_` times are JEDEC's (`dram_parts.Times`). `zqcs_period`: clocks between two calibrations.
    `read_fifo`, `write_fifo`: bus words that the FIFOs of the AXI bridge hold.
    """

    banks: int
    phases: int
    column_bits: int
    bank_shift: int
    word_bytes: int
    queue: int
    read_time: int
    write_time: int
    read_latency: int
    write_latency: int
    turnaround: int
    t_rp: int
    t_rcd: int
    t_wtp: int
    t_rc: int
    t_ras: int
    t_rrd: int
    t_faw: int
    t_ccd: int
    t_wtr: int
    t_refi: int
    t_rfc: int
    t_zqcs: int
    zqcs_period: int
    read_fifo: int
    write_fifo: int

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of one bank."""
        return self.word_bytes << self.column_bits


QUEUE, READ_TIME, WRITE_TIME = 8, 32, 16
"""Defaults of LiteDRAM for the fields `queue`, `read_time` and `write_time` of `Controller`
(litedram/core/controller.py, ControllerSettings).
"""
READ_FIFO, WRITE_FIFO = 64, 128
"""Bus words in the FIFOs of the AXI bridge. A full burst of the accelerator fits into each."""


NO_REFRESH = 1 << 30
"""`Controller.t_refi` without refresh: longer than any run that RTL can simulate."""


def part_of(name: str) -> Part:
    """The part of this name. Raises ConfigError for a name that is not in `PARTS`."""
    if name not in PARTS:
        raise ConfigError(f"there is no DRAM part {name!r}; give one of {', '.join(PARTS)}")
    return PARTS[name]


def word_bytes(kind: str, width: int) -> int:
    """Bytes of a bus word: the data that `width` data lines of a DRAM of generation `kind` transfer in one controller
    clock.
    """
    return width * KINDS[kind].phases * KINDS[kind].transfers // 8


def row_bytes(part: Part, width: int) -> int:
    """Bytes of a row of one bank in all chips of `part` together, which have `width` data lines."""
    return word_bytes(part.kind, width) * part.columns // KINDS[part.kind].burst


def controller(
    name: str,
    *,
    clock_mhz: float,
    width: int | None = None,
    grade: str | None = None,
    bank_bytes: int | None = None,
    refresh: bool = True,
) -> Controller:
    """Returns the sizes and times of the controller for one or several chips of the part `name`, which work in parallel
    and get the same commands.

    - `clock_mhz`: the controller's clock.
    - `width`: number of data lines of all chips together; must be that of 1, 2, 4, 8 ... chips (default: of one chip).
    - `grade`: speed grade (default: the fastest).
    - `bank_bytes`: number of consecutive bytes of memory in one bank; a power of two, at least a row and at most a bank
      (default: a row).
    - `refresh`: without it, no refresh is sent, as in a test that lasts a few milliseconds.

    Raises ConfigError for an argument that breaks these rules, for an unknown part or grade, and for a clock that is
    too fast for the part or too slow for its refresh.
    """
    part = part_of(name)
    kind, lines = KINDS[part.kind], part.width if width is None else width
    if lines % part.width or (lines // part.width) & (lines // part.width - 1):
        raise ConfigError(
            f"{name}: width = {lines}: give {part.width}, the data lines of one chip, or 2, 4 or 8 times as many"
        )
    grades = list(part.times)
    if grade is not None and grade not in grades:
        raise ConfigError(
            f"{name} has no speed grade {grade!r}; its grades are {', '.join(map(repr, grades))}"
        )
    times, clock = part.times[grades[-1] if grade is None else grade], 1e3 / clock_mhz
    dram_clock = clock / kind.phases
    found = [(cas, write) for least, cas, write in kind.latencies if dram_clock >= least]
    if not found:
        fastest = 1e3 / (kind.latencies[-1][0] * kind.phases)
        raise ConfigError(
            f"{name}: a controller at {clock_mhz:g} MHz is too fast; give {fastest:.0f} MHz at most"
        )
    cas, write = found[0]

    def clocks(ns: float, count: int = 0, *, phase: bool = True) -> int:
        """Least number of controller clocks that last at least `count` DRAM clocks and at least `ns` nanoseconds. A
        controller clock has several phases, in each of which a command may be sent. With `phase`, the nanoseconds count
        from the last phase of the first clock, because the first command may be sent in that phase; without `phase`,
        from the start of the first clock.
        """
        late = clock * (1 - 1 / kind.phases) if phase else 0.0
        return max(ceil(count / kind.phases), ceil((ns + late) / clock))

    def limit(value: Limit | None) -> int:
        return _UNLIMITED if value is None else clocks(value[1], value[0])

    def row(value: float | None) -> int:
        return _UNLIMITED if value is None else clocks(value)

    burst, read = limit(times.ccd), ceil(cas / kind.phases)
    written = ceil(write / kind.phases)
    interval = clocks(kind.refresh_ns, phase=False)
    if interval < 100:
        raise ConfigError(
            f"{name}: a controller at {clock_mhz:g} MHz is too slow for its refresh; give 13 MHz or more"
        )
    word, column_bits = word_bytes(part.kind, lines), (part.columns // kind.burst).bit_length() - 1
    least = row_bytes(part, lines)
    together = least if bank_bytes is None else bank_bytes
    if together & (together - 1) or not least <= together <= least * part.rows:
        raise ConfigError(
            f"{name}: bank_bytes = {together}: give a power of two from {least}, the bytes of a row, to "
            f"{least * part.rows}, the bytes of a bank"
        )
    return Controller(
        banks=part.banks,
        phases=kind.phases,
        column_bits=column_bits,
        bank_shift=(together // word).bit_length() - 1,
        word_bytes=word,
        queue=QUEUE,
        read_time=READ_TIME,
        write_time=WRITE_TIME,
        read_latency=read + kind.read_delay + 1,
        write_latency=written - kind.write_lead + 1,
        turnaround=read + kind.read_delay - 1,
        t_rp=clocks(times.rp),
        t_rcd=clocks(times.rcd),
        t_wtp=written + clocks(times.wr) + burst,
        t_rc=_UNLIMITED if times.ras is None else clocks(times.rp + times.ras),
        t_ras=row(times.ras),
        t_rrd=limit(times.rrd),
        t_faw=limit(times.faw),
        t_ccd=burst,
        t_wtr=limit(times.wtr) + written + burst,
        t_refi=interval if refresh else NO_REFRESH,
        t_rfc=limit(times.rfc),
        t_zqcs=limit(times.zqcs),
        zqcs_period=int(clock_mhz * 1e6),
        read_fifo=READ_FIFO,
        write_fifo=WRITE_FIFO,
    )

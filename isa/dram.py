"""DRAM parts in nanoseconds and clocks, and the cycles that a controller of LiteDRAM derives from them.

Organisation and times of the parts are those that LiteDRAM 2024.12 (litedram/modules.py) takes from the data sheets of
the manufacturers; a test compares each part with LiteDRAM. Latencies of the interface to the part (the PHY) are those
of LiteDRAM's simulation model (litedram/phy/model.py), which follow its PHYs for FPGAs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from types import MappingProxyType

from .errors import ConfigError

REFRESH_NS = 64e6 / 8192
"""Nanoseconds between two refresh commands: 8,192 of them in 64 ms, for all parts here (JEDEC)."""

Limit = tuple[int, float]
"""A minimum time, the longer of (DRAM clocks, nanoseconds)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A generation of DRAM.

    `phases`: DRAM clocks in a controller clock. `transfers`: data transfers in a DRAM clock. `burst`: columns that one
    READ or WRITE transfers. `latencies`: rows (least DRAM clock period in nanoseconds, CAS latency, CAS write latency),
    slowest clock first, latencies in DRAM clocks. `read_delay`: controller clocks that the PHY adds to a read.
    `write_lead`: controller clocks by which the data of a write come before the CAS write latency has passed.
    """

    phases: int
    transfers: int
    burst: int
    latencies: tuple[tuple[float, int, int], ...]
    read_delay: int
    write_lead: int


def _rates(rows: Mapping[float, tuple[int, int]]) -> tuple[tuple[float, int, int], ...]:
    """`Kind.latencies` from {megatransfers per second: (CAS latency, CAS write latency)}, for two transfers in a DRAM
    clock: a rate of 800 is a clock period of 2.5 ns.
    """
    return tuple((2e3 / rate, cas, write) for rate, (cas, write) in rows.items())


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "SDR": Kind(
            phases=1, transfers=1, burst=1, latencies=((0.0, 2, 2),), read_delay=2, write_lead=2
        ),
        "DDR2": Kind(
            phases=2, transfers=2, burst=4, read_delay=6, write_lead=1,
            latencies=_rates({400: (3, 2), 533: (4, 3), 677: (5, 4), 800: (6, 5), 1066: (7, 5)}),
        ),
        "DDR3": Kind(
            phases=4, transfers=2, burst=8, read_delay=6, write_lead=1,
            latencies=_rates({800: (6, 5), 1066: (7, 6), 1333: (10, 7), 1600: (11, 8), 1866: (13, 9)}),
        ),
        "DDR4": Kind(
            phases=4, transfers=2, burst=8, read_delay=5, write_lead=1,
            latencies=_rates(
                {1333: (9, 9), 1600: (11, 9), 1866: (13, 10), 2133: (15, 11), 2400: (16, 12), 2666: (18, 14)}
            ),
        ),
    }
)  # fmt: skip
"""Generations by name (litedram/common.py: get_default_cl_cwl; litedram/phy/model.py: get_sdram_phy_settings)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Times of a part: nanoseconds, or the longer of clocks and nanoseconds; None where the data sheet has no limit.

    Names are JEDEC's: precharge `rp`, activate to column command `rcd`, end of write data to precharge `wr`, refresh
    `rfc`, window of four activates `faw`, activate to precharge `ras`, write to read `wtr`, column command to column
    command `ccd`, activate to activate of another bank `rrd`, short calibration `zqcs`.
    """

    rp: float
    rcd: float
    wr: float
    rfc: Limit
    faw: Limit | None
    ras: float | None
    wtr: Limit
    ccd: Limit
    rrd: Limit | None
    zqcs: Limit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A DRAM chip: generation; numbers of banks, of rows in a bank and of columns in a row (powers of two); number of
    data lines `width`; times by speed grade (megatransfers per second; "" for a chip without grades).
    """

    kind: str
    banks: int
    rows: int
    columns: int
    width: int
    times: Mapping[str, Times]


def _sdr(rp: float, wr: float, rfc: float, ras: float | None = None, rrd: float | None = None) -> Times:
    row = None if rrd is None else (0, rrd)
    return Times(rp=rp, rcd=rp, wr=wr, rfc=(0, rfc), faw=None, ras=ras, wtr=(2, 0.0), ccd=(1, 0.0), rrd=row)


def _ddr3(rfc: Mapping[str, int], ras: float = 35.0) -> Mapping[str, Times]:
    """Times of Micron's DDR3 by speed grade; `rfc`: clocks of a refresh by speed grade."""
    grades = {
        "800": (13.1, 50.0, 37.5),
        "1066": (13.1, 50.0, 37.5),
        "1333": (13.5, 45.0, 36.0),
        "1600": (13.75, 40.0, ras),
    }
    return {
        grade: Times(
            rp=row, rcd=row, wr=row, rfc=(rfc[grade], 0.0), faw=(0, faw), ras=active,
            wtr=(4, 7.5), ccd=(4, 0.0), rrd=(4, 10.0), zqcs=(64, 80.0),
        )
        for grade, (row, faw, active) in grades.items() if grade in rfc
    }  # fmt: skip


def _ddr4(rfc: float, faw: Mapping[str, Limit], rrd: float) -> Mapping[str, Times]:
    """Times of Micron's DDR4 by speed grade; `rfc`: nanoseconds of a refresh in mode 1x."""
    return {
        grade: Times(
            rp=13.5 if grade == "2666" else 13.32, rcd=13.5 if grade == "2666" else 13.32, wr=15.0,
            rfc=(0, rfc), faw=window, ras=32.0, wtr=(4, 7.5), ccd=(4, 0.0), rrd=(4, rrd), zqcs=(128, 80.0),
        )
        for grade, window in faw.items()
    }  # fmt: skip


_DDR2 = Times(
    rp=15.0, rcd=15.0, wr=15.0, rfc=(0, 127.5), faw=None, ras=None, wtr=(0, 7.5), ccd=(2, 0.0), rrd=None
)
_SMALL_REFRESH = {"800": 64, "1066": 86, "1333": 107, "1600": 128}
PARTS: Mapping[str, Part] = MappingProxyType(
    {
        "IS42S16160": Part(
            kind="SDR", banks=4, rows=8192, columns=512, width=16, times={"": _sdr(20.0, 20.0, 70.0)}
        ),
        "MT48LC4M16": Part(
            kind="SDR", banks=4, rows=4096, columns=256, width=16, times={"": _sdr(15.0, 14.0, 66.0)}
        ),
        "MT48LC16M16": Part(
            kind="SDR", banks=4, rows=8192, columns=512, width=16, times={"": _sdr(20.0, 15.0, 66.0, 44.0, 15.0)}
        ),
        "W9825G6KH6": Part(
            kind="SDR", banks=4, rows=8192, columns=512, width=16, times={"": _sdr(15.0, 15.0, 60.0, 42.0, 10.0)}
        ),
        "MT47H64M16": Part(kind="DDR2", banks=8, rows=8192, columns=1024, width=16, times={"": _DDR2}),
        "MT47H128M8": Part(kind="DDR2", banks=8, rows=16384, columns=1024, width=8, times={"": _DDR2}),
        "MT41K64M16": Part(
            kind="DDR3", banks=8, rows=8192, columns=1024, width=16, times=_ddr3(_SMALL_REFRESH)
        ),
        "MT41K128M16": Part(
            kind="DDR3", banks=8, rows=16384, columns=1024, width=16, times=_ddr3(_SMALL_REFRESH)
        ),
        "MT41K256M16": Part(
            kind="DDR3", banks=8, rows=32768, columns=1024, width=16,
            times=_ddr3({"800": 139, "1066": 138, "1333": 174, "1600": 208}),
        ),
        "MT41K512M16": Part(
            kind="DDR3", banks=8, rows=65536, columns=1024, width=16, times=_ddr3({"1600": 280}, ras=39.0)
        ),
        "MT41K256M8": Part(
            kind="DDR3", banks=8, rows=32768, columns=1024, width=8,
            times={
                "1600": Times(
                    rp=13.75, rcd=13.75, wr=15.0, rfc=(128, 0.0), faw=(0, 40.0), ras=35.0,
                    wtr=(4, 7.5), ccd=(4, 0.0), rrd=(4, 6.0), zqcs=(64, 80.0),
                )
            },
        ),
        "MT40A1G8": Part(
            kind="DDR4", banks=16, rows=65536, columns=1024, width=8,
            times=_ddr4(350.0, {"2400": (20, 25.0), "2666": (20, 21.0)}, 6.4),
        ),
        "MT40A256M16": Part(
            kind="DDR4", banks=8, rows=32768, columns=1024, width=16, times=_ddr4(260.0, {"2400": (28, 35.0)}, 4.9)
        ),
        "MT40A512M16": Part(
            kind="DDR4", banks=8, rows=65536, columns=1024, width=16, times=_ddr4(350.0, {"2400": (20, 25.0)}, 4.9)
        ),
    }
)  # fmt: skip
"""Parts by name."""

_UNLIMITED = -1
"""Value of a time in `Controller` that the part does not limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """Sizes and times of a DRAM controller. Times are in controller clocks; -1: the part has no such limit.

    `phases`: DRAM clocks in a controller clock. `column_bits`: a row of a bank has 2 ** `column_bits` bus words.
    `bank_shift`: 2 ** `bank_shift` consecutive bus words lie in one bank, the next ones in the next bank.
    `queue`: most requests that wait at a bank, besides the request that the bank executes. `read_time`,
    `write_time`: longest time of reads, or writes, while requests of the other direction wait. `read_latency`,
    `write_latency`: from a column command to its data at the crossbar. `turnaround`: from the end of reads to the first
    write. `t_wtp`: from a write command to a precharge. `zqcs_period`: clocks between two calibrations. `read_fifo`,
    `write_fifo`: bus words that the FIFOs of the AXI bridge hold.
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


QUEUE, READ_TIME, WRITE_TIME = 8, 32, 16
"""Defaults of LiteDRAM (litedram/core/controller.py: ControllerSettings)."""
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
    """Bytes of a bus word: all that `width` data lines of the generation `kind` transfer in one controller clock."""
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
    """The controller for chips of the part `name`, which all receive the same commands.

    `clock_mhz`: the controller's clock. `width`: data lines of all chips together (default: of one chip). `grade`:
    speed grade (default: the fastest). `bank_bytes`: consecutive bytes of memory in one bank (default: a row). Without
    `refresh` no refresh is sent, as in a test that lasts a few milliseconds. Raises ConfigError for a part or grade
    that does not exist, if `width` is not that of 1, 2, 4, 8 ... chips, if `bank_bytes` is no power of two from a row
    to a bank, and for a clock that is too fast for the part, or too slow for its refresh.
    """
    part = part_of(name)
    kind, lines = KINDS[part.kind], part.width if width is None else width
    if lines % part.width or (lines // part.width) & (lines // part.width - 1):
        raise ConfigError(f"{name} has {part.width} data lines; {lines} are not 1, 2, 4 or 8 chips")
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
        """Controller clocks that last at least `count` DRAM clocks and `ns` nanoseconds. With `phase`, `ns` counts from
        the last phase of a controller clock, in which a command may be sent.
        """
        late = clock * (1 - 1 / kind.phases) if phase else 0.0
        return max(ceil(count / kind.phases), ceil((ns + late) / clock))

    def limit(value: Limit | None) -> int:
        return _UNLIMITED if value is None else clocks(value[1], value[0])

    def row(value: float | None) -> int:
        return _UNLIMITED if value is None else clocks(value)

    burst, read = limit(times.ccd), ceil(cas / kind.phases)
    written = ceil(write / kind.phases)
    interval = clocks(REFRESH_NS, phase=False)
    if interval < 100:
        raise ConfigError(
            f"{name}: a controller at {clock_mhz:g} MHz is too slow for its refresh; give 13 MHz or more"
        )
    word, column_bits = word_bytes(part.kind, lines), (part.columns // kind.burst).bit_length() - 1
    least = row_bytes(part, lines)
    together = least if bank_bytes is None else bank_bytes
    if together & (together - 1) or not least <= together <= least * part.rows:
        raise ConfigError(
            f"{name}: bank_bytes = {together}: give a power of two from a row, {least}, to a bank, {least * part.rows}"
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

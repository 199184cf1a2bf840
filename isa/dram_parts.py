"""DRAM parts in nanoseconds and clocks: generations, organisation and times of the chips that a machine may have.

Organisation and times of SDR, DDR2, DDR3 and DDR4 parts are those that LiteDRAM 2024.12 (litedram/modules.py) takes
from the data sheets of the manufacturers; a test compares each part with LiteDRAM. Latencies of the interface to the
part (the PHY) are those of LiteDRAM's simulation model (litedram/phy/model.py), which follow its PHYs for FPGAs.

LiteDRAM has no simulation model of the other generations. For these, the simulator applies the rules of the same
controller to the part's times, and no RTL confirms the cycles (`Kind.oracle`); comments beside generations and parts
name the sources of their times. Bank groups are ignored, as LiteDRAM ignores those of DDR4: column commands follow one
another as closely as for alternating groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

REFRESH_NS = 64e6 / 8192
"""tREFI in nanoseconds, the time between two refresh commands, of SDR to DDR4: 8,192 refreshes in 64 ms (JEDEC)."""

Limit = tuple[int, float]
"""A minimum time, the longer of (DRAM clocks, nanoseconds)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A generation of DRAM.

    `phases`: DRAM clocks in a controller clock. `transfers`: data transfers in a DRAM clock. `burst`: columns that one
    READ or WRITE transfers. `latencies`: rows (least DRAM clock period in nanoseconds, CAS latency, CAS write latency),
    slowest clock first, latencies in DRAM clocks. `read_delay`: controller clocks that the PHY adds to a read.
    `write_lead`: the controller gives the data of a write to the PHY this number of controller clocks before the CAS
    write latency ends. `refresh_ns`: nanoseconds between two refresh commands. `oracle`: whether LiteDRAM's RTL, with
    its model of a part of this generation, confirms the simulated cycles.
    """

    phases: int
    transfers: int
    burst: int
    latencies: tuple[tuple[float, int, int], ...]
    read_delay: int
    write_lead: int
    refresh_ns: float = REFRESH_NS
    oracle: bool = True


def _rates(rows: Mapping[float, tuple[int, int]]) -> tuple[tuple[float, int, int], ...]:
    """Converts {megatransfers per second: (CAS latency, CAS write latency)} to `Kind.latencies`. There are two
    transfers in a DRAM clock: a rate of 800 is a clock period of 2.5 ns.
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
        # The command takes four clocks, and latencies count from its last one (litedram/phy/lpddr4/basephy.py).
        "LPDDR4": Kind(
            phases=8, transfers=2, burst=16, read_delay=6, write_lead=0, refresh_ns=32e6 / 8192, oracle=False,
            latencies=_rates(
                {
                    532: (10, 8), 1066: (14, 10), 1600: (18, 12), 2132: (24, 14),
                    2666: (28, 16), 3200: (32, 18), 3732: (36, 20), 4266: (40, 22),
                }
            ),
        ),
        # JESD209-5B at 6,400 megatransfers, as in Ramulator 2 (commit c5b1c3a, lpddr5.py); the PHY is that of LPDDR4.
        "LPDDR5": Kind(
            phases=2, transfers=8, burst=16, read_delay=6, write_lead=0, refresh_ns=32e6 / 8192, oracle=False,
            latencies=((1.25, 17, 9),),
        ),
        # JESD235 by rates 1600, 2000 and 2400, as in Ramulator 2 (hbm2.py); the PHY is that of DDR4.
        "HBM2": Kind(
            phases=2, transfers=2, burst=4, read_delay=5, write_lead=1, refresh_ns=3900.0, oracle=False,
            latencies=_rates({1600: (10, 4), 2000: (14, 5), 2400: (17, 6)}),
        ),
        # JESD250 at 14,000 megatransfers, as in Ramulator 2 (gddr6.py); the PHY is that of DDR4.
        "GDDR6": Kind(
            phases=2, transfers=8, burst=16, read_delay=5, write_lead=1, refresh_ns=1900.0, oracle=False,
            latencies=((0.57, 24, 6),),
        ),
    }
)  # fmt: skip
"""DRAM generations by name (litedram/common.py: get_default_cl_cwl; litedram/phy/model.py: get_sdram_phy_settings)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Times of a part. A `float` is in nanoseconds. A `Limit` is a number of clocks and a number of nanoseconds, and
    the longer of both times applies. None: the data sheet has no limit.

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
    """Times of Micron's DDR3 by speed grade. `rfc`: for each speed grade of the chip, the clocks of a refresh. `ras`:
    nanoseconds from activate to precharge in the grade 1600.
    """
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
    """Times of Micron's DDR4 by speed grade. `rfc`: nanoseconds of a refresh in mode 1x. `faw`: window of four
    activates by speed grade. `rrd`: least nanoseconds between activates of two banks.
    """
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
        # litedram/modules.py, but column commands follow in 8 clocks: writes without masks.
        "MT53E256M16D1": Part(
            kind="LPDDR4", banks=8, rows=32768, columns=1024, width=16,
            times={
                "3732": Times(
                    rp=21.0, rcd=18.0, wr=18.0, rfc=(0, 180.0), faw=(0, 40.0), ras=42.0,
                    wtr=(8, 10.0), ccd=(8, 0.0), rrd=(4, 10.0),
                )
            },
        ),
        # One channel of 16 lines; 16 banks. Ramulator 2, lpddr5.py: LPDDR5_8Gb_x16, LPDDR5_6400.
        "LPDDR5-8Gb": Part(
            kind="LPDDR5", banks=16, rows=32768, columns=1024, width=16,
            times={
                "6400": Times(
                    rp=21.25, rcd=18.75, wr=35.0, rfc=(0, 210.0), faw=(16, 20.0), ras=42.5,
                    wtr=(10, 12.5), ccd=(2, 0.0), rrd=(4, 5.0),
                )
            },
        ),
        # One pseudo channel of 64 lines. Times: DRAMsim3 (commit 2981759, HBM2_8Gb_x128.ini).
        "HBM2-8Gb": Part(
            kind="HBM2", banks=16, rows=16384, columns=128, width=64,
            times={
                "2400": Times(
                    rp=14.0, rcd=14.0, wr=16.0, rfc=(0, 260.0), faw=(0, 30.0), ras=34.0,
                    wtr=(0, 8.0), ccd=(2, 0.0), rrd=(0, 4.0),
                )
            },
        ),
        # One channel of 16 lines. Ramulator 2, gddr6.py: GDDR6_8Gb_x16, GDDR6_14000_1350mV_double.
        "GDDR6-8Gb": Part(
            kind="GDDR6", banks=16, rows=16384, columns=1024, width=16,
            times={
                "14000": Times(
                    rp=15.39, rcd=15.39, wr=15.39, rfc=(0, 120.27), faw=(0, 16.53), ras=30.21,
                    wtr=(0, 6.27), ccd=(2, 0.0), rrd=(0, 4.56),
                )
            },
        ),
    }
)  # fmt: skip
"""DRAM parts by name."""

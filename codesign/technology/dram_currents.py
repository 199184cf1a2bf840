"""Supply currents of DRAM chips, from which `dram.py` computes the energy of commands.

Most numbers were taken from three collections of manufacturers' data: the configs of DRAMsim3 (commit 2981759), the
memspecs of DRAMPower (commit 6d8c395) and the ini files of DRAMSim2 (commit 2065150). The numbers of SDR were taken
from a data sheet: that of Infineon's HYB39S256160T (-8, 125 MHz). The row cycle current of this part was measured with
a burst of four words in each cycle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class Currents:
    """Supply currents of one chip in milliamperes, under their names in JEDEC's standards, and the timing at which they
    were measured.

    - `idd0`: current while a bank is opened and closed every `ras` + `rp` clocks. `words_in_row_cycle`: number of
      column commands within each such row cycle.
    - `ipp0`: the part of `idd0` from the second supply of DDR4, 2.5 V.
    - `idd2n`, `idd3n`: current in standby with all rows closed, and with open rows.
    - `idd4r`, `idd4w`: current during reads or writes without a gap. `burst`: number of clocks of a burst.
    - `idd5`: current while a refresh begins every `rfc` clocks.
    - `volts`: voltage of the main supply. `clock_ns`: clock period in nanoseconds. `source`: the document with these
      numbers.
    """

    volts: float
    clock_ns: float
    idd0: float
    idd2n: float
    idd3n: float
    idd4r: float
    idd4w: float
    idd5: float
    ras: int
    rp: int
    rfc: int
    burst: int
    source: str
    ipp0: float = 0.0
    words_in_row_cycle: int = 0


_SDR = Currents(
    volts=3.3, clock_ns=8.0, idd0=210, idd2n=19, idd3n=45, idd4r=210, idd4w=210, idd5=240, ras=6, rp=3, rfc=9, burst=1,
    words_in_row_cycle=4, source="Infineon HYB39S256160T-8",
)  # fmt: skip

CURRENTS: Mapping[str, Currents] = MappingProxyType(
    {
        "IS42S16160": _SDR,
        "MT48LC4M16": _SDR,
        "MT48LC16M16": _SDR,
        "W9825G6KH6": _SDR,
        "MT47H64M16": Currents(
            volts=1.8, clock_ns=2.5, idd0=80, idd2n=30, idd3n=35, idd4r=150, idd4w=160, idd5=150,
            ras=16, rp=5, rfc=51, burst=2, source="DRAMPower: MICRON_1Gb_DDR2-800_16bit_H",
        ),
        "MT47H128M8": Currents(
            volts=1.8, clock_ns=3.0, idd0=85, idd2n=40, idd3n=55, idd4r=135, idd4w=135, idd5=215,
            ras=14, rp=4, rfc=43, burst=2, source="DRAMSim2: DDR2_micron_16M_8b_x8_sg3E",
        ),
        "MT41K64M16": Currents(
            volts=1.5, clock_ns=1.875, idd0=75, idd2n=35, idd3n=45, idd4r=140, idd4w=155, idd5=160,
            ras=20, rp=7, rfc=59, burst=4, source="DRAMPower: MICRON_1Gb_DDR3-1066_16bit_G",
        ),
        "MT41K128M16": Currents(
            volts=1.5, clock_ns=1.25, idd0=110, idd2n=42, idd3n=45, idd4r=270, idd4w=280, idd5=215,
            ras=28, rp=10, rfc=128, burst=4, source="DRAMPower: MICRON_2Gb_DDR3-1600_16bit_D",
        ),
        "MT41K256M16": Currents(
            volts=1.35, clock_ns=1.25, idd0=66, idd2n=32, idd3n=47, idd4r=235, idd4w=171, idd5=235,
            ras=28, rp=11, rfc=208, burst=4, source="DRAMsim3: DDR3_4Gb_x16_1600",
        ),
        "MT41K512M16": Currents(
            volts=1.35, clock_ns=1.25, idd0=67, idd2n=36, idd3n=51, idd4r=185, idd4w=185, idd5=270,
            ras=28, rp=11, rfc=280, burst=4, source="DRAMsim3: DDR3_8Gb_x16_1600",
        ),
        "MT41K256M8": Currents(
            volts=1.5, clock_ns=1.875, idd0=75, idd2n=32, idd3n=35, idd4r=140, idd4w=145, idd5=190,
            ras=20, rp=7, rfc=86, burst=4, source="DRAMPower: MICRON_2Gb_DDR3-1066_8bit_D",
        ),
        "MT40A1G8": Currents(
            volts=1.2, clock_ns=0.83, idd0=48, idd2n=34, idd3n=43, idd4r=135, idd4w=123, idd5=250, ipp0=3,
            ras=39, rp=17, rfc=420, burst=4, source="DRAMsim3: DDR4_8Gb_x8_2400",
        ),
        "MT40A256M16": Currents(
            volts=1.2, clock_ns=0.83, idd0=65, idd2n=45, idd3n=60, idd4r=205, idd4w=285, idd5=175, ipp0=3.6,
            ras=39, rp=17, rfc=312, burst=4, source="DRAMsim3: DDR4_4Gb_x16_2400",
        ),
        "MT40A512M16": Currents(
            volts=1.2, clock_ns=0.83, idd0=80, idd2n=34, idd3n=47, idd4r=243, idd4w=228, idd5=280, ipp0=4,
            ras=39, rp=17, rfc=420, burst=4, source="DRAMsim3: DDR4_8Gb_x16_2400",
        ),
        "HBM2-8Gb": Currents(
            volts=1.2, clock_ns=1.0, idd0=32.5, idd2n=20, idd3n=27.5, idd4r=195, idd4w=250, idd5=125,
            ras=34, rp=14, rfc=260, burst=2, source="DRAMsim3: HBM2_8Gb_x128, half of a channel's currents",
        ),
        "GDDR6-8Gb": Currents(
            volts=1.35, clock_ns=0.66, idd0=71, idd2n=60, idd3n=61, idd4r=248, idd4w=231, idd5=286,
            ras=54, rp=24, rfc=126, burst=2, source="DRAMsim3: GDDR6_8Gb_x16",
        ),
    }
)  # fmt: skip
"""Currents by name of the part (`isa.dram_parts.PARTS`). A part without a row has no published currents here."""

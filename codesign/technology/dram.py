"""Energy of DRAM transfers, from the currents of a data sheet: one DDR3L device of 4 Gbit, 16 bits wide, 1.35 V.

Currents and times (DDR3-1600) are those that DRAMsim3 has in configs/DDR3_4Gb_x16_1600.ini (commit 0eb6360), which are
the vendor's. Energies follow as the vendor's power notes compute them: an activation (with its precharge) is what IDD0
takes above standby in a row cycle, a burst of eight what IDD4R or IDD4W takes above active standby. Left out: standby,
refresh, termination and the interface on the accelerator's side.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_VOLTS, _CLOCK_NS = 1.35, 1.25
_IDD0, _IDD2N, _IDD3N, _IDD4R, _IDD4W = 66, 32, 47, 235, 171
"""Milliamperes."""
_RAS, _RP, _BURST, _BYTES_A_BURST = 28, 11, 4, 16
"""Clock cycles, and bytes that a burst of eight moves."""

ROW_BYTES: Final = 2048
ACTIVATION_PJ: Final = _VOLTS * _CLOCK_NS * (_IDD0 * (_RAS + _RP) - _IDD3N * _RAS - _IDD2N * _RP)
"""Milliamperes times nanoseconds times volts are picojoules."""
READ_PJ_A_BYTE: Final = _VOLTS * _CLOCK_NS * (_IDD4R - _IDD3N) * _BURST / _BYTES_A_BURST
WRITE_PJ_A_BYTE: Final = _VOLTS * _CLOCK_NS * (_IDD4W - _IDD3N) * _BURST / _BYTES_A_BURST
SOURCE: Final = "DDR3L-1600, 4 Gbit x16, 1.35 V: currents of the data sheet as in DRAMsim3's configs"


def dram_picojoules(read: int, written: int, runs: Mapping[str, int]) -> float:
    """The energy of reading and writing so many bytes in `runs` of them, one behind the other, by who moves them.

    Every run opens a row, and another one whenever it passes the end of a row: rows that stay open from one run to the
    next, and those that others close in between, are not looked at.
    """
    activations = sum(runs.values()) + (read + written) / ROW_BYTES
    return read * READ_PJ_A_BYTE + written * WRITE_PJ_A_BYTE + activations * ACTIVATION_PJ

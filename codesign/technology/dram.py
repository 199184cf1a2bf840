"""Energy of DRAM transfers, from the currents of a data sheet: one DDR3L device of 4 Gbit, 16 bits wide, 1.35 V.

Currents and times (DDR3-1600) are the vendor's, from configs/DDR3_4Gb_x16_1600.ini of DRAMsim3 (commit 0eb6360).
Energies are computed as in the vendor's power notes, from currents above standby: an activation (with its precharge)
takes IDD0 for a row cycle, a burst of eight takes IDD4R or IDD4W for its duration. Left out: standby, refresh,
termination and the interface on the accelerator's side.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_VOLTS, _CLOCK_NS = 1.35, 1.25
_IDD0, _IDD2N, _IDD3N, _IDD4R, _IDD4W = 66, 32, 47, 235, 171
"""Currents of the data sheet in milliamperes."""
_RAS, _RP, _BURST, _BYTES_A_BURST = 28, 11, 4, 16
"""Row active time, precharge time and duration of a burst, in clock cycles; bytes of a burst of eight."""

ROW_BYTES: Final = 2048
ACTIVATION_PJ: Final = _VOLTS * _CLOCK_NS * (_IDD0 * (_RAS + _RP) - _IDD3N * _RAS - _IDD2N * _RP)
"""Energy of one row activation in picojoules (milliamperes times nanoseconds times volts)."""
READ_PJ_A_BYTE: Final = _VOLTS * _CLOCK_NS * (_IDD4R - _IDD3N) * _BURST / _BYTES_A_BURST
WRITE_PJ_A_BYTE: Final = _VOLTS * _CLOCK_NS * (_IDD4W - _IDD3N) * _BURST / _BYTES_A_BURST
SOURCE: Final = "DDR3L-1600, 4 Gbit x16, 1.35 V: currents of the data sheet as in DRAMsim3's configs"


def dram_picojoules(read: int, written: int, runs: Mapping[str, int]) -> float:
    """Picojoules of `read` and `written` bytes on the bus; `runs`: number of contiguous runs by kind of transfer
    (`events.MOVERS`).

    Every run opens a row, and another row at each row boundary that it crosses. The estimate ignores rows that stay
    open from one run to the next, and rows that other transfers close in between.
    """
    activations = sum(runs.values()) + (read + written) / ROW_BYTES
    return read * READ_PJ_A_BYTE + written * WRITE_PJ_A_BYTE + activations * ACTIVATION_PJ

"""Area, delay and energy of memory macros: a table that CACTI computed for 45 nm, scaled to the node of a library.

`sram.json` has macros of 64 to 32,768 words of 32 to 256 bits with a read port and a write port
(`benchmarks/sram_table.py` writes it). A memory consists of equal macros side by side, of the width in the table that
gives the least total area. For numbers of words that are not in the table, also below the smallest, values are
interpolated linearly in logarithms. A memory with more words than the largest macro has several macros. With more than
two ports, area and leakage grow in proportion to their number.

Figures are scaled from the Nangate 45 nm open cell library to another library. Area is scaled by the ratio of the
smallest flip-flops' areas, delay by the ratio of the delays of an inverter that drives an inverter, and energy and
leakage by the ratio of the inverters' capacitances times that of the squared voltages.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

from .liberty import Liberty
from .memories import Macro

FLIP_FLOP_UM2: Final = 4.522
"""Area of flip-flop DFF_X1 of the Nangate 45 nm open cell library, typical corner, 1.1 V, in square micrometres."""
INVERTER_NS: Final = 0.00425
"""Delay in ns of an inverter INV_X1 of the Nangate library that drives another INV_X1: delay per load (2.5 ns/pF) times
input capacitance.
"""
INVERTER_FF: Final = 1.70
VOLTAGE: Final = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Factors by which areas, delays and energies of memory macros at 45 nm are multiplied to get those for another
    cell library.
    """

    area: float = 1.0
    delay: float = 1.0
    energy: float = 1.0

    @property
    def node_nm(self) -> float:
        """The technology node, in nm, that memory areas are scaled to. Areas grow with the square of the node, so it is
        45 nm times the square root of `area`.
        """
        return 45 * math.sqrt(self.area)


@dataclass(frozen=True, slots=True, kw_only=True)
class MacroFigures:
    """Figures of a memory: `area` in square micrometres, access time from address to data (`access_ns`), energy of
    reading and of writing a whole word (`read_pj`, `write_pj`), and leakage in microwatts (`leakage_uw`).
    """

    area: float
    access_ns: float
    read_pj: float
    write_pj: float
    leakage_uw: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    source: str
    words: tuple[int, ...]
    rows: Mapping[int, Mapping[str, tuple[float, ...]]]
    """Maps a word width in bits to the measurements of macros with that width: a mapping from the name of a measurement
    (a field of `MacroFigures`) to its values, one for each number of words in `words`.
    """


def scale_of(library: Liberty) -> Scale:
    """The factors that scale figures at 45 nm to the node of `library`."""
    voltage = library.voltage or VOLTAGE
    return Scale(
        area=library.flip_flop_area / FLIP_FLOP_UM2,
        delay=library.inverter_ns / INVERTER_NS,
        energy=library.inverter_ff / INVERTER_FF * (voltage / VOLTAGE) ** 2,
    )


def source() -> str:
    """The origin of the table of SRAM macros, as text."""
    return _table().source


def memory_figures(words: int, width: int, scale: Scale, *, ports: int = 2) -> MacroFigures:
    """Figures of a memory of `words` words of `width` bits, multiplied by the factors `scale`. `ports`: number of read
    and write ports together; for fewer than 2 the figures are those for 2.
    """
    table = _table()
    options = [_side_by_side(table, words, width, each) for each in table.rows]
    found = min(options, key=lambda option: option.area)
    more = max(1.0, ports / 2)
    return MacroFigures(
        area=found.area * more * scale.area,
        access_ns=found.access_ns * scale.delay,
        read_pj=found.read_pj * scale.energy,
        write_pj=found.write_pj * scale.energy,
        leakage_uw=found.leakage_uw * more * scale.energy,
    )


def macro_figures(macro: Macro, scale: Scale) -> MacroFigures:
    """Area, access time, energy and leakage of a macro of a mapped design, multiplied by the factors `scale`."""
    return memory_figures(macro.words, macro.width, scale, ports=macro.reads + macro.writes)


def _side_by_side(table: _Table, words: int, width: int, each: int) -> MacroFigures:
    most = table.words[-1]
    banks = math.ceil(words / most)
    columns = max(1.0, width / each)
    figures = {name: _at(table.words, row, words / banks) for name, row in table.rows[each].items()}
    return MacroFigures(
        area=banks * columns * figures["area_um2"],
        access_ns=figures["access_ns"],
        read_pj=columns * figures["read_pj"],
        write_pj=columns * figures["write_pj"],
        leakage_uw=banks * columns * figures["leakage_uw"],
    )


def _at(axis: tuple[int, ...], values: tuple[float, ...], x: float) -> float:
    """Value at `x` of the curve through the points (`axis`, `values`): linear in logarithms between the two points
    around `x`; outside the points, by extrapolation from the first or the last two. An `x` below 1 counts as 1.
    """
    right = next((i for i, edge in enumerate(axis) if edge >= x), len(axis) - 1)
    right = max(right, 1)
    low, high = math.log(axis[right - 1]), math.log(axis[right])
    share = (math.log(max(x, 1.0)) - low) / (high - low)
    return math.exp((1 - share) * math.log(values[right - 1]) + share * math.log(values[right]))


@cache
def _table() -> _Table:
    text = (resources.files("vdla.hw.synthesis.cells") / "sram.json").read_text(encoding="utf-8")
    document = json.loads(text)
    rows: dict[int, dict[str, list[float]]] = {}
    words: list[int] = []
    for row in document["macros"]:
        if row["words"] not in words:
            words.append(row["words"])
        own = rows.setdefault(row["width"], {})
        for name in ("area_um2", "access_ns", "read_pj", "write_pj", "leakage_uw"):
            own.setdefault(name, []).append(row[name])
    return _Table(
        source=document["source"],
        words=tuple(words),
        rows={width: {name: tuple(own) for name, own in row.items()} for width, row in rows.items()},
    )

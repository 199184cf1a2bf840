"""Rows of `benchmarks/cell_areas.py`, one for each synthesized machine (accelerator configuration): the data to which
models of area and clock are fitted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vdla.isa.config import Config, Memory

HELD_OUT = 1000
"""Random machines of `benchmarks/cell_areas.py` from this number on are for evaluation: no model is fitted to them."""
_NUMBER = re.compile(r"_\d+(?=\.|$)")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Synthesized:
    """Results of synthesizing one machine. Equal instances are counted together, as one module.

    Three mappings have module names as keys. `modules`: number of instances, and their total area (square micrometres,
    without memory macros); `flip_flops`: number in all instances; `macros`: (number of memories, words, bits of a word)
    of the module's memory macros. `ends`: for the end point of each longest path, its nanoseconds and its start point.
    """

    draw: int
    config: Config
    modules: Mapping[str, tuple[int, float]]
    flip_flops: Mapping[str, int]
    macros: Mapping[str, list[tuple[int, int, int]]]
    ends: Mapping[str, tuple[float, str]]

    @property
    def is_reserved(self) -> bool:
        """Whether the machine is reserved for evaluation, so that no model may be fitted to it."""
        return self.draw >= HELD_OUT

    @property
    def logic(self) -> float:
        """Total area of the machine's standard cells, without memory macros, in square micrometres."""
        return sum(area for _, area in self.modules.values())

    @property
    def longest(self) -> float:
        """Nanoseconds of the longest path."""
        return max(ns for ns, _ in self.ends.values())


def module_name(path: str) -> str:
    """The common name of equal instances of an RTL module: the instance path `path` without numbers."""
    return _NUMBER.sub("", path)


def read_rows(path: Path) -> tuple[dict[str, Any], list[Synthesized]]:
    """The header of a file that `benchmarks/cell_areas.py` wrote, and its rows, one for each synthesized machine."""
    head, *rows = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return head, [_row(row) for row in rows]


def _row(row: Mapping[str, Any]) -> Synthesized:
    values = dict(row["config"])
    memory = Memory(**values.pop("memory"))
    config = Config(**{**values, "extensions": tuple(values["extensions"])}, memory=memory)
    modules: dict[str, tuple[int, float]] = {}
    flip_flops: dict[str, int] = {}
    for path, (count, area, registers) in row["modules"].items():
        name = module_name(path)
        known = modules.get(name, (0, 0.0))
        modules[name] = (known[0] + count, known[1] + count * area)
        flip_flops[name] = flip_flops.get(name, 0) + count * registers
    return Synthesized(
        draw=row["draw"],
        config=config,
        modules=modules,
        flip_flops=flip_flops,
        macros={
            # A line has the memories of one module, and a machine may have several lines.
            path: [(n * row["modules"][path][0], words, width) for n, words, width, _, _ in own]
            for path, own in row["macros"].items()
        },
        ends={place: (ns, start) for place, (ns, start) in row["ends"].items()},
    )

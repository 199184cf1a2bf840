"""The counts of a DRAM in a run as a JSON object and as lines of text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from vdla.isa.dram_memory import without_oracle

if TYPE_CHECKING:
    from vdla.isa.config import Config
    from vdla.sim import DramCounts


def dram_document(counts: DramCounts, config: Config) -> dict[str, Any]:
    """The member `rows` of the JSON object of `vdla run` and `vdla sim`: the counts of a run on the machine `config`,
    the row hit rate and, if no RTL confirms the cycles of the machine's DRAM, a "note" that says so.
    """
    note = without_oracle(config)
    return {**asdict(counts), "hit_rate": counts.row_hit_rate, **({"note": note} if note else {})}


def dram_lines(rows: Mapping[str, Any], cycles: int) -> list[str]:
    """Lines of text on `rows`, a `dram_document` of a run of `cycles` cycles: counts, and shares of all cycles."""
    waits = ", ".join(f"{cause} {count / cycles:.1%}" for cause, count in rows["waits"].items())
    return [
        f"DRAM: {rows['beats']:,} bus words, {rows['hit_rate']:.1%} in an open row; {rows['opened']:,} rows "
        f"opened, {rows['refreshes']:,} refreshes, {rows['turnarounds']:,} changes from reads to writes",
        f"DRAM: a word is read or written in {rows['beats'] / cycles:.1%} of the cycles; waits: {waits}",
        *([f"DRAM: {rows['note']}"] if "note" in rows else []),
    ]

"""The counts of a DRAM in a run as a JSON object, as lines of text, and by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vdla.isa.dram_memory import without_oracle

if TYPE_CHECKING:
    from vdla.isa.config import Config
    from vdla.isa.program import Program
    from vdla.sim import DramCounts

    from .cycle_breakdown import LayerAccount


def dram_document(counts: DramCounts, config: Config) -> dict[str, Any]:
    """The member `rows` of the JSON object of `vdla run` and `vdla sim`: the counts of a run on the machine `config`,
    the row hit rate and, if no RTL confirms the cycles of the machine's DRAM, a "note" that says so.
    """
    note = without_oracle(config)
    return {**_counts(counts), **({"note": note} if note else {})}


def _counts(counts: DramCounts) -> dict[str, Any]:
    """The counts of a DRAM and its row hit rate, by name. With several channels, the entry `channels` is a list with
    the counts and the row hit rate of each channel.
    """
    found = asdict(counts)
    channels = [_counts(own) for own in counts.channels]
    del found["channels"]
    return {**found, "hit_rate": counts.row_hit_rate, **({"channels": channels} if channels else {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRows:
    """The bus `words` that a DRAM read or wrote in a layer's own time, between `LayerAccount.begin` and `end`, and the
    number of rows that it `opened` for them.
    """

    words: int
    opened: int


def rows_of_layers(program: Program, layers: Sequence[LayerAccount]) -> tuple[LayerRows, ...] | None:
    """Simulates a program with a DRAM, and returns the words and opened rows of each layer. None if the simulator
    cannot determine the program's runs of words (`word_runs`).
    """
    # Only machines with a DRAM import the simulator's loop for it.
    from vdla.sim.dram_log import word_runs

    runs = word_runs(program.config, np.asarray(program.instructions), np.asarray(program.image))
    if runs is None:
        return None
    words, opened = (np.cumsum(np.append(0, counts)) for counts in (runs.stop - runs.start, runs.opened))
    ends = [np.searchsorted(runs.start, (layer.begin, layer.end)) for layer in layers]
    return tuple(
        LayerRows(words=int(words[last] - words[first]), opened=int(opened[last] - opened[first]))
        for first, last in ends
    )


def with_row_hits(program: Program, layers: Sequence[LayerAccount]) -> tuple[LayerAccount, ...]:
    """Simulates a program, and returns the accounts of its layers with their `row_hits`. The accounts are returned
    unchanged if the simulator cannot determine the program's runs of words (`word_runs`).
    """
    rows = rows_of_layers(program, layers)
    if rows is None:
        return tuple(layers)
    hits = [max(0.0, 1 - own.opened / own.words) if own.words else None for own in rows]
    return tuple(replace(layer, row_hits=share) for layer, share in zip(layers, hits, strict=True))


def dram_lines(rows: Mapping[str, Any], cycles: int) -> list[str]:
    """Lines of text on `rows`, a `dram_document` of a run of `cycles` cycles: counts, and shares of all cycles. With
    several channels, the shares are of the cycles of all channels together, and there is a line for each channel.
    """
    channels = rows.get("channels", [])
    cycles *= max(1, len(channels))
    waits = ", ".join(f"{cause} {count / cycles:.1%}" for cause, count in rows["waits"].items())
    return [
        f"DRAM: {rows['beats']:,} bus words, {rows['hit_rate']:.1%} in an open row; {rows['opened']:,} rows "
        f"opened, {rows['refreshes']:,} refreshes, {rows['turnarounds']:,} changes from reads to writes",
        f"DRAM: a word is read or written in {rows['beats'] / cycles:.1%} of the cycles; waits: {waits}",
        *(
            f"DRAM channel {number}: {own['beats']:,} bus words, {own['hit_rate']:.1%} in an open row; "
            f"{own['opened']:,} rows opened"
            for number, own in enumerate(channels)
        ),
        *([f"DRAM: {rows['note']}"] if "note" in rows else []),
    ]

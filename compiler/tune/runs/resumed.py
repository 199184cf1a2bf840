"""Finds the earlier trials, by number, of a search that is resumed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ...records.book import in_space
from ...records.record import Record, Task
from ...templates.space import Space


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resumed:
    """The `trials` of a search by number, and how many of the search's records are unused.

    `duplicates`: further records of a trial that already has one; `foreign`: records whose knobs are not in the search
    space; `illegal`: records whose knobs are in the space but not legal; `stale`: records of another version of the
    compiler, whose costs may have changed.
    """

    trials: Mapping[int, Record]
    duplicates: int
    foreign: int
    illegal: int
    stale: int

    @property
    def warning(self) -> str | None:
        """One line for the user on records that were not used; None if there are none."""
        counts = (
            (self.duplicates, "of trials that are recorded twice"),
            (self.foreign, "of knobs that the template does not have"),
            (self.illegal, "of knobs that are not legal"),
            (self.stale, "of another version of the compiler, whose kernels may run at other speeds"),
        )
        parts = [f"{count} {what}" for count, what in counts if count]
        unused = sum(count for count, _ in counts)
        return f"{unused} records of this search are not used: {', '.join(parts)}" if parts else None


def trials_of(
    records: Iterable[Record],
    task: Task,
    space: Space,
    *,
    strategy: str,
    seed: int,
    compiler: str | None = None,
) -> Resumed:
    """Finds the earlier trials of a search of `task`, which `strategy`, `seed` and `compiler` identify. Returns the
    trials whose knobs are legal in `space`, in order of number, and counts all other records of the search.

    If a trial has several records, the first is used.
    """
    of_search = [r for r in records if (r.seed, r.strategy, r.task.key) == (seed, strategy, task.key)]
    ours = [record for record in of_search if record.compiler == compiler]
    trials: dict[int, Record] = {}
    for record in ours:
        trials.setdefault(record.trial, record)
    ordered = [trials[number] for number in sorted(trials)]
    _, known, legal = in_space(ordered, space)
    return Resumed(
        trials={record.trial: record for record, fine in zip(ordered, legal, strict=True) if fine},
        duplicates=len(ours) - len(ordered),
        foreign=int((~known).sum()),
        illegal=int((known & ~legal).sum()),
        stale=len(of_search) - len(ours),
    )


def points_of(records: Iterable[Record], space: Space) -> tuple[np.ndarray, np.ndarray]:
    """Returns the points (candidates as indices of knob values), int64 [n, axes], and the costs, float64 [n], of
    `records`. The cost of a failed trial is inf. All knobs must be in the space.
    """
    records = list(records)
    points = np.array([space.point(record.knobs) for record in records], np.int64)
    costs = np.array([np.inf if record.cost is None else record.cost for record in records], np.float64)
    return points.reshape(len(records), len(space.axes)), costs

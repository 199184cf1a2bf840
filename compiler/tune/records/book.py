"""What records are for: the best knobs of a workload when it is compiled, and the history of a search that goes on."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from types import MappingProxyType

import numpy as np

from ...templates.space import Space, Values
from ..search.history import History
from .files import Skipped, read_lines, read_records
from .record import Description, Key, Record, Task

_NONE: Mapping[Key, tuple[Record, ...]] = MappingProxyType({})
_CHUNK = 64
"""Records whose legality is decided at once: that of the first one usually is all that is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBook:
    """Successful records of many workloads: of each (`Task.key`), from the least cost on."""

    records: Mapping[Key, tuple[Record, ...]] = field(default_factory=lambda: _NONE)

    def lookup(self, workload: Description, target: Description, space: Space | None = None) -> Values | None:
        """The knobs of least cost; with `space`, of those that are legal there. None where there are none.

        Empty knobs are the template's own choice, which is always legal.
        """
        return first_legal(self.records.get(Task(workload=workload, target=target).key, ()), space)

    def over(self, other: RecordBook) -> RecordBook:
        """This book, and `other` for the workloads that this one does not have."""
        return RecordBook(records=MappingProxyType({**other.records, **self.records}))

    @property
    def digest(self) -> str:
        """SHA-256 of all that `lookup` can answer, in hexadecimal: what a cache of compiled networks has to know."""
        digest = hashlib.sha256()
        for key in sorted(self.records):
            digest.update(
                repr((key, [sorted(record.knobs.items()) for record in self.records[key]])).encode()
            )
        return digest.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resumed:
    """The `history` of a search, and what of its records is not in it.

    `trials` is the number of its next trial. `duplicates` are records of trials that were counted already, `foreign` of
    knobs that the space does not have, `illegal` of knobs that it does not allow.
    """

    history: History
    trials: int
    duplicates: int
    foreign: int
    illegal: int

    @property
    def warning(self) -> str | None:
        """One line for the user on records that were not used; None if there are none."""
        counts = (
            (self.duplicates, "of a trial that was counted"),
            (self.foreign, "of knobs that the template does not have"),
            (self.illegal, "of knobs that are not legal"),
        )
        parts = [f"{count} {what}" for count, what in counts if count]
        unused = self.duplicates + self.foreign + self.illegal
        return f"{unused} records of this search are not used: {', '.join(parts)}" if parts else None


def best_of(records: Iterable[Record]) -> dict[Key, Record]:
    """The successful record of least cost of each task, of equals the first."""
    return {key: min(found, key=_cost) for key, found in _successful(records).items()}


def book_of(records: Iterable[Record]) -> RecordBook:
    """A book of the successful ones of `records`, from any number of files."""
    by_task = _successful(records)
    return RecordBook(
        records=MappingProxyType({key: tuple(sorted(found, key=_cost)) for key, found in by_task.items()})
    )


def read_book(paths: Sequence[Path]) -> tuple[RecordBook, list[Skipped]]:
    """A book of several files together, and what was skipped in each. RecordError for what is no text file."""
    files = [read_records(path) for path in paths]
    return book_of(record for records, _ in files for record in records), [skipped for _, skipped in files]


def best_records(records: Iterable[Record], count: int) -> list[Record]:
    """The `count` best successful records of each task, no two with equal knobs, in an order of their own.

    What is worth keeping of many trials: records of equal tasks stand together, by cost.
    """
    kept: list[Record] = []
    for _, found in sorted(_successful(records).items()):
        distinct: dict[tuple[tuple[str, int], ...], Record] = {}
        for record in sorted(found, key=_cost):
            distinct.setdefault(tuple(sorted(record.knobs.items())), record)
            if len(distinct) == count:
                break
        kept += distinct.values()
    return kept


def shipped_book() -> RecordBook:
    """The records that ship with the package."""
    return book_of(record for records, _ in shipped_files() for record in records)


def shipped_files(folder: Traversable | None = None) -> list[tuple[list[Record], Skipped]]:
    """Records and skipped lines of each file of records that ships with the package, or lies in `folder`, by name."""
    folder = folder or resources.files("vdla.compiler.tune.records.shipped")
    found = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".jsonl"):
            with entry.open("rb") as file:
                found.append(read_lines(file, entry.name))
    return found


def history_of(records: Iterable[Record], task: Task, space: Space, *, strategy: str, seed: int) -> Resumed:
    """What the search `strategy` with `seed` has tried of `task`, in the order of its trials; failures cost inf.

    A trial without knobs, of the template's own choice, counts, but is no point.
    """
    ours = [r for r in records if (r.seed, r.strategy, r.task.key) == (seed, strategy, task.key)]
    trials: dict[int, Record] = {}
    for record in ours:
        trials.setdefault(record.trial, record)
    ordered = [trials[number] for number in sorted(trials)]
    tried = [record for record in ordered if record.knobs]
    points, known, legal = in_space(tried, space)
    costs = np.array([np.inf if r.cost is None else r.cost for r in tried], dtype=np.float64)
    return Resumed(
        history=History(points=points[legal], costs=costs[legal]),
        trials=max(trials, default=-1) + 1,
        duplicates=len(ours) - len(ordered),
        foreign=int((~known).sum()),
        illegal=int((known & ~legal).sum()),
    )


def _successful(records: Iterable[Record]) -> dict[Key, list[Record]]:
    by_task: dict[Key, list[Record]] = {}
    for record in records:
        if record.cost is not None:
            by_task.setdefault(record.task.key, []).append(record)
    return by_task


def _cost(record: Record) -> float:
    return math.inf if record.cost is None else record.cost


def first_legal(records: Sequence[Record], space: Space | None) -> Values | None:
    """The knobs of the first record that has none or, with `space`, legal ones; None where there is no such record."""
    if space is None:
        return records[0].knobs if records else None
    for begin in range(0, len(records), _CHUNK):
        chunk = records[begin : begin + _CHUNK]
        legal = in_space(chunk, space)[2] | np.array([not record.knobs for record in chunk])
        if legal.any():
            return chunk[int(legal.argmax())].knobs
    return None


def in_space(records: Sequence[Record], space: Space) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The points int64 [n, axes] of records, whether the space has them, and whether it allows them: bool [n] each.

    The point of a record that the space does not have is the first one.
    """
    points = np.zeros((len(records), len(space.axes)), np.int64)
    known = np.zeros(len(records), bool)
    for i, record in enumerate(records):
        try:
            points[i] = space.point(record.knobs)
        except ValueError:
            continue
        known[i] = True
    legal = np.zeros(len(records), bool)
    if known.any():
        legal[known] = space.legal(points[known])
    return points, known, legal

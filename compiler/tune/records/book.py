"""What records are for: the best knobs of a workload when it is compiled."""

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
from ..measure.package_identity import compiler_identity
from .files import Skipped, read_lines, read_records
from .record import Description, Key, Record, Task

_NONE: Mapping[Key, tuple[Record, ...]] = MappingProxyType({})
CHECKED = "checked"
"""The strategy of records of what a run found, measured again beside its rivals: they count more than readings."""
_CHUNK = 64
"""Records whose legality is decided at once: that of the first one usually is all that is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBook:
    """Successful records of many workloads: of each (`Task.key`), from the best on (`book_of`)."""

    records: Mapping[Key, tuple[Record, ...]] = field(default_factory=lambda: _NONE)

    def lookup(self, workload: Description, target: Description, space: Space | None = None) -> Values | None:
        """The best knobs; with `space`, of those that are legal there. None where there are none.

        Empty knobs are the template's own choice, which is always legal.
        """
        return first_legal(self.records.get(Task(workload=workload, target=target).key, ()), space)

    def over(self, other: RecordBook) -> RecordBook:
        """This book, and `other` for the workloads that this one does not have."""
        return RecordBook(records=MappingProxyType({**other.records, **self.records}))

    @property
    def stale(self) -> tuple[int, int]:
        """How many records are of other versions of the compiler, and how many there are in all."""
        records = [record for found in self.records.values() for record in found]
        return sum(map(is_stale, records)), len(records)

    @property
    def digest(self) -> str:
        """SHA-256 of all that `lookup` can answer, in hexadecimal: what a cache of compiled networks has to know."""
        digest = hashlib.sha256()
        for key in sorted(self.records):
            digest.update(
                repr((key, [sorted(record.knobs.items()) for record in self.records[key]])).encode()
            )
        return digest.hexdigest()


def book_of(records: Iterable[Record]) -> RecordBook:
    """A book of the successful ones of `records`, from any number of files.

    The best of a task is the one of least cost. But costs are compared with their like only: those that this very
    compiler would have come before those of others, and what was checked before single readings.
    """
    by_task = _successful(records)
    return RecordBook(records=MappingProxyType({key: _ranked(found) for key, found in by_task.items()}))


def read_book(paths: Sequence[Path]) -> tuple[RecordBook, list[Skipped]]:
    """A book of several files together, and what was skipped in each. RecordError for what is no text file."""
    files = [read_records(path) for path in paths]
    return book_of(record for records, _ in files for record in records), [skipped for _, skipped in files]


def best_records(records: Iterable[Record], count: int) -> list[Record]:
    """The `count` best successful records of each task, no two with equal knobs, in an order of their own.

    What is worth keeping of many trials: records of equal tasks stand together, the best first.
    """
    kept: list[Record] = []
    for _, found in sorted(_successful(records).items()):
        distinct: dict[tuple[tuple[str, int], ...], Record] = {}
        for record in _ranked(found):
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


def _successful(records: Iterable[Record]) -> dict[Key, list[Record]]:
    by_task: dict[Key, list[Record]] = {}
    for record in records:
        if record.cost is not None:
            by_task.setdefault(record.task.key, []).append(record)
    return by_task


def is_stale(record: Record) -> bool:
    """Whether another version of the compiler made what was measured, so that it may cost something else today."""
    return record.compiler != compiler_identity(record.task.target["kind"])


def _ranked(records: Sequence[Record]) -> tuple[Record, ...]:
    """From the best on; of equals the first stays first."""
    compilers = {record.compiler for record in records}

    def rank(record: Record) -> tuple[bool, bool, float]:
        stale = len(compilers) > 1 and is_stale(record)
        return stale, record.strategy != CHECKED, math.inf if record.cost is None else record.cost

    return tuple(sorted(records, key=rank))


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

"""A book of tuning records: looks up the best recorded knobs of a workload when it is compiled."""

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

from ..templates.columns import Values
from ..templates.space import Space
from .files import Skipped, read_lines, read_records
from .package_identity import compiler_identity
from .record import Description, Key, Record, Task

_NONE: Mapping[Key, tuple[Record, ...]] = MappingProxyType({})
CHECKED = "checked"
"""The `strategy` field of some tuning records: at the end of a search, the best candidates are measured again side by
side. Records of these measurements rank above single measurements.
"""
_CHUNK = 64
"""Number of tuning records whose legality is checked together. Few suffice, since the first record is usually legal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBook:
    """Successful tuning records by task (`Task.key`), best first (`book_of`).

    `families`: records for machines that have no records of their own. A family is a group of machines such as GPUs of
    one compute capability; the records of all its machines are joined (`Task.alike`).
    """

    records: Mapping[Key, tuple[Record, ...]] = field(default_factory=lambda: _NONE)
    families: Mapping[Key, tuple[Record, ...]] = field(default_factory=lambda: _NONE)

    def lookup(self, workload: Description, target: Description, space: Space | None = None) -> Values | None:
        """The best recorded knobs of a workload. With `space`, only knobs that are legal in this space are considered.
        None if there are no such knobs.

        Empty knobs stand for the template's default, which is always legal.
        """
        best = self.best(workload, target, space)
        return None if best is None else best.knobs

    def best(self, workload: Description, target: Description, space: Space | None = None) -> Record | None:
        """The best legal tuning record of a workload; `lookup` returns this record's knobs. None if there is no such
        record.

        Records of the machine `target` come first. If it has none, records of its family are used: machines with the
        same "family" in their description, such as GPUs of one compute capability. `space`: the knobs that are legal.
        """
        for found in self._known(workload, target):
            if (record := first_legal(found, space)) is not None:
                return record
        return None

    def fastest(self, choices: Sequence[tuple[Description, Space | None]], target: Description) -> int | None:
        """Chooses among several workloads for one node. `choices`: the workloads, the default first, each with its
        space of knobs (None: all knobs are legal). Returns the index of the workload whose best legal record is
        fastest.

        Compares records of this machine if the default workload has one. Otherwise compares records of the machine's
        family (machines with the same "family" in their description). Returns None if the default workload has no
        record in the family either.
        """
        for machine in range(2):
            best = [first_legal(self._known(workload, target)[machine], space) for workload, space in choices]
            if best and best[0] is not None:
                ranks = {k: _rank(record) for k, record in enumerate(best) if record is not None}
                return min(ranks, key=lambda k: (ranks[k], k))
        return None

    def _known(
        self, workload: Description, target: Description
    ) -> tuple[tuple[Record, ...], tuple[Record, ...]]:
        """Returns (records of this machine, records of its family) for a workload, each best first. A family consists
        of all machines with the same "family" in their description.
        """
        task = Task(workload=workload, target=target)
        alike = () if task.alike is None else self.families.get(task.alike, ())
        return self.records.get(task.key, ()), alike

    def over(self, other: RecordBook) -> RecordBook:
        """This book, extended by tuning records of `other`. Records are added for a workload only if this book has none
        for it: neither for the target, nor for the target's family (targets with the same "family" in their
        description).
        """
        others = {
            key: found for key, found in other.records.items() if found[0].task.alike not in self.families
        }
        return RecordBook(
            records=MappingProxyType({**others, **self.records}),
            families=MappingProxyType({**other.families, **self.families}),
        )

    @property
    def stale(self) -> tuple[int, int]:
        """Returns the number of tuning records from other versions of the compiler, and the number of all records."""
        records = [record for found in self.records.values() for record in found]
        return sum(map(is_stale, records)), len(records)

    @property
    def digest(self) -> str:
        """SHA-256, in hexadecimal, of all data in this book that can change the result of a lookup. The digest is part
        of the key under which a compiled network is cached.
        """
        digest = hashlib.sha256()
        for key, found in sorted(self.records.items()):
            digest.update(repr((key, [sorted(record.knobs.items()) for record in found])).encode())
        for key, found in sorted(self.families.items()):
            # Costs are included, because `fastest` compares them between workloads.
            asked = [(sorted(r.knobs.items()), r.compiler, _rank_of_like(r), r.task.key) for r in found]
            digest.update(repr((key, asked)).encode())
        return digest.hexdigest()


def book_of(records: Iterable[Record]) -> RecordBook:
    """A book of the successful tuning records among `records`, from any number of files.

    Records of the present compiler version come before those of other versions, and `CHECKED` records before single
    measurements. Among records that are equal in both respects, the record of least cost is best.
    """
    by_task = _successful(records)
    families: dict[Key, list[Record]] = {}
    for found in by_task.values():
        for record in found:
            if record.task.alike is not None:
                families.setdefault(record.task.alike, []).append(record)
    return RecordBook(
        records=MappingProxyType({key: _ranked(found) for key, found in by_task.items()}),
        families=MappingProxyType({key: _ranked(found) for key, found in families.items()}),
    )


def read_book(paths: Sequence[Path]) -> tuple[RecordBook, list[Skipped]]:
    """A book of the records of several files, and the skipped lines of each file. Raises RecordError as `read_records`
    does.
    """
    files = [read_records(path) for path in paths]
    return book_of(record for records, _ in files for record in records), [skipped for _, skipped in files]


def best_records(records: Iterable[Record], count: int) -> list[Record]:
    """The `count` best successful tuning records of each task; no two of them have equal knobs.

    The result is sorted by task; the records of one task are best first.
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
    """The tuning records that ship with the package."""
    return book_of(record for records, _ in shipped_files() for record in records)


def shipped_files(folder: Traversable | None = None) -> list[tuple[list[Record], Skipped]]:
    """Tuning records and skipped lines of each file of records in `folder` (default: of the package), sorted
    by name.
    """
    folder = folder or resources.files("vdla.compiler.records.shipped")
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
    """Whether a tuning record is of another version of the compiler, so that its cost may have changed."""
    return record.compiler != compiler_identity(record.task.target["kind"])


def _ranked(records: Sequence[Record]) -> tuple[Record, ...]:
    """The tuning records sorted best first; a stable sort."""
    if len({record.compiler for record in records}) > 1:
        return tuple(sorted(records, key=_rank))
    # All are stale, or none is: staleness does not change the order.
    return tuple(sorted(records, key=_rank_of_like))


def _rank(record: Record) -> tuple[bool, bool, float]:
    return is_stale(record), *_rank_of_like(record)


def _rank_of_like(record: Record) -> tuple[bool, float]:
    """Sort key of tuning records made by the same compiler version. Records of candidates that were measured again side
    by side (`CHECKED`) come first; otherwise cost decides.
    """
    return record.strategy != CHECKED, math.inf if record.cost is None else record.cost


def first_legal(records: Sequence[Record], space: Space | None) -> Record | None:
    """The first of `records` whose knobs are legal in `space`. Records without knobs (the default) are always legal. If
    `space` is None, all records are legal. Returns None if there is no legal record.
    """
    if space is None:
        return records[0] if records else None
    for begin in range(0, len(records), _CHUNK):
        chunk = records[begin : begin + _CHUNK]
        legal = in_space(chunk, space)[2] | np.array([not record.knobs for record in chunk])
        if legal.any():
            return chunk[int(legal.argmax())]
    return None


def in_space(records: Sequence[Record], space: Space) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Looks up the knobs of tuning records in a space of knobs. Returns (points, found, legal). `points`, int64 [n,
    axes]: indices of each record's knob values. `found`, bool [n]: whether the space has the record's values. `legal`,
    bool [n]: whether the point is legal.

    A record whose knobs the space does not have gets point 0.
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

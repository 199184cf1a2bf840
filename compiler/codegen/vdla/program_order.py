"""Puts a layer's instructions in program order: drafts (instructions without numbers) get their numbers in the program.
A CONFIG or a load of a table that would change nothing is left out.

A cache keeps drafts for kernels at equal addresses, also for machines that differ only in timing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...ir.quick_init import quick_init
from .columns import Column, Rows, pick
from .machine import Batch, Span
from .placement import MicroOpMemory, StoreTables

if TYPE_CHECKING:
    from .emit import Emission


@quick_init
@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """Instructions of one format that have no numbers in the program yet. `positions`: for each instruction, the number
    of the layer's iteration to which it belongs; iterations are numbered in program order. Instructions with equal
    positions stay in the order in which they were created. `register`: the register that a CONFIG sets; a CONFIG that
    would not change the register does not become an instruction. `sequence`: for each instruction, the number of its
    micro-op sequence. The fields uop_bgn and uop_end count micro-ops from the start of the sequence.
    """

    name: str
    positions: Rows
    fields: dict[str, Column]
    reads: tuple[Span, ...] = ()
    writes: tuple[Span, ...] = ()
    register: str | None = None
    sequence: Rows | None = None


def put_in_order(
    emission: Emission,
    layer: str,
    drafts: Sequence[Draft],
    sequences: Sequence[NDArray[np.unsignedinteger]],
    group: int,
) -> None:
    """Appends a layer's drafts (instructions without numbers) to a program, in order of position. Inserts a load of a
    micro-op page wherever the sequences exceed the current page.

    `sequences`: the micro-op words of each sequence. `group`: number of the layer. `layer`: its name, for errors.
    """
    if not drafts:
        return
    order = np.argsort(np.concatenate([draft.positions for draft in drafts]), kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    places = np.split(place, np.cumsum([len(draft.positions) for draft in drafts[:-1]]))
    # Number of instructions at each place: 0 if the draft changes nothing, one more if a page is loaded.
    room = np.ones(len(order), dtype=np.int64)
    for where, kept in _changes(emission, drafts, places):
        room[where] = kept
    kept = room > 0
    turns, first = _place_micro_ops(emission.micro_ops, layer, drafts, places, sequences)
    # A page is loaded before the CONFIG that relocates the first of its sequences, even if that CONFIG is
    # left out.
    loads = np.array(turns, dtype=np.int64) - 1
    room[loads] += 1
    number = emission.count + np.cumsum(room) - 1
    for load in loads.tolist():
        emission.load_page(group, int(number[load] - room[load] + 1))
    emission.count += int(room.sum())
    for draft, mine in zip(drafts, places, strict=True):
        fields, numbers, reads, writes = draft.fields, number[mine], draft.reads, draft.writes
        if draft.sequence is not None:
            begin = first[mine]
            fields = {**fields, "uop_bgn": fields["uop_bgn"] + begin, "uop_end": fields["uop_end"] + begin}
        if draft.register is not None or draft.name in StoreTables.NAMES:
            written = kept[mine]
            fields = {name: pick(value, written) for name, value in fields.items()}
            reads, writes = (
                tuple([Span(span.space, pick(span.low, written), pick(span.high, written)) for span in spans])
                for spans in (reads, writes)
            )
            numbers = numbers[written]
        if len(numbers):
            batch = Batch(
                name=draft.name,
                numbers=numbers,
                fields=fields,
                reads=reads,
                writes=writes,
                group=group,
            )
            emission.batches.append(batch)


def _changes(
    emission: Emission, drafts: Sequence[Draft], places: Sequence[Rows]
) -> Iterator[tuple[Rows, NDArray[np.bool_]]]:
    """For each register, and each table of the store unit: the places (in program order) of the instructions that write
    it, and whether each of them changes the contents. `places`: for each draft, the places of its instructions.
    """
    writers: dict[str, list[tuple[Draft, Rows]]] = {}
    for draft, mine in zip(drafts, places, strict=True):
        if draft.register is not None or draft.name in StoreTables.NAMES:
            writers.setdefault(draft.register or draft.name, []).append((draft, mine))
    for name, members in writers.items():
        where = np.concatenate([mine for _, mine in members])
        order = np.argsort(where)
        if name in StoreTables.NAMES:
            fields = {item: _column(members, item)[order] for item in StoreTables.FIELDS}
            yield where[order], emission.tables.load(name, fields)
        else:
            yield where[order], emission.registers.write(name, _column(members, "value")[order])


def _column(members: Sequence[tuple[Draft, Rows]], field: str) -> NDArray[Any]:
    """A field of the instructions in several drafts, one draft after the other; 0 where a draft lacks the field."""
    dtype = np.uint64 if field == "value" else np.int64
    parts = [np.empty(len(mine), dtype) for _, mine in members]
    for part, (draft, _) in zip(parts, members, strict=True):
        part[:] = draft.fields.get(field, 0)
    return np.concatenate(parts)


def _place_micro_ops(
    memory: MicroOpMemory,
    layer: str,
    drafts: Sequence[Draft],
    places: Sequence[Rows],
    sequences: Sequence[NDArray[np.unsignedinteger]],
) -> tuple[list[int], Rows]:
    """Places a layer's micro-op sequences into pages (a page is loaded as a whole). Returns the positions in program
    order at which new pages begin, and for each instruction the index of its first micro-op within its page.
    """
    users = [
        (mine, draft.sequence)
        for draft, mine in zip(drafts, places, strict=True)
        if draft.sequence is not None
    ]
    first = np.zeros(sum(len(mine) for mine in places), dtype=np.int64)
    if not users:
        return [], first
    where = np.concatenate([mine for mine, _ in users])
    order = np.argsort(where)
    where, which = where[order], np.concatenate([sequence for _, sequence in users])[order]
    turns: list[int] = []
    begin = 0
    while begin < len(which):
        known, rows, of = np.unique(which[begin:], return_index=True, return_inverse=True)
        numbers = known.tolist()
        places_in_page = np.zeros(len(numbers), dtype=np.int64)
        end = len(which)
        for i in np.argsort(rows).tolist():
            words = sequences[numbers[i]]
            placed = memory.place(words)
            if placed is None:
                # This row begins a new page; the sequences of the following rows are placed in it again.
                end = begin + int(rows[i])
                if turns and turns[-1] == where[end]:
                    raise ValueError(
                        f"{layer}: {len(words)} micro-ops do not fit into the micro-op memory, which holds "
                        f"{memory.depth}"
                    )
                memory.turn_page()
                turns.append(int(where[end]))
                break
            places_in_page[i] = placed.first
        first[where[begin:end]] = places_in_page[of[: end - begin]]
        begin = end
    return turns, first


@dataclass(frozen=True, slots=True, eq=False)
class Drafts:
    """The instructions of a kernel, before they get numbers in the program, and the words of its micro-op sequences."""

    drafts: Sequence[Draft]
    sequences: Sequence[NDArray[np.uint32]]

    @property
    def rows(self) -> int:
        """Number of instructions, including ones that `put_in_order` leaves out."""
        return sum(len(draft.positions) for draft in self.drafts)


class EmissionCache:
    """LRU cache of at most `most` draft instructions. The key has kernel, operand addresses and configuration."""

    def __init__(self, most: int = 400_000) -> None:
        self._most = most
        self._rows = 0
        self._kept: OrderedDict[Hashable, Drafts] = OrderedDict()

    @property
    def rows(self) -> int:
        """Number of cached rows (instructions)."""
        return self._rows

    def find(self, key: Hashable) -> Drafts | None:
        """The cached drafts for a key; None if there are none."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def keep(self, key: Hashable, drafts: Drafts) -> None:
        """Adds `drafts` under a new key. Evicts the least recently used entries if the cache then exceeds its limit."""
        self._kept[key] = drafts
        self._rows += drafts.rows
        while self._rows > self._most:
            _, oldest = self._kept.popitem(last=False)
            self._rows -= oldest.rows

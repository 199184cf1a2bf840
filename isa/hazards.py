"""Finds races. A race is a pair of accesses of two units to the same element, if no dependence tokens enforce that they
happen in program order.

Each shared memory is written by one unit, so a race is a read after a write or a write after a read; instructions of
one unit take effect in order. An access is safe if tokens order it after the last conflicting instruction of the other
unit, because all earlier instructions of the other unit have then ended, too.

One race is possible within a unit: a LOAD.PAR does not wait for stores in flight before it (hw/README.md, section 8).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .access import Access, Resource
from .config import Config
from .layout import Unit

WRITERS = {
    Resource.INP: Unit.LOAD,
    Resource.WGT: Unit.LOAD,
    Resource.ACC: Unit.COMPUTE,
    Resource.CHAIN: Unit.STORE,
    Resource.DRAM: Unit.STORE,
}
"""The unit that writes each shared memory."""

READERS = {
    Resource.INP: (Unit.COMPUTE,),
    Resource.WGT: (Unit.COMPUTE,),
    Resource.ACC: (Unit.STORE,),
    Resource.CHAIN: (Unit.COMPUTE,),
    Resource.DRAM: (Unit.LOAD, Unit.COMPUTE),
}
"""For each shared memory, the units that read it, except the unit that writes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A conflict of an access with an earlier one: instruction `earlier` of unit `unit` accessed the same `element` of
    `resource`. `kind`: RAW (read after write) or WAR (write after read).
    """

    kind: str
    resource: Resource
    element: int
    unit: Unit
    earlier: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LastAccess:
    """The last accesses to each element of the shared memories. An array, int32, has an entry for each element: the
    index of the last instruction with such an access, or -1. `writes`: an array for each memory. `reads`: an array for
    each pair of a memory and a unit that reads it.
    """

    writes: dict[Resource, NDArray[np.int32]]
    reads: dict[tuple[Resource, Unit], NDArray[np.int32]]


def start_access(config: Config, memory_size: int) -> LastAccess:
    """The LastAccess at launch, without accesses, for DRAM of `memory_size` bytes."""
    sizes = {
        Resource.INP: config.inp_depth,
        Resource.WGT: config.wgt_depth,
        Resource.ACC: config.acc_depth,
        Resource.CHAIN: config.chain_buffer_bytes // config.chain_granule,
        Resource.DRAM: memory_size // config.out_bytes + 1,
    }
    return LastAccess(
        writes={item: np.full(size, -1, np.int32) for item, size in sizes.items()},
        reads={
            (item, unit): np.full(sizes[item], -1, np.int32)
            for item, units in READERS.items()
            for unit in units
        },
    )


def conflicts(last: LastAccess, unit: Unit, touched: tuple[Access, ...]) -> Iterator[Conflict]:
    """Yields the conflicts of an instruction of `unit` that makes the accesses `touched`. For each access and each
    other unit there is at most one conflict: the one with the other unit's last instruction that accessed one of the
    same elements. One of the two accesses must be a write.
    """
    for item in touched:
        writer = WRITERS[item.resource]
        if item.write:
            for reader in READERS[item.resource]:
                yield from _latest(last.reads[item.resource, reader], "WAR", item, reader)
        elif unit != writer:
            yield from _latest(last.writes[item.resource], "RAW", item, writer)


def _latest(indices: NDArray[np.int32], kind: str, item: Access, other: Unit) -> Iterator[Conflict]:
    seen = indices[item.elements]
    earlier = int(seen.max(initial=-1))
    if earlier < 0:
        return
    place = int(seen.argmax())
    start = item.elements.start + place if isinstance(item.elements, slice) else int(item.elements[place])
    yield Conflict(kind=kind, resource=item.resource, element=start, unit=other, earlier=earlier)


def waits_for_stores(name: str, values: Mapping[str, int]) -> bool:
    """Whether an instruction of the store unit, of format `name` with fields `values`, begins only after all earlier
    instructions of the unit have ended.
    """
    if name == "LOAD.PAR":
        return False
    if name in ("STORE.OUT", "STORE.POST"):
        return not values["x_size"] * values["y_size"] or bool(values.get("operand"))
    return True


def unseen_store(last: LastAccess, touched: tuple[Access, ...], waited: int) -> Conflict | None:
    """The last store that writes an element which a LOAD.PAR reads, if the store may still be in flight; else None.

    `touched`: accesses of the LOAD.PAR. `waited`: index of the store unit's last instruction that waited for all
    earlier instructions of the unit, or -1.
    """
    for item in touched:
        for found in _latest(last.writes[item.resource], "RAW", item, Unit.STORE):
            if found.earlier > waited:
                return found
    return None


def record(last: LastAccess, unit: Unit, index: int, touched: tuple[Access, ...]) -> None:
    """Records the accesses `touched` of instruction `index` of `unit` in `last`."""
    for item in touched:
        if item.write:
            last.writes[item.resource][item.elements] = index
        elif unit != WRITERS[item.resource]:
            last.reads[item.resource, unit][item.elements] = index

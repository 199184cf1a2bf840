"""Types for the tables of optional hardware: a block of the data path (an array or a set of lanes), and
an extension.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .opcodes import Unit

if TYPE_CHECKING:
    from .config import Config


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block of the data path: number of lanes, number of multipliers, descriptions of a multiplier and of the memory
    ports, and bytes of storage.
    """

    name: str
    lanes: int
    multipliers: int
    multiplier: str
    ports: str
    storage_bytes: int = 0


def _no_storage(config: Config) -> Mapping[str, int]:
    return {}


def _accept(config: Config) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """One extension. `meaning`: description. `unit`: the unit that it belongs to. `block`: makes its block of the data
    path. `default`: whether machines have it for which no extensions are given. `needs`: another extension that it
    needs, or None.

    `storage`: bytes by name that it adds to `Config.extra_storage`. `check` raises ConfigError for a machine whose
    shape or fields do not allow the extension, `check_memories` for a machine whose memories do not. `check` is called
    first, before the sizes of memories are checked.
    """

    meaning: str
    unit: Unit
    block: Callable[[Config], Block]
    default: bool = False
    needs: str | None = None
    storage: Callable[[Config], Mapping[str, int]] = _no_storage
    check: Callable[[Config], None] = _accept
    check_memories: Callable[[Config], None] = _accept

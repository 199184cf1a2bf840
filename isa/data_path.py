"""Types of the tables of optional hardware: a part of the data path, and an extension."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .opcodes import Unit

if TYPE_CHECKING:
    from .config import Config


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A part of the data path: its lanes, multipliers and memory ports."""

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
    """One extension: its meaning in words, the unit that has it, its block of the data path, whether it belongs to
    machines that name no extensions, and the extension that it needs.

    `storage`: bytes by name that it adds to `Config.extra_storage`. `check` raises ConfigError for a machine whose
    shape or fields do not allow the extension, `check_memories` for one whose memories do not; `check` runs first,
    before sizes of memories are known to be legal.
    """

    meaning: str
    unit: Unit
    block: Callable[[Config], Block]
    default: bool = False
    needs: str | None = None
    storage: Callable[[Config], Mapping[str, int]] = _no_storage
    check: Callable[[Config], None] = _accept
    check_memories: Callable[[Config], None] = _accept

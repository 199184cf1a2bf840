"""Where buffers lie: DRAM addresses of a layer's parameters, scratchpad slots of its buffers.

Scratchpad slots rotate from layer to layer: a layer's first slot starts where the last one used before it ended, so
that the next layer's weights and inputs can be loaded while this layer still computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vdla.isa.config import Config

from ...ir.expr import Buffer
from ...passes.interleave_virtual_threads import elements
from .machine import scratchpad_depths


class PlacementError(Exception):
    """A layer's buffers do not fit a scratchpad: the schedule asked for too much."""


@dataclass(frozen=True, slots=True)
class DramBuffer:
    """A parameter of a layer in DRAM: byte address, and whether the program writes it (activations)."""

    address: int
    activation: bool


class Scratchpads:
    """Hands out slots of every scratchpad, one layer after the other."""

    def __init__(self, config: Config) -> None:
        self._depth = scratchpad_depths(config)
        self._bank = config.acc_bank_depth
        self._next = dict.fromkeys(self._depth, 0)

    def place(self, buffers: list[Buffer], last_copy: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """First element of each copy (leading dimension) of each buffer of one layer.

        `last_copy` names, by buffer, the copy that the layer uses last. Accumulator copies start at a bank where
        that leaves them in different banks, so that the store unit reads one while the array fills the other.
        Raises PlacementError.
        """
        by_scope: dict[str, list[Buffer]] = {}
        for buffer in buffers:
            by_scope.setdefault(buffer.scope, []).append(buffer)
        slots: dict[str, tuple[int, ...]] = {}
        for scope, members in by_scope.items():
            slots.update(self._place_scope(scope, members, last_copy))
        return slots

    def _place_scope(
        self, scope: str, members: list[Buffer], last_copy: Mapping[str, int]
    ) -> dict[str, tuple[int, ...]]:
        depth = self._depth[scope]
        sizes = [(buffer.name, elements(buffer) // buffer.shape[0], buffer.shape[0]) for buffer in members]
        if scope == "acc":
            banked = [(name, -(-size // self._bank) * self._bank, copies) for name, size, copies in sizes]
            if sum(size * copies for _, size, copies in banked) <= depth:
                sizes = banked
        total = sum(size * copies for _, size, copies in sizes)
        if total > depth:
            listing = ", ".join(f"{name} {copies} x {size}" for name, size, copies in sizes)
            raise PlacementError(f"{scope} holds {depth} elements but the layer needs {total}: {listing}")
        starts = self._rotate(
            depth, [size for _, size, copies in sizes for _ in range(copies)], self._next[scope]
        )
        slots: dict[str, tuple[int, ...]] = {}
        position = 0
        for name, size, copies in sizes:
            slots[name] = tuple(starts[position : position + copies])
            position += copies
            self._next[scope] = (slots[name][last_copy.get(name, copies - 1)] + size) % depth
        return slots

    @staticmethod
    def _rotate(depth: int, sizes: list[int], first: int) -> list[int]:
        """Disjoint starts for blocks of `sizes`, the first at `first` or later, wrapping round to 0 once."""
        starts: list[int] = []
        position, wrapped = first, False
        for size in sizes:
            if not wrapped and position + size > depth:
                position, wrapped = 0, True
            starts.append(position)
            position += size
        if wrapped and position > first and starts[0] >= first > 0:
            starts, position = [], 0
            for size in sizes:
                starts.append(position)
                position += size
        return starts

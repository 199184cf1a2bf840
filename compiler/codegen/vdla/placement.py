"""Placement of buffers: DRAM addresses of a layer's parameters, scratchpad slots of its buffers.

Scratchpad slots rotate from layer to layer: a layer's first slot starts at the end of the slot used last, so that the
next layer's weights and inputs can be loaded while the preceding layer still computes. Micro-ops, registers, and pads
in the chain memory (on-chip memory between layers) carry over from layer to layer: equal contents are not written
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from vdla.isa.config import Config

from ...ir.expr import Buffer
from ...passes.interleave_virtual_threads import elements
from ...te.blocks import Pads
from .machine import scratchpad_depths


class PlacementError(Exception):
    """Raised if the buffers of a layer do not fit a scratchpad, because the layer's schedule makes them too large."""


@dataclass(frozen=True, slots=True)
class DramBuffer:
    """A layer parameter in DRAM: its byte address, and whether it is an activation (may be written) or a constant."""

    address: int
    activation: bool


@dataclass(frozen=True, slots=True)
class ChainBuffer:
    """A parameter of a layer in the chain memory (on-chip memory that keeps a layer's output for the next layer), with
    its pads.

    `address`: bytes from the start of the chain memory. `margins`: numbers of rows or columns of pads around each plane
    (top, left, bottom, right). `pad_value`: value of the pads.
    """

    address: int
    margins: Pads = (0, 0, 0, 0)
    pad_value: int = 0


Place = DramBuffer | ChainBuffer


class Scratchpads:
    """Allocator of slots in every scratchpad, one layer after the other."""

    def __init__(self, config: Config) -> None:
        self._depth = scratchpad_depths(config)
        self._bank = config.acc_bank_depth
        self._next = dict.fromkeys(self._depth, 0)
        # DEPTHWISE and TAPS need positions at multiples of their size.
        self._aligned = {"inp": config.position_inputs if config.has("taps") else 1}

    def place(self, buffers: list[Buffer]) -> dict[str, tuple[int, ...]]:
        """Places one layer's buffers: returns, by buffer name, the first scratchpad element of each copy of the buffer.

        The size of a buffer's first dimension is its number of copies. If possible, copies in the accumulators start in
        different banks, so that the store unit reads one copy while the array fills another. Raises PlacementError if
        the buffers do not fit.
        """
        by_scope: dict[str, list[Buffer]] = {}
        for buffer in buffers:
            by_scope.setdefault(buffer.scope, []).append(buffer)
        slots: dict[str, tuple[int, ...]] = {}
        for scope, members in by_scope.items():
            slots.update(self._place_scope(scope, members))
        return slots

    def _place_scope(self, scope: str, members: list[Buffer]) -> dict[str, tuple[int, ...]]:
        depth = self._depth[scope]
        sizes = [(buffer.name, elements(buffer) // buffer.shape[0], buffer.shape[0]) for buffer in members]
        if scope == "acc":
            banked = [(name, -(-size // self._bank) * self._bank, copies) for name, size, copies in sizes]
            if sum(size * copies for _, size, copies in banked) <= depth:
                sizes = banked
        total = sum(size * copies for _, size, copies in sizes)
        if total > depth:
            listing = ", ".join(f"{name} {copies} x {size}" for name, size, copies in sizes)
            raise PlacementError(f"{scope} memory has {depth} elements; the layer needs {total}: {listing}")
        step = self._aligned.get(scope, 1)
        first = -(-self._next[scope] // step) * step % depth
        starts = self._rotate(depth, [size for _, size, copies in sizes for _ in range(copies)], first)
        slots: dict[str, tuple[int, ...]] = {}
        position = 0
        for name, size, copies in sizes:
            slots[name] = tuple(starts[position : position + copies])
            position += copies
            self._next[scope] = (slots[name][-1] + size) % depth
        return slots

    @staticmethod
    def _rotate(depth: int, sizes: list[int], first: int) -> list[int]:
        """Places blocks of `sizes` elements without overlap in a memory of `depth` elements; returns their first
        elements. Blocks follow each other from `first` on, then from 0 on. If one would reach `first`, all follow from
        0 on.
        """
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


@dataclass(frozen=True, slots=True)
class Sequence:
    """The place of a micro-op sequence: micro-ops `first` .. `last` - 1 of a page (micro-ops loaded together)."""

    page: int
    first: int
    last: int


class MicroOpMemory:
    """Collects the micro-op sequences of a network into pages of at most `depth` micro-ops."""

    def __init__(self, depth: int, dtype: np.dtype[np.unsignedinteger]) -> None:
        """`depth`: micro-ops of a full page. `dtype`: type of micro-op words, `vdla.isa.layout.uop_dtype`."""
        self.depth = depth
        self._dtype = dtype
        self.pages: list[list[np.ndarray]] = [[]]
        self._fill = 0
        self._known: dict[bytes, Sequence] = {}

    def place(self, words: np.ndarray) -> Sequence | None:
        """The place of sequence `words` in the current page, to which it is added if new. None if it does not fit."""
        key = words.tobytes()
        found = self._known.get(key)
        if found is not None:
            return found
        if self._fill + len(words) > self.depth:
            return None
        found = Sequence(len(self.pages) - 1, self._fill, self._fill + len(words))
        self._known[key] = found
        self.pages[-1].append(words)
        self._fill += len(words)
        return found

    def turn_page(self) -> None:
        """Starts an empty page; sequences of the old page are no longer loaded."""
        self.pages.append([])
        self._fill = 0
        self._known = {}

    def contents(self, page: int) -> np.ndarray:
        """The micro-ops of page number `page`, counted from 0, in one array."""
        parts: Iterable[np.ndarray] = self.pages[page]
        return np.concatenate([np.zeros(0, dtype=self._dtype), *parts])


class StoreTables:
    """The DRAM entry that the program so far has loaded into each entry of the store unit's two tables."""

    NAMES = ("LOAD.PAR", "LOAD.TABLE")
    """The instructions that fill the tables, with constants only."""
    FIELDS = ("sram_base", "dram_base", "y_size", "x_size", "x_stride")
    """Fields of these instructions that give the loaded data and the entries."""

    def __init__(self, config: Config) -> None:
        depths = zip(self.NAMES, (config.par_depth, config.table_depth), strict=True)
        self._entries = {name: np.full(depth, -1, np.int64) for name, depth in depths}

    def load(self, name: str, fields: Mapping[str, NDArray[np.int64]]) -> NDArray[np.bool_]:
        """For each load `name` (columns `fields`), in program order: whether it changes the table. Records the
        contents.
        """
        entries, kept = self._entries[name], np.ones(len(fields["x_size"]), np.bool_)
        columns = (fields[field].tolist() for field in self.FIELDS)
        for number, (first, origin, rows, width, stride) in enumerate(zip(*columns, strict=True)):
            here = entries[first : first + rows * width]
            there = (origin + np.arange(rows)[:, None] * stride + np.arange(width)).reshape(-1)
            kept[number] = not np.array_equal(here, there)
            here[:] = there
        return kept


class ChainPads:
    """The tensors whose pads the program so far has written to the chain memory (on-chip memory between layers)."""

    def __init__(self) -> None:
        self._padded: dict[tuple[int, int], tuple[ChainBuffer, tuple[int, ...]]] = {}

    def write(self, place: ChainBuffer, buffer: Buffer) -> bool:
        """Whether the chain memory (on-chip memory between layers) already contains the pads of tensor `buffer` at
        `place`: an earlier tensor of the same shape may have left them there.

        Records the tensor's pads as written, and pads of overlapping tensors as overwritten.
        """
        span = (place.address, place.address + prod(buffer.shape))
        if self._padded.get(span) == (place, buffer.shape):
            return True
        low, high = span
        self._padded = {
            other: held for other, held in self._padded.items() if other[1] <= low or high <= other[0]
        }
        self._padded[span] = (place, buffer.shape)
        return False


class RegisterFile:
    """The values that the units' registers have after the program so far; registers are zero at launch."""

    def __init__(self) -> None:
        self._values: dict[str, int] = {}

    def write(self, name: str, values: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """For each write of `values` to register `name`, in program order: whether it changes the register."""
        before = np.empty_like(values)
        before[:1] = self._values.get(name, 0)
        before[1:] = values[:-1]
        if len(values):
            self._values[name] = int(values[-1])
        return values != before

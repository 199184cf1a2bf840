"""What is known of many ways to tile a layer of the accelerator: loops, levels, fillings of buffers, instructions.

Every array has one entry a point of a space; `tile_loops.cut_tiles` makes the loops that are counted here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..space import Columns
from .tiling import CHUNK, OUTERMOST, TILE_ORDERS, divide

MOST_INSTRUCTIONS, LONGER, EACH_STORE = 2048.0, 64.0, 16.0
"""Instructions of a program that is tried: that many, or so many for each time that a scratchpad must be filled, or for
each store that there must be."""
ALWAYS = 6
"""Instructions that a program of any layer has: micro-ops loaded, registers of the store unit set, FINISH."""

LETTERS = "oyx"
_ORDERS = np.array([[LETTERS.index(letter) for letter in text] for text in TILE_ORDERS])
"""The loops of each order, outermost first, as indices of LETTERS."""
_PLACES = np.argsort(_ORDERS, axis=1)
"""Where in each order the loop of each of LETTERS stands."""


def _once_outermost_table(images: bool) -> np.ndarray:
    """[order, loops that run once, a bit each]: the order (of TILE_ORDERS) with these outermost, in one order.

    With several `images`, whose loop is behind a first loop over output blocks, other loops stay inside of both.
    """

    def arranged(text: str, once: int) -> str:
        def rank(letter: str) -> int:
            if images and letter == "o" == text[0]:
                return -len(LETTERS) - 1
            k = LETTERS.index(letter)
            return k - len(LETTERS) if once >> k & 1 else text.index(letter)

        return "".join(sorted(text, key=rank))

    sets = range(1 << len(LETTERS))
    return np.array([[TILE_ORDERS.index(arranged(text, once)) for once in sets] for text in TILE_ORDERS])


_ONCE_OUTERMOST = {images: _once_outermost_table(images) for images in (False, True)}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tiles:
    """The loops over tiles of many points: `extents` of all output blocks, rows and columns, and `sizes` of tiles.

    `trips` are those of the loops; `order` indexes TILE_ORDERS, with loops that run once outermost, where they change
    nothing. Each tile takes `chunks` steps of its reduction. `images` are blocks of the batch.
    """

    images: int
    extents: Mapping[str, int]
    sizes: Mapping[str, np.ndarray]
    trips: Mapping[str, np.ndarray]
    order: np.ndarray
    chunks: np.ndarray

    @staticmethod
    def of(
        images: int, extents: Mapping[str, int], values: Columns, chunks: np.ndarray | None = None
    ) -> Tiles:
        """The tiles of points with the axes "output_blocks", "rows", "columns" and "order"."""
        sizes = {"o": values["output_blocks"], "y": values["rows"], "x": values["columns"]}
        trips = {letter: divide(extents[letter], sizes[letter]) for letter in LETTERS}
        return Tiles(
            images=images,
            extents=extents,
            sizes=sizes,
            trips=trips,
            order=_once_outermost(values["order"], trips, images),
            chunks=np.ones_like(values["order"]) if chunks is None else chunks,
        )

    @property
    def count(self) -> np.ndarray:
        """How many tiles there are."""
        return self.images * self.trips["o"] * self.trips["y"] * self.trips["x"]

    @property
    def steps(self) -> np.ndarray:
        """How many chunks of tiles there are."""
        return self.count * self.chunks

    def outside(self, level: np.ndarray) -> Mapping[str, np.ndarray]:
        """Which loops are outside of a buffer of this level: bool for "o", "y", "x" and the images' loop "n"."""
        inner = np.where(level == CHUNK, OUTERMOST, OUTERMOST - level)
        found = {letter: _PLACES[self.order, k] <= inner for k, letter in enumerate(LETTERS)}
        # Images are just outside of the first loop over positions.
        return {**found, "n": found["y"] | found["x"] | (_ORDERS[self.order, 0] != LETTERS.index("o"))}

    def held(self, letter: str, outside: Mapping[str, np.ndarray]) -> np.ndarray:
        """How many of all output blocks, rows, columns or images a buffer holds at once."""
        if letter == "n":
            return np.where(outside["n"], 1, self.images)
        return np.where(outside[letter], self.sizes[letter], self.extents[letter])

    def turns(self, letters: str, outside: Mapping[str, np.ndarray]) -> np.ndarray:
        """How often a buffer is filled anew by those of the loops `letters` that are outside of it."""
        turns = np.ones_like(self.order)
        for letter in letters:
            turns = turns * np.where(outside[letter], self.images if letter == "n" else self.trips[letter], 1)
        return turns

    def parameter_fills(self, depth: int) -> np.ndarray:
        """How often a parameter table of `depth` entries is loaded (`TileLoops.parameters`)."""
        at_output = _PLACES[self.order, LETTERS.index("o")]
        level = OUTERMOST - (at_output if self.extents["o"] > depth else 0 * at_output)
        return self.turns("noyx", self.outside(level))

    def ragged(self, letter: str) -> np.ndarray:
        """What the last tile has of blocks, rows or columns: 0 where it is as large as the others."""
        return self.extents[letter] % self.sizes[letter]

    def effective(self, data_level: np.ndarray, weights_level: np.ndarray) -> dict[str, np.ndarray]:
        """The order, and of the levels with as many turns inside the innermost for data, the outermost for weights."""
        letters = _ORDERS[self.order]
        repeats = np.stack([self.trips[letter] > 1 for letter in LETTERS], axis=1)
        inside = np.take_along_axis(repeats, letters, 1)[:, :0:-1]
        # Between the first and the second loop are images, if the first is over output blocks.
        inside[:, 1] |= (letters[:, 0] == 0) & (self.images > 1)
        none = np.zeros((len(letters), 1), bool)
        depth = np.cumsum(np.concatenate([none, (self.chunks > 1)[:, None], inside], axis=1), axis=1)

        def alike(level: np.ndarray) -> np.ndarray:
            return depth == np.take_along_axis(depth, level[:, None], axis=1)

        return {
            "order": self.order,
            "data_level": alike(data_level).argmax(axis=1),
            "weights_level": OUTERMOST - alike(weights_level)[:, ::-1].argmax(axis=1),
        }


def _once_outermost(order: np.ndarray, trips: Mapping[str, np.ndarray], images: int) -> np.ndarray:
    """The orders (indices of TILE_ORDERS) with loops over tiles that run once outermost, these in one order."""
    once = sum((trips[letter] == 1) * (1 << k) for k, letter in enumerate(LETTERS))
    return _ONCE_OUTERMOST[images > 1][order, once]


def seen(
    size: np.ndarray | int,
    out: int,
    kernel: int,
    stride: int,
    dilation: int,
    extent: int,
    cuts: np.ndarray | int = 1,
) -> np.ndarray:
    """Rows (or columns) of an input that tiles of `size` outputs read at least, over tiles and `cuts` of the kernel.

    Pads count as little as they can: at the ends alone.
    """
    size = np.asarray(size)
    tiles = -(-out // size)
    span = (size - 1) * stride + 1
    short = (tiles * size - out) * stride
    beyond = np.maximum(0, (out - 1) * stride + (kernel - 1) * dilation + 1 - extent)
    total = tiles * (cuts * span + (kernel - cuts) * dilation) - cuts * (short + beyond)
    return np.maximum(np.minimum(total, cuts * tiles * extent), np.minimum(extent, out))


def reach(size: np.ndarray | int, kernel: np.ndarray | int, stride: int, dilation: int = 1) -> np.ndarray:
    """Rows (or columns) of an input that `size` outputs span, pads included."""
    return (np.asarray(size) - 1) * stride + (np.asarray(kernel) - 1) * dilation + 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Side:
    """One dimension of the boxes that fill a buffer: at `most` and on average `mean` elements, of `size` in DRAM.

    `whole`: it is moved from end to end, without pads. `ragged` is the share of boxes that have less than `most`.
    """

    most: np.ndarray | int
    mean: np.ndarray | float
    size: int
    whole: np.ndarray | bool
    ragged: np.ndarray | float = 0.0

    @staticmethod
    def of(most: np.ndarray, size: int, *, boxes: np.ndarray | int = 1) -> Side:
        """A dimension without pads of `size`, cut into `boxes` parts, all but the last of which have `most`."""
        last = size - (boxes - 1) * most
        return Side(
            most=most,
            mean=size / np.asarray(boxes),
            size=size,
            whole=most == size,
            ragged=np.where(last < most, 1 / np.asarray(boxes), 0.0),
        )


def transfers(sides: Sequence[Side]) -> np.ndarray:
    """Instructions that fill a buffer once, on average; `sides` outermost first.

    A transfer has rows and columns. Columns are dense on both sides, rows are dense in the scratchpad, and neighbours
    count as one where the inner one is whole: as `passes.split_copies` and emission do it. So boxes that fill less of
    their buffer than others are loaded row by row.
    """
    count: np.ndarray = np.asarray(1.0)
    full: np.ndarray = np.asarray(1.0)
    groups = np.asarray(0)
    joined: np.ndarray = np.asarray(False)
    bare: np.ndarray = np.asarray(False)
    stride = 1
    for side in reversed(sides):
        moving = np.asarray(side.most) > 1
        # Without columns that are dense, the first group is one of rows.
        first = moving & ~joined & (groups == 0)
        bare = bare | (first if stride > 1 else False)
        begins = moving & ~joined
        groups = np.where(first, np.where(bare, 2, 1), np.where(begins, groups + 1, groups))
        full = np.where(moving & (groups == 1), full * (1 - side.ragged), full)
        rows = np.where(groups == 2, np.where(bare, 1.0, full + (1 - full) * side.mean), side.mean)
        count = np.where(moving & (groups > 1), count * rows, count)
        joined = moving & np.asarray(side.whole)
        stride *= side.size
    return count


def unrolled_micro_ops(tiles: Tiles, extra: np.ndarray | int) -> np.ndarray:
    """Micro-ops of all sequences: of rows, columns and blocks of a tile the one that no instruction counts, times
    `extra`, those of the reduction.

    Emission counts two loops: those first whose length differs between tiles, then the longest.
    """
    keys = np.stack(
        [
            np.where(tiles.ragged(letter) > 0, 0, 1 << 40) - tiles.sizes[letter] * 4 + rank
            for rank, letter in enumerate("yxo")
        ],
        axis=1,
    )
    last = keys.argmax(axis=1)
    lengths = np.stack([tiles.sizes[letter] + tiles.ragged(letter) for letter in "yxo"], axis=1)
    return np.take_along_axis(lengths, last[:, None], axis=1)[:, 0] * extra


def most_instructions(fillings: float, stores: float) -> float:
    """Instructions of the longest program worth trying: `fillings` of the scratchpads hold all that a layer touches.

    `stores`: of those that no program can do without, an image and a block of outputs each.
    """
    return max(MOST_INSTRUCTIONS, LONGER * fillings, EACH_STORE * stores)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Filling:
    """A buffer of many points: elements that it holds, how often it is filled, beats that all fillings move, copies.

    `exposed` are the cycles of the first filling, for which everything waits.
    """

    size: np.ndarray
    fills: np.ndarray
    beats: np.ndarray
    copies: np.ndarray
    exposed: np.ndarray

    def quantities(self, name: str, compute: float) -> dict[str, np.ndarray]:
        """What a model may learn from it, named after it."""
        return {
            f"{name} beats": self.beats,
            f"{name} of a filling": self.size,
            f"beats of a {name} filling": self.beats / self.fills,
            f"{name} fillings": self.fills,
            f"compute between {name} fillings": compute / self.fills,
            f"{name} copies in use": self.copies,
            f"exposed by the first {name}": self.exposed,
        }


def products(
    tiles: Tiles, buffers: Sequence[Filling], sums_copies: np.ndarray, overwriting: bool
) -> np.ndarray:
    """Instructions for the array: products of each step, and where they are wherever that changes.

    `overwriting`: the first step of a tile needs an instruction more, which overwrites before others add.
    """
    moving = np.logical_or.reduce([(item.copies > 1) | (item.fills < tiles.steps) for item in buffers])
    changes = np.where(moving, tiles.steps, np.where(sums_copies > 1, tiles.count, 1))
    return tiles.steps + changes + (tiles.count if overwriting else 0)

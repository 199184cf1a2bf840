"""The loops over tiles at many points of a search space: their trip counts, the contents of a buffer at each level, and
numbers of instructions.

Every array has one entry for each point, or a single entry for all points; `tile_space.cut_tiles` makes these loops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..columns import Columns
from .workload import LayerShape

TILE_ORDERS = ("oyx", "oxy", "yox", "yxo", "xoy", "xyo")
"""Orders of the loops over tiles, outermost first: output blocks, rows, columns."""
CHUNK, INNERMOST, MIDDLE, OUTERMOST = 0, 1, 2, 3
"""Levels at which a buffer is filled: every chunk of the reduction, or every iteration of one of three tile loops."""
MOST_INSTRUCTIONS, LONGER, EACH_STORE = 2048.0, 64.0, 16.0
"""A candidate program may have at most max(MOST_INSTRUCTIONS, LONGER * fills, EACH_STORE * stores) instructions, for
the least numbers of scratchpad fills and of stores that any program of the layer needs (`most_instructions`).
"""
ALWAYS = 6
"""Fixed instructions of each layer's program: load of micro-ops, registers of the store unit, FINISH."""

LETTERS = "oyx"
_ORDERS = np.array([[LETTERS.index(letter) for letter in text] for text in TILE_ORDERS])
"""The loops of each order, outermost first, as indices of LETTERS."""
_PLACES = np.argsort(_ORDERS, axis=1)
"""Position of each letter of LETTERS in each order, int[orders, letters]; 0 is outermost."""


def divide(extent: int, size: np.ndarray) -> np.ndarray:
    """The number of tiles that cover `extent`, for each tile size."""
    return -(-extent // size)


def _once_outermost_table(images: bool) -> np.ndarray:
    """An int table [order, set] of loop orders: `order` after all loops in `set` are moved outermost. Orders are
    indices of TILE_ORDERS. Bit k of a set stands for loop LETTERS[k]; the set is the loops that run only once.

    With several `images`, an order that begins with "o" (output blocks) keeps this loop outermost, because the loop
    over images is directly inside.
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
    """The loops over tiles at many points: `extents` of the output (blocks, rows, columns), and `sizes` of tiles.

    `trips`: iterations of the loops. `order`: indices of TILE_ORDERS; loops that run once are moved outermost, which
    does not change the program. `count`: number of tiles. `chunks`: steps of a tile's reduction. `steps`: steps of all
    tiles. `images`: blocks of the batch. `vectors`: output vectors of a position of a block.
    """

    images: int
    vectors: int
    extents: Mapping[str, int]
    sizes: Mapping[str, np.ndarray]
    trips: Mapping[str, np.ndarray]
    order: np.ndarray
    chunks: np.ndarray
    count: np.ndarray
    steps: np.ndarray

    @staticmethod
    def of(shape: LayerShape, values: Columns, chunks: np.ndarray | None = None) -> Tiles:
        """The tiles of points given by the columns "output_blocks", "rows", "columns" and "order". `chunks`: number of
        chunks of the reduction (None: 1).
        """
        extents, images = shape.extents, shape.images
        sizes = {"o": values["output_blocks"], "y": values["rows"], "x": values["columns"]}
        trips = {letter: divide(extents[letter], sizes[letter]) for letter in LETTERS}
        chunks = np.ones_like(values["order"]) if chunks is None else chunks
        count = images * trips["o"] * trips["y"] * trips["x"]
        return Tiles(
            images=images,
            vectors=shape.vectors,
            extents=extents,
            sizes=sizes,
            trips=trips,
            order=_once_outermost(values["order"], trips, images),
            chunks=chunks,
            count=count,
            steps=count * chunks,
        )

    @property
    def sums(self) -> np.ndarray:
        """Number of accumulators of a tile."""
        return self.vectors * self.sizes["o"] * self.sizes["y"] * self.sizes["x"]

    def outside(self, level: np.ndarray) -> Mapping[str, np.ndarray]:
        """For each loop "o" (output blocks), "y", "x" and "n" (images): bool array, true at the points where the loop
        encloses the fill of a buffer at loop `level`.
        """
        inner = np.where(level == CHUNK, OUTERMOST, OUTERMOST - level)
        found = {letter: _PLACES[self.order, k] <= inner for k, letter in enumerate(LETTERS)}
        # The loop over images is just outside of the first loop over positions.
        return {**found, "n": found["y"] | found["x"] | (_ORDERS[self.order, 0] != LETTERS.index("o"))}

    def held(self, letter: str, outside: Mapping[str, np.ndarray]) -> np.ndarray:
        """Number of blocks, rows, columns or images (`letter`) that a buffer holds. `outside`: for each letter, whether
        its loop over tiles is around the fill; the buffer then holds those of one tile, otherwise those of all tiles.
        """
        if letter == "n":
            return np.where(outside["n"], 1, self.images)
        return np.where(outside[letter], self.sizes[letter], self.extents[letter])

    def repetitions(self, letters: str, outside: Mapping[str, np.ndarray]) -> np.ndarray:
        """Number of times a buffer is filled: product of the iterations of loops in `letters` that are `outside`."""
        count = np.ones_like(self.order)
        for letter in letters:
            count = count * np.where(outside[letter], self.images if letter == "n" else self.trips[letter], 1)
        return count

    def stores(self, *, windows: bool = False) -> np.ndarray:
        """Number of STORE.POST instructions of all tiles. One instruction stores a matrix of vectors: rows are blocks,
        columns are positions. A tile is not contiguous in memory if it is narrower than the output or belongs to a pool
        (`windows`); it then takes an instruction for each row or for each block, whichever are fewer. If a position has
        several vectors, the vectors are the columns and the positions the rows.
        """
        whole, (o, y, x) = self.trips["x"] == 1, (self.extents[letter] for letter in LETTERS)
        by_block = self.images * o * self.trips["y"] * self.trips["x"]
        if self.vectors > 1:
            narrow = self.images * o * np.minimum(y * self.trips["x"], x * self.trips["y"])
            return np.where(whole, by_block, narrow)
        apart = np.minimum(by_block, self.images * self.trips["o"] * y * self.trips["x"])
        return apart if windows else np.where(whole, self.count, apart)

    def parameter_fills(self, depth: int) -> np.ndarray:
        """Number of loads of a parameter table with `depth` entries (in the loop `TileLoops.parameters`)."""
        at_output = _PLACES[self.order, LETTERS.index("o")]
        level = OUTERMOST - (at_output if self.vectors * self.extents["o"] > depth else 0 * at_output)
        return self.repetitions("noyx", self.outside(level))

    def ragged(self, letter: str) -> np.ndarray:
        """Extent of the smaller last tile in blocks, rows or columns (`letter`); 0 if all tiles are equally large."""
        return self.extents[letter] % self.sizes[letter]

    def effective(self, data_level: np.ndarray, weights_level: np.ndarray) -> dict[str, np.ndarray]:
        """Canonical values of the knobs "order", "data_level" and "weights_level": points with the same program get
        equal values. If several fill levels have the same effect, data get the innermost of these, weights the
        outermost.
        """
        letters = _ORDERS[self.order]
        repeats = np.stack([self.trips[letter] > 1 for letter in LETTERS], axis=1)
        inside = np.take_along_axis(repeats, letters, 1)[:, :0:-1]
        # The loop over images is between the first and the second loop if the first is over output blocks.
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
    """Puts the loops over tiles with a single iteration (`trips`) outermost. `order` and result index TILE_ORDERS."""
    once = sum((trips[letter] == 1) * (1 << k) for k, letter in enumerate(LETTERS))
    return _ONCE_OUTERMOST[images > 1][order, once]


def unrolled_micro_ops(tiles: Tiles, extra: np.ndarray | int) -> np.ndarray:
    """Number of micro-ops in all sequences of a tile's program. An instruction runs over two of the tile's three loops
    (rows, columns, blocks) with its counters: preferably over loops whose length differs between tiles, then over the
    longest. The third loop is unrolled: each of its iterations needs `extra` micro-ops, which compute the reduction.
    """
    first: np.ndarray = np.array(-1)
    length: np.ndarray = np.array(0)
    for letter in "yxo":
        vectors = tiles.vectors if letter == "o" else 1
        size, ragged = vectors * tiles.sizes[letter], vectors * tiles.ragged(letter)
        # Unrolled: the shortest loop of equal length in all tiles, else the shortest; of equals the last.
        key = 2 * np.where(ragged > 0, 0, 1 << 40) - 2 * size + (1 << 30)
        later = key >= first
        first, length = np.where(later, key, first), np.where(later, size + ragged, length)
    return length * extra


def most_instructions(fills: float, stores: float) -> float:
    """Limit on the length of a program, in instructions: the search does not try longer programs.

    `fills`, `stores`: least numbers of scratchpad fills and of stores that any program of the layer needs.
    """
    return max(MOST_INSTRUCTIONS, LONGER * fills, EACH_STORE * stores)

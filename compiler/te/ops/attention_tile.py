"""The work of a block of threads that computes a part of an attention in float32, and its shared memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from ...ir.expr import Buffer, Expr, Var
from ...ir.stmt import Stmt, nest
from ...ir.types import DType
from ..blocks import ceil_div
from .attention_blocks import phase
from .attention_sizes import Attention, Stored

BANKS = 32
"""Banks of shared memory, 4 bytes wide each (CUDA C++ Programming Guide, "Shared Memory")."""
VECTOR = 4
"""Elements of the widest access of a thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """The work of a block of threads.

    A block has `splits` x `row_threads` x `lanes` threads (axes z, y, x). It computes `row_threads` * `rows` rows of
    the result. In each step, every split processes `lanes` * `keys` keys of its own. A thread computes the scores of
    `rows` rows and `keys` keys, and vectors of `wide` columns of the result. Shared memory holds the keys and values of
    `stages` steps: while a step is computed, the keys and values of the next steps are loaded.
    """

    splits: int
    row_threads: int
    lanes: int
    rows: int
    keys: int
    wide: int
    stages: int = 1

    @property
    def threads(self) -> int:
        """Number of threads of a block."""
        return self.splits * self.row_threads * self.lanes

    @property
    def block_rows(self) -> int:
        """Rows of the result that a block computes."""
        return self.row_threads * self.rows

    @property
    def split_keys(self) -> int:
        """Keys that a split processes in one step."""
        return self.lanes * self.keys

    @property
    def step_keys(self) -> int:
        """Keys that all splits of a block together process in one step."""
        return self.splits * self.split_keys

    def phase(self, name: str, body: Callable[[Expr, Expr, Expr], Stmt], axes: str = "zyx") -> Stmt:
        """A stage: loops over the threads along `axes` around `body(z, y, x)`; coordinates of other axes are 0."""
        return phase(name, (self.splits, self.row_threads, self.lanes), body, axes)

    def row(self, y: Expr, r: Expr) -> Expr:
        """The index in the block of row `r` of a thread at `y`: neighbouring threads have neighbouring rows."""
        return r * self.row_threads + y

    def of_split(self, z: Expr, y: Expr, r: Expr) -> Expr:
        """The index of row `r` of a thread at `y`, which is row `row(y, r)` of the block, in a buffer that holds the
        rows of all splits, one split after the other. `z`: number of the split.
        """
        return z * self.block_rows + self.row(y, r)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """The buffers of a block in shared memory. Rows are padded to avoid bank conflicts: the threads of a warp always
    access the same word or different banks. Threads along x read neighbouring rows of `key` and neighbouring elements
    of all other buffers; threads along y read neighbouring rows.

    `query`, `key`, `value`: parts of Q, K and V. `weights`: exp(score - m) for each score, where m is the greatest
    score of the row. `most`: the maxima and sums of single threads, before they are combined; None if shuffles combine
    them, or if each row has one thread. `sums` and `bounds` hold the results of each split of the keys: `sums` the sum
    of weights times rows of V, `bounds` the greatest score and the sum of weights. Both are None if there is only one
    split.
    """

    query: Buffer
    key: Buffer
    value: Buffer
    weights: Buffer
    most: Buffer | None
    sums: Buffer | None
    bounds: Buffer | None

    def bytes(self, stages: int) -> int:
        """Bytes of all buffers. `stages`: number of steps over the keys whose keys and values are in shared memory at
        once.
        """
        ahead = [self.key, self.value] * (stages - 1)
        held = (self.query, self.key, self.value, self.weights, self.most, self.sums, self.bounds)
        return sum(prod(b.shape) * b.dtype.bits // 8 for b in (*held, *ahead) if b is not None)


def shared_buffers(sizes: Attention, tile: Tile, *, shuffles: bool) -> Shared:
    """The buffers in shared memory of the program that `attention` returns for the same arguments."""
    depth = ceil_div(sizes.depth, VECTOR) * VECTOR
    columns = ceil_div(sizes.columns, tile.lanes * tile.wide) * tile.lanes * tile.wide

    def odd_pitch(size: int, stored: Stored) -> int:
        """A distance between rows of `size` elements at which neighbouring rows begin in different banks of shared
        memory: an odd number of vectors; or an odd number of elements if the copy into the buffer transposes, because
        such a copy writes columns.
        """
        if not stored.by_rows:
            return size + 1 - size % 2
        return size + VECTOR if size // VECTOR % 2 == 0 else size

    def pitch_of_lanes(size: int, lanes: int) -> int:
        """The least distance between rows of `size` elements for which each row begins `lanes` banks after the row
        before, so that `lanes` threads along x and their neighbours along y access different banks.
        """
        return size + (lanes - size) % BANKS

    def shared(name: str, *shape: int) -> Buffer:
        return Buffer(name=name, shape=shape, dtype=DType.FLOAT32, scope="shared")

    rows, splits = tile.splits * tile.block_rows, tile.splits > 1
    return Shared(
        query=shared("q", tile.block_rows, odd_pitch(depth, sizes.query)),
        key=shared("k", tile.step_keys, odd_pitch(depth, sizes.key)),
        value=shared(
            "v", tile.step_keys, columns if sizes.value.by_rows else odd_pitch(columns, sizes.value)
        ),
        weights=shared("p", rows, pitch_of_lanes(tile.split_keys, tile.lanes)),
        most=None if shuffles or tile.lanes == 1 else shared("partial", rows, tile.lanes),
        sums=shared("sums", rows, pitch_of_lanes(columns, tile.lanes * tile.wide)) if splits else None,
        bounds=shared("bounds", 2, rows) if splits else None,
    )


def unrolled(name: str, size: int, body: Callable[[Expr], Stmt]) -> Stmt:
    """An unrolled loop called `name` of `size` iterations around `body(variable)`."""
    var = Var(name)
    return nest([(var, size)], body(var), kind="unroll")

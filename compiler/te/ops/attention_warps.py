"""The work of a block of warps that computes a part of an attention of 16-bit matrices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...ir.expr import Expr
from ...ir.kernels import WARP
from ...ir.stmt import Stmt
from .attention_blocks import phase

ROWS, COLUMNS, DEPTH = 16, 8, 16
"""Sizes of a matrix product of a warp: factors of `ROWS` x `DEPTH` and `DEPTH` x `COLUMNS` elements, and `ROWS` x
`COLUMNS` sums.
"""
PAIR = 2
"""Number of neighbouring products whose right factors a warp loads together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarpTile:
    """The work of a block of warps.

    A block has `splits` groups of `warps` warps (axes z and y of threads), called splits. Each split computes all of
    the block's `warps` * `tiles` * 16 rows, for keys of its own: `keys` keys in each step, a multiple of 16. Shared
    memory holds the keys and values of `stages` steps: while a step is computed, data of the next steps are loaded.
    """

    splits: int
    warps: int
    tiles: int
    keys: int
    stages: int = 1

    @property
    def threads(self) -> int:
        """Number of threads of a block."""
        return self.splits * self.warps * WARP

    @property
    def block_rows(self) -> int:
        """Rows of the result that a block computes."""
        return self.warps * self.tiles * ROWS

    @property
    def step_keys(self) -> int:
        """Keys that all splits of a block together process in one step."""
        return self.splits * self.keys

    def phase(self, name: str, body: Callable[[Expr, Expr, Expr], Stmt], axes: str = "zyx") -> Stmt:
        """The loops of a stage (`attention_blocks.phase`) around `body`, which is a function of the loop variables.
        Axes "zy" give a loop iteration to each warp, axes "zyx" to each lane of each warp. `name`: name of the stage.
        """
        return phase(name, (self.splits, self.warps, WARP), body, axes)

    def row(self, warp: Expr, tile: Expr) -> Expr:
        """The index in the block of the first row that a warp computes in its tile number `tile`; `warp`: the warp's
        number within its split.
        """
        return (warp * self.tiles + tile) * ROWS

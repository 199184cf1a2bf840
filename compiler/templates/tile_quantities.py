"""What a model may learn of tiles without lowering them, and an estimate of their cycles."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from vdla.isa.config import Config

from .space import ESTIMATE
from .tile_account import Filling, Tiles
from .tiling import store_overhead, store_reads


def storing(
    config: Config, tiles: Tiles, sums: np.ndarray, beats: float | np.ndarray, operand: bool
) -> np.ndarray:
    """Cycles of the store unit: what every store begins with, and reading `sums` accumulators of each tile or writing
    `beats` in all, whichever takes longer."""
    starts = tiles.count * tiles.sizes["o"] * store_overhead(config, operand)
    return starts + np.maximum(tiles.count * store_reads(config, sums), beats)


def tile_quantities(
    tiles: Tiles,
    buffers: Mapping[str, Filling],
    *,
    compute: float,
    traffic: np.ndarray,
    loading: np.ndarray,
    storing: np.ndarray,
    sums_copies: np.ndarray,
    instructions: np.ndarray,
    stored_by_tile: np.ndarray,
) -> dict[str, np.ndarray]:
    """The quantities of all templates; `compute` are the cycles that the busiest unit cannot do without.

    `storing` are those of the store unit, which shares with the array what there are `sums_copies` of.
    """
    found: dict[str, np.ndarray | float] = {
        "compute cycles": compute,
        "traffic": traffic,
        "loading": loading,
        "storing": storing,
        "bound": np.maximum(np.maximum(compute, traffic), loading),
        "instructions": instructions,
        "steps": tiles.steps,
        "tiles": tiles.count,
        "cycles of a step": compute / tiles.steps,
        "cycles of a tile": compute / tiles.count,
        "stores of a tile": tiles.sizes["o"],
        "exposed by the last store": stored_by_tile,
    }
    for name, buffer in buffers.items():
        found |= buffer.quantities(name, compute)
    busiest = np.maximum(np.maximum(compute, loading), np.maximum(storing, traffic))
    found[ESTIMATE] = busiest + _waits(tiles, buffers, compute, loading, storing, sums_copies)
    return {name: _of_each(item, len(tiles.order)) for name, item in found.items()}


def _of_each(quantity: np.ndarray | float, points: int) -> np.ndarray:
    """A quantity as a float64 array [points]; it may be the same for all."""
    if isinstance(quantity, np.ndarray) and quantity.shape == (points,):
        return quantity.astype(np.float64, copy=False)
    return np.full(points, quantity, dtype=np.float64)


def _waits(
    tiles: Tiles,
    buffers: Mapping[str, Filling],
    compute: float,
    loading: np.ndarray,
    storing: np.ndarray,
    sums_copies: np.ndarray,
) -> np.ndarray:
    """Cycles, estimated, in which the busiest unit waits: for what there is one copy of, and at both ends.

    A single copy is filled and used in turn. The first inputs, part of the first weights and half of the last store are
    hidden by nothing.
    """
    others = sum((buffer.beats for name, buffer in buffers.items() if name != "data"), np.zeros_like(loading))
    waits = 0.5 * storing / tiles.count + 4.0 * tiles.steps
    for name, buffer in buffers.items():
        taken = loading - others if name == "data" else buffer.beats
        waits = waits + np.where(buffer.copies == 1, np.minimum(compute, taken), 0.0)
        waits = waits + (1.0 if name == "data" else 0.25) * buffer.exposed
    return waits + np.where(sums_copies == 1, np.minimum(compute, storing), 0.0)

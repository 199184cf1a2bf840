"""What a model may learn of tiles without lowering them, and an estimate of their cycles."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from vdla.isa.config import Config

from ..space import ESTIMATE
from .tile_account import Filling, Tiles
from .tiling import store_overhead, store_reads

SHARPNESS = 12.0
"""Of the norm by which the cycles of units that work side by side become one number; that of the busiest alone would be
infinite. Fitted to simulated points of the papers' layers."""


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
    restarts: np.ndarray,
) -> dict[str, np.ndarray]:
    """The quantities of all templates; `compute` are the cycles that the busiest unit cannot do without.

    `storing` are those of the store unit, which shares with the array what there are `sums_copies` of; `restarts` those
    in which the load unit begins anew within fillings (`restart_cycles`).
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
    busy = _together(compute, loading, storing, traffic)
    found[ESTIMATE] = busy + restarts + _waits(tiles, buffers, compute, loading, storing, sums_copies)
    return {name: _of_each(item, len(tiles.order)) for name, item in found.items()}


def _of_each(quantity: np.ndarray | float, points: int) -> np.ndarray:
    """A quantity as a float64 array [points]; it may be the same for all."""
    if isinstance(quantity, np.ndarray) and quantity.shape == (points,):
        return quantity.astype(np.float64, copy=False)
    return np.full(points, quantity, dtype=np.float64)


def restart_cycles(config: Config, loads: np.ndarray, fillings: np.ndarray) -> np.ndarray:
    """Cycles, estimated, that `loads` instructions take beyond what they move, where `fillings` of them would do.

    A load begins while the last one's data come: about half of the memory's latency shows.
    """
    return 0.5 * config.memory.read_latency * (loads - fillings)


def _together(*units: float | np.ndarray) -> np.ndarray:
    """Cycles, estimated, of units that work side by side: a norm of what each takes by itself.

    Units that are as busy as the busiest wait for one another now and then.
    """
    found = np.stack(np.broadcast_arrays(*units))
    busiest = np.maximum(found.max(axis=0), 1.0)
    return busiest * ((found / busiest) ** SHARPNESS).sum(axis=0) ** (1 / SHARPNESS)


def _waits(
    tiles: Tiles,
    buffers: Mapping[str, Filling],
    compute: float,
    loading: np.ndarray,
    storing: np.ndarray,
    sums_copies: np.ndarray,
) -> np.ndarray:
    """Cycles, estimated, in which the busiest unit waits: for fillings that begin too late, and at both ends.

    A filling begins once one of its copies is free. Loads keep the program's order, so that another buffer, filled more
    often, must have been filled for all that comes before, and that gets ahead by its own copies only. What takes
    longer than this lead is waited for. The first fillings and half of the last store are hidden by nothing.
    """
    others = sum((buffer.beats for name, buffer in buffers.items() if name != "data"), np.zeros_like(loading))
    waits = 0.5 * storing / tiles.count + 4.0 * tiles.steps
    for name, buffer in buffers.items():
        taken = loading - others if name == "data" else buffer.beats
        lead = (buffer.copies - 1) * compute / buffer.fills
        for other in buffers.values():
            ahead = (other.copies - 0.5) * compute / other.fills
            lead = np.where(other.fills > buffer.fills, np.minimum(lead, ahead), lead)
        waits = waits + (buffer.fills - 1) * np.maximum(0.0, taken / buffer.fills - lead) + buffer.exposed
    return waits + np.where(sums_copies == 1, np.minimum(compute, storing), 0.0)

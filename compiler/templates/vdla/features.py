"""Features of tiled layers for a learned cost model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..columns import Columns

if TYPE_CHECKING:
    from .estimate import BufferFill, TiledWork


def features(work: TiledWork, more: Columns) -> Columns:
    """Features, for a learned cost model, of the points (settings of the knobs) that `work` describes: float64 arrays
    of one length, by name. The arrays `more` are among them.
    """
    tiles = work.tiles
    found: dict[str, np.ndarray | float] = {
        "compute cycles": work.compute,
        "traffic": work.traffic,
        "loading": work.loading,
        "storing": work.storing,
        "bound": np.maximum(np.maximum(work.compute, work.traffic), work.loading),
        "instructions": work.instructions,
        "steps": tiles.steps,
        "tiles": tiles.count,
        "cycles of a step": work.compute / tiles.steps,
        "cycles of a tile": work.compute / tiles.count,
        "stores of a tile": tiles.sizes["o"],
        "exposed by the last store": work.last_beats,
        **more,
    }
    for name, buffer in work.buffers.items():
        found |= _of_buffer(buffer, name, work.compute)
    points = len(tiles.order)
    return {name: np.array(np.broadcast_to(item, points), dtype=np.float64) for name, item in found.items()}


def _of_buffer(buffer: BufferFill, name: str, compute: float | np.ndarray) -> dict[str, np.ndarray]:
    """Features of a buffer's fills for a learned cost model, float64 arrays whose names contain the buffer's `name`.
    `compute`: cycles of the computing unit; one feature is the number of these cycles between two fills.
    """
    return {
        f"{name} beats": buffer.beats,
        f"{name} of a filling": buffer.size,
        f"beats of a {name} filling": buffer.beats / buffer.fills,
        f"{name} fillings": buffer.fills,
        f"compute between {name} fillings": compute / buffer.fills,
        f"{name} copies in use": buffer.copies,
        f"exposed by the first {name}": buffer.exposed,
    }

"""What the spaces of all templates that multiply on the array count alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from vdla.isa.config import Config

from ..space import Account, Columns
from .image_account import Tiled, stored_beats, stores
from .tile_account import ALWAYS, Filling, Tiles, products
from .tile_quantities import restart_cycles, storing, tile_quantities
from .tiling import CHUNK, fits


def array_account(
    config: Config,
    shape: Tiled,
    tiles: Tiles,
    values: Columns,
    *,
    data: Filling,
    weights: Filling,
    loads: Sequence[np.ndarray],
    overwriting: bool,
    micro_ops: np.ndarray,
    limits: Mapping[str, np.ndarray],
    most_instructions: float,
    compute: float,
    innermost: int = CHUNK,
) -> Account:
    """The account of points whose buffers of inputs and weights are `data` and `weights`.

    `loads` are the instructions that fill them; for `overwriting` see `tile_account.products`. `limits` are the
    template's own, `compute` the cycles that its busiest unit cannot do without, `innermost` its innermost data level.
    """
    sums = tiles.sizes["o"] * tiles.sizes["y"] * tiles.sizes["x"]
    sums_copies = np.minimum(values["sums_copies"], tiles.count)
    instructions = ALWAYS + products(tiles, (data, weights), sums_copies, overwriting=overwriting)
    instructions = instructions + stores(shape, tiles)
    loaded = np.sum(np.broadcast_arrays(*loads), axis=0)
    instructions = instructions + loaded
    instructions = instructions + tiles.parameter_fills(config.par_depth)
    stored = stored_beats(config, shape)
    traffic = data.beats + weights.beats + stored
    quantities = tile_quantities(
        tiles,
        {"data": data, "weights": weights},
        compute=compute,
        traffic=traffic,
        loading=data.fills * data.exposed + weights.beats,
        storing=storing(config, tiles, sums, stored, shape.operand),
        sums_copies=sums_copies,
        instructions=instructions,
        stored_by_tile=sums * max(1.0, config.out_bytes / config.memory.bus_bytes),
        restarts=restart_cycles(config, loaded, data.fills + weights.fills),
    )
    quantities |= {"sums of a tile": 1.0 * sums, "sums copies in use": 1.0 * sums_copies}
    effective = tiles.effective(values["data_level"], values["weights_level"])
    effective["data_level"] = np.maximum(effective["data_level"], innermost)
    used = {"data_copies": data.copies, "weights_copies": weights.copies, "sums_copies": sums_copies}
    return Account(
        limits={
            "the input scratchpad": fits(config, "inp", data.size, data.copies),
            "the weight scratchpad": fits(config, "wgt", weights.size, weights.copies),
            "the accumulators": fits(config, "acc", sums, sums_copies),
            "the parameter table": tiles.sizes["o"] <= config.par_depth,
            "the micro-op memory": micro_ops <= config.uop_depth,
            **limits,
            "the length of a program": instructions <= most_instructions,
        },
        bound=np.maximum(compute, traffic),
        quantities=quantities,
        effective={**values, **effective, **used},
    )

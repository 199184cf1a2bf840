"""The cost model of all templates that multiply on the array."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from vdla.isa.config import Config

from ..space import Account, Columns, Deferred
from .estimate import (
    BufferFill,
    Fitted,
    TiledWork,
    array_instructions,
    fits,
    store_cycles,
    store_reads,
)
from .knobs import CHUNK
from .shape import LayerShape
from .tiles import Tiles, most_instructions, stores


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArrayLayer:
    """What a template says of many points of a layer on the array.

    `data` and `weights` are the buffers of inputs and weights. `compute` are the cycles that the busiest unit cannot do
    without, `micro_ops` those of all sequences, `least_fills` the fills of scratchpads that no program can do without,
    `limits` the template's own. `overwriting`: see `array_instructions`. `innermost` is the data's innermost level.
    """

    shape: LayerShape
    tiles: Tiles
    data: BufferFill
    weights: BufferFill
    compute: float
    micro_ops: np.ndarray
    least_fills: float
    overwriting: bool = True
    limits: Mapping[str, np.ndarray] = field(default_factory=dict)
    innermost: int = CHUNK


def array_cost(config: Config, layer: ArrayLayer, values: Columns, fitted: Fitted) -> Account:
    """What is known of the points with these values, and the cycles that they are expected to take."""
    shape, tiles, data, weights = layer.shape, layer.tiles, layer.data, layer.weights
    buffers, sums = {"data": data, "weights": weights}, tiles.sums
    sums_copies = np.minimum(values["sums_copies"], tiles.count)
    instructions = array_instructions(tiles, buffers, sums_copies, layer.overwriting)
    instructions = instructions + stores(shape, tiles) + data.loads + weights.loads
    instructions = instructions + tiles.parameter_fills(config.par_depth)
    stored = shape.stored_beats(config)
    work = TiledWork(
        tiles=tiles,
        buffers=buffers,
        compute=layer.compute,
        traffic=data.beats + weights.beats + stored,
        loading=data.fills * data.exposed + weights.beats,
        storing=store_cycles(
            config,
            tiles.count * tiles.sizes["o"],
            tiles.count * store_reads(config, sums),
            stored,
            shape.operand,
        ),
        sums_copies=sums_copies,
        instructions=instructions,
        last_beats=sums * max(1.0, config.out_bytes / config.memory.bus_bytes),
    )
    more = {"sums of a tile": sums, "sums copies in use": sums_copies}
    used = {"data_copies": data.copies, "weights_copies": weights.copies, "sums_copies": sums_copies}
    most = most_instructions(
        layer.least_fills + shape.outputs / config.acc_depth, shape.images * shape.output_blocks
    )
    return Account(
        limits={
            "the input scratchpad": fits(config, "inp", data.size, data.copies),
            "the weight scratchpad": fits(config, "wgt", weights.size, weights.copies),
            "the accumulators": fits(config, "acc", sums, sums_copies),
            "the parameter table": tiles.sizes["o"] <= config.par_depth,
            "the micro-op memory": layer.micro_ops <= config.uop_depth,
            **layer.limits,
        },
        search_limits={"the length of a program": instructions <= most},
        bound=np.maximum(layer.compute, work.traffic),
        quantities=work.quantities(config, fitted, more),
        effective=Deferred(lambda: {**values, **_levels(layer, values), **used}),
    )


def _levels(layer: ArrayLayer, values: Columns) -> Columns:
    levels = layer.tiles.effective(values["data_level"], values["weights_level"])
    return {**levels, "data_level": np.maximum(levels["data_level"], layer.innermost)}

"""All ways to cut pools and element-wise operators on the accelerator: their inputs are in the accumulators."""

from __future__ import annotations

from functools import partial

import numpy as np
from vdla.isa.config import Config

from ..space import Account, Columns, Space, Values
from .conv2d import ConvolutionShape
from .image_account import extents_of, image_filling, least_data_beats, outputs_of, stored_beats, stores
from .tile_account import ALWAYS, Tiles, most_instructions
from .tile_quantities import restart_cycles, storing, tile_quantities
from .tile_space import one_point, tile_knobs, tile_space
from .tiling import INNERMOST, MOST_WINDOW, Copies, Knobs, fits, store_reads


def space(config: Config, shape: ConvolutionShape, template: str) -> Space:
    """The space of `pool_vdla.schedule` for one shape; costs are cycles."""
    traffic = least_data_beats(config, shape, config.out_bytes) + stored_beats(config, shape)
    return tile_space(
        config,
        template,
        extents=extents_of(shape),
        levels={"data": INNERMOST},
        copies=("data",),
        account=partial(account, config, shape),
        floor=max(_busiest(config, shape), traffic),
    )


def knobs(values: Values, shape: ConvolutionShape) -> Knobs:
    """The knobs of a point's values."""
    tiles = Tiles.of(shape.images, extents_of(shape), one_point(values))
    return tile_knobs(values, tiles, copies=Copies(data=1, weights=1, sums=values["data_copies"]))


def _busiest(config: Config, shape: ConvolutionShape) -> float:
    """Cycles in which the store unit reads its windows."""
    window = shape.kernel[0] * shape.kernel[1]
    return float(store_reads(config, np.array(outputs_of(shape)), window))


def account(config: Config, shape: ConvolutionShape, values: Columns) -> Account:
    """The account of many points."""
    tiles = Tiles.of(shape.images, extents_of(shape), values)
    ones = np.ones_like(tiles.order)
    data, loads = image_filling(
        config,
        shape,
        tiles,
        level=values["data_level"],
        copies=values["data_copies"],
        blocks=tiles.held("o", tiles.outside(values["data_level"])),
        window=(ones * shape.kernel[0], ones * shape.kernel[1]),
        element=config.out_bytes,
        alike=False,
    )
    instructions = ALWAYS + stores(shape, tiles) + loads + tiles.parameter_fills(config.par_depth)
    inputs = shape.images * shape.input_blocks * shape.height * shape.width
    limits = {
        "the windows of the store unit": ones * max(shape.kernel) <= MOST_WINDOW,
        "the accumulators": fits(config, "acc", data.size, data.copies),
        "the parameter table": tiles.sizes["o"] <= config.par_depth,
        "the length of a program": instructions
        <= most_instructions(inputs / config.acc_depth, shape.images * shape.output_blocks),
    }
    busiest = _busiest(config, shape)
    traffic = data.beats + stored_beats(config, shape)
    level = tiles.effective(values["data_level"], values["data_level"])["data_level"]
    vectors = tiles.sizes["o"] * tiles.sizes["y"] * tiles.sizes["x"]
    return Account(
        limits=limits,
        bound=np.maximum(busiest, traffic),
        quantities=tile_quantities(
            tiles,
            {"data": data},
            compute=busiest,
            traffic=traffic,
            loading=data.fills * data.exposed,
            storing=storing(
                config,
                tiles,
                vectors * shape.kernel[0] * shape.kernel[1],
                stored_beats(config, shape),
                shape.operand,
            ),
            sums_copies=data.copies,
            instructions=instructions,
            stored_by_tile=vectors * max(1.0, config.out_bytes / config.memory.bus_bytes),
            restarts=restart_cycles(config, loads, data.fills),
        ),
        effective={
            **values,
            "order": tiles.order,
            "data_level": np.maximum(level, INNERMOST),
            "data_copies": data.copies,
        },
    )

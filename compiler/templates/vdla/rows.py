"""Template of softmax and of normalization over channels, on the accelerator: tiles of positions in the accumulators,
each position with its whole row (all channels).
"""

from __future__ import annotations

import numpy as np

from vdla.isa.config import Config
from vdla.isa.rows import MOST_ELEMENTS
from vdla.isa.timing import bus_cycles, post_latency

from ...te.blocks import Blocks, ceil_div
from ...te.ops.rows import Shares, rows
from ...te.post import Post
from ..columns import ESTIMATE, Columns
from ..space import Axis, CostEstimates
from .estimate import Fitted
from .tile_space import up_to
from .tile_template import Build, tile_template
from .workload import Workload


def _axes(config: Config, workload: Workload) -> tuple[Axis, ...]:
    """The knobs: positions of a tile, and one or two copies of the data buffer. A tile is limited by the accumulators
    and by the store unit's row entries (one for each position whose row it reduces).
    """
    positions = workload.height * workload.width
    most = max(1, min(positions, config.row_depth, config.acc_depth // _count(config, workload)))
    return Axis(name="positions", values=up_to(most)), Axis(name="data_copies", values=(1, 2))


def _count(config: Config, workload: Workload) -> int:
    return ceil_div(workload.channels, config.block_out)


def cost(config: Config, workload: Workload, values: Columns, fitted: Fitted) -> CostEstimates:
    """The cost model of softmax and normalization: cycles of loads, passes over the rows, and outputs; with two copies
    of the buffer, loads and passes overlap.
    """
    count, positions = _count(config, workload), workload.height * workload.width
    tile, copies = values["positions"], values["data_copies"]
    tiles = workload.batch * -(-positions // tile)
    vectors = workload.batch * count * positions
    beats = config.out_bytes / config.memory.bus_bytes
    moved = vectors * max(1.0, beats)
    passes = (2 if workload.operand else 3) * vectors * config.post_passes
    groups = ceil_div(count, config.par_depth) if workload.operand else 1
    parameters = tiles * (count * config.par_bytes / config.memory.bus_bytes + groups * 50) * workload.operand
    alone = tiles * (4 * post_latency(config) + config.memory.read_latency) + parameters
    loading = np.where(copies > 1, 0.0, moved + tiles * config.memory.read_latency)
    cycles = np.maximum(passes, bus_cycles(config, moved, moved)) + loading + alone
    ones = np.ones_like(tile, dtype=bool)
    last_copies = copies if workload.batch > 1 else 1
    return CostEstimates(
        limits={
            # The last, smaller tile is a separate buffer, in copies if there are several images.
            "the accumulators": (tile * copies + positions % tile * last_copies) * count <= config.acc_depth,
            "the entries of rows": tile <= config.row_depth,
            "the elements of a row": ones & (count * config.block_out <= MOST_ELEMENTS),
        },
        bound=np.maximum(passes, bus_cycles(config, vectors * beats, vectors * beats))
        * np.ones(np.shape(tile)),
        quantities={ESTIMATE: cycles},
        effective=values,
    )


def row_programs(
    config: Config, workload: Workload, post: Post, name: str, shares: Shares, plane: int | None = None
) -> Build:
    """The function that writes the program of a softmax or normalization for given tile sizes; the program has the name
    `name`. `shares`: the kind of operator and the constants of its arithmetic. `plane`: number of positions in a plane
    of the output, if it is larger than a plane of the input.
    """
    return lambda values: rows(
        blocks=Blocks.of(config),
        images=workload.batch,
        positions=workload.height * workload.width,
        tile=values["positions"],
        shares=shares,
        post=post,
        plane=plane,
        name=name,
    )


def _build(config: Config, workload: Workload, post: Post, name: str) -> Build:
    shares = Shares(look_up=not workload.operand, length=workload.channels, own=workload.operand)
    return row_programs(config, workload, post, name, shares)


# In a rows workload `operand` means parameters for each channel: a normalization, not a softmax.
ROWS = tile_template("rows", _axes, cost, _build, copies={"data_copies": "acc"})

"""Machines whose array folds (extension `fold`): a weight tile is multiplied in several operations, each for a part of
the tile, and parts that are all zeros are skipped.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from campaign import representatives

from vdla.compiler.codegen.vdla.folds import FoldedWeights, fold_tiles
from vdla.compiler.graph.layout import Constant, pack_weight
from vdla.compiler.graph.special_weights import pack_spread_weight, pack_taps_weight
from vdla.compiler.te.blocks import Window
from vdla.compiler.templates.vdla.folded_work import folded_dense_weights, parts_of_tiles
from vdla.compiler.templates.vdla.rolling_pool import RollingShape
from vdla.compiler.templates.vdla.workload import windowed
from vdla.compiler.tune.measure.measure_vdla import AcceleratorTask, program_alone
from vdla.isa.config import Config, Memory, load_config
from vdla.sim import simulate

from .random_networks import builder
from .random_networks import network as random_network
from .test_networks import assert_right
from .test_uneven_blocks import gemm_cycles, network

VTA = load_config("vta")
EXTENSIONS = ("post", "patch", "depthwise", "taps", "sweep", "fold")
FOLDED = {
    f"16x{16 // folds}": replace(VTA, name=f"{folds} folds", extensions=EXTENSIONS, folds=folds, acc_banks=4)
    for folds in (2, 4)
}
PLAIN = replace(FOLDED["16x4"], extensions=("post", "fold"))
MACHINES = {
    **FOLDED,
    **{f"{name}, chained": replace(item, chain_buffer_bytes=1 << 14) for name, item in FOLDED.items()},
    "without depthwise": PLAIN,
    "batch 2": replace(FOLDED["16x4"], batch=2, acc_buffer_bytes=1 << 18, inp_buffer_bytes=1 << 16),
    "few micro-ops": replace(FOLDED["16x4"], uop_buffer_bytes=4 * 48),
}
QUARTER = FOLDED["16x4"]
WIDE = replace(
    VTA,
    name="64x16",
    block_in=64,
    block_out=64,
    folds=4,
    acc_banks=4,
    inp_buffer_bytes=1 << 17,
    acc_buffer_bytes=1 << 19,
    par_buffer_bytes=1 << 15,
    extensions=(*EXTENSIONS, "wide_loads"),
    memory=Memory(bus_bytes=64),
    **dict.fromkeys(("load_fifo_bytes", "compute_fifo_bytes", "operand_fifo_bytes", "store_fifo_bytes")),
)
ALL = {
    **MACHINES,
    "64x16": WIDE,
    "64x16, chained": replace(WIDE, chain_buffer_bytes=1 << 16),
    "32x4": replace(WIDE, block_in=32, block_out=32, folds=8),
}


FEW = ((4, 24), (6, 36), (12, 44), (18, 20))


@pytest.mark.parametrize(
    ("name", "sizes"),
    representatives(
        itertools.product(MACHINES, FEW),
        0,
        # Every machine with two sizes, all sizes on several machines.
        always=[(name, FEW[(i + j) % len(FEW)]) for i, name in enumerate(MACHINES) for j in (0, 1)],
    ),
)
def test_networks_of_few_channels(name, sizes):
    config, (channels, filters) = MACHINES[name], sizes
    assert_right(network(channels, filters), config, virtual_threads=2, reference=channels == 6)


@pytest.mark.parametrize("seed", representatives(range(300), 8))
def test_random_networks(seed):
    config = list(ALL.values())[seed % len(ALL)]
    assert_right(random_network(seed), config, virtual_threads=1 + seed % 3)


@pytest.mark.parametrize("groups", [2, 4])
def test_grouped_convolutions_skip_parts_of_other_groups(groups):
    b = builder(9)
    graph = b.graph(b.convolution(b.input(1, 16, 6, 6), 16, (3, 3), (1, 1), (1, 1, 1, 1), groups=groups))
    assert_right(graph, QUARTER, reference=True)


def products(config: Config, channels: int, filters: int, size: int = 8) -> int:
    """Cycles of the multiply array for a 1x1 convolution on a plane of `size` x `size`."""
    b = builder(5)
    graph = b.graph(b.convolution(b.input(1, channels, size, size), filters, (1, 1)))
    return gemm_cycles(assert_right(graph, config))


def test_the_array_works_in_the_shape_that_takes_fewest_operations():
    """The compiler chooses the shape of the array that takes the fewest operations. The 64 multipliers (16x4) can
    multiply 16 inputs for 4 lanes, 8 inputs for 8 lanes, or 4 inputs for 16 lanes.
    """
    assert products(QUARTER, 16, 16) == 64 * 4
    assert products(QUARTER, 4, 48) == 64 * 3
    assert products(QUARTER, 8, 24) == 64 * 3
    assert products(QUARTER, 8, 16) == 64 * 2
    assert products(QUARTER, 16, 4) == 64
    assert products(QUARTER, 3, 3) == 64
    assert products(QUARTER, 20, 36) == 64 * 15  # five parts of inputs for three blocks of lanes
    assert [parts_of_tiles(QUARTER, *sizes)[0] for sizes in ((16, 16), (4, 48), (20, 36))] == [4, 1, 15 / 6]


def test_blocks_of_filters_may_have_other_parts():
    """Blocks of filters may be multiplied in different numbers of operations: the last of three blocks has only four
    filters, which one operation multiplies with all 16 inputs.
    """
    assert products(QUARTER, 64, 36) == 64 * 4 * (4 + 4 + 1)


def test_a_window_over_the_whole_plane():
    """A 3x3 window over a 3x3 plane is computed as a product whose inputs are the channels of all nine positions, which
    takes nine times five operations. The 1x1 convolution before it takes nine operations at each of nine positions.
    """
    b = builder(7)
    first = b.convolution(b.input(1, 20, 3, 3), 20, (1, 1))
    compiled = assert_right(b.graph(b.convolution(first, 12, (3, 3))), QUARTER, reference=True)
    assert gemm_cycles(compiled) == 9 * 9 + 9 * 5


@pytest.mark.parametrize("shape", [0, 1, 2])
def test_parts_of_a_tile_add_up(shape):
    config, rng = QUARTER, np.random.default_rng(shape)
    tile = rng.integers(-128, 128, (16, 16)).astype(np.int8)
    vector = rng.integers(-128, 128, 16)
    parts = fold_tiles(config, tile[None], shape)[0]
    groups, size = 1 << shape, 16 >> shape
    sums = np.zeros(16, np.int64)
    for number, part in enumerate(parts.astype(np.int64)):
        lanes, inputs = divmod(number, groups)
        for g in range(groups):
            own = part[:, g * size : (g + 1) * size] @ vector[inputs * size : (inputs + 1) * size]
            first = (lanes * groups + g) * config.columns
            sums[first : first + config.columns] += own
    assert np.array_equal(sums, tile.astype(np.int64) @ vector)


def test_whole_tiles_lie_as_they_do_on_other_machines_where_rows_do_not_fold():
    tiles = np.arange(512, dtype=np.int64).astype(np.int8).reshape(2, 16, 16)
    assert np.array_equal(fold_tiles(QUARTER, tiles, 0).reshape(2, 16, 16), tiles)


def test_what_has_no_products_is_left_as_it_is():
    rows = Constant(form=pack_taps_weight, arrays=(np.ones((16, 3, 3), np.int8), np.array([1])))
    dense = Constant(form=pack_weight, arrays=(np.ones((16, 16, 1, 1), np.int8),))
    assert FoldedWeights.of(QUARTER, rows) is None
    assert FoldedWeights.of(QUARTER, None) is None
    assert FoldedWeights.of(VTA, dense) is None


def test_zeros_of_a_network_are_weights_and_those_between_groups_are_not():
    weight = np.zeros((16, 4, 1, 1), np.int8)
    dense = FoldedWeights.of(QUARTER, Constant(form=pack_weight, arrays=(np.zeros((16, 16, 1, 1), np.int8),)))
    grouped = FoldedWeights.of(QUARTER, Constant(form=pack_spread_weight, arrays=(weight, np.array([4, 1]))))
    assert dense is not None and dense.used.all()
    assert grouped is not None
    assert (grouped.shape, grouped.used.reshape(-1).tolist()) == (1, [True, False, False, True])


def test_kernels_alone_multiply_what_they_multiply_in_networks():
    workload = windowed("conv2d", (1, 4, 16, 16), 48, Window(kernel=(1, 1)))
    weights = folded_dense_weights(QUARTER, workload)
    assert weights is not None and (weights.shape, int(weights.used.sum())) == (2, 3)
    task = AcceleratorTask.of(QUARTER, workload)
    alone = program_alone(task, None)
    units = simulate(QUARTER, alone.instructions, alone.image, data=False).units
    assert units["compute"].busy["gemm"] == 3 * 256


@pytest.mark.parametrize(("channels", "filters"), [(9, 22), (12, 36)])
def test_micro_ops_are_counted_as_they_are_emitted(channels, filters):
    """The cost model counts as many micro-ops as are emitted, so that programs fit into small micro-op buffers. Shapes
    of the array with equal numbers of operations differ in the largest number of parts of a tile.
    """
    b = builder(9)
    graph = b.graph(b.convolution(b.input(1, channels, 6, 6), filters, (3, 3), (1, 1), (1, 1, 1, 1)))
    for depth in (27, 31, 36):
        assert_right(graph, replace(QUARTER, uop_buffer_bytes=QUARTER.uop_bytes * depth))


def test_a_pooled_first_layer_is_expected_to_take_what_it_takes():
    """The cost model's estimate is near the simulated cycles for a pooled first layer on an array with the extension
    `fold`. The layer's patches, 147 bytes, and its 64 filters do not fill all weight tiles; the estimate must count
    parts of tiles.
    """
    b = builder(8)
    pads = (3, 3, 3, 3)
    first = b.convolution(b.input(1, 3, 24, 24), 64, (7, 7), (2, 2), pads)
    compiled = assert_right(b.graph(b.max_pool(first, (3, 3), (2, 2), (1, 1, 1, 1))), QUARTER)
    workload = replace(
        windowed("patch_conv2d_pool", (1, 3, 24, 24), 64, Window(kernel=(7, 7), strides=(2, 2), pads=pads)),
        pool_kernel=(3, 3),
        pool_strides=(2, 2),
        pool_pads=(1, 1, 1, 1),
    )
    expected = RollingShape.of(QUARTER, workload).products
    assert gemm_cycles(compiled) == pytest.approx(expected, rel=0.1)

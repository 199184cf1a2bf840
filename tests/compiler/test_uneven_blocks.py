"""Channel blocks of several vectors, some of which contain no channels at the end of a tensor. These vectors are not
multiplied and not stored and, if their block is the only one, not read.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from campaign import representatives

from vdla.compiler.codegen.vdla.columns import evaluator
from vdla.compiler.graph.graph import Graph
from vdla.compiler.ir.expr import Var, index
from vdla.compiler.pipeline import compile_program
from vdla.compiler.rewrites.fuse import fuse
from vdla.compiler.runtime.artifact import Compiled
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.ops.common import vectors_of
from vdla.compiler.templates.vdla.workload import computed_filters, of_vectors, windowed
from vdla.isa.config import Config, Memory, load_config
from vdla.sim import simulate

from .random_networks import builder
from .test_networks import assert_right

EXTENSIONS = ("post", "patch", "depthwise", "taps", "sweep")
VTA = replace(load_config("vta"), extensions=EXTENSIONS, acc_banks=4, uop_buffer_bytes=1 << 15)
TALL = replace(VTA, name="16x4", block_in=16, block_out=4, acc_buffer_bytes=1 << 16)
FLAT = replace(VTA, name="4x16", block_in=4, block_out=16, inp_buffer_bytes=1 << 13)
CHAINED = {config.name: replace(config, chain_buffer_bytes=1 << 14) for config in (TALL, FLAT)}


def network(channels: int, filters: int) -> Graph:
    """A graph of a convolution to `channels` channels, followed by an inverted bottleneck (expansion to `filters`
    channels, depthwise convolution, projection), whose result is added to the convolution's.
    """
    b = builder(3)
    pads = (1, 1, 1, 1)
    first = b.convolution(b.input(1, 3, 12, 10), channels, (3, 3), (1, 1), pads)
    wide = b.convolution(first, filters, (1, 1))
    deep = b.convolution(wide, filters, (3, 3), (1, 1), pads, groups=filters)
    return b.graph(b.add(b.convolution(deep, channels, (1, 1)), first), deep)


def gemm_cycles(compiled: Compiled) -> int:
    """Simulated cycles in which the array multiplies."""
    program = compiled.program
    return (
        simulate(program.config, program.instructions, program.image, data=False)
        .units["compute"]
        .busy["gemm"]
    )


FEW = ((4, 24), (6, 36), (12, 44), (18, 20))
PLAIN = {config.name: config for config in (TALL, FLAT)}


@pytest.mark.parametrize(
    ("sizes", "name", "chained"),
    representatives(
        itertools.product(FEW, PLAIN, (False, True)),
        0,
        # All sizes on both machines, by turns with chains.
        always=[
            (sizes, name, (i + j) % 2 == 1) for i, sizes in enumerate(FEW) for j, name in enumerate(PLAIN)
        ],
    ),
)
def test_networks_of_uneven_blocks(sizes, name, chained):
    channels, filters = sizes
    config = (CHAINED if chained else PLAIN)[name]
    assert_right(network(channels, filters), config, virtual_threads=2, reference=channels == 6)


def test_the_array_multiplies_what_holds_channels():
    """A 1x1 convolution of 36 channels with 20 filters, at each of 64 positions: on the array of 4x16, 9 vectors of 4
    inputs (of the 12 in three channel blocks) for each of two vectors of 16 lanes; on the array of 16x4, 3 vectors of
    16 inputs for each of 5 vectors of 4 lanes (of the 8 in two channel blocks).
    """
    b = builder(5)
    graph = b.graph(b.convolution(b.input(1, 36, 8, 8), 20, (1, 1)))
    assert gemm_cycles(assert_right(graph, TALL)) == 64 * 3 * 5
    assert gemm_cycles(assert_right(graph, FLAT)) == 64 * 9 * 2


def test_stores_leave_vectors_without_channels_out():
    b = builder(6)
    graph = b.graph(b.convolution(b.input(1, 16, 8, 8), 20, (1, 1)))
    written = [
        simulate(config, compiled.program.instructions, compiled.program.image, data=False).dram_write_bytes
        for config in (TALL, FLAT)
        if (compiled := compile_program(fuse(graph), config))
    ]
    assert written == [64 * 5 * 4, 64 * 2 * 16]


def test_a_second_tensor_is_read_in_parts_of_positions_where_memory_is_quick():
    def filters(config: Config, channels: int, operand: bool) -> int:
        return computed_filters(
            config, windowed("conv2d", (1, channels, 8, 8), 20, Window(kernel=(1, 1)), operand=operand)
        )

    slow = replace(TALL, memory=Memory(read_latency=400, outstanding_reads=8))
    assert filters(TALL, 16, False) == filters(slow, 16, False) == 20
    assert filters(TALL, 16, True) == 20
    assert filters(slow, 16, True) == 32
    assert filters(slow, 16 * 9, True) == 20  # the array takes longer than the memory


def test_of_several_blocks_the_last_is_read_in_part():
    def last(channels: int, kernel: tuple[int, int]) -> int | None:
        return of_vectors(
            FLAT, windowed("conv2d", (1, channels, 8, 8), 20, Window(kernel=kernel))
        ).last_vectors

    assert [last(channels, (1, 1)) for channels in (8, 16, 17, 36, 45, 48)] == [None, None, 1, 1, None, None]
    assert last(36, (3, 1)) is None


@pytest.mark.parametrize("count", [3, 4, 8, 9])
def test_vectors_of_all_blocks_add_up_to_the_number_of_vectors(count):
    block = Var("block")
    size = evaluator(index(vectors_of(block, 4, count)))
    found = [int(np.asarray(size({"block": number}))) for number in range(-(-count // 4))]
    assert sum(found) == count and max(found) <= 4

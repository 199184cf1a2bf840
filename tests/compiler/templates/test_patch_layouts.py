"""Patches (gathered windows of a first layer) that several outputs share: every layout computes the same, its predicted
sizes are right, and the choice saves cycles.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from campaign import representatives
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.compiler.graph.graph import Graph
from vdla.compiler.pipeline import compile_program
from vdla.compiler.rewrites.fuse import fuse
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.ops.patch_layout import PatchLayout
from vdla.compiler.templates.vdla import convolution_kernels, patch_conv2d, patch_layouts, rolling_pool
from vdla.compiler.templates.vdla.workload import LayerShape, Workload
from vdla.isa.config import Config, Memory
from vdla.sim import simulate

from ..random_networks import builder
from ..right_programs import assert_right


def array(block_in: int, block_out: int, batch: int = 1, vectors: int = 2048) -> Config:
    """A machine (accelerator configuration) with an array of `block_in` x `block_out`, whose scratchpads grow with it;
    `vectors`: number of input vectors that the input scratchpad holds.
    """
    return Config(
        name=f"{block_in}x{block_out}",
        batch=batch,
        block_in=block_in,
        block_out=block_out,
        inp_buffer_bytes=vectors * batch * block_in,
        wgt_buffer_bytes=256 * block_in * block_out,
        acc_buffer_bytes=4 * 2048 * batch * block_out,
        acc_banks=4,
        par_buffer_bytes=64 * 8 * block_out,
        extensions=("post", "patch"),
        memory=Memory(bus_bytes=64, read_latency=30),
    )


def first_layer(
    batch: int,
    size: tuple[int, int, int],
    filters: int,
    kernel: int,
    stride: int,
    pad: int,
    pooled: bool = False,
) -> Graph:
    """A network of one convolution with a square kernel on inputs of `size` (channels, height, width), with `pad`
    elements on each side; with `pooled`, a 3x3 max-pool follows.
    """
    b = builder(3)
    tensor = b.convolution(
        b.input(batch, *size), filters, (kernel, kernel), (stride, stride), (pad, pad, pad, pad)
    )
    if pooled:
        tensor = b.max_pool(tensor, (3, 3), (2, 2), (1, 1, 1, 1))
    return fuse(b.graph(tensor))


def workload(size: int, channels: int, kernel: int, stride: int, pad: int, filters: int = 64) -> Workload:
    """The workload of a convolution with patches on a square image of `size` x `size`, with a square kernel and `pad`
    elements on each side.
    """
    return Workload(
        template="patch_conv2d",
        batch=1,
        channels=channels,
        height=size,
        width=size,
        filters=filters,
        kernel=(kernel, kernel),
        strides=(stride, stride),
        pads=(pad, pad, pad, pad),
    )


@pytest.mark.parametrize(
    ("apart", "count", "columns"),
    [(1, 1, 1), (1, 2, 1), (1, 3, 1), (1, 4, 1), (2, 2, 1), (1, 1, 2), (1, 3, 4)],
)
@pytest.mark.parametrize("config", [array(16, 8), array(32, 32, batch=2)], ids=["16x8", "32x32, batch 2"])
def test_tiles_of_every_layout_are_right(monkeypatch, config, apart, count, columns):
    layout = PatchLayout.of(
        Window(kernel=(7, 7), strides=(2, 2)), 3, config.block_in, apart=apart, count=count, columns=columns
    )
    for module in (patch_conv2d, convolution_kernels):
        monkeypatch.setattr(module, "tiled_layout", lambda *_: layout)
    assert_right(compile_program(first_layer(3 if config.batch > 1 else 1, (3, 17, 15), 20, 7, 2, 3), config))


LAYOUTS = ((1, 1, 2), (1, 2, 1), (1, 3, 1), (1, 3, 3), (2, 2, 1), (2, 2, 2))
ARRAYS = {"16x8": array(16, 8), "32x32, batch 2": array(32, 32, batch=2)}


@pytest.mark.parametrize(
    ("ahead", "name", "places"),
    representatives(
        itertools.product((1, 3), ARRAYS, LAYOUTS),
        0,
        # Every layout on both arrays, by turns one and three rows ahead.
        always=[
            ((1, 3)[(i + j) % 2], name, places)
            for i, places in enumerate(LAYOUTS)
            for j, name in enumerate(ARRAYS)
        ],
    ),
)
def test_rolling_rows_of_every_layout_are_right(monkeypatch, ahead, name, places):
    config, (apart, count, columns) = ARRAYS[name], places
    layout = PatchLayout.of(
        Window(kernel=(5, 5), strides=(2, 2)), 3, config.block_in, apart=apart, count=count, columns=columns
    )
    monkeypatch.setattr(rolling_pool, "rolling_layout", lambda *_: (layout, layout.reach + 1 + ahead))
    # 12 columns of outputs, more filters than a vector has.
    assert_right(
        compile_program(
            first_layer(3 if config.batch > 1 else 1, (3, 21, 24), 40, 5, 2, 2, pooled=True), config
        )
    )


def test_images_share_the_ring_of_patches():
    """A ring buffer for the rows of one image serves any number of images, one after the other."""
    config = array(64, 64, vectors=150)
    assert patch_layouts.rolling_layout(config, workload(30, 3, 7, 2, 3), 15, 1)[1] is not None
    assert_right(compile_program(first_layer(5, (3, 30, 30), 40, 7, 2, 3, pooled=True), config))


def test_what_a_layout_takes():
    """Sizes of four layouts of ResNet's 7x7 window. In the second, on 64 lanes, an output reads three patches of three
    rows, each row in one vector.
    """
    window = Window(kernel=(7, 7), strides=(2, 2))
    whole = PatchLayout.of(window, 3, 64)
    assert (whole.products, whole.vectors, whole.rows, whole.steps, whole.reach) == (3, 3, 7, 9, 0)
    shared = PatchLayout.of(window, 3, 64, count=3)
    assert (shared.products, shared.vectors, shared.rows, shared.steps, shared.reach) == (3, 1, 3, 3, 2)
    uneven = PatchLayout.of(window, 3, 32, apart=2, count=2)
    assert (uneven.first_rows, uneven.last_rows, uneven.each, uneven.products) == (4, 3, 3, 5)
    wide = PatchLayout.of(window, 3, 128, apart=2, count=2, columns=2)
    assert (wide.run, wide.products, wide.steps, wide.patch_columns(112)) == (27, 2, 4, 56)
    with pytest.raises(
        ValueError, match="a row of 113 outputs does not fill whole patches, each of which has 2 columns"
    ):
        wide.patch_columns(113)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_rows_of_the_image_that_tiles_read(data):
    kernel, stride = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 4))
    pad, size = data.draw(st.integers(0, kernel - 1)), data.draw(st.integers(kernel, 20))
    work = workload(size, 3, kernel, stride, pad)
    rows, _ = work.window.outputs(size, size)
    count = data.draw(st.integers(1, -(-kernel // stride)))
    layout = PatchLayout.of(work.window, 3, 16, count=count)
    tile = data.draw(st.integers(1, rows))
    read = 0
    for first in range(0, rows, tile):
        for patch in range(first, min(first + tile, rows) + layout.reach):
            start = patch * stride - pad
            read += sum(0 <= start + r < size for r in range(layout.rows))
    assert patch_layouts.image_rows_read(work, layout, rows)[tile] == read


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_choice_is_never_busier_than_whole_windows_and_fits(data):
    block_in, block_out = (data.draw(st.sampled_from([8, 16, 32, 64, 128])) for _ in range(2))
    config = array(block_in, block_out, vectors=data.draw(st.sampled_from([64, 512, 2048])))
    config = replace(config, wgt_buffer_bytes=data.draw(st.sampled_from([16, 64, 256])) * config.wgt_bytes)
    kernel, stride = data.draw(st.integers(1, 11)), data.draw(st.integers(1, 4))
    work = workload(64, data.draw(st.integers(1, 4)), kernel, stride, kernel // 2, filters=48)
    shape = LayerShape.of(config, work)
    whole = PatchLayout.of(work.window, work.channels, block_in)
    found = patch_layouts.tiled_layout(config, work)
    blocks = shape.output_blocks * shape.vectors
    rolling, rows = patch_layouts.rolling_layout(config, work, shape.out_width, blocks)
    for layout in (found, rolling):
        busy = [
            max(
                patch_layouts.products_of(config, work, shape, item),
                patch_layouts.loading_steps(work, shape, item),
            )
            for item in (layout, whole)
        ]
        assert busy[0] <= busy[1]
        assert layout == whole or layout.products * layout.columns <= config.wgt_depth
    assert (rows is None) == (not rolling.shared)
    if rows is not None:
        row = rolling.patch_columns(shape.out_width) * rolling.vectors
        assert rolling.reach + 1 < rows and rows * row <= config.inp_depth


@pytest.mark.parametrize(
    ("config", "least"),
    [(array(64, 64), 3 * 114 * 112), (array(16, 64), 11 * 112 * 112)],
    ids=["64x64", "16x64"],
)
def test_the_first_layer_of_resnet_on_wide_arrays(config, least):
    """ResNet's first layer takes at most 5% more cycles than the bound `least`, which counts only the cycles of the
    busier one of array and load unit. The two units must therefore work in parallel, and the busier one is hardly ever
    idle. (On the array of 64x64, a layout that stores every window's patch separately would take 114,000 cycles.)
    """
    result = compile_program(first_layer(1, (3, 224, 224), 64, 7, 2, 3, pooled=True), config)
    program = result.program
    cycles = simulate(config, program.instructions, program.image, data=False).cycles
    assert least < cycles < 1.05 * least


def test_columns_of_tiles_share_patches():
    """The first layer of MobileNets on 64 lanes: one vector holds two output columns of 32 filters, so that half as
    many patches are gathered.
    """
    config, work = array(64, 64), workload(224, 3, 3, 2, 1, filters=32)
    layout = patch_layouts.tiled_layout(config, work)
    assert (layout.columns, layout.count, layout.products, layout.steps) == (2, 1, 1, 3)
    result = compile_program(first_layer(1, (3, 32, 32), 32, 3, 2, 1), config)
    assert_right(result)
    run = simulate(config, result.program.instructions, result.program.image, data=False)
    assert run.units["compute"].busy["gemm"] == 16 * 16

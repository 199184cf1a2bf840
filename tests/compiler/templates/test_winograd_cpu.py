"""Winograd convolutions on CPUs. Compiled transforms are compared with exact sums. Other tests check fused epilogues,
transforms that several convolutions share, and when the compiler chooses this method.
"""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest
from campaign import representatives
from float_networks import FloatNetwork, relative, runtime
from kernels import run, targets

from vdla.compiler.codegen.cpu.machine import CpuTarget, host_target
from vdla.compiler.codegen.cpu.pool import Pool
from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.frontends.onnx.float_importer import import_float_model
from vdla.compiler.graph.graph import Graph
from vdla.compiler.graph.operators import Join
from vdla.compiler.ir.types import DType
from vdla.compiler.pipeline import compile_kernels
from vdla.compiler.rewrites.floating.assign_layouts import in_blocks
from vdla.compiler.rewrites.floating.pipeline import graph_passes, run_graph_passes
from vdla.compiler.rewrites.floating.use_winograd import use_winograd
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.ops.blocked_winograd import blocked_outputs, blocked_tiles
from vdla.compiler.te.ops.convolution import Convolution as Sizes
from vdla.compiler.te.ops.sums import Epilogue
from vdla.compiler.te.ops.winograd import transformed_weights
from vdla.compiler.templates.cpu import winograd, winograd_choice

SAME = (1, 1, 1, 1)
TOLERANCE = 1e-5
CASES = {
    "several tiles of two images": (2, 2, 5, (7, 9), 6, SAME),
    "ragged tiles and blocks": (4, 1, 37, (10, 13), 35, SAME),
    "other pads at each side": (4, 1, 16, (9, 7), 20, (0, 2, 1, 0)),
    "one output": (4, 3, 1, (3, 3), 1, (0, 0, 0, 0)),
    "pads wider than a tile's border": (2, 1, 8, (2, 3), 17, (2, 3, 2, 1)),
}


def convolved(x: np.ndarray, w: np.ndarray, pads: tuple[int, int, int, int]) -> np.ndarray:
    """The exact 3x3 convolution of x [N, C, H, W] with w [F, C, 3, 3], in float64."""
    top, left, bottom, right = pads
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    oh, ow = padded.shape[2] - 2, padded.shape[3] - 2
    total = np.zeros((len(x), len(w), oh, ow))
    for y in range(3):
        for column in range(3):
            part = padded[:, :, y : y + oh, column : column + ow]
            total += np.einsum("nchw,fc->nfhw", part, w[:, :, y, column].astype(np.float64))
    return total


LEVELS = {target.vector_bits: target for target in targets()}


@pytest.mark.parametrize(
    ("name", "threads", "bits"),
    representatives(
        itertools.product(CASES, (1, 2), LEVELS),
        0,
        # Every case at every width, by turns on one and on two threads.
        always=[
            (name, 1 + (i + j) % 2, bits) for i, name in enumerate(CASES) for j, bits in enumerate(LEVELS)
        ],
    ),
)
def test_transforms_around_products_are_a_convolution(name, threads, bits) -> None:
    (m, batch, channels, size, filters, pads), target = CASES[name], LEVELS[bits]
    rng = np.random.default_rng(m)
    x, w, r = (
        rng.standard_normal(shape).astype(np.float32)
        for shape in (
            (batch, channels, *size),
            (filters, channels, 3, 3),
            (batch, filters, size[0] + pads[0] + pads[2] - 2, size[1] + pads[1] + pads[3] - 2),
        )
    )
    block = target.lanes(DType.FLOAT32)
    sizes = Sizes(
        batch=batch,
        channels=channels,
        height=size[0],
        width=size[1],
        filters=filters,
        window=Window(kernel=(3, 3), pads=pads),
    )
    inputs = blocked_tiles(sizes, m, block=block)
    epilogue = Epilogue(bias=True, operand=True, activation="clip", low=0.5)
    outputs = blocked_outputs(
        batch=batch, filters=filters, outputs=r.shape[2:], m=m, block=block, epilogue=epilogue
    )
    pool = Pool(threads) if threads > 1 else None
    try:
        (tiles,) = run(inputs, {"X": in_blocks(x, block)}, winograd.schedule_tiles, target, pool)
        flat = tiles.swapaxes(2, 3).reshape(len(tiles), -1, tiles.shape[2])[:, :channels]
        products = np.einsum("mct,mcf->mft", flat, transformed_weights(w, m))
        held = np.zeros(outputs.parameters[0].shape, np.float32)
        blocks = in_blocks(products[..., None], block)[..., 0, :]
        held[...] = blocks.reshape(held.shape)
        # Bias and operand hold anything beyond the filters; the output must be zero there.
        bias = np.ones(held.shape[1] * block, np.float32)
        beside = in_blocks(r, block) + (in_blocks(np.ones_like(r), block) == 0)
        (y,) = run(outputs, {"X": held, "B": bias, "R": beside}, winograd.schedule_outputs, target, pool)
    finally:
        if pool is not None:
            pool.close()
    expected = np.clip(convolved(x, w, pads) + 1 + r, 0.5, 6)
    whole = np.moveaxis(y, -1, 2).reshape(batch, -1, *r.shape[2:])
    assert np.abs(whole[:, :filters] - expected).max() <= TOLERANCE * np.abs(expected).max()
    assert not whole[:, filters:].any()


def test_other_convolutions_have_no_tiles() -> None:
    wide = Sizes(batch=1, channels=4, height=9, width=9, filters=4, window=Window(kernel=(5, 5)))
    with pytest.raises(ValueError, match="3 x 3 taps"):
        blocked_tiles(wide, 4, block=4)


def graph_of(net: FloatNetwork, m: int | None, lanes: int = 16) -> Graph:
    """The graph of a network after all passes, with Winograd tiles of m x m outputs wherever possible (None: nowhere);
    `lanes`: float32 elements of a vector.
    """
    passes = graph_passes(lanes, join=True, tiling=lambda sizes, block: m)
    return run_graph_passes(import_float_model(net.model()), passes)


def kinds(graph: Graph) -> list[str]:
    return [node.kind for node in graph.nodes]


def test_what_reads_one_tensor_shares_its_tiles() -> None:
    net = FloatNetwork(1, 32, 8, 8)
    net.convolution(32, (1, 1))
    first = net.last
    one = net.convolution(32, (3, 3), pads=list(SAME))
    net.last, net.shape = first, (1, 32, 8, 8)
    net.convolution(16, (3, 3), pads=list(SAME))
    net.add("Concat", one, axis=1)
    net.shape = (1, 48, 8, 8)
    graph = graph_of(net, 4)
    assert kinds(graph).count("WinogradTiles") == 1
    assert kinds(graph).count("WinogradOutputs") == 2
    # What is joined is still computed where it belongs.
    assert any(isinstance(node.operator, Join) for node in graph.nodes)


@pytest.mark.parametrize(
    "attributes",
    [{"strides": [2, 2]}, {"dilations": [2, 2]}, {"group": 2}, {"kernel": (1, 3)}],
    ids=["strides", "dilations", "groups", "a row"],
)
def test_other_convolutions_stay_as_they_are(attributes) -> None:
    net = FloatNetwork(1, 32, 9, 9)
    net.convolution(32, (1, 1))
    net.convolution(32, attributes.pop("kernel", (3, 3)), **attributes)
    assert kinds(graph_of(net, 4)) == kinds(graph_of(net, None))


def test_a_graph_without_3x3_convolutions_is_unchanged() -> None:
    net = FloatNetwork(1, 32, 9, 9)
    net.convolution(32, (1, 1))
    graph = graph_of(net, None)
    assert use_winograd(graph, lambda sizes, block: 4) is graph


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch):
    """A function of the size m: it makes the compiler choose Winograd's method with tiles of m x m outputs wherever
    that method is possible.
    """

    def choose(m: int) -> None:
        monkeypatch.setattr(winograd_choice, "tiling", lambda target, shape, block: m)

    return choose


@pytest.mark.parametrize(
    ("m", "bits"),
    representatives(
        itertools.product((2, 4), LEVELS),
        0,
        always=[((2, 4)[i % 2], bits) for i, bits in enumerate(LEVELS)],
    ),
)
def test_networks_with_all_that_is_fused(m, bits, always) -> None:
    """Networks of Winograd convolutions equal ONNX Runtime, with a residual, a factor for each channel and activations
    fused; includes odd numbers of channels and two images.
    """
    target = LEVELS[bits]
    always(m)
    net = FloatNetwork(2, 19, 11, 10)
    net.convolution(37, (3, 3), pads=list(SAME))
    first = net.add("HardSwish")
    net.convolution(37, (3, 3), pads=list(SAME), bias=False)
    net.batch_normalization(37)
    net.add("Add", first)
    net.add("Mul", net.weights(1, 37, 1, 1))
    last = net.add("Relu")
    net.convolution(20, (3, 3), pads=[0, 1, 2, 1])
    net.add("Sigmoid")
    del last
    x = np.random.default_rng(1).standard_normal((2, 19, 11, 10), dtype=np.float32)
    (expected,) = runtime(net.model(), {"x": x}).values()
    with compile_kernels(net.model(), cpu_now(target)) as network:
        operators = [launch.operator for launch in network.launches]
        assert operators.count("WinogradOutputs") == 3
        for threads in (1, 2):
            assert relative(network.run({"x": x}, threads=threads)[net.last], expected) <= TOLERANCE


def test_large_convolutions_are_computed_so() -> None:
    """The cost model chooses Winograd's method for a large convolution on the processor that runs the tests, and the
    results are right.
    """
    net = FloatNetwork(1, 64, 40, 40)
    net.convolution(64, (3, 3), pads=list(SAME))
    net.add("Relu")
    x = np.random.default_rng(1).standard_normal((1, 64, 40, 40), dtype=np.float32)
    (expected,) = runtime(net.model(), {"x": x}).values()
    with compile_kernels(net.model(), cpu_now()) as network:
        assert "WinogradOutputs" in [launch.operator for launch in network.launches]
        assert relative(network.run({"x": x})[net.last], expected) <= TOLERANCE


def processor(bits: int, registers: int) -> CpuTarget:
    """A CPU target with vectors of `bits` bits and the given number of vector registers, for the cost model."""
    return CpuTarget(
        triple="x86_64-unknown-linux-gnu",
        cpu="any",
        vector_bits=bits,
        vector_registers=registers,
        fused_multiply_add=True,
        dot_product=False,
    )


def choice(target: CpuTarget, channels: int, size: int, filters: int) -> int | None:
    shape = Sizes(
        batch=1,
        channels=channels,
        height=size,
        width=size,
        filters=filters,
        window=Window(kernel=(3, 3), pads=SAME),
    )
    return winograd_choice.tiling(target, shape, target.lanes(DType.FLOAT32))


def test_the_choice_follows_what_was_measured() -> None:
    """The choice of Winograd's method follows measurements with AVX-512 in ResNet-50, VGG-11, DenseNet-121 and U-Net
    (see `winograd_choice`).
    """
    chosen = partial(choice, processor(512, 32))
    # Large images: tiles of 16 outputs; many weights for few tiles: those of four; too many, or few channels: none.
    assert [chosen(64, 56, 64), chosen(128, 28, 128), chosen(128, 56, 32)] == [4, 4, 4]
    assert chosen(512, 14, 512) == 2
    assert [chosen(1024, 7, 1024), chosen(16, 256, 16), chosen(48, 7, 128)] == [None, None, None]


def test_slower_arithmetic_gains_where_weights_hide_behind_it() -> None:
    assert choice(processor(512, 32), 512, 7, 512) is None
    assert choice(processor(256, 16), 512, 7, 512) == 2


def test_blocks_of_few_channels_are_left_alone() -> None:
    shape = Sizes(
        batch=1, channels=8, height=90, width=90, filters=8, window=Window(kernel=(3, 3), pads=SAME)
    )
    target = host_target()
    assert winograd_choice.tiling(target, shape, target.lanes(DType.FLOAT32) // 2) is None

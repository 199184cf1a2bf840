"""Pads (the border around a convolution's input) in the chain memory (on-chip memory between layers) are written only
once, as long as no tensor overwrites them, and as early as the memory is free.
"""

from dataclasses import replace

import numpy as np
import pytest

from vdla.compiler.codegen.vdla.placement import ChainBuffer, ChainPads
from vdla.compiler.graph.graph import Graph
from vdla.compiler.ir.expr import Buffer
from vdla.compiler.ir.types import DType
from vdla.compiler.pipeline import compile_program
from vdla.compiler.rewrites.fuse import fuse
from vdla.isa.config import load_config

from ..random_networks import builder
from ..right_programs import assert_right

MACHINE = replace(
    load_config("vta"),
    extensions=("post", "patch", "depthwise", "taps", "sweep"),
    acc_banks=4,
    chain_buffer_bytes=1 << 15,
    uop_buffer_bytes=1 << 15,
)


def buffer(*shape: int) -> Buffer:
    return Buffer(name="Y", shape=shape, dtype=DType.INT8)


def test_pads_stay_until_a_tensor_lies_over_them():
    pads, place = ChainPads(), ChainBuffer(64, (1, 1, 1, 2), -128)
    other = ChainBuffer(0)
    assert not pads.write(place, buffer(2, 32))
    assert pads.write(place, buffer(2, 32))
    assert not pads.write(other, buffer(64)) and pads.write(place, buffer(2, 32))
    assert not pads.write(other, buffer(65)) and not pads.write(place, buffer(2, 32))
    # Of another shape, other pads or another value.
    assert not pads.write(place, buffer(4, 16))
    assert not pads.write(replace(place, margins=(1, 1, 1, 1)), buffer(4, 16))
    assert not pads.write(replace(place, pad_value=3), buffer(4, 16))


def blocks(count: int) -> Graph:
    """A network of `count` inverted bottlenecks: a 1x1 convolution that expands channels, a depthwise convolution, and
    a 1x1 convolution that reduces channels.
    """
    b = builder(4)
    tensor = b.convolution(b.input(1, 16, 9, 9), 16, (1, 1))
    for _ in range(count):
        wide = b.convolution(tensor, 48, (1, 1))
        deep = b.convolution(wide, 48, (3, 3), (1, 1), (1, 1, 1, 1), groups=48)
        tensor = b.convolution(deep, 16, (1, 1))
    return fuse(b.graph(tensor))


@pytest.mark.parametrize("count", [1, 3])
def test_networks_of_blocks_are_right(count):
    assert_right(compile_program(blocks(count), MACHINE, virtual_threads=2))


def of_many_widths(seed: int) -> Graph:
    """A network of eight 1x1 or 3x3 convolutions in random order, with random numbers of channels."""
    b, rng = builder(seed), np.random.default_rng(seed)
    tensor = b.input(1, 16, 8, 8)
    for _ in range(8):
        channels = int(rng.choice((16, 32, 64, 96)))
        if rng.random() < 0.5:
            tensor = b.convolution(tensor, channels, (3, 3), (1, 1), (1, 1, 1, 1))
        else:
            tensor = b.convolution(tensor, channels, (1, 1))
    return fuse(b.graph(tensor))


@pytest.mark.parametrize("seed", [0, 8])
def test_tensors_of_different_sizes_begin_at_one_place(seed: int):
    """Tensors of different sizes are placed at the same address; the pads (border of a convolution's input) of a
    smaller tensor must not be taken for the pads of a larger one.
    """
    assert_right(compile_program(of_many_widths(seed), replace(MACHINE, chain_buffer_bytes=1 << 14)))

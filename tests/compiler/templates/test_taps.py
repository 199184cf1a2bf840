"""Depthwise layers on machines with the instruction TAPS: right for any window, and at the speed that the instruction
allows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.compiler.graph.graph import Graph
from vdla.compiler.pipeline import compile_program
from vdla.compiler.rewrites.fuse import fuse
from vdla.compiler.templates.vdla.lower import CompileError
from vdla.isa.config import Memory, load_config
from vdla.isa.layout import Opcode

from ..random_networks import builder
from ..right_programs import assert_right

VTA = load_config("vta")
TINY = load_config("tiny")
EXTENSIONS = ("post", "patch", "depthwise", "taps")
MACHINES = {
    "vta": replace(VTA, extensions=EXTENSIONS),
    "tiny": replace(TINY, extensions=EXTENSIONS),
    "batch 2": replace(VTA, batch=2, acc_banks=2, extensions=EXTENSIONS),
    "odd depths": replace(TINY, batch=2, inp_buffer_bytes=8 * 61, acc_banks=1, extensions=EXTENSIONS),
    "8x32": replace(
        VTA,
        block_in=8,
        block_out=32,
        inp_buffer_bytes=8 * 1500,
        chain_buffer_bytes=8192,
        extensions=EXTENSIONS,
    ),
    "4x8": replace(TINY, block_out=8, acc_banks=1, extensions=EXTENSIONS),
    "32x8": replace(VTA, block_in=32, block_out=8, chain_buffer_bytes=65536, extensions=EXTENSIONS),
    "16x4": replace(VTA, block_out=4, acc_buffer_bytes=16384, extensions=EXTENSIONS),
    "chained": replace(VTA, chain_buffer_bytes=64 * 1024, extensions=EXTENSIONS),
    "wide bus": replace(VTA, memory=Memory(bus_bytes=64), extensions=EXTENSIONS),
}
SWEEPING = {
    f"{name}, sweeps": replace(item, extensions=(*EXTENSIONS, "sweep")) for name, item in MACHINES.items()
}
MACHINES |= SWEEPING


def depthwise_network(seed: int, alone: bool = False) -> Graph:
    """A random network of depthwise convolutions and average pools with any windows, in sequence, and dense 1x1
    convolutions; with `alone`, for one image.
    """
    b = builder(seed)
    random = b.random
    data = b.input(
        1 if alone else int(random.integers(1, 4)), int(random.choice([3, 16, 17, 40])), *_pair(random, 6, 15)
    )
    if random.random() < 0.5:
        data = b.convolution(data, int(random.integers(3, 40)), (1, 1))
    for _ in range(int(random.integers(1, 4))):
        _, channels, height, width = b.tensors[data].nchw
        kernel, strides, dilations = _pair(random, 1, 7), _pair(random, 1, 2), _pair(random, 1, 3)
        top, left, bottom, right = random.integers(0, 4, 4).tolist()
        spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
        if height + top + bottom < spans[0] or width + left + right < spans[1]:
            continue
        match random.choice(["depthwise", "depthwise", "dense", "average"]):
            case "dense":
                data = b.convolution(data, int(random.integers(3, 40)), (1, 1))
            case "average" if kernel[0] <= height and kernel[1] <= width:
                data = b.average_pool(data, kernel, strides)
            case _:
                pads = (top, left, bottom, right)
                data = b.convolution(data, channels, kernel, strides, pads, dilations, groups=channels)
    return b.graph(b.convolution(data, 5, (1, 1)))


def _pair(random: np.random.Generator, low: int, high: int) -> tuple[int, int]:
    return int(random.integers(low, high + 1)), int(random.integers(low, high + 1))


@settings(max_examples=examples(8), deadline=None)
@given(st.integers(0, 1 << 40), st.sampled_from(sorted(MACHINES)), st.integers(1, 3))
def test_any_depthwise_layers_are_right(seed, name, virtual_threads):
    config = MACHINES[name]
    graph = depthwise_network(seed, config.block_in != config.block_out)
    try:
        result = compile_program(fuse(graph), config, virtual_threads=virtual_threads, verify=True)
    except CompileError as error:
        assert "no tile is small enough" in str(error)
        return
    assert_right(result)


@pytest.mark.parametrize(
    ("name", "kernel", "dilation", "operations"),
    [
        ("wide bus", 3, 1, 3),
        ("wide bus", 5, 1, 10),
        ("wide bus", 3, 2, 6),
        ("wide bus", 3, 5, 9),
        ("8x32", 5, 1, 10),
        ("32x8", 7, 1, 4 * 14),
    ],
)
def test_operations_of_a_window(name, kernel, dilation, operations):
    """A kernel row takes one operation for every four adjacent columns; columns that are too far apart take one
    operation each.

    If an output vector has a fourth of an input vector's lanes, each of the four output vectors takes as many
    operations.
    """
    b = builder(3)
    data = b.input(1, 32, 40, 40)
    pads = (dilation * (kernel // 2),) * 4
    graph = fuse(b.graph(b.convolution(data, 32, (kernel, kernel), (1, 1), pads, (dilation, dilation), 32)))
    config = replace(MACHINES[name], memory=Memory(bus_bytes=64), chain_buffer_bytes=0)
    found = compile_program(graph, config)
    cycles = assert_right(found)
    least = operations * 32 // max(config.block_in, config.block_out) * 40 * 40
    assert least < cycles < 1.3 * least
    words = found.program.instructions.reshape(-1, config.instruction_words)
    assert (Opcode.TAPS in set((words[:, 0] & 7).tolist())) == (dilation < 5)


@pytest.mark.parametrize(
    ("name", "kernel", "dilation", "stride", "operations"),
    [
        ("wide bus", 3, 1, 1, 1),
        ("wide bus", 3, 1, 2, 2),
        ("wide bus", 5, 1, 1, 4),
        ("wide bus", 3, 2, 1, 2),
        ("8x32", 5, 1, 1, 6),
        ("32x8", 7, 1, 1, 4 * 4),
    ],
)
def test_operations_of_a_window_by_sweeps(name, kernel, dilation, stride, operations):
    """In the array mode `sweep`, the array holds rows of the input for later windows. The number of operations for a
    window is the expected one: one operation multiplies all rows that the array still holds, and each new row takes
    another.
    """
    b = builder(3)
    data = b.input(1, 32, 40 * stride, 40 * stride)
    pads, window = (dilation * (kernel // 2),) * 4, (kernel, kernel)
    layer = b.convolution(data, 32, window, (stride, stride), pads, (dilation, dilation), 32)
    config = replace(
        MACHINES[name],
        memory=Memory(bus_bytes=64),
        chain_buffer_bytes=0,
        extensions=(*EXTENSIONS, "sweep", "wide_loads"),
    )
    found = compile_program(fuse(b.graph(layer)), config)
    cycles = assert_right(found)
    least = operations * 32 // max(config.block_in, config.block_out) * 40 * 40
    # The layer is alone: its first inputs and last outputs are waited for.
    assert least < cycles < 1.4 * least + 1500

"""Random networks on random machines: compiled, checked, run, and equal to the integer graph."""

from __future__ import annotations

import hashlib
import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from campaign import examples, representatives
from hypothesis import given, settings
from hypothesis import strategies as st
from shipped import shipped

from vdla.codesign import models
from vdla.compiler.graph.graph import Graph
from vdla.compiler.graph.host import store_inputs
from vdla.compiler.graph.int8_convolution import Int8Convolution
from vdla.compiler.graph.int8_operators import Int8MaxPool
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.pipeline import compile_program
from vdla.compiler.rewrites.fuse import fuse
from vdla.compiler.runtime.accelerator import input_image, read_tensor, run
from vdla.compiler.runtime.artifact import Compiled
from vdla.compiler.te.blocks import Pads, Pair
from vdla.compiler.templates.vdla.lower import CompileError
from vdla.isa.check import check
from vdla.isa.config import Config, Memory, load_config
from vdla.isa.reference import run_reference
from vdla.sim import simulate

from .random_networks import NetworkBuilder, builder, machine, network

VTA = load_config("vta")
MACHINES: dict[str, Config] = {
    "vta": VTA,
    "osdi18": load_config("osdi18"),
    "edge8": load_config("edge8"),
    "tiny": load_config("tiny"),
    "block32": replace(VTA, name="block32", block_in=32, block_out=32, par_buffer_bytes=2048),
    "block8": replace(
        VTA,
        name="block8",
        block_in=8,
        block_out=8,
        inp_buffer_bytes=16384,
        wgt_buffer_bytes=65536,
        acc_buffer_bytes=65536,
    ),
    "batch2": replace(VTA, name="batch2", batch=2),
    "batch4": replace(VTA, name="batch4", batch=4, acc_banks=1),
    "one lane": replace(VTA, name="one lane", post_lanes=1),
    "bus512": replace(VTA, name="bus512", memory=Memory(bus_bytes=64), acc_banks=16),
    "queues": replace(VTA, name="queues", token_queue_depth=1, command_queue_depth=1, fetch_buffer_depth=2),
    "plain": replace(VTA, name="plain", extensions=("post",)),
    "8x32": replace(
        VTA, name="8x32", block_in=8, block_out=32, inp_buffer_bytes=8192, extensions=("post", "patch")
    ),
    "16x4": replace(VTA, name="16x4", block_out=4, acc_buffer_bytes=16384, extensions=("post",)),
    "chained": replace(VTA, name="chained", chain_buffer_bytes=24 * 1024),
    "chained 8x32": replace(
        VTA,
        name="chained 8x32",
        block_in=8,
        block_out=32,
        inp_buffer_bytes=8192,
        extensions=("post", "patch"),
        chain_buffer_bytes=8192,
    ),
    "wide": replace(VTA, name="wide", block_in=8, block_out=8),
    "odd depths": replace(
        VTA,
        name="odd depths",
        uop_buffer_bytes=4 * 5000,
        inp_buffer_bytes=16 * 1500,
        wgt_buffer_bytes=256 * 700,
        acc_buffer_bytes=64 * 1302,
        par_buffer_bytes=128 * 11,
    ),
    "starved": replace(
        load_config("tiny"),
        name="starved",
        uop_buffer_bytes=256,
        inp_buffer_bytes=128,
        wgt_buffer_bytes=256,
        acc_buffer_bytes=512,
        par_buffer_bytes=32,
        token_queue_depth=2,
    ),
}


def sample(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    """Random integer inputs of a graph, by the model's names of inputs."""
    random = np.random.default_rng(seed)
    low = {"int8": -128, "uint8": 0}
    return {
        item.name: random.integers(low[item.dtype], low[item.dtype] + 256, item.shape).astype(item.dtype)
        for item in graph.inputs
    }


def compiled(graph: Graph, config: Config, virtual_threads: int) -> Compiled:
    """The network compiled, with the verifier after every pass; asserts that the static checker finds nothing."""
    result = compile_program(fuse(graph), config, virtual_threads=virtual_threads, verify=True)
    findings = check(config, result.program.instructions, result.program.image)
    assert findings == [], findings[0].message
    return result


def assert_right(graph: Graph, config: Config, virtual_threads: int = 2, reference: bool = False) -> Compiled:
    """Compiles a network and asserts that all outputs are right bit for bit, on the simulator or, with `reference`, on
    the numpy model of the machine; returns the compiled network.
    """
    result = compiled(graph, config, virtual_threads)
    inputs = sample(graph, 5)
    expected = interpret(result.graph, store_inputs(result.graph, inputs))
    if reference:
        memory = run_reference(config, result.program.instructions, input_image(result, inputs)).memory
        outputs = {item.name: read_tensor(result, item.tensor, memory) for item in result.graph.outputs}
    else:
        outputs = dict(run(result, inputs).integer_outputs)
    for item in result.graph.outputs:
        np.testing.assert_array_equal(outputs[item.name], expected[item.tensor], err_msg=item.tensor)
    return result


def digest(result: Compiled) -> str:
    """SHA-256 of a program's instructions and memory image."""
    program = result.program
    return hashlib.sha256(program.instructions.tobytes() + program.image.tobytes()).hexdigest()


def test_resnet18_on_machines_whose_instructions_have_256_bits():
    """ResNet-18 runs at a high utilization on machines whose fields need instructions of 256 bits: 8x8 with the buffers
    of `vta`, and 64x64 with 1 MiB in each scratchpad.
    """
    data = shipped("resnet18", "u8")
    large = dict.fromkeys(("inp_buffer_bytes", "wgt_buffer_bytes", "acc_buffer_bytes"), 1 << 20)
    fifos = dict.fromkeys(("load_fifo_bytes", "compute_fifo_bytes", "operand_fifo_bytes", "store_fifo_bytes"))
    for config, least in (
        (MACHINES["wide"], 0.95),
        (replace(VTA, block_in=64, block_out=64, memory=Memory(bus_bytes=64), **large, **fifos), 0.6),
    ):
        assert (config.instruction_bytes, config.uop_bytes) == (32, 8)
        program = compile_program(data, config).program
        cycles = simulate(config, program.instructions, program.image, data=False).cycles
        assert least < 1_814_073_344 / config.multiplies_per_cycle / cycles < 1


# --- random networks ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(24))
def test_random_networks_on_named_machines(seed):
    config = list(MACHINES.values())[seed % len(MACHINES)]
    assert_right(network(3000 + seed), config, virtual_threads=1 + seed % 3)


@pytest.mark.parametrize("seed", range(12))
def test_random_networks_on_random_machines(seed):
    try:
        assert_right(network(4000 + seed), machine(4000 + seed), virtual_threads=1 + seed % 3)
    except CompileError as error:
        assert_helpful(error, f"machine{4000 + seed}")


@settings(max_examples=examples(12), deadline=None)
@given(st.integers(10_000, 1 << 40), st.integers(10_000, 1 << 40), st.integers(1, 3))
def test_any_network_on_any_machine(network_seed, machine_seed, virtual_threads):
    try:
        assert_right(network(network_seed), machine(machine_seed), virtual_threads)
    except CompileError as error:
        assert_helpful(error, f"machine{machine_seed}")


def assert_helpful(error: CompileError, config: str) -> None:
    """Asserts that a refusal names the node, the exceeded limit and the configuration."""
    message = str(error)
    assert message.startswith("node "), message
    assert "no tile is small enough for the " in message, message
    assert config in message, message


# --- corners --------------------------------------------------------------------------------------------

Build = Callable[[NetworkBuilder], str]

CORNERS: dict[str, Build] = {
    "a global average over more rows than accumulators": lambda b: b.global_average_pool(
        b.input(1, 20, 50, 47)
    ),
    "averages whose windows count differently": lambda b: b.average_pool(
        b.input(2, 5, 9, 11), (4, 3), (2, 2), (3, 2, 1, 0)
    ),
    "large windows of an average with pads": lambda b: b.average_pool(
        b.input(1, 3, 52, 50), (48, 47), (4, 5), (4, 4, 5, 0)
    ),
    "a maximum over more positions than accumulators": lambda b: b.max_pool(
        b.input(1, 5, 50, 49), (48, 47), (2, 1), (3, 0, 0, 4)
    ),
    "a fully connected layer over a large plane": lambda b: b.dense(b.input(2, 18, 13, 12), 21),
    "a fully connected layer behind a convolution": lambda b: b.dense(
        b.convolution(b.input(3, 3, 14, 15), 20, (3, 3)), 11
    ),
    "a window larger than the weight scratchpad": lambda b: b.convolution(
        b.input(1, 17, 17, 16), 18, (14, 13), (1, 2), (2, 0, 3, 15)
    ),
    "a depthwise window larger than the inputs on the chip": lambda b: b.convolution(
        b.input(1, 35, 49, 48), 35, (47, 46), (2, 2), (4, 5, 3, 2), groups=35
    ),
    "pads wider than a load makes": lambda b: b.convolution(
        b.input(1, 16, 3, 4), 7, (3, 3), pads=(17, 33, 16, 18)
    ),
    "pads larger than the image, with a dilation": lambda b: b.convolution(
        b.input(1, 3, 2, 2), 5, (3, 2), (2, 3), (7, 6, 8, 9), (3, 4)
    ),
    "outputs that see nothing but pads": lambda b: b.convolution(
        b.input(1, 16, 1, 1), 16, (1, 1), (4, 4), (1, 0, 1, 0)
    ),
    "stride larger than the window": lambda b: b.convolution(b.input(1, 20, 9, 17), 9, (2, 1), (4, 3)),
    "a depthwise multiplier": lambda b: b.convolution(
        b.input(2, 6, 7, 7), 12, (3, 3), pads=(1, 1, 1, 1), groups=6
    ),
    "groups": lambda b: b.convolution(b.input(1, 24, 6, 7), 8, (3, 2), groups=4),
    "255 channels at the first layer": lambda b: b.convolution(
        b.input(1, 255, 5, 4), 5, (3, 1), pads=(1, 0, 1, 0)
    ),
    "patches with a stride in one direction": lambda b: b.convolution(
        b.input(3, 5, 11, 23), 33, (5, 3), (1, 4), (15, 2, 0, 7)
    ),
    "patches, then a max-pool with overlapping windows": lambda b: b.max_pool(
        b.convolution(b.input(2, 3, 21, 30), 20, (7, 5), (2, 1), (3, 2, 3, 2)), (5, 3), (2, 2), (2, 1, 1, 0)
    ),
    "one reader in the patch layout, one not": lambda b: b.add(
        b.convolution(x := b.input(1, 4, 9, 9), 4, (3, 3), pads=(1, 1, 1, 1)), x
    ),
    "a residual in the other order": lambda b: b.add(
        y := b.convolution(b.input(1, 17, 8, 8), 17, (1, 1)),
        b.rescale(b.convolution(y, 17, (3, 3), pads=(1, 1, 1, 1))),
    ),
    "whole blocks joined, of several images": lambda b: b.joined(
        b.convolution(x := b.input(3, 16, 5, 6), 32, (1, 1)), b.convolution(x, 64, (1, 1)), x
    ),
    "joined channels that share blocks": lambda b: b.joined(
        b.convolution(x := b.input(2, 3, 7, 7), 17, (3, 3), pads=(1, 1, 1, 1)),
        b.convolution(x, 5, (1, 1)),
        b.convolution(x, 58, (1, 1)),
        x,
    ),
    "channels shuffled": lambda b: b.channels(
        (b.convolution(b.input(1, 20, 9, 4), 58, (1, 1)),),
        tuple((0, g * 29 + c) for c in range(29) for g in (0, 1)),
    ),
    "every second channel": lambda b: b.channels(
        (b.input(1, 70, 3, 3),), tuple((0, c) for c in range(1, 70, 2))
    ),
    "a tensor joined with itself": lambda b: b.joined(x := b.input(1, 17, 4, 4), x, x),
    "a joined vector": lambda b: b.dense(b.joined(b.input(3, 20), b.input(3, 45)), 10),
    "a tensor with itself": lambda b: b.multiply(x := b.input(1, 18, 5, 5), b.add(x, x)),
    "a constant operand first": lambda b: b.multiply(b.constant(1, 9, 4, 6), b.input(1, 9, 4, 6)),
    "operators on the network's input alone": lambda b: b.clip(b.rescale(b.input(5, 3))),
}


def corner_cases():
    """Yields (corner-case network, machine): every network on the smallest machine and on one other machine; further
    combinations only in campaigns.
    """
    others = ("vta", "8x32", "16x4")
    for number, name in enumerate(CORNERS):
        for machine_name in ("tiny", *others):
            often = machine_name in ("tiny", others[number % len(others)])
            yield pytest.param(name, machine_name, marks=() if often else pytest.mark.campaign)


@pytest.mark.parametrize(("name", "machine_name"), list(corner_cases()))
def test_corners(name, machine_name):
    b = builder(len(name))
    assert_right(b.graph(CORNERS[name](b)), MACHINES[machine_name], reference=len(name) % 4 == 0)


@pytest.mark.parametrize(
    ("machine_name", "name"),
    [
        ("plain", "a global average over more rows than accumulators"),
        ("plain", "large windows of an average with pads"),
        ("plain", "a depthwise multiplier"),
        ("plain", "255 channels at the first layer"),
        ("starved", "averages whose windows count differently"),
        ("starved", "groups"),
        ("starved", "patches with a stride in one direction"),
        ("osdi18", "a window larger than the weight scratchpad"),
        ("osdi18", "a fully connected layer over a large plane"),
        ("batch2", "patches, then a max-pool with overlapping windows"),
        ("queues", "patches, then a max-pool with overlapping windows"),
        ("bus512", "pads wider than a load makes"),
    ],
)
def test_corners_that_depend_on_the_machine(name, machine_name):
    b = builder(len(name) + 1)
    assert_right(b.graph(CORNERS[name](b)), MACHINES[machine_name])


@pytest.mark.parametrize("machine_name", ["vta", "batch4"])
def test_several_inputs_and_outputs(machine_name):
    """Networks with several inputs and outputs are right: an output that other nodes read, an output listed twice, and
    an input that is also an output.
    """
    b = builder(11)
    first, second = b.input(2, 3, 8, 9), b.input(2, 20, 4, 4)
    one = b.convolution(first, 20, (3, 3), (2, 2), (1, 0, 1, 0))
    two = b.add(b.convolution(second, 20, (1, 1)), b.max_pool(one, (1, 2), (1, 1), (0, 1, 0, 0)))
    three = b.dense(two, 12)
    assert_right(b.graph(three, one, two, one, first), MACHINES[machine_name])


def test_a_pool_that_nothing_can_cut_is_refused():
    b = builder(1)
    graph = b.graph(b.max_pool(b.input(1, 4, 3, 40), (1, 40), (1, 1)))
    with pytest.raises(
        CompileError, match=r"node maxpool0 \(MaxPool\): .* the accumulators of configuration starved"
    ):
        compiled(graph, MACHINES["starved"], 2)


# --- a first convolution that takes its max-pool along ---------------------------------------------------

SHORT_ROWS = {
    f"block {block}, batch {batch}": Config(
        name=f"block{block}batch{batch}",
        batch=batch,
        block_in=block,
        block_out=block,
        uop_buffer_bytes=512,
        inp_buffer_bytes=batch * block * 32,
        wgt_buffer_bytes=block * block * 64,
        acc_buffer_bytes=4 * batch * block * 256,
        par_buffer_bytes=8 * block * 4,
        post_lanes=batch * block // 2,
    )
    for block in (4, 8, 16, 32)
    for batch in (1, 2)
}
"""Machines whose input buffer holds less than a row of patches, and whose accumulators hold several blocks of
filters.
"""


def pool_behind(
    b: NetworkBuilder, filters: int, plane: Pair, kernel: Pair, strides: Pair, pads: Pads
) -> Graph:
    """A graph of a 3x3 convolution of two images on `plane`, followed by a max-pool with the given window."""
    image = b.input(2, 3, *plane)
    return b.graph(
        b.max_pool(b.convolution(image, filters, (3, 3), pads=(1, 1, 1, 1)), kernel, strides, pads)
    )


def took_the_pool(result: Compiled) -> bool:
    return [
        isinstance(node.operator, Int8Convolution) and node.operator.pool is not None
        for node in result.graph.nodes
    ] == [True]


@pytest.mark.parametrize(
    ("machine_name", "virtual_threads"),
    representatives(
        itertools.product(SHORT_ROWS, (1, 2)),
        0,
        always=[(name, 1 + (i + i // 2) % 2) for i, name in enumerate(SHORT_ROWS)],
    ),
)
def test_a_pool_over_rows_in_uneven_pieces(machine_name, virtual_threads):
    """A convolution with a fused pool is right if rows are divided into pieces, of which the last is shorter: filled up
    like the others, it would overlap the next block of filters.
    """
    config = SHORT_ROWS[machine_name]
    graph = pool_behind(builder(4), 2 * config.block_out, (6, 31), (3, 3), (2, 1), (1, 0, 0, 0))
    assert took_the_pool(assert_right(graph, config, virtual_threads))


@pytest.mark.parametrize("machine_name", ["block 4, batch 1", "block 8, batch 2", "block 32, batch 1"])
@pytest.mark.parametrize(
    ("rows", "kernel", "strides", "pads"),
    [
        pytest.param(7, (3, 3), (2, 2), (1, 1, 1, 1), id="the last window has a row fewer"),
        pytest.param(7, (2, 2), (2, 2), (0, 0, 0, 0), id="a row that no window reads"),
        pytest.param(9, (5, 3), (2, 1), (3, 0, 4, 2), id="windows behind the last row"),
        pytest.param(3, (4, 2), (1, 3), (3, 1, 3, 0), id="several windows behind the last row"),
    ],
)
def test_a_pool_whose_steps_do_not_divide_the_rows(machine_name, rows, kernel, strides, pads):
    config = SHORT_ROWS[machine_name]
    graph = pool_behind(builder(rows), config.block_out + 1, (rows, 13), kernel, strides, pads)
    assert took_the_pool(assert_right(graph, config))


@pytest.mark.parametrize(
    ("kernel", "strides", "pads"),
    [
        pytest.param((3, 3), (2, 2), (0, 0, 1, 1), id="no top pads for the rows that windows share"),
        pytest.param((3, 40), (2, 1), (1, 0, 0, 0), id="rows longer than the ring's"),
    ],
)
def test_a_pool_that_the_convolution_cannot_take_runs_by_itself(kernel, strides, pads):
    graph = pool_behind(builder(6), 17, (6, 80), kernel, strides, pads)
    result = assert_right(graph, SHORT_ROWS["block 8, batch 1"])
    convolution, *pools = result.graph.nodes
    assert isinstance(convolution.operator, Int8Convolution)
    assert convolution.operator.pool is None
    assert pools
    assert all(isinstance(node.operator, Int8MaxPool) for node in pools)


def test_a_pool_too_wide_for_the_store_unit_is_refused_by_name():
    b = builder(8)
    graph = b.graph(b.max_pool(b.convolution(b.input(1, 3, 2, 310), 4, (1, 1)), (1, 300), (1, 5)))
    with pytest.raises(CompileError, match=r"node maxpool1 \(MaxPool\): .* the windows of the store unit"):
        compiled(graph, VTA, 2)


# --- shipped models -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("machine_name", "form"),
    representatives(
        [*((name, "u8") for name in MACHINES), ("vta", "s8"), ("tiny", "qop")],
        4,
        always=[("vta", "s8"), ("tiny", "qop")],
    ),
)
def test_the_small_network_on_every_machine(machine_name, form):
    config = MACHINES[machine_name]
    result = compile_program(shipped("small_cnn", form), config, verify=True)
    assert check(config, result.program.instructions, result.program.image) == []
    inputs = {result.graph.inputs[0].name: models.sample_inputs("small_cnn", 1, 3).astype(np.float32)}
    expected = interpret(result.graph, store_inputs(result.graph, inputs))
    got = run(result, inputs).integer_outputs
    for item in result.graph.outputs:
        np.testing.assert_array_equal(got[item.name], expected[item.tensor])


# --- equal programs -------------------------------------------------------------------------------------

_ANOTHER_PROCESS = """
import sys
sys.path.insert(0, {folder!r})
import hashlib
import itertools
from random_networks import machine, network
from vdla.compiler.rewrites.fuse import fuse
from vdla.compiler.pipeline import compile_program
for seed in {seeds!r}:
    program = compile_program(fuse(network(seed)), machine(seed)).program
    print(hashlib.sha256(program.instructions.tobytes() + program.image.tobytes()).hexdigest())
"""


def test_equal_networks_give_equal_programs_in_every_process():
    seeds = [3, 12, 18, 27]
    here = [digest(compile_program(fuse(network(seed)), machine(seed))) for seed in seeds]
    assert here == [digest(compile_program(fuse(network(seed)), machine(seed))) for seed in seeds]
    code = _ANOTHER_PROCESS.format(folder=os.path.dirname(__file__), seeds=seeds)
    # This process hashes texts otherwise.
    hash_seed = "0" if os.environ.get("PYTHONHASHSEED") != "0" else "12345"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    output = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert output.split() == here

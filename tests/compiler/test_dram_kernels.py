"""Element-wise kernels on machines with a DRAM: parameters of one block of channels, and loads apart from stores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from vdla.compiler.codegen.vdla.dram_placement import dram_image
from vdla.compiler.dram_kernels import blocks_as_rows
from vdla.compiler.dram_network import DramNetwork
from vdla.compiler.graph.graph import Graph, quantized_tensor
from vdla.compiler.graph.int8_operators import Channels, Int8Elementwise, Int8Operator, Positions
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.pipeline import compile_program
from vdla.compiler.runtime.accelerator import run
from vdla.compiler.te.combination import Combination
from vdla.compiler.templates.vdla.legalize import legalize
from vdla.compiler.templates.vdla.lower import choose_points
from vdla.compiler.vdla_stages import AcceleratorNetwork
from vdla.isa.check import check
from vdla.isa.config import Memory, load_config
from vdla.isa.decoding import decode_one
from vdla.sim import simulate
from vdla.verify.small_networks import QUANTIZATION, NetworkBuilder

DRAM = replace(load_config("vta"), memory=Memory(kind="dram", part="MT41K256M8"))
RESCALE = Int8Elementwise(
    combination=Combination(kind="rescale", ratio_self=0.45, zero_point_self=4, zero_point=-5)
)
ADD = Int8Elementwise(combination=Combination(kind="add", ratio_self=0.7, ratio_operand=0.9, offset=3))


def graph(operator: Int8Operator, output: tuple[int, ...], *inputs: tuple[int, ...]) -> Graph:
    names = [f"x{number}" for number in range(len(inputs))]
    tensors = {
        name: quantized_tensor(name, shape, QUANTIZATION) for name, shape in zip(names, inputs, strict=True)
    }
    built = NetworkBuilder(rng=np.random.default_rng(3), tensors=tensors)
    return built.graph("alone", tuple(names), built.add(operator, tuple(names), output))


def rescaled() -> Graph:
    return graph(RESCALE, (1, 80, 5, 3), (1, 80, 5, 3))


def added() -> Graph:
    return graph(ADD, (1, 64, 4, 7), (1, 64, 4, 7), (1, 64, 4, 7))


def slice_of_channels() -> Graph:
    return graph(Channels(sources=tuple((0, 32 + c) for c in range(64))), (1, 64, 9, 1), (1, 128, 9, 1))


def appended() -> Graph:
    index = np.arange(24).reshape(1, 24, 1)
    return graph(Positions(index=index), (1, 48, 24, 1), (1, 48, 23, 1), (1, 48, 1, 1))


def rows_of_image() -> Graph:
    index = np.arange(60).reshape(1, 10, 6)[:, 2:7]
    return graph(Positions(index=index), (1, 48, 5, 6), (1, 48, 10, 6))


def columns_of_image() -> Graph:
    index = np.arange(60).reshape(1, 10, 6)[:, :, 2:5]
    return graph(Positions(index=index), (1, 48, 10, 3), (1, 48, 10, 6))


def every_second_row() -> Graph:
    index = np.arange(60).reshape(1, 10, 6)[:, ::2]
    return graph(Positions(index=index), (1, 48, 5, 6), (1, 48, 10, 6))


@pytest.mark.parametrize(
    ("make", "taken"),
    [
        (rescaled, True),
        (added, True),
        (slice_of_channels, True),
        (appended, True),
        (rows_of_image, True),
        (columns_of_image, False),
        (every_second_row, False),
    ],
)
def test_results_stay_exact_with_blocks_as_rows(make: Callable[[], Graph], taken: bool) -> None:
    made = make()
    legalized = legalize(made, DRAM)
    (plain,), (own,) = (
        kind(config=DRAM, legalized=legalized).kernels.values() for kind in (AcceleratorNetwork, DramNetwork)
    )
    for before, after in zip(plain, own, strict=True):
        assert (after.workload != before.workload) == taken
        assert after.workload.channels == (DRAM.block_out if taken else before.workload.channels)
        assert blocks_as_rows(DRAM, before, {before.tensors["Y"]}) is before
    rng = np.random.default_rng(5)
    feeds = {
        item.name: rng.integers(-128, 128, made.tensors[item.tensor].shape).astype(np.int8)
        for item in made.inputs
    }
    compiled = compile_program(made, DRAM)
    assert check(DRAM, compiled.program.instructions, compiled.program.image) == []
    (output,) = made.outputs
    found = run(compiled, feeds).outputs[output.name]
    assert np.array_equal(found, interpret(made, feeds)[output.tensor])


def test_loads_of_accumulators_stay_apart_from_stores() -> None:
    legalized = legalize(graph(RESCALE, (1, 256, 24, 24), (1, 256, 24, 24)), DRAM)
    network = DramNetwork(config=DRAM, legalized=legalized)
    points = choose_points(DRAM, network.kernels, {}, network.virtual_threads)
    turnarounds, overlaps = [], []
    for apart in ((), points.keys()):
        layers = [network.layer(name, points[name]) for name in points]
        program = network.linked(layers, data=False, image=dram_image(DRAM, layers, apart)).program
        result = simulate(DRAM, program.instructions, program.image, data=False)
        assert result.dram is not None
        turnarounds.append(result.dram.turnarounds)
        names = [decode_one(DRAM, *words)[0] for words in program.instructions.tolist()]
        loads, stores = (
            [(result.begin[i], result.end[i]) for i, name in enumerate(names) if name == kind]
            for kind in ("LOAD.ACC8", "STORE.POST")
        )
        assert min(len(loads), len(stores)) > 4
        overlaps.append(any(a < end and begin < b for a, b in stores for begin, end in loads))
    assert overlaps == [True, False]
    assert 5 * turnarounds[1] < turnarounds[0]

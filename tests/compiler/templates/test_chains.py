"""Layers chained through the on-chip chain memory: right results for any convolutions on any array, and chained tensors
never use the bus.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.codesign.report.account_run import account_layers
from vdla.compiler.graph.graph import Graph
from vdla.compiler.graph.memory_plan import lifetimes
from vdla.compiler.pipeline import compile_program
from vdla.compiler.rewrites.fuse import fuse
from vdla.compiler.runtime.artifact import Compiled
from vdla.compiler.templates.vdla.legalize import legalize
from vdla.compiler.templates.vdla.lower import CompileError, network_kernels
from vdla.compiler.templates.vdla.read_workload import workload_from_dict
from vdla.compiler.templates.vdla.workload import Workload
from vdla.compiler.templates.workload_limits import WorkloadError
from vdla.compiler.tune.measure.check_vdla import agrees
from vdla.compiler.tune.measure.measure_vdla import AcceleratorTask
from vdla.isa.config import Config, load_config
from vdla.sim import simulate

from ..random_networks import NetworkBuilder, builder
from ..right_programs import assert_right

VTA = load_config("vta")
MACHINES = {
    "vta": replace(VTA, chain_buffer_bytes=64 * 1024),
    "tiny": replace(load_config("tiny"), chain_buffer_bytes=8 * 1024),
    "taps": replace(VTA, batch=2, chain_buffer_bytes=64 * 1024, acc_banks=2),
    "batch 2": replace(
        VTA, batch=2, inp_buffer_bytes=65536, acc_buffer_bytes=262144, chain_buffer_bytes=96 * 1024
    ),
    "8x32": replace(
        VTA,
        block_in=8,
        block_out=32,
        inp_buffer_bytes=8192,
        extensions=("post", "patch"),
        chain_buffer_bytes=64 * 1024,
    ),
    "32x8": replace(VTA, block_in=32, block_out=8, extensions=("post", "patch"), chain_buffer_bytes=65536),
}


def chained_network(seed: int) -> Graph:
    """A random network of convolutions with any windows in sequence, with depthwise convolutions and residual blocks
    among them.
    """
    b = builder(seed)
    random = b.random
    data = b.input(int(random.choice([1, 1, 2, 3])), int(random.choice([32, 64])), *_pair(b, 5, 14))
    for _ in range(int(random.integers(2, 5))):
        _, channels, height, width = b.tensors[data].nchw
        kernel, strides, dilations = _pair(b, 1, 3), _pair(b, 1, 2), _pair(b, 1, 2)
        top, left, bottom, right = random.integers(0, 3, 4).tolist()
        pads = (top, left, bottom, right)
        spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
        if height + pads[0] + pads[2] < spans[0] or width + pads[1] + pads[3] < spans[1]:
            continue
        match random.choice(["dense", "dense", "depthwise", "residual"]):
            case "residual":
                same = (kernel[0] // 2, kernel[1] // 2, (kernel[0] - 1) // 2, (kernel[1] - 1) // 2)
                inner = b.convolution(data, int(random.integers(5, 40)), kernel, (1, 1), same)
                data = b.add(b.convolution(inner, channels, (1, 1)), data)
            case "depthwise":
                data = b.convolution(data, channels, kernel, strides, pads, dilations, groups=channels)
            case _:
                data = b.convolution(data, int(random.integers(5, 70)), kernel, strides, pads, dilations)
    return b.graph(data)


def _pair(b: NetworkBuilder, low: int, high: int) -> tuple[int, int]:
    return int(b.random.integers(low, high + 1)), int(b.random.integers(low, high + 1))


def compiled_right(graph: Graph, config: Config, virtual_threads: int) -> Compiled:
    """The network compiled, with the verifier after every pass; asserts that its outputs are right."""
    result = compile_program(fuse(graph), config, virtual_threads=virtual_threads, verify=True)
    assert_right(result)
    return result


@pytest.mark.parametrize("name", MACHINES)
def test_chained_networks(name):
    chained = [
        len(compiled_right(chained_network(seed), MACHINES[name], 1 + seed % 3).chained) for seed in range(4)
    ]
    assert sum(chained) >= 3


@settings(max_examples=examples(6), deadline=None)
@given(st.integers(10, 1 << 40), st.sampled_from(sorted(MACHINES)), st.integers(1, 3))
def test_any_chained_network(seed, name, virtual_threads):
    try:
        compiled_right(chained_network(seed), MACHINES[name], virtual_threads)
    except CompileError as error:
        assert "no tile is small enough" in str(error)


def bottleneck(b: NetworkBuilder, data: str) -> str:
    """Adds a residual block: convolutions 1x1, 3x3, 1x1, and the addition of the input; returns the name of
    its output.
    """
    middle = b.convolution(data, 32, (1, 1))
    middle = b.convolution(middle, 32, (3, 3), pads=(1, 1, 1, 1))
    return b.add(b.convolution(middle, 64, (1, 1)), data)


def test_what_is_chained_does_not_move():
    b = builder(5)
    graph = fuse(b.graph(bottleneck(b, b.convolution(b.input(1, 64, 12, 12), 64, (1, 1)))))
    machine = MACHINES["vta"]
    alone = compile_program(graph, replace(machine, chain_buffer_bytes=0), data=False)
    together = compile_program(graph, machine, data=False)
    assert len(together.chained) == 2
    before, after = (
        simulate(item.program.config, item.program.instructions, item.program.image, data=False)
        for item in (alone, together)
    )
    saved = sum(together.graph.tensors[name].size for name in together.chained)
    assert before.traffic["out"].bytes - after.traffic["out"].bytes == saved
    assert before.traffic["inp"].bytes - after.traffic["inp"].bytes >= saved
    assert before.traffic["operand"] == after.traffic["operand"]
    assert after.cycles < before.cycles
    for layer in account_layers(together, after):
        assert layer.compulsory_bytes + sum(layer.excess.values()) == layer.dram_bytes
        assert not any("not moved" in reason for reason in layer.excess)


def test_tensors_that_live_together_lie_apart():
    b = builder(6)
    data = b.convolution(b.input(1, 64, 9, 9), 64, (1, 1))
    for _ in range(4):
        data = bottleneck(b, data)
    graph = fuse(b.graph(data))
    for size in (0, 2048, 9 * 1024, 14 * 1024, 64 * 1024):
        config = replace(VTA, chain_buffer_bytes=size)
        legalized = legalize(graph, config)
        _, places = network_kernels(config, legalized)
        assert bool(places) == (size > 2048)
        held = {}
        for name, place in places.items():
            _, channels, height, width = legalized.graph.tensors[name].nchw
            top, left, bottom, right = place.margins
            held[name] = channels * (height + top + bottom) * (width + left + right)
            assert place.address + held[name] <= size
        lives = lifetimes(legalized.graph)
        for one in places:
            for other in places:
                together = lives[one][0] <= lives[other][1] and lives[other][0] <= lives[one][1]
                if one < other and together:
                    a, b_ = places[one].address, places[other].address
                    assert a + held[one] <= b_ or b_ + held[other] <= a


WORKLOAD = Workload(
    template="conv2d", batch=1, channels=48, height=9, width=11, filters=40, kernel=(3, 3), pads=(1, 1, 1, 1)
)


@pytest.mark.parametrize(
    ("name", "workload"),
    [
        ("vta", replace(WORKLOAD, resident=True)),
        ("vta", replace(WORKLOAD, margins=(1, 0, 2, 1))),
        ("vta", replace(WORKLOAD, resident=True, margins=(0, 0, 0, 0), operand=True)),
        (
            "vta",
            replace(WORKLOAD, template="depthwise_conv2d", filters=48, resident=True, margins=(1, 1, 1, 1)),
        ),
        ("32x8", replace(WORKLOAD, channels=64, filters=64, resident=True, margins=(1, 1, 1, 1))),
    ],
)
def test_random_points_of_chained_layers(name, workload):
    task = AcceleratorTask.of(MACHINES[name], workload)
    points = task.space.draw(np.random.default_rng(4), 1 << 13)
    points = points[task.space.legal(points)]
    assert len(points) > 10
    for point in points[:4]:
        assert agrees(task, task.space.values(point))


def test_workloads_say_what_is_chained():
    assert "resident" not in WORKLOAD.to_dict() and "margins" not in WORKLOAD.to_dict()
    for workload in (WORKLOAD, replace(WORKLOAD, resident=True), replace(WORKLOAD, margins=(1, 0, 2, 1))):
        assert workload_from_dict(workload.to_dict()) == workload
    for wrong in ({"resident": 1}, {"margins": [1, 2, 3]}, {"margins": [0, 0, 0, -1]}, {"margins": "four"}):
        with pytest.raises(WorkloadError, match=next(iter(wrong))):
            workload_from_dict({**WORKLOAD.to_dict(), **wrong})

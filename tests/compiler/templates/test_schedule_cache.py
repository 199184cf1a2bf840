"""Cached kernels that are reused for other layers and other machines: the programs equal those of newly lowered
kernels.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vdla.compiler.codegen.vdla.link import Tensors, link
from vdla.compiler.codegen.vdla.machine import kernel_fields
from vdla.compiler.codegen.vdla.program_order import EmissionCache
from vdla.compiler.graph.graph import Graph
from vdla.compiler.ir.printer import format_node
from vdla.compiler.pipeline import compile_program
from vdla.compiler.rewrites.fuse import fuse
from vdla.compiler.templates.vdla.legalize import legalize
from vdla.compiler.templates.vdla.lower import choose_points, kernels_of, lower_node
from vdla.compiler.templates.vdla.schedule_cache import ScheduleCache, key_of
from vdla.isa.config import Config, Memory, load_config

from ..random_networks import builder, network

TINY = load_config("tiny")
MACHINES = (
    TINY,
    replace(TINY, name="slow", memory=Memory(read_latency=300), token_queue_depth=1),
    replace(TINY, name="few filters", par_buffer_bytes=TINY.par_buffer_bytes // 2),
    replace(TINY, name="plain", extensions=("post",)),
    replace(TINY, name="wide bus", memory=Memory(bus_bytes=32), clock_mhz=5),
)


def layers_alike() -> Graph:
    """A graph of convolutions of one shape, which differ in zero points, limits, weights and added operands."""
    net = builder(11)
    data = net.input(1, 16, 7, 9)
    for _ in range(4):
        data = net.convolution(data, 16, (3, 3), pads=(1, 1, 1, 1))
    return net.graph(net.add(net.convolution(data, 16, (1, 1)), data))


def lowered(graph: Graph, config: Config, kept: ScheduleCache | None) -> list[str]:
    legalized = legalize(fuse(graph), config)
    kernels = {node.name: kernels_of(config, legalized, node) for node in legalized.graph.nodes}
    points = choose_points(config, kernels, {}, 2)
    texts: list[str] = []
    for name, several in kernels.items():
        layer = lower_node(
            config, name, several, points[name], virtual_threads=2, schedule_cache=kept, check=True
        )
        texts += [format_node(item.kernel) for item in layer.kernels]
    return texts


@pytest.mark.parametrize("graph", [layers_alike(), *(network(seed) for seed in range(3200, 3203))])
def test_kept_kernels_are_those_lowered_anew(graph: Graph) -> None:
    kept = ScheduleCache()
    for config in (*MACHINES, *MACHINES):
        assert lowered(graph, config, kept) == lowered(graph, config, None)


def test_kernels_are_kept_for_other_layers_and_machines() -> None:
    kept = ScheduleCache()
    lowered(layers_alike(), MACHINES[0], kept)
    few = kept.count
    assert few == 2, "the four convolutions of one shape are one kernel"
    lowered(layers_alike(), replace(TINY, token_queue_depth=1, clock_mhz=7), kept)
    assert kept.count == few
    lowered(layers_alike(), MACHINES[2], kept)
    assert kept.count > few


def test_no_more_are_kept_than_allowed() -> None:
    kept = ScheduleCache(most=1)
    texts = lowered(layers_alike(), TINY, kept)
    assert kept.count == 1 and texts == lowered(layers_alike(), TINY, None)


def test_programs_are_the_same_whatever_was_compiled_before() -> None:
    kept, graph = ScheduleCache(), fuse(network(3207))
    for config in MACHINES:
        a, b = (
            compile_program(graph, config, schedule_cache=kept).program,
            compile_program(graph, config).program,
        )
        np.testing.assert_array_equal(a.instructions, b.instructions)
        np.testing.assert_array_equal(a.image, b.image)


def test_lowering_sees_no_more_of_a_machine_than_its_key() -> None:
    assert kernel_fields(MACHINES[0]) == kernel_fields(MACHINES[1]) == kernel_fields(MACHINES[4])
    assert kernel_fields(MACHINES[0]) != kernel_fields(MACHINES[2])
    assert kernel_fields(replace(TINY, multiplier_stages=4)) == kernel_fields(TINY)
    assert kernel_fields(replace(TINY, acc_banks=4)) != kernel_fields(TINY)
    legalized = legalize(fuse(layers_alike()), TINY)
    first, second, *_ = [kernels_of(TINY, legalized, node)[0] for node in legalized.graph.nodes]
    point = {"rows": 1}
    assert key_of(TINY, first, point, 2) == key_of(TINY, second, point, 2)
    assert key_of(TINY, first, point, 1) != key_of(TINY, second, {"rows": 2}, 1)


def test_drafts_are_kept_as_long_as_there_is_room() -> None:
    graph, drafts = fuse(layers_alike()), EmissionCache(most=100)
    legalized = legalize(graph, TINY)
    kernels = {node.name: kernels_of(TINY, legalized, node) for node in legalized.graph.nodes}
    points = choose_points(TINY, kernels, {}, 2)
    kept = ScheduleCache()
    layers = [
        lower_node(TINY, name, kernels[name], points[name], virtual_threads=2, schedule_cache=kept)
        for name in kernels
    ]
    tensors = Tensors(graph=legalized.graph, layouts=legalized.layouts, inside=legalized.places)
    programs = [
        link(TINY, tensors, layers, emission_cache=given).program
        for given in (None, drafts, drafts, kept.drafts, kept.drafts)
    ]
    assert 0 < drafts.rows <= 100 < kept.drafts.rows
    for program in programs[1:]:
        np.testing.assert_array_equal(program.instructions, programs[0].instructions)
        np.testing.assert_array_equal(program.image, programs[0].image)

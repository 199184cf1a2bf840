"""A kernel that is linked alone takes as many cycles as a network of only this layer."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from campaign import representatives

from vdla.compiler.codegen.vdla.link import LoweredLayer
from vdla.compiler.codegen.vdla.link_alone import link_alone
from vdla.compiler.graph.graph import Node
from vdla.compiler.pipeline import compile_program
from vdla.compiler.rewrites.fuse import fuse
from vdla.compiler.runtime.artifact import Compiled
from vdla.compiler.templates.vdla.legalize import Legalized
from vdla.compiler.templates.vdla.lower import choose_points, kernels_of, lower_node
from vdla.isa.config import load_config
from vdla.isa.layout import FLAG_BITS
from vdla.sim import simulate

from ..random_networks import NetworkBuilder, builder

LAYERS: dict[str, Callable[[NetworkBuilder], str]] = {
    "3x3": lambda b: b.convolution(b.input(1, 32, 14, 13), 48, (3, 3), pads=(1, 1, 1, 1)),
    "1x1 with a stride": lambda b: b.convolution(b.input(2, 40, 9, 9), 33, (1, 1), (2, 2)),
    "5x3, a dilation and wide pads": lambda b: b.convolution(
        b.input(1, 17, 12, 6), 20, (5, 3), (1, 2), (17, 2, 3, 20), (2, 1)
    ),
    "a first layer from patches": lambda b: b.convolution(
        b.input(1, 3, 21, 30), 20, (7, 7), (2, 2), (3, 3, 3, 3)
    ),
    "a sum behind it": lambda b: b.add(
        b.convolution(b.input(1, 16, 8, 8), 32, (3, 3), pads=(1, 1, 1, 1)), b.input(1, 32, 8, 8)
    ),
    "depthwise": lambda b: b.convolution(b.input(1, 24, 10, 11), 24, (3, 3), pads=(1, 1, 1, 1), groups=24),
}


def lowered_node(compiled: Compiled, node: Node, virtual_threads: int) -> LoweredLayer:
    """A node of a compiled network, lowered a second time."""
    config = compiled.program.config
    kernels = kernels_of(config, Legalized(graph=compiled.graph, layouts=compiled.layouts), node)
    points = choose_points(config, {node.name: kernels}, {}, virtual_threads)[node.name]
    return lower_node(config, node.name, kernels, points, virtual_threads=virtual_threads)


CONFIGS = (("vta", 2), ("edge8", 1), ("tiny", 2))


@pytest.mark.parametrize(
    ("layer", "config", "virtual_threads"),
    representatives(
        [(layer, *config) for layer, config in itertools.product(LAYERS, CONFIGS)],
        0,
        # Every layer on two machines.
        always=[(layer, *CONFIGS[(i + j) % 3]) for i, layer in enumerate(LAYERS) for j in (0, 1)],
    ),
)
def test_the_cycles_of_a_network_of_one_layer(layer: str, config: str, virtual_threads: int) -> None:
    machine = load_config(config)
    b = builder(4)
    compiled = compile_program(fuse(b.graph(LAYERS[layer](b))), machine, virtual_threads=virtual_threads)
    (node,) = compiled.graph.nodes
    lowered = lowered_node(compiled, node, virtual_threads)
    (kernel,) = lowered.kernels
    alone = link_alone(machine, kernel.kernel, kernel.tensors.keys())
    timed = simulate(machine, alone.instructions, alone.image, data=False)
    network = simulate(machine, compiled.program.instructions, compiled.program.image, data=False)
    assert (
        len(alone.instructions) * compiled.program.config.instruction_bytes
        == compiled.program.instructions.nbytes
    )
    assert timed.cycles == network.cycles
    np.testing.assert_array_equal(timed.begin, network.begin)
    np.testing.assert_array_equal(timed.end, network.end)


def test_constants_lie_before_activations_and_are_not_filled_in() -> None:
    machine = load_config("vta")
    b = builder(4)
    compiled = compile_program(fuse(b.graph(LAYERS["3x3"](b))), machine)
    lowered = lowered_node(compiled, compiled.graph.nodes[0], 2)
    alone = link_alone(machine, lowered.kernels[0].kernel, frozenset({"X", "Y"}))
    uop = next(segment for segment in compiled.program.segments if segment.kind == "uop")
    expected = compiled.program.image[uop.address :]
    np.testing.assert_array_equal(alone.image[-len(expected) :], expected)
    assert not alone.image[: -len(expected)].any()
    flags = np.uint64(sum(1 << bit for bit in FLAG_BITS.values()))
    np.testing.assert_array_equal(
        alone.instructions[:, 0] & flags, compiled.program.instructions[:, 0] & flags
    )

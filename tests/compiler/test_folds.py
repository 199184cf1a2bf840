"""Machines that fold: whole weight tiles in several operations, of which those without weights are left out."""

from dataclasses import replace

import pytest
from vdla.compiler.graph.graph import Graph
from vdla.isa.config import load_config

from .random_networks import builder
from .test_networks import assert_right

EXTENSIONS = ("post", "patch", "depthwise", "taps", "sweep", "fold")
FOLDED = {
    f"16x{16 // folds}": replace(
        load_config("vta"), name=f"{folds} folds", extensions=EXTENSIONS, folds=folds, acc_banks=4
    )
    for folds in (2, 4)
}
CHAINED = {f"{name}, chained": replace(item, chain_buffer_bytes=1 << 14) for name, item in FOLDED.items()}
MACHINES = FOLDED | CHAINED


def network(channels: int, filters: int) -> Graph:
    """A first layer, an expansion, a depthwise layer, and a projection that adds the first layer's outputs."""
    b = builder(3)
    pads = (1, 1, 1, 1)
    first = b.convolution(b.input(1, 3, 12, 10), channels, (3, 3), (1, 1), pads)
    wide = b.convolution(first, filters, (1, 1))
    deep = b.convolution(wide, filters, (3, 3), (1, 1), pads, groups=filters)
    return b.graph(b.add(b.convolution(deep, channels, (1, 1)), first), deep)


@pytest.mark.parametrize("config", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize(("channels", "filters"), [(4, 24), (6, 36), (12, 44), (18, 20)])
def test_networks_of_few_channels(config, channels, filters):
    assert_right(network(channels, filters), config, virtual_threads=2, reference=True)

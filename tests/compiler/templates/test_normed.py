"""A convolution and the normalization of its result as one kernel of the accelerator, which computes both tile
by tile.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest
from campaign import representatives

from vdla.compiler.graph.cost import count_macs
from vdla.compiler.graph.graph import Graph
from vdla.compiler.graph.int8_operators import Int8Elementwise, Normed, Rows, Swap
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.traffic import compulsory_bytes
from vdla.compiler.pipeline import compile_program
from vdla.compiler.rewrites.fuse_pairs import fuse_combines
from vdla.compiler.runtime.artifact import Compiled
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.combination import Combination
from vdla.compiler.te.post import Post
from vdla.compiler.templates.columns import Values
from vdla.compiler.templates.vdla import lower, normed_kernels
from vdla.compiler.templates.vdla.normed import NORMED
from vdla.compiler.templates.vdla.workload import windowed
from vdla.isa.config import Config, load_config
from vdla.verify.cosim.cases import Launch
from vdla.verify.cosim.compare import run_both

from ..random_networks import builder
from ..right_programs import assert_right

TINY, PRESET = load_config("tiny"), load_config("vta")
VTA = replace(PRESET, extensions=(*PRESET.extensions, "rows"))
MACHINE = replace(
    TINY,
    extensions=(*TINY.extensions, "table", "zero_points", "rows"),
    row_entries=16,
    par_buffer_bytes=8 * 32,
)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of a 1x1 convolution whose result is normalized. `operand`: a tensor is added to the result first; `other`:
    the unnormalized result is an output as well; `turned`: another convolution of the normalized result follows, with
    channels and positions exchanged.
    """

    images: int = 1
    positions: int = 11
    channels: int = 16
    filters: int = 12
    operand: bool = False
    other: bool = False
    turned: bool = False


def network(sizes: Sizes) -> Graph:
    """A graph of two 1x1 convolutions, the normalization of the second one's result, and its readers."""
    b = builder(9)
    source = b.convolution(b.input(sizes.images, 8, sizes.positions, 1), sizes.channels, (1, 1))
    made = b.convolution(source, sizes.filters, (1, 1))
    shape = b.tensors[made].shape
    if sizes.operand:
        add = Combination(kind="add", ratio_self=0.75, ratio_operand=0.5, zero_point_operand=3)
        made = b._append("add", Int8Elementwise(combination=add), (made, b.input(*shape)), shape, 0)
    rows = Rows(
        entries=None,
        bias=b.random.integers(-90, 90, sizes.filters).astype(np.int32),
        scale=(b.random.choice([-1, 1], sizes.filters) * 2.0**-9).astype(np.float32),
        post=Post(zero_point=-4),
        zero_point=2,
        centre=True,
        epsilon=(3, 2),
    )
    normed = b._append("rows", rows, (made,), shape, 0)
    outputs = [b.convolution(normed, 9, (1, 1))]
    if sizes.turned:
        behind = b.convolution(normed, 8, (1, 1))
        places = (sizes.images, sizes.positions, 8, 1)
        outputs.append(b._append("swap", Swap(positions=sizes.positions), (behind,), places, 0))
    return fuse_combines(b.graph(*outputs, *([made] if sizes.other else [])))


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the compiler fuse convolution and normalization into one kernel even if two kernels take fewer cycles, as
    for small matrices.
    """
    monkeypatch.setattr(normed_kernels, "_pays", lambda config, workload: True)


def compiled(sizes: Sizes, config: Config = MACHINE) -> Compiled:
    graph = network(sizes)
    result = compile_program(graph, config, virtual_threads=2, verify=True)
    random = np.random.default_rng(1)
    inputs = {
        item.tensor: random.integers(-128, 128, graph.tensors[item.tensor].shape).astype(np.int8)
        for item in graph.inputs
    }
    wanted, found = (interpret(item, inputs) for item in (graph, result.graph))
    for item in graph.outputs:
        np.testing.assert_array_equal(found[item.tensor], wanted[item.tensor])
    return result


def kinds(result: Compiled) -> list[str]:
    return [node.kind for node in result.graph.nodes]


SIZES = {
    "one tile": Sizes(positions=3),
    "several": Sizes(),
    "two images": Sizes(images=2),
    "an operand, and another reader": Sizes(operand=True, other=True),
    "filters that fill no block": Sizes(filters=11, other=True),
    "channels that fill no block": Sizes(channels=13),
    "room behind the positions": Sizes(images=2, positions=10, turned=True, operand=True),
    "more filters than the parameter table holds": Sizes(filters=40, operand=True),
}


@pytest.mark.parametrize(
    ("name", "lanes"),
    representatives(
        itertools.product(SIZES, (None, 2)),
        0,
        always=[(name, (None, 2)[i % 2]) for i, name in enumerate(SIZES)],
    ),
)
@pytest.mark.usefixtures("always")
def test_convolution_and_normalization_as_one_kernel_are_right(name: str, lanes: int | None):
    result = compiled(SIZES[name], replace(MACHINE, post_lanes=lanes))
    assert kinds(result)[:2] == ["Convolution", "Normed"]
    assert assert_right(result) > 100


@pytest.mark.parametrize("copies", [2, 3])
@pytest.mark.parametrize(("rows", "chunk"), [(1, 1), (2, 4), (4, 2), (5, 1), (11, 2)])
@pytest.mark.usefixtures("always")
def test_all_tiles_are_right(monkeypatch: pytest.MonkeyPatch, rows: int, chunk: int, copies: int):
    choose = lower.choose_points

    def chosen(config, kernels, *others) -> dict[str, tuple[Values, ...]]:
        found = choose(config, kernels, *others)
        point = {"rows": rows, "chunk": chunk, "copies": copies}
        return {
            node: (point,) if several[0].workload.template == NORMED.name else found[node]
            for node, several in kernels.items()
        }

    monkeypatch.setattr(lower, "choose_points", chosen)
    large = replace(MACHINE, inp_buffer_bytes=1 << 12, acc_buffer_bytes=1 << 13, wgt_buffer_bytes=1 << 12)
    result = compiled(Sizes(images=2, operand=True, other=True), large)
    assert kinds(result)[:2] == ["Convolution", "Normed"]
    assert assert_right(result) > 100


@pytest.mark.usefixtures("always")
def test_operations_and_compulsory_bytes_of_the_kernel():
    graph = network(Sizes(operand=True))
    node = compiled(Sizes(operand=True)).graph.nodes[1]
    assert isinstance(node.operator, Normed)
    before = next(item for item in graph.nodes if item.output == node.inputs[0])
    (product,) = [item for item in graph.nodes if item.inputs[0] == before.output]
    assert count_macs(graph, node) == count_macs(graph, product) == 11 * 16 * 12
    assert compulsory_bytes(graph, node) == compulsory_bytes(graph, product)


@pytest.mark.parametrize(
    ("sizes", "config"),
    [
        (Sizes(), replace(MACHINE, chain_buffer_bytes=1 << 10)),
        (Sizes(channels=80), replace(MACHINE, wgt_buffer_bytes=512)),
    ],
    ids=["its input stays on the chip", "weights that do not fit"],
)
@pytest.mark.usefixtures("always")
def test_other_normalizations_stay_kernels_of_their_own(sizes: Sizes, config: Config):
    result = compiled(sizes, config)
    assert "Normed" not in kinds(result)
    assert assert_right(result) > 50


def test_they_are_one_kernel_only_where_that_is_faster():
    sizes = Sizes(positions=197, channels=192, filters=192, operand=True, other=True)
    graph = network(sizes)
    one = compile_program(graph, VTA)
    assert kinds(one)[:2] == ["Convolution", "Normed"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(normed_kernels, "_pays", lambda config, workload: False)
        two = compile_program(graph, VTA)
    assert kinds(two)[:3] == ["Convolution", "Convolution", "Rows"]
    assert assert_right(one) < 0.95 * assert_right(two)
    # Nothing to do beside the only tile.
    assert "Normed" not in kinds(
        compile_program(network(Sizes(positions=16, channels=192, filters=192)), VTA)
    )


# A library of its own.
@pytest.mark.campaign
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("sizes", [Sizes(operand=True, other=True), Sizes(images=2, filters=11)])
def test_simulator_and_rtl_agree(sizes: Sizes):
    made = compiled(sizes)
    image, random = made.program.image.copy(), np.random.default_rng(0)
    for item in made.program.segments:
        if item.kind == "input":
            image[item.address : item.address + item.size] = random.integers(0, 256, item.size)
    start = Launch(program=replace(made.program, image=image), scratchpads=None, random_state=None)
    assert run_both(made.program.config, start).differences == ()


@pytest.mark.parametrize("positions", [50, 64, 128, 197])
def test_tiles_keep_to_the_memories(positions: int):
    workload = windowed(NORMED.name, (1, 192, positions, 1), 192, Window(kernel=(1, 1)), operand=True)
    tile = NORMED.default_for(VTA, workload, 2)
    assert 12 * tile["rows"] * 4 <= VTA.acc_depth
    assert (tile["copies"] * tile["chunk"] + 24) * tile["rows"] <= VTA.inp_depth

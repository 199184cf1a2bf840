"""Attention as one kernel of the accelerator: scores and their softmax stay in the chain memory (on-chip memory between
layers).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest

from vdla.compiler.graph.cost import count_macs
from vdla.compiler.graph.graph import Graph
from vdla.compiler.graph.int8_operators import Attention, Group, Products, Rows
from vdla.compiler.graph.traffic import compulsory_bytes
from vdla.compiler.pipeline import compile_program
from vdla.compiler.runtime.artifact import Compiled
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.combination import Combination
from vdla.compiler.te.post import Post
from vdla.compiler.templates.vdla import attention_kernels
from vdla.compiler.templates.vdla.attention import ATTENTION
from vdla.compiler.templates.vdla.workload import Workload, windowed
from vdla.isa.config import Config, load_config
from vdla.isa.decoding import format_names
from vdla.isa.rows import exponentials
from vdla.verify.cosim.cases import Launch
from vdla.verify.cosim.compare import run_both

from ..random_networks import builder
from ..right_programs import assert_right

TINY = load_config("tiny")
MACHINE = replace(
    TINY,
    extensions=(*TINY.extensions, "table", "zero_points", "rows"),
    row_entries=16,
    chain_buffer_bytes=4 * 256,
)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of an attention layer: `heads` in each of `images` images, numbers of queries (`rows`) and of `keys` of a
    head, `depth` of a query, `width` of a value. `shared`: number of heads that share keys and values; `looked_up`: the
    scores pass a look-up table; `masked`: the scores have a mask.
    """

    heads: int = 2
    images: int = 1
    shared: int = 1
    rows: int = 12
    keys: int = 12
    depth: int = 8
    width: int = 8
    looked_up: bool = False
    masked: bool = False


def whole(size: int, lanes: int = 4) -> int:
    return -(-size // lanes) * lanes


def attention(sizes: Sizes, seed: int = 3) -> Graph:
    """A graph of scores, softmax and context, whose inputs have the layouts in which the layers before attention store
    them.
    """
    b = builder(seed)
    heads, kinds = sizes.heads, sizes.heads // sizes.shared
    depth, width, places = (
        whole(sizes.depth),
        whole(sizes.width),
        list(product(range(sizes.images), range(heads))),
    )
    queries = b.input(sizes.images, heads * depth, sizes.rows, 1)
    keys = b.input(sizes.images, kinds * depth, whole(sizes.keys), 1)
    values = b.input(sizes.images, sizes.keys, kinds * width, 1)
    table = b.random.integers(-128, 128, 256).astype(np.int8)
    addend = b.input(sizes.images, sizes.keys, heads * sizes.rows, 1) if sizes.masked else None
    mask = Combination(kind="add", ratio_self=1.0, ratio_operand=0.5) if sizes.masked else None
    scores = Products(
        groups=tuple(
            [
                Group(
                    image=image,
                    a=(head * depth, 0),
                    b=(head // sizes.shared * depth, 0),
                    output=(0, head * sizes.rows),
                )
                for image, head in places
            ]
        ),
        rows=sizes.rows,
        columns=sizes.keys,
        depth=depth,
        zero_points=(3, -2),
        scale=np.float32(0.003),
        post=Post(zero_point=-5, combination=mask),
        table=None,
    )
    if sizes.looked_up:
        scores = replace(scores, table=table, post=replace(scores.post, table=True))
    shape = (sizes.images, sizes.keys, heads * sizes.rows, 1)
    made = b._append("scores", scores, (queries, keys, *([addend] if addend else [])), shape, 0)
    rows = Rows(
        entries=exponentials(0.03),
        bias=np.zeros(1, np.int32),
        scale=np.array([255 / 65536], np.float32),
        post=Post(zero_point=-128),
    )
    shares = b._append("shares", rows, (made,), shape, 0)
    context = Products(
        groups=tuple(
            [
                Group(
                    image=image,
                    a=(0, head * sizes.rows),
                    b=(0, head // sizes.shared * width),
                    output=(head * width, 0),
                )
                for image, head in places
            ]
        ),
        rows=sizes.rows,
        columns=width,
        depth=sizes.keys,
        zero_points=(-128, 4),
        scale=np.float32(0.01),
        post=Post(zero_point=2),
    )
    out = b._append("context", context, (shares, values), (sizes.images, heads * width, sizes.rows, 1), 0)
    return b.graph(out)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the compiler fuse attention into one kernel even if three kernels take fewer cycles, as for small
    matrices.
    """
    monkeypatch.setattr(attention_kernels, "_pays", lambda config, workload: True)


def compiled(sizes: Sizes, config: Config = MACHINE) -> Compiled:
    return compile_program(attention(sizes), config, virtual_threads=2, verify=True)


@pytest.mark.parametrize(
    "sizes",
    [
        Sizes(),
        Sizes(heads=1, images=2),
        Sizes(heads=4, shared=2, images=2),
        Sizes(rows=13, keys=11),
        Sizes(rows=29, keys=5, width=12),
        Sizes(rows=17, keys=24, depth=4, heads=3),
        Sizes(looked_up=True),
    ],
    ids=[
        "two heads",
        "two images",
        "heads with keys together",
        "keys inside of blocks",
        "more queries than entries of rows",
        "more scores than the chain memory holds",
        "scores are looked up",
    ],
)
@pytest.mark.parametrize("lanes", [None, 2])
@pytest.mark.usefixtures("always")
def test_attention_as_one_kernel_is_right(sizes: Sizes, lanes: int | None):
    result = compiled(sizes, replace(MACHINE, post_lanes=lanes))
    (node,) = result.graph.nodes
    assert isinstance(node.operator, Attention)
    assert assert_right(result) > 100


@pytest.mark.usefixtures("always")
def test_operations_and_compulsory_bytes_of_the_kernel():
    graph = attention(Sizes())
    (node,) = compiled(Sizes()).graph.nodes
    assert count_macs(graph, node) == sum(count_macs(graph, item) for item in graph.nodes)
    # Queries, keys, values and context, and nothing of the scores.
    assert compulsory_bytes(graph, node) == 4 * 12 * 16


@pytest.mark.usefixtures("always")
def test_scores_never_cross_the_bus():
    names = [(name, int(word) >> 55 & 1) for name, word in stores(compiled(Sizes(rows=24)))]
    assert names.count(("STORE.POST", 1)) == 2 * names.count(("STORE.POST", 0)) > 0


def stores(result: Compiled) -> list[tuple[str, np.uint64]]:
    """The STORE.POST instructions of a program, as pairs (name, second 64-bit word). Bit 55 of this word is the flag
    `chain`: the results go to the on-chip chain memory instead of DRAM.
    """
    instructions = result.program.instructions
    names = format_names(instructions)
    return [(name, words[1]) for name, words in zip(names, instructions, strict=True) if name == "STORE.POST"]


@pytest.mark.parametrize(
    ("sizes", "config"),
    [
        (Sizes(masked=True), MACHINE),
        (Sizes(), replace(MACHINE, chain_buffer_bytes=0)),
        (Sizes(), replace(MACHINE, chain_buffer_bytes=4 * 4)),
    ],
    ids=["a mask is added", "no chain memory", "too small a chain memory"],
)
@pytest.mark.usefixtures("always")
def test_other_attention_becomes_three_kernels(sizes: Sizes, config: Config):
    result = compiled(sizes, config)
    assert [node.kind for node in result.graph.nodes] == ["Products", "Rows", "Products"]
    assert assert_right(result) > 50


def test_attention_is_one_kernel_only_where_that_is_faster():
    vta = load_config("vta")
    config = replace(vta, extensions=(*vta.extensions, "rows"), chain_buffer_bytes=1 << 13)
    sizes = Sizes(rows=48, keys=64, depth=32, width=32)
    one, three = compiled(sizes, config), compiled(sizes, replace(config, chain_buffer_bytes=0))
    assert [len(result.graph.nodes) for result in (one, three)] == [1, 3]
    assert assert_right(one) < 0.75 * assert_right(three)
    # One token: the latency of the store unit, for each head again.
    assert len(compiled(Sizes(rows=1)).graph.nodes) == 3


# A library of its own.
@pytest.mark.campaign
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("sizes", [Sizes(), Sizes(rows=13, keys=11, heads=4, shared=2, looked_up=True)])
def test_simulator_and_rtl_agree(sizes: Sizes):
    made = compiled(sizes)
    image, random = made.program.image.copy(), np.random.default_rng(0)
    for item in made.program.segments:
        if item.kind == "input":
            image[item.address : item.address + item.size] = random.integers(0, 256, item.size)
    start = Launch(program=replace(made.program, image=image), scratchpads=None, random_state=None)
    assert run_both(made.program.config, start).differences == ()


def of_heads(rows: int, keys: int) -> Workload:
    return windowed(ATTENTION.name, (12, 64, rows, keys), 64, Window(kernel=(1, 1)))


@pytest.mark.parametrize("tokens", [64, 128, 197, 512])
def test_tiles_keep_to_the_memories(tokens: int):
    vta = load_config("vta")
    config = replace(vta, extensions=(*vta.extensions, "rows"), chain_buffer_bytes=1 << 14)
    tile = ATTENTION.default_for(config, of_heads(tokens, tokens), 2)["rows"]
    keys = -(-tokens // 16)
    assert 2 * keys * tile <= config.chain_depth and 2 * (keys + 4) * tile <= config.acc_depth
    # Large enough for the store unit's latency.
    assert tile * keys >= 200

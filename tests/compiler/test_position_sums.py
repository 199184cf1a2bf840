"""Products of one row on machines with a DRAM, which sum over the positions of their second factor in place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vdla.benchmarks.harness.quantized import vta_with
from vdla.compiler.graph.graph import Graph, quantized_tensor
from vdla.compiler.graph.int8_operators import Group, PositionSums, Products, Repeated, Swap
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.pipeline import compile_program
from vdla.compiler.runtime.accelerator import run
from vdla.compiler.te.post import Post
from vdla.compiler.templates.vdla.legalize import legalize
from vdla.isa.check import check
from vdla.isa.config import Config, Memory
from vdla.verify.small_networks import QUANTIZATION, NetworkBuilder

FIXED = vta_with()
DRAM = replace(FIXED, memory=Memory(kind="dram", part="MT41K256M8"))
ROWS_APART = replace(
    DRAM, extensions=tuple(extension for extension in DRAM.extensions if extension != "taps")
)


def context(
    *, heads: int, depth: int, columns: int, rows: int = 1, zero_points: tuple[int, int] = (-128, 3)
) -> Graph:
    """A graph with a product for each of `heads`: (1, depth, heads * rows, 1) shares times (1, heads * columns, depth,
    1) values, whose channels and positions are exchanged before.
    """
    shapes = {"shares": (1, depth, heads * rows, 1), "values": (1, heads * columns, depth, 1)}
    tensors = {name: quantized_tensor(name, shape, QUANTIZATION) for name, shape in shapes.items()}
    built = NetworkBuilder(rng=np.random.default_rng(7), tensors=tensors)
    swapped = built.add(Swap(positions=depth), ("values",), (1, depth, heads * columns, 1))
    products = Products(
        groups=tuple(
            [
                Group(image=0, a=(0, head * rows), b=(0, head * columns), output=(head * columns, 0))
                for head in range(heads)
            ]
        ),
        rows=rows,
        columns=columns,
        depth=depth,
        zero_points=zero_points,
        scale=np.float32(0.0007),
        post=Post(zero_point=-7),
    )
    last = built.add(products, ("shares", swapped), (1, heads * columns, rows, 1))
    return built.graph("context", ("shares", "values"), last)


def operators(graph: Graph, config: Config) -> list[type]:
    return [type(node.operator) for node in legalize(graph, config).graph.nodes]


def assert_exact(graph: Graph, config: Config) -> int:
    """Compiles `graph` for the machine `config`, checks the program, and compares the simulated outputs with the
    interpreter's. Returns the cycles.
    """
    rng = np.random.default_rng(11)
    feeds = {
        item.name: rng.integers(-128, 128, graph.tensors[item.tensor].shape).astype(np.int8)
        for item in graph.inputs
    }
    compiled = compile_program(graph, config)
    assert check(config, compiled.program.instructions, compiled.program.image) == []
    found = run(compiled, feeds)
    wanted = interpret(graph, feeds)
    (output,) = graph.outputs
    assert len(np.unique(wanted[output.tensor])) > 20
    assert np.array_equal(found.outputs[output.name], wanted[output.tensor])
    return found.simulation.cycles


@pytest.mark.parametrize("config", [DRAM, ROWS_APART], ids=["taps", "depthwise"])
@pytest.mark.parametrize(("heads", "depth", "columns"), [(3, 128, 64), (1, 16, 32), (2, 48, 32)])
def test_products_of_one_row_sum_over_positions(heads: int, depth: int, columns: int, config: Config) -> None:
    graph = context(heads=heads, depth=depth, columns=columns)
    assert operators(graph, config) == [Repeated, PositionSums]
    assert_exact(graph, config)


def test_the_sums_take_fewer_cycles_than_the_exchange() -> None:
    graph = context(heads=12, depth=128, columns=64)
    several = context(heads=12, depth=128, columns=64, rows=2)
    assert operators(graph, DRAM) == [Repeated, PositionSums]
    assert operators(several, DRAM) == [Swap, Products]
    assert 1.5 * assert_exact(graph, DRAM) < assert_exact(several, DRAM)


@pytest.mark.parametrize(
    ("graph", "config"),
    [
        (context(heads=3, depth=128, columns=64), FIXED),
        (context(heads=3, depth=128, columns=16), DRAM),
        (context(heads=3, depth=128, columns=64, rows=4), DRAM),
        (context(heads=3, depth=128, columns=64), replace(DRAM, extensions=("post", "zero_points"))),
    ],
    ids=["fixed memory", "few columns", "rows", "no depthwise products"],
)
def test_other_products_keep_the_exchange(graph: Graph, config: Config) -> None:
    assert operators(graph, config) == [Swap, Products]
    assert_exact(graph, config)


def test_a_part_of_a_block_of_positions_keeps_the_exchange() -> None:
    graph = context(heads=1, depth=40, columns=64, zero_points=(0, 0))
    assert Repeated not in operators(graph, DRAM)

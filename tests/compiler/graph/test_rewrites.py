"""The driver of graph rewrites: a rewrite runs only on graphs that contain one of its operators."""

from __future__ import annotations

from dataclasses import replace

from float_networks import FloatNetwork

from vdla.compiler.frontends.onnx.float_importer import import_float_model
from vdla.compiler.graph.graph import Graph
from vdla.compiler.graph.operators import Convolution, Elementwise, Softmax
from vdla.compiler.rewrites.driver import Rewrite, run_rewrites


def graph_of_a_convolution() -> Graph:
    net = FloatNetwork(1, 4, 5, 5)
    net.convolution(4, (1, 1))
    return import_float_model(net.model())


def row(name: str, met: list[str], *roots: type) -> Rewrite[int]:
    def function(graph: Graph, target: int) -> Graph:
        met.append(f"{name} for {target}")
        return graph

    return Rewrite(name=name, function=function, roots=roots or None)


def test_rows_run_where_their_operators_occur() -> None:
    met: list[str] = []
    rows = (row("a", met, Softmax), row("b", met, Softmax, Convolution), row("c", met))
    graph = graph_of_a_convolution()
    assert run_rewrites(graph, rows, 3) is graph
    assert met == ["b for 3", "c for 3"]


def test_a_row_runs_on_operators_that_the_row_before_made() -> None:
    met: list[str] = []

    def functions(graph: Graph, target: int) -> Graph:
        from vdla.compiler.te.scalars import argument

        nodes = [
            replace(node, operator=Elementwise(body=argument(0)), inputs=node.inputs[:1])
            for node in graph.nodes
        ]
        return replace(graph, nodes=tuple(nodes))

    rows = (
        row("before", met, Elementwise),
        Rewrite(name="made", function=functions),
        row("after", met, Elementwise),
    )
    run_rewrites(graph_of_a_convolution(), rows, 0)
    assert met == ["after for 0"]


def test_a_row_leaves_targets_that_it_does_not_take() -> None:
    met: list[str] = []
    rows = (replace(row("even", met), takes=lambda target: target % 2 == 0),)
    for target in range(3):
        run_rewrites(graph_of_a_convolution(), rows, target)
    assert met == ["even for 0", "even for 2"]


def test_every_row_is_dumped() -> None:
    texts: dict[str, str] = {}
    rows = (row("absent", [], Softmax), row("present", []))
    run_rewrites(graph_of_a_convolution(), rows, 0, texts.__setitem__)
    assert texts == {"absent": "(unchanged)\n", "present": "(unchanged)\n"}

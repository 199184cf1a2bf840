"""Graph nodes that are matrix products, with their fused epilogues, give right results on an emulated GPU."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from cuda_networks import gpu_graph, interpreted, run_nodes
from float_networks import FloatNetwork, reference, relative

from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.graph.operators import Dense, MatrixProduct
from vdla.compiler.ir.stmt import Program
from vdla.compiler.templates.gpu import gemm, gemv
from vdla.compiler.templates.gpu.lower import lower_cuda_node
from vdla.compiler.templates.gpu.tile import Tile

TARGET = cuda_target()


def checked(program: Program, arrays):
    return interpreted(prepare(program, TARGET), arrays)


def compare(net: FloatNetwork, kinds: set[type]) -> None:
    """Asserts that all nodes of the network are of `kinds`, and that its GPU kernels agree with ONNX's reference
    implementation.
    """
    model = net.model()
    x = np.random.default_rng(1).standard_normal(net.input_shape).astype(np.float32)
    graph = gpu_graph(model)
    assert {type(node.operator) for node in graph.nodes} <= kinds
    expected = reference(model, {"x": x})
    for name, array in run_nodes(graph, {graph.input_names[0]: x}, checked, TARGET).items():
        assert relative(array, expected[name]) < 1e-5


def layers(rows: int, *widths: int) -> FloatNetwork:
    """A network of dense layers with biases and activations, and with a residual at the end if input and output have
    equal widths.
    """
    net = FloatNetwork(rows, widths[0])
    for before, after in pairwise(widths):
        net.add("Gemm", net.weights(before, after), net.weights(after))
        net.shape = (rows, after)
        net.add("Tanh" if after % 2 else "Relu")
    if widths[0] == widths[-1]:
        net.add("Add", "x")
    return net


@pytest.mark.parametrize(("rows", "widths"), [(1, (20, 33, 20)), (20, (10, 17, 10)), (9, (1, 4, 1))])
def test_dense_layers(rows: int, widths: tuple[int, ...]) -> None:
    compare(layers(rows, *widths), {Dense})


@pytest.mark.parametrize(
    ("shape", "other"),
    [((2, 3, 9, 6), (3, 6, 5)), ((3, 1, 6), (3, 6, 4)), ((2, 1, 9, 5), (1, 2, 5, 3)), ((4, 5, 6), (1, 6, 7))],
)
def test_products_of_batches(shape: tuple[int, ...], other: tuple[int, ...]) -> None:
    """Batches of matrix products agree with ONNX's reference implementation; an addition that broadcasts along the
    batch and a Sigmoid follow.
    """
    net = FloatNetwork(*shape)
    net.add("MatMul", net.weights(*other))
    batch = np.broadcast_shapes(shape[:-2], other[:-2])
    net.shape = (*batch, shape[-2], other[-1])
    net.add("Add", net.weights(*(1 for _ in batch), shape[-2], 1))
    net.add("Sigmoid")
    compare(net, {MatrixProduct, Dense})


def test_a_matrix_by_its_own_transpose() -> None:
    net = FloatNetwork(2, 10, 7)
    net.add("Transpose", inputs=["x"], perm=[0, 2, 1])
    net.add("MatMul", inputs=["x", net.last])
    net.shape = (2, 10, 10)
    graph = gpu_graph(net.model())
    x = np.random.default_rng(1).standard_normal(net.input_shape).astype(np.float32)
    (found,) = run_nodes(graph, {graph.input_names[0]: x}, checked, TARGET).values()
    np.testing.assert_allclose(found, x @ x.swapaxes(1, 2), rtol=1e-5, atol=1e-5)


def test_knobs_and_keys() -> None:
    """Products take knobs of two kinds; two nodes have equal keys exactly if their programs are equal."""
    graph = gpu_graph(layers(20, 8, 8, 8, 12).model())
    tile = Tile(rows=16, columns=8, depth=4, thread_rows=2, thread_columns=2, stages=2, width=2)
    nodes = [lowered for node in graph.nodes if (lowered := lower_cuda_node(TARGET, graph, node)) is not None]
    assert len(nodes) == 3 and len({node.key for node in nodes}) == 2
    program = nodes[0].program
    assert any(step.arguments == ("gemm.i", 16) for step in gemm.schedule(TARGET, program, tile).trace)
    rows = gemv.Knobs(groups=2, members=2, vectors=1, unroll=2)
    trace = gemm.schedule(TARGET, program, rows).trace
    assert ("gemm.rf", "gemm.k.1.1.0") in [step.arguments for step in trace]

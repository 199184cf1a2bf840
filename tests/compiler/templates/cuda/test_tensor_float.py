"""float32 networks on tensor cores in tf32, which the target must allow."""

from __future__ import annotations

import numpy as np
from cuda_networks import gpu_graph, run_nodes
from float_networks import FloatNetwork, reference, relative
from gpu_kernels import emulated

from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.codegen.cuda.tolerances import tolerance
from vdla.compiler.ir.stmt import Intrinsic, Program
from vdla.compiler.ir.visit import walk
from vdla.compiler.te.ops.product import Matrices, product
from vdla.compiler.templates.gpu import gemm as template
from vdla.compiler.templates.gpu.lower import lower_cuda_node
from vdla.compiler.templates.gpu.tensor_float import for_target, is_rounded

ALLOWED = cuda_target("sm_90", tensor_float=True)


def tensor_cores(program: Program) -> bool:
    return any(isinstance(n, Intrinsic) and "mma_" in n.declaration.name for n in walk(program))


def test_networks_use_tensor_cores_only_where_the_target_allows_it() -> None:
    net = FloatNetwork(2, 3, 6, 5)
    net.add("Conv", net.weights(12, 3, 3, 3), net.weights(12), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    net.shape = (2, 12, 6, 5)
    net.add("Relu")
    check(net, 1)
    net = FloatNetwork(20, 24)
    for width in (17, 24):
        net.add("Gemm", net.weights(net.shape[1], width), net.weights(width))
        net.shape = (20, width)
        net.add("Relu")
    check(net, 2)


def check(net: FloatNetwork, nodes: int) -> None:
    """Asserts that a network of `nodes` products uses tensor cores exactly if the target allows tf32, and that the
    results are then right.
    """
    model = net.model()
    graph = gpu_graph(model)
    for target in (cuda_target("sm_90"), ALLOWED):
        lowered = [node for n in graph.nodes if (node := lower_cuda_node(target, graph, n)) is not None]
        assert [tensor_cores(n.schedule(target).program) for n in lowered] == [target.tensor_float] * nodes

    def run(program: Program, arrays):
        outputs = {p.name: np.zeros(p.shape, p.dtype.numpy) for p in program.parameters} | dict(arrays)
        return emulated(prepare(program, ALLOWED), outputs)

    x = np.random.default_rng(1).standard_normal(net.input_shape).astype(np.float32)
    expected = reference(model, {"x": x})
    for name, array in run_nodes(graph, {graph.input_names[0]: x}, run, ALLOWED).items():
        assert 1e-6 < relative(array, expected[name]) < nodes * tolerance("tf32", 27, rounded=False)


def test_products_of_few_rows_stay_exact() -> None:
    few = product(Matrices(rows=4, depth=64, columns=64), staged="by depth")
    assert for_target(ALLOWED, few) is few and not is_rounded(few)
    many = for_target(ALLOWED, product(Matrices(rows=64, depth=64, columns=64), staged="by depth"))
    assert is_rounded(many) and not tensor_cores(many)
    assert tensor_cores(template.schedule(ALLOWED, many).program)

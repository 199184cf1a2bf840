"""Networks of 16-bit floats on GPUs with tensor cores: 16-bit factors, sums in float32, 16-bit tensors in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from float_networks import FloatNetwork, relative
from gpu_kernels import emulated
from half_models import in_half

import vdla
from vdla.compiler import gpu_stages
from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.codegen.cuda.nvrtc import compile_cubin
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.codegen.opencl.machine import opencl_target
from vdla.compiler.gpu_stages import GpuLowering, gpu_ahead, gpu_emulated
from vdla.compiler.graph.graph import Graph
from vdla.compiler.graph.operators import Convolution, Dense, DotProductAttention, MatrixProduct
from vdla.compiler.ir.types import HALVES, DType
from vdla.compiler.pipeline import compile_kernels, import_graph, network_workloads
from vdla.compiler.runtime.cuda_archive import save_cuda_network
from vdla.compiler.schedule.pack import pack_arrays
from vdla.compiler.templates.gpu.table import GPU
from vdla.compiler.templates.gpu.workload import workload_from_dict
from vdla.compiler.tune.measure.reference import allowed, expected, inputs
from vdla.compiler.tune.measure.trial_cuda import ON_TENSOR_CORES

ROUNDING = {DType.FLOAT16: 2.0**-10, DType.BFLOAT16: 2.0**-7}
"""Largest allowed error of each type, relative to the largest element: one unit in the last place, because sums in
another order may round to the adjacent number.
"""
PRODUCTS = (Convolution, Dense, MatrixProduct, DotProductAttention)


def residual_network(net: FloatNetwork) -> None:
    """Adds a small ResNet to the network: a stem of 3 channels, a plain block, a block with stride 2, a 1x1
    convolution, a classifier.
    """

    def convolution(filters: int, size: int, stride: int = 1) -> str:
        pads = [size // 2] * 4
        net.convolution(filters, (size, size), bias=False, strides=[stride] * 2, pads=pads)
        return net.batch_normalization(filters)

    def block(filters: int, stride: int) -> None:
        before, shape = net.last, net.shape
        convolution(filters, 3, stride)
        net.add("Relu")
        own, after = convolution(filters, 3), net.shape
        if stride > 1:
            net.last, net.shape = before, shape
            before = convolution(filters, 1, stride)
        net.shape = after
        net.add("Add", inputs=[own, before])
        net.add("Relu")

    convolution(16, 7, 2)
    net.add("Relu")
    net.add("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    net.shape = (1, 16, 8, 8)
    block(16, 1)
    block(32, 2)
    net.convolution(24, (1, 1))
    net.add("Relu")
    net.add("GlobalAveragePool")
    net.add("Flatten")
    net.add("Gemm", net.weights(10, 24, deviation=0.2), net.weights(10), transB=1)
    net.shape = (1, 10)


def transformer_layer(net: FloatNetwork) -> None:
    """Adds a layer of BERT to the network: attention of 2 heads with a mask, and two dense layers with Gelu in
    between.
    """
    batch, length, hidden = net.shape
    heads, size = 2, hidden // 2

    def dense(data: str, depth: int, columns: int) -> str:
        net.add("MatMul", inputs=[data, net.weights(depth, columns, deviation=depth**-0.5)])
        return net.add("Add", net.weights(columns, deviation=0.1))

    def split(*order: int) -> str:
        shape = net.constant(np.array([batch, length, heads, size]))
        net.add("Reshape", inputs=[dense("x", hidden, hidden), shape])
        return net.add("Transpose", perm=list(order))

    def normalized(*inputs: str) -> str:
        net.add("Add", inputs=list(inputs))
        return net.add("LayerNormalization", net.weights(hidden), net.weights(hidden), axis=-1)

    queries, keys, values = split(0, 2, 1, 3), split(0, 2, 3, 1), split(0, 2, 1, 3)
    net.add("MatMul", inputs=[queries, keys])
    net.add("Div", net.constant(np.float32(size**0.5)))
    net.add("Add", net.constant(np.where(np.arange(length) < length - 3, 0, -1000).astype(np.float32)))
    net.add("Softmax", axis=-1)
    net.add("MatMul", values)
    net.add("Transpose", perm=[0, 2, 1, 3])
    joined = net.add("Reshape", net.constant(np.array([batch, length, hidden])))
    attended = normalized(dense(joined, hidden, hidden), "x")
    wide = dense(attended, hidden, 4 * hidden)
    net.add("Mul", inputs=[wide, net.constant(np.float32(0.5**0.5))])
    net.add("Erf")
    net.add("Add", net.constant(np.float32(1)))
    net.add("Mul", inputs=[net.last, wide])
    narrow = dense(net.last, 4 * hidden, hidden)
    normalized(narrow, attended)


def separable_network(net: FloatNetwork) -> None:
    """Adds depthwise and transposed convolutions, which do not run on tensor cores, among products that do; a product
    of one position; and a move of float32 whose result is rounded.
    """
    net.convolution(16, (3, 3), pads=[1] * 4)
    wide = net.convolution(16, (3, 3), pads=[1] * 4, group=16)
    net.add("GlobalAveragePool")
    net.shape = (1, 16, 1, 1)
    net.convolution(4, (1, 1))
    net.add("Relu")
    net.convolution(16, (1, 1))
    net.add("HardSigmoid")
    net.add("Mul", inputs=[wide, net.last])
    net.shape = (1, 16, 9, 9)
    net.convolution(12, (3, 3), group=2, strides=[2, 2], dilations=[1, 1])
    net.add("ConvTranspose", net.weights(12, 5, 2, 2), strides=[2, 2])
    net.add("Pad", net.constant(np.array([0, 0, 1, 1, 0, 0, 0, 0])))
    net.shape = (1, 5, 9, 9)


NETWORKS: dict[str, tuple[Callable[[FloatNetwork], None], tuple[int, ...]]] = {
    "residual": (residual_network, (1, 3, 32, 32)),
    "transformer": (transformer_layer, (2, 11, 32)),
    "separable": (separable_network, (1, 5, 9, 9)),
}


def model(name: str, dtype: DType) -> bytes:
    make, shape = NETWORKS[name]
    net = FloatNetwork(*shape, opset=22 if dtype is DType.BFLOAT16 else 17)
    make(net)
    return in_half(net.model(), dtype)


def of_graph(name: str, dtype: DType, target: Any) -> Graph:
    return import_graph(GpuLowering(target).rules, model(name, dtype))


def products(graph: Graph) -> Iterator[tuple[str, set[DType]]]:
    """Yields (kind of operator, types of the factors) for each product of a graph."""
    for node in graph.nodes:
        if isinstance(node.operator, PRODUCTS):
            yield node.kind, {graph.tensors[name].dtype for name in node.inputs[:2]}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", NETWORKS)
def test_results_are_those_of_a_processor_within_one_rounding(name: str, dtype: DType) -> None:
    data = model(name, dtype)
    x = np.random.default_rng(1).standard_normal(NETWORKS[name][1]).astype(dtype.numpy)
    (expected,) = vdla.compile(onnx.load_model_from_string(data), target="llvm").run({"x": x}).values()
    with compile_kernels(data, gpu_emulated(cuda_target())) as network:
        (got,) = network.run({"x": x}).values()
    assert relative(got, expected) <= 2 * ROUNDING[dtype]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(("name", "count"), [("residual", 8), ("transformer", 7)])
def test_all_products_multiply_16_bits_on_tensor_cores(
    name: str, count: int, dtype: DType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The generated code of each matrix product contains mma instructions for this 16-bit type. Weights are also stored
    in this type, so that the archive is not much larger than the model.
    """
    monkeypatch.setattr(gpu_stages, "cached_cubin", lambda source, arch: b"")
    data = model(name, dtype)
    code = compile_kernels(data, gpu_ahead(cuda_target("sm_80")))
    texts = {module.name: module.module.source for module in code.modules}
    kinds = {node.name: type(node.operator) for node in code.graph.nodes}
    launched = [texts[launch.kernel] for launch in code.launches if kinds[launch.name] in PRODUCTS]
    assert len(launched) == count
    assert all(f"mma_{dtype}(" in text for text in launched)
    factors = [array for launch in code.launches for array in launch.constants.values() if array.size > 1000]
    assert factors and all(array.dtype == dtype.numpy for array in factors)
    archive = tmp_path / "network.zip"
    save_cuda_network(archive, code)
    assert archive.stat().st_size - len(data) < 200_000


def test_warpgroups_multiply_16_bits_where_there_are_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_stages, "cached_cubin", lambda source, arch: b"")
    code = compile_kernels(model("transformer", DType.FLOAT16), gpu_ahead(cuda_target("sm_90")))
    assert any("wgmma_float16" in module.module.source for module in code.modules)


@pytest.mark.parametrize(("dtype", "arch"), [(DType.FLOAT16, "sm_80"), (DType.BFLOAT16, "sm_90")])
def test_a_convolution_of_16_bits_is_a_cubin(
    dtype: DType, arch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_stages, "cached_cubin", lambda source, arch: b"")
    code = compile_kernels(model("residual", dtype), gpu_ahead(cuda_target(arch)))
    stem, *_ = code.modules
    assert b"convolution0" in compile_cubin(stem.module.source, arch)


@pytest.mark.parametrize("name", NETWORKS)
def test_tensors_between_kernels_have_16_bits(name: str) -> None:
    graph = of_graph(name, DType.FLOAT16, cuda_target())
    wide = [node.kind for node in graph.nodes if graph.tensors[node.output].dtype is DType.FLOAT32]
    # A transposed convolution reads and stores float32.
    assert wide == (["Convolution"] * 2 if name == "separable" else [])
    kinds = [(kind, DType.FLOAT32 in types) for kind, types in products(graph)]
    assert sum(wide for _, wide in kinds) == (1 if name == "separable" else 0)


def test_targets_without_tensor_cores_multiply_float32() -> None:
    graph = of_graph("transformer", DType.FLOAT16, opencl_target())
    assert {dtype for _, types in products(graph) for dtype in types} == {DType.FLOAT32}


def test_weights_that_are_no_16_bit_numbers_stay_float32() -> None:
    """Weights stay float32 if they are not numbers of the 16-bit type. Here the import multiplies a Gemm's weights by
    its alpha, 1/3, and a third of a float16 is rarely a float16.
    """
    net = FloatNetwork(3, 8)
    net.add("Gemm", net.weights(8, 5), net.weights(5), alpha=1 / 3)
    net.shape = (3, 5)
    data = in_half(net.model(), DType.FLOAT16)
    graph = import_graph(GpuLowering(cuda_target()).rules, data)
    assert [types for _, types in products(graph)] == [{DType.FLOAT32}]


def test_kernels_of_16_bits_can_be_tuned() -> None:
    """For a tuning workload of each template, the default kernel's emulated results are within the tolerance of a trial
    from the reference results; the tolerance is below 0.01.
    """
    target, templates = cuda_target("sm_90a"), set[str]()
    for name in ("residual", "separable"):
        for _, workload in network_workloads(GpuLowering(target), model(name, DType.FLOAT16)):
            if workload.template in templates:
                continue
            templates.add(workload.template)
            assert workload_from_dict(json.loads(json.dumps(workload.to_dict()))) == workload
            program = workload.program()
            arrays = inputs(program)
            scheduled = GPU.schedule(target, workload)
            prepared = prepare(scheduled.program, target)
            zeros = {p.name: np.zeros(p.shape, p.dtype.numpy) for p in scheduled.program.parameters}
            (*_, result) = program.parameters
            got = emulated(prepared, zeros | pack_arrays(scheduled.trace, arrays))[result.name]
            wanted = expected(program, arrays)
            most = allowed(program, on_tensor_cores=workload.template in ON_TENSOR_CORES)
            assert wanted.dtype == result.dtype.numpy and most < 0.01
            assert relative(got.reshape(wanted.shape), wanted) <= most, workload.template
    assert templates >= {"gemm_mma_cuda", "gemm_wgmma_cuda", "pool_cuda", "depthwise_cuda"}

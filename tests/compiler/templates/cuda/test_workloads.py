"""Tuning workloads of GPU kernels: their JSON data are complete, all points of a space compute the same, and networks
use recorded knobs.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from float_networks import FloatNetwork, relative

from vdla.codesign.workload_models import cuda_workloads
from vdla.compiler.codegen.cpu.kernel import build
from vdla.compiler.codegen.cuda.emulate import emulate
from vdla.compiler.codegen.cuda.machine import GpuTarget, cuda_target
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.gpu_stages import GpuLowering, gpu_emulated
from vdla.compiler.ir.evaluate import evaluate
from vdla.compiler.pipeline import compile_kernels, network_workloads
from vdla.compiler.records.apply import knobs_from
from vdla.compiler.records.book import book_of
from vdla.compiler.records.record import Record, Task
from vdla.compiler.schedule.pack import pack_arrays
from vdla.compiler.te.functions import FUNCTIONS
from vdla.compiler.templates.gpu.table import GPU
from vdla.compiler.templates.gpu.workload import CudaWorkload, workload_from_dict
from vdla.compiler.templates.space import knobs_obstacle
from vdla.compiler.templates.workload_limits import WorkloadError

SHAPE = (1, 32, 9, 9)
TARGET = cuda_target()
TENSOR = cuda_target(tensor_float=True)
GROUPS = cuda_target("sm_90a", tensor_float=True)


def model() -> bytes:
    """A model of a grouped convolution, a depthwise convolution and a pool, each followed by a function that is fused
    with it.
    """
    net = FloatNetwork(*SHAPE)
    net.convolution(32, (5, 5), pads=[2] * 4, group=2)
    net.add("Relu")
    net.convolution(32, (3, 3), pads=[1] * 4, group=32)
    net.add("Sigmoid")
    net.add("MaxPool", kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4)
    net.add("Tanh")
    net.shape = SHAPE
    return net.model()


def model_of_methods() -> bytes:
    """A model of a convolution for which there are three methods, a transposed convolution, and a product of one row
    with a matrix.
    """
    net = FloatNetwork(1, 6, 7, 7)
    net.convolution(5, (3, 3), pads=[1] * 4)
    net.add("Relu")
    net.add("ConvTranspose", net.weights(5, 4, 3, 3), kernel_shape=[3, 3], strides=[2, 2])
    net.add("GlobalAveragePool")
    net.add("Flatten")
    net.add("Gemm", net.weights(4, 10), net.weights(10))
    net.shape = (1, 10)
    return net.model()


def model_of_products() -> bytes:
    """A model of a dense layer that is computed by warpgroups."""
    net = FloatNetwork(72, 96)
    net.add("Gemm", net.weights(96, 40), net.weights(40))
    net.shape = (72, 40)
    return net.model()


def workloads(target: GpuTarget, of: bytes | None = None) -> dict[str, CudaWorkload]:
    return {w.template: w for _, w in network_workloads(GpuLowering(target), of or model())}


METHODS = {
    "conv2d_direct_cuda",
    "conv2d_cuda",
    "winograd_cuda",
    "conv_transpose_cuda",
    "gemv_cuda",
    "gemm_cuda",
    "rows_cuda",
}


def record(workload: CudaWorkload, knobs: dict[str, int]) -> Record:
    task = Task(workload=workload.to_dict(), target=TARGET.described)
    return Record(task=task, knobs=knobs, cost=1e-6, trial=0, seed=0, strategy="random", elapsed=0.0)


@pytest.mark.parametrize(
    ("target", "of", "templates"),
    [
        (TARGET, model(), {"conv2d_cuda", "depthwise_cuda", "pool_cuda"}),
        (TENSOR, model(), {"gemm_mma_cuda", "depthwise_cuda", "pool_cuda"}),
        (TARGET, model_of_methods(), METHODS),
        (GROUPS, model_of_products(), {"gemm_wgmma_cuda", "gemm_mma_cuda"}),
    ],
    ids=["float32", "tf32", "methods", "warpgroups"],
)
def test_a_sample_of_every_space_computes_what_the_workload_says(
    target: GpuTarget, of: bytes, templates: set[str]
) -> None:
    found = workloads(target, of)
    assert found.keys() - {"elementwise_cuda"} == templates
    for workload in found.values():
        assert workload_from_dict(json.loads(json.dumps(workload.to_dict()))) == workload
        own = GPU.space(target, workload)
        assert knobs_obstacle(own, GPU.default(target, workload)) is None
        rng = np.random.default_rng(1)
        *read, written = workload.expression.parameters
        arrays = {p.name: rng.standard_normal(p.shape, dtype=np.float32) for p in read}
        expected = evaluate(workload.expression, arrays, functions=FUNCTIONS)[written.name]
        # What others take by default, tests of networks run; few rows are tiled here alone.
        defaults = [None] if workload.template == "gemm_cuda" else []
        for values in (*defaults, own.values(own.sample(rng, 1)[0])):
            s = GPU.schedule(target, workload, values)
            result = np.full(written.shape, np.nan, np.float32)
            packed = pack_arrays(s.trace, arrays)
            build(emulate(prepare(s.program, target)))(**packed, **{written.name: result})
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def rows_network() -> bytes:
    """A model of a global average pool and a softmax, each followed by a function that is fused with it."""
    net = FloatNetwork(4, 30, 6, 6)
    net.add("GlobalAveragePool")
    net.add("Relu")
    net.add("Flatten")
    net.add("Softmax", axis=-1)
    net.add("Tanh")
    net.shape = (4, 30)
    return net.model()


def test_operators_of_rows_take_recorded_knobs_with_what_is_fused() -> None:
    found = [w for _, w in network_workloads(GpuLowering(TARGET), rows_network()) if w.rows is not None]
    assert [w.rows.operator for w in found if w.rows is not None] == ["mean", "softmax"]
    own = {"group": 4, "lanes": 8}
    mean, softmax = found
    records = [record(mean, {**own, "chunks": 4}), record(softmax, {**own, "kept": 0})]
    knobs = knobs_from(book_of(records), GPU, TARGET)
    x = {"x": np.random.default_rng(3).standard_normal((4, 30, 6, 6), dtype=np.float32)}
    with compile_kernels(rows_network(), gpu_emulated(TARGET)) as plain:
        (expected,) = plain.run(x).values()
    with compile_kernels(rows_network(), gpu_emulated(TARGET), knobs=knobs) as tuned:
        (result,) = tuned.run(x).values()
    assert knobs.applied == found and not knobs.ignored
    assert relative(result, expected) < 1e-5
    for change in (
        {"operator": "mode"},
        {"axes": [4]},
        {"shape": []},
        {"shape": 3},
        {"bias": 1},
        {"epsilon": "x"},
    ):
        described = softmax.to_dict()
        with pytest.raises(WorkloadError, match="rows_cuda"):
            workload_from_dict({**described, "rows": {**described["rows"], **change}})
    with pytest.raises(WorkloadError, match="differs from the program of the operator"):
        workload_from_dict({**softmax.to_dict(), "rows": mean.to_dict()["rows"]})


def test_networks_take_recorded_knobs_that_are_legal() -> None:
    found = workloads(TARGET)
    gathered, pool = found["conv2d_cuda"], found["pool_cuda"]
    own = GPU.space(TARGET, gathered)
    other = own.values(own.sample(np.random.default_rng(2), 1)[0])
    records = [record(gathered, other), record(pool, {"threads": 33, "columns": 1, "unroll": 0})]
    knobs = knobs_from(book_of(records), GPU, TARGET)
    x = {"x": np.random.default_rng(3).standard_normal(SHAPE, dtype=np.float32)}
    with compile_kernels(model(), gpu_emulated(TARGET)) as plain:
        (expected,) = plain.run(x).values()
    with compile_kernels(model(), gpu_emulated(TARGET), knobs=knobs) as tuned:
        (result,) = tuned.run(x).values()
    assert knobs.applied == [gathered]
    assert [workload for workload, _ in knobs.ignored] == [pool]
    assert relative(result, expected) < 1e-5
    # Records of a GPU are those of others of its capability, and of no others.
    assert knobs_from(book_of(records), GPU, cuda_target("sm_90a")).choose(gathered) == other
    assert knobs_from(book_of(records), GPU, cuda_target("sm_80")).choose(gathered) is None


def test_what_is_no_workload_is_refused() -> None:
    described = workloads(TARGET)["pool_cuda"].to_dict()
    for change in ({"template": "lstm"}, {"constants": ["Y"]}, {"window": {}}, {"expression": 1}):
        with pytest.raises(WorkloadError):
            workload_from_dict({**described, **change})


@pytest.mark.parametrize(
    "name",
    [
        *("softmax:5,1", "softmax:33,1", "softmax:31,3", "softmax:1000,2", "normalization:33,2"),
        *("reduction:2,9,1", "reduction:1,1,1", "reduction:33,9,2", "dense:1,7,3"),
    ],
)
def test_the_templates_choice_is_a_legal_point_of_degenerate_shapes(name: str) -> None:
    for workload in cuda_workloads(name, TARGET):
        assert knobs_obstacle(GPU.space(TARGET, workload), GPU.default(TARGET, workload)) is None


def test_points_of_few_rows_keep_to_a_block_and_run_emulated() -> None:
    workload = cuda_workloads("dense:2,300,13", TARGET)[0]
    assert workload.template == "gemv_cuda"
    points = GPU.space(TARGET, workload)
    for point in points.sample(np.random.default_rng(3), 4):
        program = prepare(GPU.schedule(TARGET, workload, points.values(point)).program, TARGET)
        build(emulate(program))
    # Sums of a group are added up by four threads for each vector, however few members it has.
    large = {"groups": 8, "members": 2, "vectors": 64, "unroll": 2}
    assert knobs_obstacle(points, large) is not None

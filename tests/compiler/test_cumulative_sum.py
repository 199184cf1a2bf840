"""CumSum on processors and GPUs agrees with ONNX Runtime, and its schedules from random points of the search spaces
compute the same.
"""

from __future__ import annotations

import numpy as np
import pytest
from float_networks import FloatNetwork, inferred_shape, relative, runtime
from kernels import run

from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.cpu_stages import CpuLowering, cpu_now
from vdla.compiler.gpu_stages import GpuLowering, gpu_emulated
from vdla.compiler.graph.errors import ModelError
from vdla.compiler.pipeline import compile_kernels, network_workloads
from vdla.compiler.templates.cpu.table import CPU
from vdla.compiler.templates.gpu.table import GPU
from vdla.compiler.tune.measure.reference import expected, inputs


def network(shape: tuple[int, ...], axis: int, **attributes: int) -> bytes:
    net = FloatNetwork(*shape)
    net.add("Relu")
    net.add("CumSum", net.constant(np.array(axis, np.int64)), **attributes)
    net.add("Neg")
    net.shape = inferred_shape(net)
    return net.model()


@pytest.mark.parametrize(
    "shape, axis, attributes",
    [
        ((2, 3, 40, 31), 2, {}),
        ((2, 3, 40, 31), -1, {"exclusive": 1}),
        ((4, 5, 6), 0, {"reverse": 1}),
        ((70,), 0, {"exclusive": 1, "reverse": 1}),
        ((3, 1, 5), 1, {}),
    ],
)
def test_agrees_with_onnx_runtime(shape, axis, attributes) -> None:
    model = network(shape, axis, **attributes)
    x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    wanted = runtime(model, {"x": x})
    for form in (cpu_now(), gpu_emulated(cuda_target())):
        with compile_kernels(model, form) as compiled:
            for name, found in compiled.run({"x": x}).items():
                assert relative(found, wanted[name]) <= 1e-6


def test_is_tuned_on_processors_and_gpus() -> None:
    model, target, gpu = network((2, 3, 40, 31), 2), host_target(), cuda_target()
    workloads = {w for _, w in network_workloads(CpuLowering(target), model) if w.template == "sketch_cpu"}
    # The sum, and the element-wise node on each side of it.
    assert len(workloads) == 3
    for workload in workloads:
        program = workload.program()
        arrays = inputs(program)
        space = CPU.space(target, workload)
        for point in space.sample(np.random.default_rng(0), 2):
            s = CPU.schedule(target, workload, space.values(point))
            (found,) = run(program, arrays, lambda *_, s=s, **__: s, target)
            np.testing.assert_allclose(found, expected(program, arrays), rtol=1e-5, atol=1e-5)
    (on_gpu,) = {w for _, w in network_workloads(GpuLowering(gpu), model) if w.template == "generic_cuda"}
    own = GPU.space(gpu, on_gpu)
    assert own.legal(own.point(GPU.default(gpu, on_gpu))[None]).all()
    for threads in (32, 1024):
        s = GPU.schedule(gpu, on_gpu, {"threads": threads})
        assert GPU.read(on_gpu.to_dict()) == on_gpu and s.program != on_gpu.program()


def test_an_axis_that_is_not_there_is_refused() -> None:
    net = FloatNetwork(2, 3)
    net.add("CumSum", net.constant(np.array(2, np.int64)))
    with pytest.raises(ModelError, match=r"CumSum.*its axis \[?2\]? must be one constant axis"):
        compile_kernels(net.model(), cpu_now())

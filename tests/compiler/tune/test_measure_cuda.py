"""Measuring candidates for GPUs: compiled by several processes, checked and timed by one; a failure costs one trial."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import fake_gpu_worker
import numpy as np
import pytest
from fake_gpu import HostDevice, as_device
from patience import TOOK_LONGER

from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.runtime.cuda_device import DeviceError, DeviceGraph
from vdla.compiler.te.ops.product import Matrices, product, round_factors
from vdla.compiler.te.ops.sums import Epilogue
from vdla.compiler.templates.gpu.table import GPU
from vdla.compiler.templates.gpu.workload import CudaWorkload
from vdla.compiler.tune.measure import reference
from vdla.compiler.tune.measure.backends import InProcess
from vdla.compiler.tune.measure.cuda_workers import CudaWorkers
from vdla.compiler.tune.measure.descriptions import (
    TaskError,
    describe,
    describe_cuda_code,
    describe_cuda_device,
    load,
)
from vdla.compiler.tune.measure.local_workers import LocalWorkers
from vdla.compiler.tune.measure.trial_cuda import DeviceTrials, compile_candidate

TARGET = cuda_target()
PRODUCT = CudaWorkload(
    template="gemm_cuda", expression=product(Matrices(rows=48, depth=24, columns=64), staged="by depth")
)
DEFAULT = GPU.default(TARGET, PRODUCT)
TASK = describe(TARGET, PRODUCT)


def candidate(thread_rows: int) -> dict[str, int]:
    return {**DEFAULT, "thread_rows": thread_rows}


def test_candidates_are_compiled_once_and_measured_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = fake_gpu_worker.Loader({"4": "wrong"})
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    points = [candidate(rows) for rows in (1, 2)]
    with CudaWorkers(InProcess(loader), InProcess(loader)) as workers:
        other = {**points[0], "depth": 8}
        results = workers.measure(TASK, [None, *points, candidate(4), {"depth": 1}])
        again = dict(workers.finished(TASK, [other, points[0], other, None]))
        # What failed is not kept.
        assert len(list(tmp_path.glob("vdla-tune-*/*/*.tar"))) == 4
    assert not list(tmp_path.iterdir())
    default, *measured, wrong, none = results
    for result in (default, *measured):
        assert result.error is None and 1e-7 < result.cost < 1e-4
        assert 0 < result.compile_seconds < result.seconds
    assert wrong.failed and wrong.error is not None and wrong.error.startswith("ValueError: wrong results")
    assert none.failed and none.error == "ValueError: gemm_cuda: no value was given for the knob splits"
    assert list(again) == [0, 1, 2, 3]
    # Compiled once, or earlier.
    assert again[0].compile_seconds == again[2].compile_seconds > 0 == again[1].compile_seconds
    assert again[3].cost == pytest.approx(default.cost) and again[1].cost == pytest.approx(measured[0].cost)


def test_results_that_an_earlier_candidate_left_are_no_results() -> None:
    loader = fake_gpu_worker.Loader({"4": "nothing"})
    with CudaWorkers(InProcess(loader), InProcess(loader)) as workers:
        right, nothing = workers.measure(TASK, [candidate(2), candidate(4)])
    assert right.error is None
    assert nothing.error is not None and nothing.error.startswith("ValueError: wrong results")


@pytest.mark.usefixtures("hangs_are_late")
def test_a_candidate_that_hangs_or_breaks_the_device_costs_one_trial() -> None:
    faults = {"16": "hang", "8": "break"}
    command = (sys.executable, str(fake_gpu_worker.__file__), json.dumps(faults))
    compilers = InProcess(fake_gpu_worker.Loader({}))
    points = [candidate(rows) for rows in (16, 2, 8, 1)]
    with CudaWorkers(compilers, LocalWorkers(1, command=command)) as workers:
        results = workers.measure(TASK, points)
    errors = [result.error for result in results]
    assert errors[1] is errors[3] is None
    assert errors[0] == TOOK_LONGER
    assert errors[2] == "cuda:0: running failed: CUDA_ERROR_ILLEGAL_ADDRESS"


class OnceDevice(HostDevice):
    """A fake GPU that runs only the first graph, since each run takes a second, and reports a constant time."""

    def run(self, graph: DeviceGraph) -> None:
        if not self.launched:
            super().run(graph)

    def milliseconds(self, graph: DeviceGraph) -> float:
        return 0.5


def test_packed_weights_arrive_as_the_text_reads_them(tmp_path: Path) -> None:
    program = product(
        Matrices(rows=5, depth=9, columns=12),
        staged="by depth",
        epilogue=Epilogue(bias=True, activation="relu"),
    )
    workload = CudaWorkload(template="gemv_cuda", constants=("W",), expression=program)
    values = {"groups": 2, "members": 2, "vectors": 2, "unroll": 2}
    compiled = compile_candidate(TARGET, workload, tmp_path, values, lambda source, _: source.encode())
    assert compiled.error is None
    measured = DeviceTrials(as_device(OnceDevice())).task(TARGET, workload, tmp_path)(values)
    assert measured.error is None and measured.cost == 0.5e-3 / 2


def test_products_that_bulk_copies_round_are_what_threads_would_round(tmp_path: Path) -> None:
    """The compiled kernel rounds factors to tf32 after bulk copies, and the reference rounds them in threads; the
    results agree. The two ways round ties differently, but the inputs have no ties. So the usual tolerance of sums is
    enough.
    """
    target = cuda_target("sm_90a", tensor_float=True)
    program = round_factors(product(Matrices(rows=64, depth=64, columns=32), staged="by depth"))
    workload = CudaWorkload(template="gemm_wgmma_cuda", constants=("W",), expression=program)
    assert all((a.view(np.uint32) & 0x1FFF != 0x1000).all() for a in reference.inputs(program).values())
    values = GPU.default(target, workload)
    compiled = compile_candidate(target, workload, tmp_path, values, lambda source, _: source.encode())
    assert compiled.error is None
    measured = DeviceTrials(as_device(OnceDevice())).task(target, workload, tmp_path)(values)
    assert measured.error is None


def test_sums_decide_what_inputs_and_tolerances_are() -> None:
    program = product(Matrices(rows=3, depth=40000, columns=2), staged="by depth")
    assert reference.longest_sum(program) == 40000
    arrays = reference.inputs(program)
    expected = reference.expected(program, arrays)
    exact = arrays["X"].astype(np.float64) @ arrays["W"]
    np.testing.assert_allclose(expected, exact, rtol=1e-6)
    assert 0.1 < np.abs(expected).max() < 5
    assert reference.allowed(program, on_tensor_cores=False) > 4e-5
    assert reference.allowed(PRODUCT.expression, on_tensor_cores=False) == 1e-5


def test_tasks_are_loaded_from_their_descriptions(tmp_path: Path) -> None:
    code = describe_cuda_code(TASK, tmp_path)
    assert load(json.loads(json.dumps(code)))(DEFAULT).error is None
    assert len(list(tmp_path.iterdir())) == 2
    for wrong, words in (
        (TASK, "timed in another"),
        ({**TASK, "kind": "cuda device"}, "must have kind, target, workload, folder and device"),
        ({**TASK, "kind": "cuda code"}, "must have kind, target, workload and folder"),
        ({**code, "target": {"arch": "sm_90"}}, "are not those of a GPU of kind cuda"),
    ):
        with pytest.raises(TaskError, match=words):
            load(wrong)
    with pytest.raises(DeviceError, match="no NVIDIA driver"):
        load(describe_cuda_device(TASK, tmp_path, 0))

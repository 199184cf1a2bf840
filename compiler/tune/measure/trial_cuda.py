"""One trial on a GPU, in two parts: a candidate is compiled anywhere, then loaded, checked and timed on the device.

Between the parts the candidate is stored in a folder as two files. `NAME.tar` is a network (`runtime.cuda_archive`).
`NAME.json` is the trace of its schedule, which determines the packing of arrays. A kernel may hang, or break the device
for its process. The process is therefore a worker of `local_workers.py`.
"""

from __future__ import annotations

import functools
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import fields
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from ...codegen.cuda.machine import GpuTarget
from ...codegen.cuda.module import lower
from ...codegen.cuda.prepare import prepare
from ...ir.array_values import EvaluateError
from ...runtime.cuda_archive import ArchiveKind, load_cuda_network, save_cuda_network
from ...runtime.cuda_code import CompiledModule, CudaNetworkCode
from ...runtime.cuda_device import Device, DeviceError
from ...runtime.cuda_network import CudaNetwork, check_device
from ...runtime.cuda_timing import median_milliseconds
from ...runtime.gpus import gpu_kind, kind_of
from ...runtime.one_kernel import launched_alone
from ...schedule.pack import pack_arrays
from ...schedule.trace_json import trace_from_json, trace_to_json
from ...templates.columns import Values
from ...templates.gpu.table import GPU
from ...templates.gpu.workload import CudaWorkload
from ...templates.space import knobs_obstacle
from .reference import allowed, expected, inputs
from .trial import Result, results_obstacle

SAMPLES = 7
"""Number of timed GPU graphs. Each graph repeats the candidate's launches for at least a millisecond."""
OPERATOR = "candidate"
ON_TENSOR_CORES = ("gemm_mma_cuda", "gemm_wgmma_cuda")
"""Templates whose products run on tensor cores in tf32: their factors are rounded to tf32 if the target allows it."""

Compile = Callable[[str, GpuTarget], bytes]
"""A function that compiles a module's source text to the bytes that a device loads."""
Measure = Callable[[Values | None], Result]


def candidate_name(values: Values | None) -> str:
    """File name of a candidate, without suffix: a hash of its knobs."""
    text = json.dumps(None if values is None else dict(sorted(values.items())))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def compile_candidate(
    target: GpuTarget,
    workload: CudaWorkload,
    folder: Path,
    values: Values | None,
    compile: Compile | None = None,
) -> Result:
    """Compiles one candidate with the knobs `values` (None: the template's defaults) into the folder; the cost of the
    result is the compilation time in seconds.

    `compile`: the compiler (None: the usual one for this kind of GPU). Any exception becomes the result's error.
    """
    begin = time.thread_time()
    try:
        if (
            values is not None
            and (obstacle := knobs_obstacle(GPU.space(target, workload), values)) is not None
        ):
            raise ValueError(obstacle)
        scheduled = GPU.schedule(target, workload, values)
        module = lower(prepare(scheduled.program, target), target, name=OPERATOR)
        kind = kind_of(target)
        made = compile or kind.compile
        cubin = module.source.encode() if made is None else made(module.source, target)
        graph, plan, launch = launched_alone(module.parameters, module.outputs, OPERATOR, OPERATOR)
        code = CudaNetworkCode(
            graph=graph,
            plan=plan,
            launches=(launch,),
            target=target,
            modules=(CompiledModule(name=OPERATOR, module=module, cubin=cubin),),
        )
        place = folder / candidate_name(values)
        place.with_suffix(".json").write_text(trace_to_json(scheduled.trace))
        save_cuda_network(place.with_suffix(".tar"), code, kind.archive)
        error = None
    except Exception as problem:
        # Any exception, a bug of a pass included, makes only this trial fail.
        error = f"{type(problem).__name__}: {problem}".splitlines()[0]
    seconds = time.thread_time() - begin
    cost = inf if error is not None else max(seconds, 1e-9)
    return Result(cost=cost, error=error, seconds=seconds, compile_seconds=seconds)


class DeviceTrials:
    """Trials on one device, which this process holds until it ends or a kernel fails on the device."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._failed: str | None = None

    def task(self, target: GpuTarget, workload: CudaWorkload, folder: Path) -> Measure:
        """Returns the function that checks and times the workload's candidates in `folder`. The reference results are
        computed first; if they cannot be computed, every trial fails.

        Raises DeviceError for a device that cannot run code for `target`.
        """
        check_device(self._device, target)
        program = workload.program()
        arrays = inputs(program)
        try:
            reference = expected(program, arrays)
        except EvaluateError as error:
            # No error: the network's other workloads can still be tuned.
            reason = f"no reference: {error}".splitlines()[0]
            return lambda _: Result(cost=inf, error=reason)
        tolerance = allowed(program, on_tensor_cores=workload.template in ON_TENSOR_CORES)
        archive = kind_of(target).archive
        return functools.partial(self._measure, arrays, reference, tolerance, archive, folder)

    def _measure(
        self,
        arrays: Mapping[str, np.ndarray],
        reference: np.ndarray,
        tolerance: float,
        archive: ArchiveKind,
        folder: Path,
        values: Values | None,
    ) -> Result:
        """Checks and times the candidate `values` in `folder`: its results for `arrays` are compared with `reference`
        (`results_obstacle`, with `tolerance`). The cost of the result is the median seconds of a run. `archive`: the
        kind of the candidate's file. Raises SystemExit if the device failed in an earlier trial.
        """
        if self._failed is not None:
            # A device stays broken for the whole process; the parent starts a new process.
            raise SystemExit(f"the device failed in an earlier trial: {self._failed}")
        begin = time.thread_time()
        try:
            cost, error = (
                self._timed(arrays, reference, tolerance, archive, folder / candidate_name(values)),
                None,
            )
        except DeviceError as problem:
            self._failed = str(problem)
            cost, error = inf, self._failed.splitlines()[0]
        except Exception as problem:
            cost, error = inf, f"{type(problem).__name__}: {problem}".splitlines()[0]
        return Result(cost=cost, error=error, seconds=time.thread_time() - begin)

    def _timed(
        self,
        arrays: Mapping[str, np.ndarray],
        reference: np.ndarray,
        tolerance: float,
        archive: ArchiveKind,
        place: Path,
    ) -> float:
        code = load_cuda_network(place.with_suffix(".tar"), archive)
        shapes = {p.name: p.shape for p in code.modules[0].module.parameters}
        packed = pack_arrays(trace_from_json(place.with_suffix(".json").read_text()), arrays)
        packed = {name: array.reshape(shapes[name]) for name, array in packed.items()}
        with CudaNetwork(code, self._device) as network:
            # An earlier candidate may have left correct results at places that this one does not write.
            network.poison()
            (result,) = network.run(packed).values()
            if (
                reason := results_obstacle(result.reshape(reference.shape), reference, tolerance)
            ) is not None:
                raise ValueError(reason)
            return median_milliseconds(network, packed, samples=SAMPLES) / 1e3


@functools.cache
def trials_of_process(kind: str, ordinal: int) -> DeviceTrials:
    """The trials on GPU number `ordinal` of kind `kind`. The first call for a GPU opens it; later calls in the same
    process return the same object. Raises the errors of `GpuKind.open`.
    """
    return DeviceTrials(gpu_kind(kind).open(ordinal))


def target_from_dict(kind: str, values: dict[str, Any]) -> GpuTarget:
    """The target of this kind of GPU with the fields `values`, a JSON object made by `dataclasses.asdict`. Raises
    ValueError for an object with other fields.
    """
    target = gpu_kind(kind).target
    if values.keys() != {field.name for field in fields(target)}:
        raise ValueError(f"the fields {sorted(values)} are not those of a GPU of kind {kind}")
    return target(**values)

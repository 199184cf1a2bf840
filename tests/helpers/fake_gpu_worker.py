"""Worker process that compiles and measures GPU candidates on a fake GPU: python fake_gpu_worker.py '{"16": "hang"}'.

Candidates are compiled only to CUDA C++. The device multiplies matrices X and W in numpy, whatever the text says, and
its times grow with the numbers of elements and blocks. The JSON argument maps values of the knob "thread_rows" to
faults of candidates.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from fake_gpu import FakeDevice, Handle, Launched, as_device
from patience import say_that_this_hangs

from vdla.compiler.runtime.cuda_device import DeviceError, DeviceGraph
from vdla.compiler.templates.gpu.workload import workload_from_dict
from vdla.compiler.tune.measure.descriptions import (
    CODE,
    Description,
    Measure,
    load_cuda_code,
    load_cuda_device,
)
from vdla.compiler.tune.measure.trial_cuda import DeviceTrials
from vdla.compiler.tune.measure.worker import serve


class ProductDevice(FakeDevice):
    """A fake GPU whose kernels multiply float32 matrices X [..., rows, depth] and W [..., depth, columns]."""

    def __init__(self, x: tuple[int, ...], w: tuple[int, ...]) -> None:
        super().__init__({}, memory_bytes=1 << 26)
        self.shapes = {"X": x, "W": w, "Y": (*x[:-1], w[-1])}
        self.fault: str | None = None

    def execute(self, work: Sequence[Launched]) -> None:
        if self.fault == "hang":
            say_that_this_hangs()
            time.sleep(3600)
        if self.fault == "break":
            self.fails_at = 0
            raise DeviceError(f"{self.label}: running failed: CUDA_ERROR_ILLEGAL_ADDRESS")
        found: dict[str, np.ndarray] = {}
        for launched in work:
            names = parameters(launched)
            for name, address in zip(names, launched.arguments, strict=True):
                if name in self.shapes:
                    found[name] = self.floats(address, prod(self.shapes[name])).reshape(self.shapes[name])
            if "Y" in names and self.fault != "nothing":
                found["Y"][...] = found["X"] @ found["W"] + (self.fault == "wrong")

    def milliseconds(self, graph: DeviceGraph) -> float:
        assert isinstance(graph, Handle)
        self.run(graph)
        each = 1e-6 * prod(self.shapes["Y"])
        return sum(each * (1 + prod(launched.grid) / prod(launched.block)) for launched in graph.work)


def parameters(launched: Launched) -> list[str]:
    """The names of the parameters of a launched kernel, from its CUDA C++."""
    assert isinstance(launched.module, Handle)
    text = launched.module.cubin.decode()
    (signature,) = re.findall(rf"__global__[^;]*?\b{launched.function}\(([^)]*)\)", text)
    return [re.findall(r"\w+", parameter)[-1] for parameter in signature.split(",")]


class Loader:
    """Replacement of `descriptions.load` for the two kinds of GPU tasks (compiling, measuring on the device). `faults`:
    faults of candidates by the value of their knob "thread_rows".

    There is a fake device for each size of products.
    """

    def __init__(self, faults: Mapping[str, str]) -> None:
        self.faults = faults
        self.devices: dict[tuple[tuple[int, ...], ...], ProductDevice] = {}

    def __call__(self, description: Description) -> Measure:
        if description["kind"].endswith(CODE):
            return load_cuda_code(description, lambda source, _: source.encode())
        x, w, *_ = workload_from_dict(description["workload"]).expression.parameters
        device = self.devices.setdefault((x.shape, w.shape), ProductDevice(x.shape, w.shape))
        measure = load_cuda_device(description, lambda _: DeviceTrials(as_device(device)))

        def faulty(values):
            device.fault = self.faults.get(str((values or {}).get("thread_rows")))
            return measure(values)

        return faulty


if __name__ == "__main__":
    serve(Loader(json.loads(sys.argv[1])))

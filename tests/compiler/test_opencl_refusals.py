"""Refusals of OpenCL and their messages, on any computer, with or without an OpenCL platform."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from cuda_texts import CASES
from float_networks import FloatNetwork

import vdla
from vdla.benchmarks.harness.gpu_models import operator_cases
from vdla.compiler.backends.backend import CompileOptions
from vdla.compiler.backends.registry import kernel_backend
from vdla.compiler.codegen.cuda.errors import LoweringError
from vdla.compiler.runtime.cuda_device import DeviceError
from vdla.compiler.runtime.opencl_device import open_device


def small() -> bytes:
    net = FloatNetwork(2, 6)
    net.add("Tanh")
    return net.model()


def test_there_is_no_such_device():
    with pytest.raises(DeviceError, match=r"opencl:7: there is no such device; this machine has opencl:0 \("):
        vdla.compile(small(), "opencl", device=7)
    with pytest.raises(vdla.UserError, match="must be 0 or more"):
        vdla.compile(small(), "opencl", device="first")


def test_there_is_no_platform(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(importlib.import_module("pyopencl"), "get_platforms", list)
    with pytest.raises(DeviceError, match=r"no platform; install .* pocl-binary-distribution"):
        vdla.compile(small(), "opencl")


def test_the_extra_is_missing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "pyopencl", None)
    with pytest.raises(DeviceError, match=r'pip install "vdla\[opencl\]"'):
        vdla.compile(small(), "opencl")


def test_a_processor_that_is_newer_than_its_platform(monkeypatch: pytest.MonkeyPatch):
    cl = importlib.import_module("pyopencl")

    def build(*_: object, **__: object):
        raise cl.RuntimeError("clBuildProgram failed\n\nerror: unknown target CPU 'generic'")

    monkeypatch.setattr(cl.Program, "build", build)
    with (
        open_device() as device,
        pytest.raises(
            DeviceError, match="'generic': this version of POCL does not know the processor; install a newer"
        ),
    ):
        device.load(b"kernel void f(global float* x) { x[0] = 1.0f; }", {"f": 0})


def test_work_groups_are_limited():
    with pytest.raises(
        DeviceError, match=r"work-items per group, fewer than 60000; compile with -threads=\d+"
    ):
        vdla.compile(small(), "opencl -threads=60000")
    with pytest.raises(DeviceError, match=r"bytes of local memory, less than 999999999; compile with -local"):
        vdla.compile(small(), "opencl -local-bytes=999999999")
    three = CASES["pipelined-gemm"]()
    with pytest.raises(
        LoweringError, match=r"3.0 KiB of shared memory, but a block of opencl has at most 1.0 KiB"
    ):
        vdla.build(vdla.Schedule(three), "opencl -local-bytes=1024")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("opencl -arch=sm_90", "unknown target option -arch"),
        ("opencl -threads=64", "need 256 to"),
        ("opencl -threads", "needs a number"),
        ("opencl -local-bytes=1", "need at least 1024 bytes"),
        ("opencl -threads=256 -threads=256", "given twice"),
    ],
)
def test_unknown_target_options_are_refused(text: str, message: str):
    with pytest.raises(vdla.UserError, match=message):
        vdla.compile(small(), text)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("halves", "OpenCL C does not support the type b?float16"),
        ("whole-blocks", "opencl cannot copy for a whole block"),
    ],
)
def test_statements_and_types_that_opencl_lacks_are_refused(name: str, message: str):
    with pytest.raises(LoweringError, match=message):
        vdla.build(vdla.Schedule(CASES[name]()), "opencl -local-bytes=100000")


@pytest.mark.parametrize("name", ["lstm", "dense_row", "transposed_convolution"])
def test_the_least_limits_are_enough(name: str, tmp_path: Path):
    """Compiles for an OpenCL target with few work-items in a group (256) and little local memory (16 KiB); no device is
    needed.
    """
    (case,) = (case for case in operator_cases() if case.name == name)
    target = "opencl -threads=256 -local-bytes=16384"
    compiler = kernel_backend(target).compiler(CompileOptions(target=target))
    model = case.make(False).SerializeToString()
    saved = compiler.save(tmp_path / "net.tar", model, batch=1, knobs=None)
    assert saved.kernels >= 1

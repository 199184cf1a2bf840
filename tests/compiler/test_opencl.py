"""OpenCL on POCL, which runs kernels on the CPU: operators, scheduled programs, networks, files, refusals."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from archives import members
from campaign import CAMPAIGN
from cuda_texts import CASES
from float_networks import FloatNetwork, runtime
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from random_expressions import ROW, SIZE, TYPES, J, buffers, expressions
from shipped import shipped

import vdla
from vdla.benchmarks.harness.case import relative_error
from vdla.benchmarks.harness.float64 import float64_outputs
from vdla.benchmarks.harness.gpu_models import inputs_of, layer_cases, operator_cases
from vdla.codesign.models import sample_inputs
from vdla.compiler.codegen.cuda.module import KernelLaunch
from vdla.compiler.ir.expr import Buffer, Const, Var
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import Assign, For, Program, seq
from vdla.compiler.ir.types import DType
from vdla.compiler.runtime.cuda_device import DeviceCall, DeviceError
from vdla.compiler.runtime.opencl_device import UNKNOWN_PROCESSOR, open_device
from vdla.compiler.te.functions import FUNCTIONS

CONVOLUTIONS = ("D2",)
"""Names of the convolutions that are tested besides the operators and the networks. D2 is a depthwise convolution of
MobileNet.
"""
TWICE = (
    "sigmoid",
    "exp",
    "tanh",
    "erf",
    "softmax_channels",
    "average_pool",
    "transpose_heads",
    "transpose_width",
    "multiply_channels",
    "batched_product",
    "reduce_sum",
    "lstm_both_ways",
)
"""Cases of operators that are left out, because others with the same kind of kernel are tested and POCL compiles
slowly.
"""
QUICKLY = "POCL_EXTRA_BUILD_FLAGS"
"""Environment variable with options for POCL's compiler, which takes half as long without optimization."""


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory):
    """Gives all tests an empty cache, since POCL and `vdla` cache compiled kernels. Skips them if the processor is
    newer than POCL, which then compiles no kernel.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        if not os.environ.get(CAMPAIGN):
            patch.setenv(QUICKLY, "-cl-opt-disable")
        try:
            with open_device() as device:
                device.load(b"kernel void f(global float* x) { x[0] = 1.0f; }", {"f": 0})
        except DeviceError as error:
            if UNKNOWN_PROCESSOR not in str(error):
                raise
            pytest.skip(str(error))
        yield


@pytest.mark.parametrize(
    "case",
    [
        *(case for case in operator_cases() if case.name not in TWICE),
        *(case for case in layer_cases() if case.name in CONVOLUTIONS),
    ],
    ids=lambda case: case.name,
)
def test_every_family_of_operators(case):
    model = case.make(True)
    inputs = inputs_of(model)
    with vdla.compile(model, "opencl") as network:
        got = network.run(inputs)
    for name, values in float64_outputs(model, inputs).items():
        assert relative_error(got[name], values) < 1e-6


SCHEDULED = sorted(CASES.keys() - {"halves", "whole-blocks"})


@pytest.mark.parametrize("name", SCHEDULED)
def test_scheduled_programs(name: str):
    """OpenCL C of scheduled programs gives the interpreter's results: local memory, asynchronous copies, vectors, tree
    reductions, and loops on the host.
    """
    program = CASES[name]()
    rng = np.random.default_rng(7)
    arrays = {p.name: rng.standard_normal(p.shape, dtype=np.float32) for p in program.parameters}
    with vdla.build(vdla.Schedule(program), "opencl") as kernel:
        inputs = {port.name: arrays[port.name] for port in kernel.inputs}
        got = kernel.run(inputs)
    expected = interpret(program, arrays, functions=FUNCTIONS)
    for output, values in got.items():
        np.testing.assert_allclose(values, expected[output], rtol=1e-5, atol=1e-5)


def test_expressions_without_a_schedule():
    x = vdla.placeholder("X", (7, 33))
    y = vdla.compute("Y", (7, 33), lambda i, j: vdla.maximum(x[i, j], 0.0) * 2.0)
    data = np.random.default_rng(0).standard_normal((7, 33)).astype(np.float32)
    data[0, 0] = np.nan
    with vdla.build(vdla.program_of(y), "opencl") as kernel:
        np.testing.assert_array_equal(kernel.run({"X": data})["Y"], np.maximum(data, 0) * 2)
        assert "kernel __attribute__" in kernel.source("opencl")


@settings(max_examples=1, phases=[Phase.generate], deadline=None)
@given(st.data())
def test_random_expressions_of_every_type(data):
    """OpenCL C of random expressions equals the interpreter bit for bit, also if sums overflow their type, and with
    POCL's default optimization.
    """
    body = []
    for dtype in TYPES:
        to = Buffer(name=f"out_{dtype.value}", shape=(SIZE, 3), dtype=dtype)
        body.append(Assign(name=to.name, buffer=to, indices=(ROW, J), value=data.draw(expressions(3)(dtype))))
    inner = For(var=J, extent=Const(3), body=seq(*body))
    threads = For(var=ROW, extent=Const(SIZE), body=inner, kind="thread.x")
    block = For(var=Var("b"), extent=Const(1), body=threads, kind="block.x")
    outputs = tuple(statement.buffer for statement in body)
    program = Program(name="random", parameters=(*buffers().values(), *outputs), body=block)
    rng = np.random.default_rng(1)
    arrays = {}
    for p in program.parameters:
        if p.dtype is DType.FLOAT32:
            arrays[p.name] = (rng.standard_normal(p.shape) * 8).astype(np.float32)
        elif p.dtype is DType.BOOL:
            arrays[p.name] = rng.integers(0, 2, p.shape).astype(bool)
        else:
            low, high = p.dtype.limits
            arrays[p.name] = rng.integers(max(low, -100000), min(high, 100000), p.shape).astype(p.dtype.numpy)
    with np.errstate(all="ignore"):
        expected = interpret(program, arrays, functions=FUNCTIONS)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(QUICKLY, raising=False)
        with vdla.build(vdla.Schedule(program), "opencl") as kernel:
            got = kernel.run({port.name: arrays[port.name] for port in kernel.inputs})
    for output in outputs:
        np.testing.assert_array_equal(got[output.name], expected[output.name])


def test_a_shipped_network():
    model = onnx.load_model_from_string(shipped("small_cnn", "float"))
    feeds = {"input": sample_inputs("small_cnn", 1)}
    with vdla.compile(model, "opencl") as network:
        got = network.run(feeds)
    assert relative_error(got["output"], runtime(model.SerializeToString(), feeds)["output"]) < 1e-5


def test_commands(vdla, tmp_path: Path):  # the command, not the module
    name = "mlp"
    model = onnx.load_model_from_string(shipped(name, "float"))
    onnx.save(model, tmp_path / "net.onnx")
    feeds = {"input": sample_inputs(name, 1)}
    np.savez(tmp_path / "in.npz", **feeds)
    arrays = ("--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    document = vdla("run", tmp_path / "net.onnx", "--target", "opencl", *arrays, "--json").document()
    assert document["device"] == "opencl:0" and document["check"]["max_relative_error"] < 1e-5
    with np.load(tmp_path / "out.npz") as got:
        assert relative_error(got["output"], float64_outputs(model, feeds)["output"]) < 1e-5
    saved = ("-o", tmp_path / "net.tar", "--json")
    document = vdla("compile", tmp_path / "net.onnx", "--target", "opencl", *saved).document()
    assert document["target"] == {"threads": 256, "local_bytes": 32768}
    text = members(tmp_path / "net.tar")["kernels.cl"].decode()
    assert "kernel __attribute__((reqd_work_group_size(" in text and "get_group_id(0)" in text
    again = vdla("run", tmp_path / "net.tar", *arrays, "--profile", "--json").document()
    assert again["target"] == document["target"] and len(again["profile"]) == document["launches"]
    with np.load(tmp_path / "out.npz") as got:
        assert relative_error(got["output"], float64_outputs(model, feeds)["output"]) < 1e-5


def test_a_layer_is_tuned(vdla, tmp_path: Path):
    """Candidates are compiled, checked and timed in other processes; a network then uses the best one."""
    net = FloatNetwork(4, 24)
    net.add("MatMul", inputs=["x", net.constant(np.ones((24, 40), np.float32))])
    net.shape = (4, 40)
    (tmp_path / "net.onnx").write_bytes(net.model())
    target = ("--target", "opencl -threads=256")
    # Candidates of this seed are short programs: others take PoCL ten seconds each.
    search = ("--trials", "2", "--batch", "2", "--strategy", "random", "--seed", "2", "--workers", "1")
    records = ("-o", tmp_path / "r.jsonl", "--json")
    document = vdla("tune", tmp_path / "net.onnx", *target, *search, *records).document()
    assert document["target"] == "opencl" and document["network"]["outputs_equal"] is True
    assert sum(task["trials"] for task in document["tasks"]) == 2
    assert all(task["failed"] == 0 and task["outputs_equal"] is not False for task in document["tasks"])
    run = vdla("run", tmp_path / "net.onnx", *target, "--records", tmp_path / "r.jsonl", "--json")
    assert "1 kernels use recorded knobs" in run.err
    assert run.document()["check"]["max_relative_error"] < 1e-5


def test_kernels_that_do_not_compile():
    """The error message contains the output of the OpenCL compiler."""
    with (
        open_device() as device,
        pytest.raises(DeviceError, match=r"do not compile: .*undeclared identifier"),
    ):
        device.load(b"kernel void f(global float* x) { x[0] = nothing; }", {"f": 0})


def test_launches_are_limited():
    with open_device() as device:
        module = device.load(b"kernel void f(global float* x) { x[0] = 1.0f; }", {"f": 0})
        memory = device.allocate(64)
        with pytest.raises(DeviceError, match=r"launching f failed: .*WORK_GROUP_SIZE"):
            wide = KernelLaunch(
                function="f", grid=(1, 1, 1), block=(1 << 20, 1, 1), shared_bytes=0, arguments=()
            )
            device.launch(module, DeviceCall(launch=wide, arguments=(memory.address,)))
        memory.close()

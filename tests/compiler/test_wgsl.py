"""Kernels in WGSL, run by wgpu on Mesa's software Vulkan or any other adapter. The tests cover operators, scheduled
programs, networks, files and tuning. Tests of refusals need no adapter.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from archives import members
from cuda_texts import CASES
from float_networks import FloatNetwork, runtime
from gpu_kernels import allocate, blocks, buffer, loop, threads
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from random_expressions import ROW, SIZE, TYPES, J, buffers, expressions
from shipped import shipped

import vdla
from vdla.benchmarks.harness.case import relative_error
from vdla.benchmarks.harness.float64 import float64_outputs
from vdla.benchmarks.harness.gpu_models import inputs_of, layer_cases, operator_cases
from vdla.codesign.models import FLOAT_NAMES, sample_inputs
from vdla.compiler.backends.backend import CompileOptions
from vdla.compiler.backends.registry import kernel_backend
from vdla.compiler.codegen.cuda.errors import LoweringError
from vdla.compiler.codegen.cuda.intrinsics import dot_s8
from vdla.compiler.codegen.cuda.module import KernelLaunch, lower
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.codegen.wgsl.machine import parse_target, wgsl_target
from vdla.compiler.ir.expr import Buffer, Call, Const, Expr, Var, cast
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import Assign, Copy, For, Intrinsic, Program, nest, region, seq, whole
from vdla.compiler.ir.types import DType
from vdla.compiler.runtime import wgsl_device
from vdla.compiler.runtime.cuda_device import DeviceCall, DeviceError
from vdla.compiler.runtime.wgsl_device import WgslDevice, open_device
from vdla.compiler.te.functions import FUNCTIONS
from vdla.compiler.te.scalars import DOUBLES

ADAPTER = pytest.mark.system_tools("/usr/share/vulkan/icd.d/lvp_icd*.json")
"""Marks tests that run kernels. Without an adapter (a Vulkan driver) they are reported as not run; in CI they fail."""
CONVOLUTIONS = ("C2", "C3", "D2")
"""Names of the convolutions that are tested besides the operators and the networks."""
I8, I32, F32 = DType.INT8, DType.INT32, DType.FLOAT32


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def small() -> bytes:
    net = FloatNetwork(2, 6)
    net.add("Tanh")
    return net.model()


def interpreted(program: Program, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    with np.errstate(all="ignore"):
        return interpret(program, arrays, functions=FUNCTIONS)


@contextmanager
def bindings_at(alignment: int) -> Iterator[list[int]]:
    """A context in which arrays on a device are bound at multiples of `alignment` bytes. Yields a list; each binding of
    an array appends the number of words between the start of the binding and the array.
    """
    opened, ranged = WgslDevice.__init__, WgslDevice._range
    ahead: list[int] = []

    def open(self: WgslDevice, *arguments: Any) -> None:
        opened(self, *arguments)
        self._alignment = alignment

    def bound(self: WgslDevice, address: Any) -> tuple[dict[str, Any], int]:
        resource, words = ranged(self, address)
        assert resource["offset"] % alignment == 0
        ahead.append(words)
        return resource, words

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WgslDevice, "__init__", open)
        patch.setattr(WgslDevice, "_range", bound)
        yield ahead


def ran(program: Program, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    with vdla.build(vdla.Schedule(program), "wgsl") as kernel:
        return kernel.run({port.name: arrays[port.name] for port in kernel.inputs})


def one_thread_each(size: int, body: Assign, *parameters: Buffer) -> Program:
    """A program in which each of `size` threads executes `body`; the variable "t" is the thread's coordinate."""
    inner = threads("t", size, lambda _: body)
    return Program(name="each", parameters=parameters, body=blocks("b", 1, lambda _: inner))


@ADAPTER
@pytest.mark.parametrize(
    "case",
    [*operator_cases(), *(case for case in layer_cases() if case.name in CONVOLUTIONS)],
    ids=lambda case: case.name,
)
def test_every_family_of_operators(case):
    model = case.make(True)
    inputs = inputs_of(model)
    with vdla.compile(model, "wgsl") as network:
        got = network.run(inputs)
    for name, values in float64_outputs(model, inputs).items():
        assert relative_error(got[name], values) < 1e-6


SCHEDULED = sorted(CASES.keys() - {"halves", "whole-blocks"})


@ADAPTER
@pytest.mark.parametrize("name", SCHEDULED)
def test_scheduled_programs(name: str):
    """WGSL of scheduled programs gives the interpreter's results: shared memory, asynchronous copies, tree reductions,
    and loops on the host.
    """
    program = CASES[name]()
    rng = np.random.default_rng(7)
    arrays = {p.name: rng.standard_normal(p.shape, dtype=np.float32) for p in program.parameters}
    expected = interpreted(program, arrays)
    for output, values in ran(program, arrays).items():
        np.testing.assert_allclose(values, expected[output], rtol=1e-5, atol=1e-5)


@ADAPTER
def test_expressions_without_a_schedule():
    x = vdla.placeholder("X", (7, 33))
    y = vdla.compute("Y", (7, 33), lambda i, j: vdla.maximum(x[i, j], 0.0) * 2.0)
    data = np.random.default_rng(0).standard_normal((7, 33)).astype(np.float32)
    data[0, 0] = np.nan
    with vdla.build(vdla.program_of(y), "wgsl") as kernel:
        np.testing.assert_array_equal(kernel.run({"X": data})["Y"], np.maximum(data, 0) * 2)
        assert "@compute @workgroup_size(" in kernel.source("wgsl")


@ADAPTER
@settings(max_examples=10, phases=[Phase.generate], deadline=None)
@given(st.data())
def test_random_expressions_of_every_type(data):
    """WGSL of random expressions equals the interpreter; integers exactly, also if sums overflow their type (int64
    stays within 32 bits). Covers stores of 8 bits to words that several threads write, and arrays that begin inside a
    binding.
    """
    body = []
    for dtype in TYPES:
        to = Buffer(name=f"out_{dtype.value}", shape=(SIZE, 3), dtype=dtype)
        depth = 2 if dtype is DType.INT64 else 3
        value = data.draw(expressions(depth)(dtype))
        body.append(Assign(name=to.name, buffer=to, indices=(ROW, J), value=value))
    inner = For(var=J, extent=Const(3), body=seq(*body))
    rows = For(var=ROW, extent=Const(SIZE), body=inner, kind="thread.x")
    block = For(var=Var("b"), extent=Const(1), body=rows, kind="block.x")
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
            arrays[p.name] = rng.integers(max(low, -100), min(high, 100), p.shape).astype(p.dtype.numpy)
    expected = interpreted(program, arrays)
    # Bindings of most devices can begin at all arrays; those of others, such as Metal's, at every fourth or so.
    for alignment in (32, 256):
        with bindings_at(alignment) as ahead:
            got = ran(program, arrays)
        assert any(ahead) == (alignment == 256)
        for name, values in got.items():
            if values.dtype == np.float32:
                np.testing.assert_allclose(values, expected[name], rtol=1e-6)
            else:
                np.testing.assert_array_equal(values, expected[name])


@ADAPTER
@pytest.mark.parametrize("name", ["exp", "tanh", "erf", "log", "sqrt", "sigmoid", *DOUBLES])
def test_functions(name: str):
    """WGSL of scalar functions is accurate to 1e-6. Some of WGSL's own functions have errors of 2**-11, too large for
    networks.
    """
    rng = np.random.default_rng(3)
    numbers = rng.uniform(-0.99, 0.99, 256) * np.repeat([1, 5, 20, 1000], 64)
    numbers[:12] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 1e-30, 88.0, -100.0]
    x, y = buffer("X", 256), buffer("Y", 256)
    body = Assign(name="f", buffer=y, indices=(Var("t"),), value=Call(name, (x[Var("t")],), F32))
    program = one_thread_each(256, body, x, y)
    arrays = {"X": numbers.astype(np.float32), "Y": np.zeros(256, np.float32)}
    exact = interpreted(program, arrays)["Y"]
    np.testing.assert_allclose(ran(program, arrays)["Y"], exact, rtol=1e-6, atol=2e-7)


@ADAPTER
def test_numbers_that_are_none():
    """NaN is handled right although compilers of WGSL may assume that no value is NaN: comparisons and maxima with NaN
    equal IEEE 754's.
    """
    x, y, z = buffer("X", 4), buffer("Y", 4), buffer("Z", 4, dtype=DType.BOOL)
    t = Var("t")
    unequal = Assign(name="u", buffer=z, indices=(t,), value=cast(x[t], DType.BOOL))
    most = Assign(name="m", buffer=y, indices=(t,), value=vdla.maximum(x[t], Const(np.float32("inf"), F32)))
    inner = threads("t", 4, lambda _: seq(unequal, most))
    program = Program(name="nan", parameters=(x, y, z), body=blocks("b", 1, lambda _: inner))
    got = ran(program, {"X": np.array([np.nan, 0, -0.0, -np.inf], np.float32)})
    np.testing.assert_array_equal(got["Y"], np.array([np.nan, np.inf, np.inf, np.inf], np.float32))
    np.testing.assert_array_equal(got["Z"], [True, False, False, True])


@ADAPTER
def test_signs_of_zero():
    """x + 0, 0 + x and 0 - x are +0 if x is 0 or -0, although compilers of WGSL may drop a sum with 0."""
    x, y = buffer("X", 2), buffer("Y", 2, 3)
    t = Var("t")
    zero = Const(0.0, F32)
    values = (x[t] + zero, zero + x[t], zero - x[t])
    stores = [Assign(name=f"s{n}", buffer=y, indices=(t, Const(n)), value=v) for n, v in enumerate(values)]
    inner = threads("t", 2, lambda _: seq(*stores))
    program = Program(name="zeros", parameters=(x, y), body=blocks("b", 1, lambda _: inner))
    got = ran(program, {"X": np.array([0.0, -0.0], np.float32)})["Y"]
    np.testing.assert_array_equal(np.signbit(got), np.zeros((2, 3), bool))


@ADAPTER
@pytest.mark.parametrize("scope", ["shared", "register"])
def test_products_of_int8(scope: str):
    """WGSL of int8 products is right: each thread sums eight products by the function dot4I8Packed."""
    x, w = buffer("A", 64, dtype=I8), buffer("W", 64, dtype=I8)
    y, total = buffer("S", 8, dtype=I32), buffer("total", 1, dtype=I32, scope="register")
    a, b = (buffer(name, 64, dtype=I8, scope=scope) for name in ("a", "w"))
    t, k, f = Var("t"), Var("k"), Var("f") if scope == "shared" else Var("t")
    copies = [
        Copy(name=f"f{to.name}", destination=region(to, (f * 8, 8)), source=region(of, (f * 8, 8)))
        for to, of in ((a, x), (b, w))
    ]
    use = Intrinsic(
        name="dot",
        declaration=dot_s8(scope=scope),
        operands=(whole(total), region(a, (t * 8 + k * 4, 4)), region(b, (t * 8 + k * 4, 4))),
    )
    clear = Assign(name="clear", buffer=total, indices=(Const(0),), value=Const(0, I32))
    out = Assign(name="out", buffer=y, indices=(t,), value=total[Const(0)])
    work = allocate(seq(clear, nest([(k, 2)], use), out), total)
    if scope == "shared":
        inner = seq(loop(f, 8, seq(*copies), "thread.x"), loop(t, 8, work, "thread.x"))
    else:
        inner = loop(t, 8, allocate(seq(*copies, work), a, b), "thread.x")
    body = blocks("b", 1, lambda _: allocate(inner, a, b) if scope == "shared" else inner)
    program = Program(name="dots", parameters=(x, w, y), body=body)
    rng = np.random.default_rng(0)
    arrays = {name: rng.integers(-128, 128, 64).astype(np.int8) for name in ("A", "W")}
    with vdla.build(vdla.Schedule(program), "wgsl") as kernel:
        got = kernel.run(arrays)["S"]
        assert "dot4I8Packed(" in kernel.source("wgsl")
    products = arrays["A"].astype(np.int32) * arrays["W"]
    np.testing.assert_array_equal(got, products.reshape(8, 8).sum(1))


@ADAPTER
def test_many_blocks():
    """Kernels with more blocks along x than a launch may have are launched several times."""
    count, x = 70_000, buffer("X", 70_000)
    y = buffer("Y", count)

    def body(b: Var):
        return threads("t", 1, lambda _: Assign(name="y", buffer=y, indices=(b,), value=x[b] * 2.0))

    program = Program(name="many", parameters=(x, y), body=blocks("b", count, body))
    assert [launch.grid[0] for launch in lower(prepare(program, wgsl_target()), wgsl_target()).launches] == [
        65535,
        count - 65535,
    ]
    data = np.arange(count, dtype=np.float32)
    np.testing.assert_array_equal(ran(program, {"X": data})["Y"], data * 2)


@ADAPTER
@pytest.mark.parametrize(
    "name",
    ["mlp", "small_cnn", "dqn"]
    + [
        pytest.param(name, marks=pytest.mark.campaign)
        for name in ("mobilenet", "resnet18", "resnet50", *FLOAT_NAMES)
    ],
)
def test_shipped_networks(name: str):
    model = onnx.load_model_from_string(shipped(name, "float"))
    feeds = inputs_of(model)
    with vdla.compile(model, "wgsl") as network:
        got = network.run(feeds)
    # ResNet-50's numbers grow from layer to layer; LLVM's differ as much.
    most = 1e-4 if name == "resnet50" else 1e-5
    for output, values in runtime(model.SerializeToString(), feeds).items():
        assert relative_error(got[output], values) < most


@ADAPTER
def test_commands(vdla, tmp_path: Path):  # the command, not the module
    name = "mlp"
    model = onnx.load_model_from_string(shipped(name, "float"))
    onnx.save(model, tmp_path / "net.onnx")
    feeds = {"input": sample_inputs(name, 1)}
    np.savez(tmp_path / "in.npz", **feeds)
    arrays = ("--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    document = vdla("run", tmp_path / "net.onnx", "--target", "wgsl", *arrays, "--json").document()
    assert document["device"] == "wgsl:0" and document["check"]["max_relative_error"] < 1e-5
    with np.load(tmp_path / "out.npz") as got:
        assert relative_error(got["output"], float64_outputs(model, feeds)["output"]) < 1e-5
    saved = ("-o", tmp_path / "net.tar", "--json")
    document = vdla("compile", tmp_path / "net.onnx", "--target", "wgsl", *saved).document()
    assert document["target"] == {"threads": 256, "local_bytes": 16384}
    text = members(tmp_path / "net.tar")["kernels.wgsl"].decode()
    assert "@compute @workgroup_size(" in text and "var<storage, read_write>" in text
    again = vdla("run", tmp_path / "net.tar", *arrays, "--profile", "--json").document()
    assert again["target"] == document["target"] and len(again["profile"]) == document["launches"]
    with np.load(tmp_path / "out.npz") as got:
        assert relative_error(got["output"], float64_outputs(model, feeds)["output"]) < 1e-5


@ADAPTER
def test_a_layer_is_tuned(vdla, tmp_path: Path):
    """Candidates are compiled, checked and timed in other processes; a network then uses the best one."""
    net = FloatNetwork(4, 24)
    net.add("MatMul", inputs=["x", net.constant(np.ones((24, 40), np.float32))])
    net.shape = (4, 40)
    (tmp_path / "net.onnx").write_bytes(net.model())
    target = ("--target", "wgsl -threads=256")
    search = ("--trials", "4", "--batch", "2", "--strategy", "random", "--seed", "2", "--workers", "1")
    records = ("-o", tmp_path / "r.jsonl", "--json")
    document = vdla("tune", tmp_path / "net.onnx", *target, *search, *records).document()
    assert document["target"] == "wgsl" and document["network"]["outputs_equal"] is True
    assert sum(task["trials"] for task in document["tasks"]) == 4
    assert all(task["failed"] == 0 and task["outputs_equal"] is not False for task in document["tasks"])
    run = vdla("run", tmp_path / "net.onnx", *target, "--records", tmp_path / "r.jsonl", "--json")
    assert "1 kernels use recorded knobs" in run.err
    assert run.document()["check"]["max_relative_error"] < 1e-5


@ADAPTER
@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin"])
def test_bytes_that_depend_on_themselves(op: str):
    """WGSL of a reduction of booleans is right: a store of a byte first clears the byte, so that a stored value that
    depends on the byte must read it before.
    """
    value = helper.make_tensor_value_info
    ends = [value("x", TensorProto.BOOL, [5, 3])], [value("y", TensorProto.BOOL, [5])]
    axes = helper.make_tensor("axes", TensorProto.INT64, [1], [1])
    node = helper.make_node(op, ["x", "axes"], ["y"], keepdims=0)
    graph = helper.make_graph([node], "fold", *ends, [axes])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    x = np.array([[1, 0, 0], [0, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]], bool)
    with vdla.compile(model, "wgsl") as network:
        got = network.run({"x": x})["y"]
    np.testing.assert_array_equal(got, x.any(1) if op == "ReduceMax" else x.all(1))


def gathered() -> bytes:
    """A model of a Gather of rows, whose indices are an input."""
    value = helper.make_tensor_value_info
    shapes = {
        "x": (TensorProto.FLOAT, [8, 4]),
        "i": (TensorProto.INT64, [3]),
        "y": (TensorProto.FLOAT, [3, 4]),
    }
    x, i, y = (value(name, *shape) for name, shape in shapes.items())
    graph = helper.make_graph([helper.make_node("Gather", ["x", "i"], ["y"])], "rows", [x, i], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()


@ADAPTER
def test_indices_are_in_32_bits():
    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    with vdla.compile(gathered(), "wgsl") as network:
        got = network.run({"x": x, "i": np.array([7, -8, 3])})["y"]
        np.testing.assert_array_equal(got, x[[7, -8, 3]])


def doubled() -> bytes:
    """A model that adds an int64 input to itself."""
    value = helper.make_tensor_value_info
    ends = [value(name, TensorProto.INT64, [3]) for name in "iy"]
    graph = helper.make_graph([helper.make_node("Add", ["i", "i"], ["y"])], "doubled", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()


@ADAPTER
def test_integers_beyond_32_bits_are_refused():
    with vdla.compile(doubled(), "wgsl") as network:
        np.testing.assert_array_equal(network.run({"i": np.array([7, -8, 3])})["y"], [14, -16, 6])
        with pytest.raises(vdla.UserError, match=r"input 'i' has the value 4294967297, .* 32 bits only; run"):
            network.run({"i": np.array([1, 2**32 + 1, 0])})


@ADAPTER
def test_kernels_that_do_not_compile():
    """The error message is the WGSL compiler's, in one line."""
    with open_device() as device, pytest.raises(DeviceError, match=r"failed: .*nothing.*") as raised:
        device.load(b"@compute @workgroup_size(1)\nfn f() { let x: f32 = nothing; }", {"f": 0})
    assert "\n" not in str(raised.value)


@ADAPTER
def test_launches_are_limited():
    text = "@group(0) @binding(0) var<storage, read_write> x: array<f32>;\noverride x_at_: i32 = 0;\n"
    text += "@compute @workgroup_size(1)\nfn f() { x[x_at_] = 1.0; }\n"
    with open_device() as device:
        module = device.load(text.encode(), {"f": 0})
        memory = device.allocate(64)
        with pytest.raises(DeviceError, match=r"wgsl:0: .*failed: .*65535"):
            wide = KernelLaunch(
                function="f", grid=(1 << 20, 1, 1), block=(1, 1, 1), shared_bytes=0, arguments=()
            )
            device.launch(module, DeviceCall(launch=wide, arguments=(memory.address,)))
            device.synchronize()
        memory.close()


@ADAPTER
def test_there_is_no_such_device():
    with pytest.raises(DeviceError, match=r"wgsl:7: there is no such device; this machine has wgsl:0 \("):
        vdla.compile(small(), "wgsl", device=7)
    with pytest.raises(vdla.UserError, match="must be 0 or more"):
        vdla.compile(small(), "wgsl", device="first")


@ADAPTER
def test_work_groups_are_limited():
    with pytest.raises(
        DeviceError, match=r"invocations per work-group, fewer than 60000; compile with -threads=\d+"
    ):
        vdla.compile(small(), "wgsl -threads=60000")
    with pytest.raises(DeviceError, match=r"work-group memory, less than 999999999; compile with -local"):
        vdla.compile(small(), "wgsl -local-bytes=999999999")


def test_there_is_no_adapter(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(wgsl_device.wgpu().gpu, "enumerate_adapters_sync", list)
    with pytest.raises(DeviceError, match=r"no adapter; install .* mesa-vulkan-drivers"):
        vdla.compile(small(), "wgsl")


def test_the_extra_is_missing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "wgpu", None)
    with pytest.raises(DeviceError, match=r'pip install "vdla\[wgsl\]"'):
        vdla.compile(small(), "wgsl")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("wgsl -arch=sm_90", "unknown target option -arch"),
        ("wgsl -threads=64", "need 256 to"),
        ("wgsl -threads", "needs a number"),
        ("wgsl -local-bytes=1", "need at least 1024 bytes"),
        ("wgsl -threads=256 -threads=256", "given twice"),
    ],
)
def test_unknown_target_options_are_refused(text: str, message: str):
    with pytest.raises(vdla.UserError, match=message):
        kernel_backend(text).compiler(CompileOptions(target=text)).describe()


def refused(program: Program, message: str) -> None:
    target = parse_target("wgsl -local-bytes=100000")
    with pytest.raises(LoweringError, match=message):
        lower(prepare(program, target), target)


def test_statements_and_types_that_wgsl_lacks_are_refused():
    refused(CASES["halves"](), "WGSL does not support the type b?float16; compute in float32")
    refused(CASES["whole-blocks"](), "wgsl cannot copy for a whole block")


def large(size: int, index: Expr, dtype: DType = F32) -> Program:
    x, y = buffer("X", size), buffer("Y", 8, dtype=dtype)
    return one_thread_each(8, Assign(name="y", buffer=y, indices=(Var("t"),), value=index), x, y)


def test_sizes_that_are_too_large():
    x, t = buffer("X", 2**25), Var("t")
    refused(
        large(2**25, x[t]), r"array X has 134,217,728 bytes, but a WGSL array has at most .*; use a smaller"
    )
    wide = large(8, cast(t * 2**40, F32))
    refused(wide, r"needs integers of 64 bits, which WGSL does not have")


@pytest.mark.parametrize("name", ["lstm", "dense_row", "transposed_convolution"])
def test_the_least_limits_are_enough(name: str, tmp_path: Path):
    """Operators compile for the weakest device that WebGPU allows: 256 invocations in a work-group and 16 KiB of its
    memory.
    """
    (case,) = (case for case in operator_cases() if case.name == name)
    compiler = kernel_backend("wgsl").compiler(CompileOptions(target="wgsl"))
    model = case.make(False).SerializeToString()
    saved = compiler.save(tmp_path / "net.tar", model, batch=1, knobs=None)
    assert saved.kernels >= 1

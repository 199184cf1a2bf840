"""Intrinsics that a user declares: tensorized, emitted on processors, checked against their semantics."""

from __future__ import annotations

import numpy as np
import pytest

import vdla
from vdla.compiler.codegen.cpu.errors import LoweringError
from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.codegen.cuda.module import lower
from vdla.compiler.codegen.cuda.nvrtc import compile_cubin
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.codegen.opencl.machine import parse_target as parse_opencl
from vdla.compiler.te.compute import ExpressionError

SCALED = """
    declare <8 x float> @llvm.maxnum.v8f32(<8 x float>, <8 x float>)
    %x = load <8 x float>, ptr %a, align 4
    %y = load <8 x float>, ptr %b, align 4
    %product = fmul <8 x float> %x, %y
    %positive = call <8 x float> @llvm.maxnum.v8f32(<8 x float> %product, <8 x float> zeroinitializer)
    store <8 x float> %positive, ptr %out, align 4
"""
DOT = """
    declare i32 @llvm.vector.reduce.add.v4i32(<4 x i32>)
    %bytes = load <4 x i8>, ptr %x, align 1
    %weights = load <4 x i8>, ptr %w, align 1
    %left = zext <4 x i8> %bytes to <4 x i32>
    %right = sext <4 x i8> %weights to <4 x i32>
    %products = mul <4 x i32> %left, %right
    %sum = call i32 @llvm.vector.reduce.add.v4i32(<4 x i32> %products)
    %before = load i32, ptr %total, align 4
    %after = add i32 %sum, %before
    store i32 %after, ptr %total, align 4
"""


def scaled(lanes: int = 8):
    a, b = (vdla.placeholder(name, (lanes,)) for name in "ab")
    return vdla.compute("out", (lanes,), lambda i: vdla.maximum(a[i] * b[i], 0.0))


def dot():
    x, w, k = (
        vdla.placeholder("x", (4,), "uint8"),
        vdla.placeholder("w", (4,), "int8"),
        vdla.reduce_axis("k", 4),
    )
    factors = vdla.cast(x[k], "int32") * vdla.cast(w[k], "int32")
    return vdla.compute("total", (1,), lambda i: vdla.reduce_sum(factors, k))


def test_an_element_wise_operation():
    a, b = vdla.placeholder("A", (5, 64)), vdla.placeholder("B", (5, 64))
    y = vdla.compute("Y", (5, 64), lambda i, j: vdla.maximum(a[i, j] * b[i, j], 0.0))
    s = vdla.Schedule(vdla.program_of(y))
    _, lanes = s.split("Y.j", 8)
    s.tensorize(lanes, vdla.intrinsic("scaled", scaled(), {"llvm": SCALED}))
    arrays = {name: np.random.default_rng(0).standard_normal((5, 64), np.float32) for name in "AB"}
    kernel = vdla.build(s, "llvm")
    np.testing.assert_array_equal(kernel.run(arrays)["Y"], vdla.interpret(s.program, arrays)["Y"])
    assert "call <8 x float> @llvm.maxnum.v8f32" in kernel.source("llvm")
    assert kernel.source("llvm").count('define internal void @"vdla.own.scaled"') == 1


def test_a_sum_that_adds():
    x, w = vdla.placeholder("X", (6, 32), "uint8"), vdla.placeholder("W", (32,), "int8")
    k = vdla.reduce_axis("k", 32)
    y = vdla.compute(
        "Y", (6, 1), lambda i, one: vdla.reduce_sum(vdla.cast(x[i, k], "int32") * vdla.cast(w[k], "int32"), k)
    )
    s = vdla.Schedule(vdla.program_of(y))
    s.split("Y.k", 4)
    s.reorder("Y.k.0", "Y.one", "Y.k.1")
    s.decompose_reduction("Y", "Y.k.0")
    s.tensorize("Y.one", vdla.intrinsic("dot4", dot(), {"llvm": DOT}, adds=True))
    rng = np.random.default_rng(1)
    arrays = {"X": rng.integers(0, 256, (6, 32), np.uint8), "W": rng.integers(-128, 128, 32, np.int8)}
    result = vdla.build(s, "llvm").run(arrays)["Y"]
    np.testing.assert_array_equal(result[:, 0], arrays["X"].astype(np.int32) @ arrays["W"].astype(np.int32))


def test_a_result_in_registers():
    """An intrinsic may write its result to registers. Its declaration then states the memory of each operand:
    "register" for the result, "dram" for the inputs.
    """
    add = vdla.intrinsic("dot4", dot(), {"llvm": DOT}, adds=True, scopes={"total": "register"})
    assert [buffer.scope for buffer in add.parameters] == ["register", "dram", "dram"]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (SCALED.replace("fmul", "fadd"), r"on random operands its code gives .* at \[\d\], its semantics"),
        (SCALED.replace("fmul", "fmull"), "LLVM rejects its code: .*expected instruction opcode"),
        (SCALED.replace("%b", "%c"), "LLVM rejects its code: .*use of undefined value '%c'"),
    ],
)
def test_wrong_code_is_refused_in_one_line(code: str, message: str):
    with pytest.raises(vdla.UserError, match=f"^intrinsic scaled: {message}") as raised:
        vdla.intrinsic("scaled", scaled(), {"llvm": code})
    assert "\n" not in str(raised.value)


def test_code_that_overwrites_instead_of_adding_is_refused():
    overwrites = DOT.replace("%after = add i32 %sum, %before", "%after = add i32 %sum, 0")
    with pytest.raises(vdla.UserError, match="intrinsic dot4: on random operands"):
        vdla.intrinsic("dot4", dot(), {"llvm": overwrites}, adds=True)
    assert vdla.intrinsic("dot4", dot(), {"llvm": overwrites}).name == "dot4"


def test_wrong_declarations_are_refused():
    with pytest.raises(
        vdla.UserError, match="there is no language 'metal'; there are llvm, cuda, opencl, vdla"
    ):
        vdla.intrinsic("scaled", scaled(), {"metal": ""})
    with pytest.raises(vdla.UserError, match="give code for one of llvm"):
        vdla.intrinsic("scaled", scaled(), {})
    with pytest.raises(ExpressionError, match="there is no operand 'c'; there are out, a, b"):
        vdla.intrinsic("scaled", scaled(), {"llvm": SCALED}, scopes={"c": "register"})
    with pytest.raises(
        ExpressionError, match="needs an expression that is a single reduce_sum or reduce_max"
    ):
        vdla.intrinsic("scaled", scaled(), {"llvm": SCALED}, adds=True)
    middle = scaled()
    twice = vdla.compute("twice", (8,), lambda i: middle[i] * 2.0)
    with pytest.raises(
        ExpressionError, match="intrinsic scaled: out is not a placeholder; compute twice from placeholders"
    ):
        vdla.intrinsic("scaled", twice, {"llvm": SCALED})


def test_targets_without_code_are_named():
    a, b = vdla.placeholder("A", (8,)), vdla.placeholder("B", (8,))
    y = vdla.compute("Y", (8,), lambda i: vdla.maximum(a[i] * b[i], 0.0))
    s = vdla.Schedule(vdla.program_of(y))
    s.tensorize("Y.i", vdla.intrinsic("scaled", scaled(), {"cuda": "out[0] = 0;"}))
    with pytest.raises(LoweringError, match="the intrinsic has code for cuda, not for llvm"):
        vdla.build(s, "llvm")


STATEMENTS = """
    for (int i = 0; i < 8; i++)
        out[i] = fmaxf(a[i] * b[i], 0.0f);
"""


def test_gpus_emit_statements_with_a_pointer_for_each_operand():
    a, b = vdla.placeholder("a", (64, 8)), vdla.placeholder("b", (64, 8))
    y = vdla.compute("out", (64, 8), lambda i, j: vdla.maximum(a[i, j] * b[i, j], 0.0))
    s = vdla.Schedule(vdla.program_of(y))
    block, thread = s.split("out.i", 32)
    s.bind(block, "block.x")
    s.bind(thread, "thread.x")
    code = {"cuda": STATEMENTS, "opencl": STATEMENTS.replace("fmaxf", "fmax")}
    s.tensorize("out.j", vdla.intrinsic("scaled", scaled(), code))
    text = lower(prepare(s.program, cuda_target("sm_80")), cuda_target("sm_80")).source
    assert "// scaled" in text and "fmaxf(a[i] * b[i], 0.0f)" in text
    assert compile_cubin(text, "sm_80")
    opencl = parse_opencl("opencl")
    text = lower(prepare(s.program, opencl), opencl).source
    assert "global const float* a = a_operand;" in text and "fmax(a[i]" in text
    arrays = {name: np.random.default_rng(0).standard_normal((64, 8), np.float32) for name in "ab"}
    expected = np.maximum(arrays["a"] * arrays["b"], 0)
    np.testing.assert_array_equal(vdla.interpret(s.program, arrays)["out"], expected)


LANES = (1, 4)
SEQUENCE = """
    MUL x, 3
    SHR x, 2
    MAX x, y
"""


def limited(x, y):
    return vdla.maximum((x * 3) >> 2, y)


def sequence(code: str = SEQUENCE, updates: str | None = "x", scope: str = "acc"):
    x, y = (vdla.placeholder(name, LANES, "int32") for name in "xy")
    result = vdla.compute("out", LANES, lambda b, j: limited(x[b, j], y[b, j]))
    scopes = {"x" if updates else "out": scope, "y": scope}
    return vdla.intrinsic("limited", result, {"vdla": code}, updates=updates, scopes=scopes, machine="tiny")


@pytest.mark.parametrize("virtual_threads", [False, True])
@pytest.mark.parametrize("repeated", [False, True])
def test_a_sequence_of_the_accelerator(virtual_threads: bool, repeated: bool):
    """A user's intrinsic of the accelerator with several ALU instructions is tensorized and computes the right results.
    With `repeated`, its second operand is the same vector for all rows of a tile. With `virtual_threads`, the outer
    loop is divided into virtual threads.
    """
    tiny, shape = vdla.config("tiny"), (3, 8, *LANES)
    x, p = vdla.placeholder("X", shape, "int32"), vdla.placeholder("P", (2, 4), "int32")
    y = vdla.placeholder("Y", (3, *LANES) if repeated else shape, "int32")
    g = vdla.compute(
        "G", shape, lambda o, m, b, j: limited(x[o, m, b, j], y[o, b, j] if repeated else y[o, m, b, j])
    )
    z = vdla.compute("Z", shape, lambda o, m, b, j: vdla.post_value(g[o, m, b, j] + p[0, j], p[1, j]))
    s = vdla.Schedule(vdla.program_of(z))
    s.compute_at("G", "Z.o")
    s.set_scope("G", "acc")
    for name, scope in (("X", "acc"), ("Y", "acc"), ("P", "par")):
        s.cache_read(name, "Z.o", scope)
    s.update_in_place("G", "X.acc")
    s.tensorize("G.b", sequence())
    s.tensorize("Z.b", *vdla.accelerator(tiny).post())
    if virtual_threads:
        s.virtual_thread("Z.o")
    rng = np.random.default_rng(2)
    arrays = {"X": rng.integers(-500, 500, shape, np.int32), "Y": rng.integers(-500, 500, y.shape, np.int32)}
    arrays["P"] = np.stack([np.zeros(4, np.int32), np.full(4, 0.25, np.float32).view(np.int32)])
    kernel = vdla.build(s, "vdla", tiny)
    right = arrays["Y"][:, None] if repeated else arrays["Y"]
    expected = np.clip(np.rint(np.maximum(arrays["X"] * 3 >> 2, right) / 4), -128, 127)
    np.testing.assert_array_equal(vdla.simulate(kernel, arrays).outputs["Z"], expected)
    listed = [line for line in kernel.source("instructions").splitlines() if "ALU" in line]
    assert [line.count("iter_in=8") for line in listed] == [1] * 9


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("MUL x, 3\nSHR x, 1\nMAX x, y", "on random operands its code gives .*, its semantics"),
        ("MUL x, 3\nROT x, 1", "\"ROT x, 1\": tiny has no ALU operation 'ROT'; its operations are MIN, MAX"),
        ("MUL x, 40000", '"MUL x, 40000": the immediate 40000 is outside of -32768 .. 32767'),
        (
            "MUL y, 3",
            'an ALU instruction must have x, which it overwrites, as its first operand; write "MUL x, RIGHT"',
        ),
        ("MUL x, z", "'z' is neither an operand \\(x, y\\) nor an integer"),
        ("", "it is declared without instructions for the accelerator"),
    ],
)
def test_wrong_sequences_are_refused_in_one_line(code: str, message: str):
    with pytest.raises(vdla.UserError, match=f"^intrinsic limited: .*{message}") as raised:
        sequence(code)
    assert "\n" not in str(raised.value)


def test_operands_of_a_sequence_are_accumulators():
    with pytest.raises(vdla.UserError, match=r"computes on vectors int32\[1, 4\] @ acc, not on x: int32"):
        sequence(scope="dram")
    with pytest.raises(
        ExpressionError, match="`updates` names 'z', which is not a placeholder; the placeholders are x, y"
    ):
        sequence(updates="z")
    x = vdla.placeholder("x", LANES, "int32")
    swapped = vdla.compute("out", LANES, lambda b, j: x[b, 3 - j] + 1)
    with pytest.raises(ExpressionError, match="out cannot overwrite x"):
        vdla.intrinsic("swapped", swapped, {"vdla": "ADD x, 1"}, updates="x", machine="tiny")

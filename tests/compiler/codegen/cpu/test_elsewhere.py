"""Objects for other processor architectures, linked and run under emulation: kernels give the same results as on this
processor.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from campaign import representatives
from cross import emulator, run_elsewhere
from dense_schedules import dense
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.benchmarks.harness.int8_products import dense_int8
from vdla.compiler.codegen.cpu.module import lower
from vdla.compiler.codegen.cpu.one_object import emit_object
from vdla.compiler.codegen.cpu.options import parse_target
from vdla.compiler.ir.expr import Buffer, Call, Const, Expr, Var, cast
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import Alloc, Assign, For, Program, nest, seq
from vdla.compiler.ir.types import DType
from vdla.compiler.schedule import Schedule
from vdla.compiler.schedule.pack import pack_arrays
from vdla.compiler.te import functions
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.combination import Combination
from vdla.compiler.te.ops.blocked_convolution import (
    FloatSums,
    QuantizedSums,
    blocked_convolution,
    blocked_depthwise,
)
from vdla.compiler.te.ops.convolution import Convolution
from vdla.compiler.te.ops.product import DOT_INT8, Matrices, product
from vdla.compiler.te.ops.sums import Epilogue
from vdla.compiler.te.post import Post
from vdla.compiler.templates.cpu.lowered import scheduled

MACHINES = {
    "aarch64": ("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a53", "cortex-a53"),
    "aarch64-dots": ("llvm -mtriple=aarch64-linux-gnu -mattr=+i8mm", "max"),
    "riscv64": ("llvm -mtriple=riscv64-linux-gnu", "rv64"),
    "riscv64-vectors": (
        "llvm -mtriple=riscv64-linux-gnu -mattr=+v,+zvl256b",
        "rv64,v=true,vlen=256,vext_spec=v1.0",
    ),
    "armv7": ("llvm -mtriple=armv7-linux-gnueabihf -mcpu=cortex-a9", "cortex-a9"),
    "armv7-fma": ("llvm -mtriple=armv7-linux-gnueabihf -mcpu=cortex-a7", "cortex-a7"),
    "wasm32": ("llvm -mtriple=wasm32-unknown-unknown", ""),
    "wasm32-vectors": ("llvm -mtriple=wasm32-unknown-unknown -mattr=+simd128", ""),
}
"""Machines by name: (target, processor that qemu emulates, which has no features beyond the target's)."""
FULL = Epilogue(bias=True, operand=True, activation="clip", low=-1.5, high=2.5)
# The dot product instruction changes products of integers alone.
OTHERS = [machine for machine in MACHINES if machine != "aarch64-dots"]
machines = pytest.mark.parametrize("machine", OTHERS)


def arrays_of(program: Program, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    arrays = {}
    for p in program.parameters:
        if p.dtype is DType.FLOAT32:
            arrays[p.name] = rng.standard_normal(p.shape).astype(np.float32)
        else:
            low, high = p.dtype.limits
            arrays[p.name] = rng.integers(low, high, p.shape, endpoint=True).astype(p.dtype.numpy)
    return arrays


def run(machine: str, s: Schedule, arrays: dict[str, np.ndarray], folder: Path, parallel: bool = False):
    """The output Y of the scheduled program `s` on `arrays`, compiled for `machine` (a name in MACHINES) and run under
    emulation, with files in `folder`. `parallel`: on several threads.
    """
    text, processor = MACHINES[machine]
    target = parse_target(text)
    module = lower(s.program, target, function=f"{s.program.name}_kernel")
    assert "llvm.x86" not in module.text
    code = emit_object([module], target, name="library")
    packed = pack_arrays(s.trace, arrays)
    packed["Y"] = np.full_like(arrays["Y"], 99)
    return run_elsewhere(code, packed, folder, processor=processor, parallel=parallel)["Y"]


def assert_close(found: np.ndarray, expected: np.ndarray) -> None:
    # A single sum may happen to be next to nothing; its terms are of size 1.
    scale = max(1.0, np.abs(expected).max())
    assert np.abs(found.astype(np.float64) - expected).max() / scale < 1e-5


sizes = st.integers(1, 40)


@pytest.mark.parametrize("machine", MACHINES)
@settings(max_examples=2, deadline=None)
@given(rows=sizes, depth=sizes, columns=sizes, seed=st.integers(0, 99))
def test_int8_products(tmp_path_factory, machine, rows, depth, columns, seed):
    program = product(Matrices(rows=rows, depth=depth, columns=columns), types=DOT_INT8)
    arrays = arrays_of(program, seed)
    s = dense_int8(parse_target(MACHINES[machine][0]), program)
    # A single column has no loop that could be one of the instruction.
    dots = machine == "aarch64-dots" and depth >= 4 and columns > 1
    assert any(step.primitive == "tensorize" for step in s.trace) == dots
    found = run(machine, s, arrays, tmp_path_factory.mktemp("int8"))
    np.testing.assert_array_equal(found, arrays["X"].astype(np.int32) @ arrays["W"].astype(np.int32))


@machines
@settings(max_examples=2, deadline=None)
@given(rows=sizes, depth=sizes, columns=sizes, seed=st.integers(0, 99))
def test_float_products(tmp_path_factory, machine, rows, depth, columns, seed):
    program = product(Matrices(rows=rows, depth=depth, columns=columns), epilogue=FULL)
    arrays = arrays_of(program, seed)
    s = dense(parse_target(MACHINES[machine][0]), program)
    found = run(machine, s, arrays, tmp_path_factory.mktemp("float"))
    wide = {name: array.astype(np.float64) for name, array in arrays.items()}
    expected = np.clip(wide["X"] @ wide["W"] + wide["B"] + wide["R"], FULL.low, FULL.high)
    assert_close(found, expected)


WINDOWS = [
    (Window(kernel=(3, 3), pads=(1, 1, 1, 1)), (7, 9)),
    (Window(kernel=(2, 3), strides=(2, 2), pads=(0, 1, 2, 0), dilations=(1, 2)), (9, 8)),
]


@lru_cache
def convolution(case: int) -> tuple[Program, dict[str, np.ndarray], np.ndarray]:
    """A float convolution with `WINDOWS[case]`: its program, its arrays, and the output of the interpreter."""
    window, (height, width) = WINDOWS[case]
    program = blocked_convolution(
        Convolution(batch=2, channels=6, height=height, width=width, filters=14, window=window, groups=2),
        block_in=3,
        block_out=8,
        sums=FloatSums(epilogue=FULL),
    )
    arrays = arrays_of(program, case)
    return program, arrays, interpret(program, arrays)["Y"]


@pytest.mark.parametrize(
    ("machine", "case"),
    representatives(
        itertools.product(OTHERS, range(len(WINDOWS))),
        0,
        # Every machine and every window.
        always={
            **{(machine, i % len(WINDOWS)): None for i, machine in enumerate(OTHERS)},
            **{(OTHERS[i % len(OTHERS)], i): None for i in range(len(WINDOWS))},
        },
    ),
)
def test_convolutions(machine, case, tmp_path):
    program, arrays, expected = convolution(case)
    s = scheduled(parse_target(MACHINES[machine][0]), program, frozenset({"W"}))
    assert_close(run(machine, s, arrays, tmp_path), expected)


@lru_cache
def quantized_convolution() -> tuple[Program, dict[str, np.ndarray], np.ndarray]:
    """A quantized convolution: its program, its arrays, and the output that the interpreter computes. The added operand
    needs fused multiply-adds.
    """
    window, (height, width) = WINDOWS[0]
    addition = Combination(kind="add", ratio_self=0.731, ratio_operand=1.25, offset=-101.7, unsigned=True)
    program = blocked_convolution(
        Convolution(batch=1, channels=8, height=height, width=width, filters=32, window=window, groups=2),
        block_in=4,
        block_out=8,
        sums=QuantizedSums(pad_value=117, post=Post(zero_point=-3, low=-100, combination=addition)),
    )
    arrays = arrays_of(program, 0)
    arrays["P"][:, 0] //= 2**17
    arrays["P"][:, 1] = np.random.default_rng(1).uniform(1e-3, 8e-3, (4, 8)).astype(np.float32).view(np.int32)
    expected = interpret(program, arrays, functions=functions.FUNCTIONS)["Y"]
    assert expected.std() > 20
    return program, arrays, expected


@machines
def test_quantized_convolutions(machine, tmp_path):
    program, arrays, expected = quantized_convolution()
    s = scheduled(parse_target(MACHINES[machine][0]), program, frozenset({"W"}))
    np.testing.assert_array_equal(run(machine, s, arrays, tmp_path), expected)


@machines
def test_depthwise_convolutions(machine, tmp_path):
    window = WINDOWS[0][0]
    target = parse_target(MACHINES[machine][0])
    block = target.lanes(DType.FLOAT32)
    program = blocked_depthwise(
        Convolution(
            batch=1, channels=3 * block, height=9, width=7, filters=3 * block, window=window, groups=3 * block
        ),
        block=block,
    )
    arrays = arrays_of(program, 5)
    found = run(machine, scheduled(target, program), arrays, tmp_path)
    assert_close(found, interpret(program, arrays)["Y"])


@pytest.mark.parametrize("machine", [m for m in MACHINES if not m.startswith("wasm32")])
def test_parallel_loops_call_back(machine, tmp_path):
    # Each row takes a detour through memory of its own, which lies in the scratch memory of the worker.
    x, y = [Buffer(name=name, shape=(20, 70), dtype=DType.FLOAT32) for name in "XY"]
    row = Buffer(name="row", shape=(70,), dtype=DType.FLOAT32)
    i, j, k = Var("i"), Var("j"), Var("k")
    put = Assign(name="put", buffer=row, indices=(j,), value=x[i, j] * 2.0)
    take = Assign(name="take", buffer=y, indices=(i, k), value=row[Const(69) - k])
    body = Alloc(buffer=row, body=seq(nest([(j, 70)], put), nest([(k, 70)], take)))
    loop = For(var=i, extent=Const(20), body=body, kind="parallel")
    program = Program(name="rows", parameters=(x, y), body=loop)
    assert lower(program, parse_target(MACHINES[machine][0])).scratch_bytes >= 280
    arrays = arrays_of(program, 6)
    found = run(machine, Schedule(program), arrays, tmp_path, parallel=True)
    np.testing.assert_array_equal(found, arrays["X"][:, ::-1] * 2)


def elementwise(source: DType, result: DType, value: Callable[[Expr], Expr]) -> Schedule:
    """A vectorized schedule of Y[i, j] = value(X[i, j]), i below 40 and j below 16."""
    x = Buffer(name="X", shape=(40, 16), dtype=source)
    y = Buffer(name="Y", shape=(40, 16), dtype=result)
    i, j = Var("i"), Var("j")
    put = Assign(name="put", buffer=y, indices=(i, j), value=value(x[i, j]))
    body = For(var=i, extent=Const(40), body=For(var=j, extent=Const(16), body=put, kind="vectorize"))
    return Schedule(Program(name="elementwise", parameters=(x, y), body=body))


def special(dtype: DType) -> np.ndarray:
    """Test values of a type: random values of all magnitudes, and values at which conversions round, saturate
    or wrap.
    """
    rng = np.random.default_rng(7)
    if dtype is DType.INT64:
        values = rng.integers(-(2**63), 2**63 - 1, 640) >> rng.integers(0, 63, 640)
        edges = [
            v for n in (24, 25, 31, 32, 39, 53, 62) for v in (2**n - 1, 2**n, 2**n + 1, 3 * 2 ** (n - 2))
        ]
        # Ties: halfway between two float32, above an even and an odd one.
        edges += [(2**24 + k) * 2**20 + 2**19 * t for k in (0, 1) for t in (0, 1, 2)]
        edges += [0, 2**63 - 1, -(2**63), 2**40 + 2**16, 2**40 + 3 * 2**16, 2**40 + 2**16 + 1]
        edges += [-e for e in edges[:-6]]
    else:
        values = rng.standard_normal(640) * 2.0 ** rng.integers(-30, 70, 640)
        edges = [
            np.nan,
            np.inf,
            -np.inf,
            0.0,
            -0.0,
            0.5,
            -0.5,
            1.0,
            -1.5,
            2.0**31,
            2.0**32,
            -(2.0**63),
            2.0**63,
        ]
        edges += [2.0**62, 1e-40, -1e-40, 255.5, 16777217.0, 4294967296.0 * 3, -4294967295.0]
    values[: len(edges)] = edges
    return values.astype(dtype.numpy).reshape(40, 16)


def to_integers(x: np.ndarray, dtype: DType) -> np.ndarray:
    """Floats converted to the integer type `dtype` as generated code must do it: truncated towards zero, saturated to
    int64, NaN as 0; then wrapped to `dtype`.
    """
    wide = [0 if np.isnan(v) else int(max(-(2.0**64), min(2.0**64, v))) for v in x.astype(np.float64).flat]
    whole = [max(-(2**63), min(2**63 - 1, v)) for v in wide]
    return np.array([dtype.wrap(v) for v in whole], dtype.numpy).reshape(x.shape)


CASES = {
    "int64 to float32": (DType.INT64, DType.FLOAT32, lambda v: cast(v, DType.FLOAT32), np.float32),
    "float32 to int64": (
        DType.FLOAT32,
        DType.INT64,
        lambda v: cast(v, DType.INT64),
        lambda x: to_integers(x, DType.INT64),
    ),
    "float32 to int8": (
        DType.FLOAT32,
        DType.INT8,
        lambda v: cast(v, DType.INT8),
        lambda x: to_integers(x, DType.INT8),
    ),
    "int64 // 7": (DType.INT64, DType.INT64, lambda v: v // 7, lambda x: x // 7),
    "int64 % 100003": (DType.INT64, DType.INT64, lambda v: v % 100003, lambda x: x % 100003),
}
"""Functions by name: element types of X and Y, the expression of Y in X, and the same function in numpy."""


EXACT = ("aarch64", "riscv64", "armv7", "wasm32")


@pytest.mark.parametrize(
    ("machine", "case"),
    representatives(
        itertools.product(EXACT, CASES),
        0,
        # Every case on two machines.
        always=[(EXACT[(i + j) % len(EXACT)], case) for i, case in enumerate(CASES) for j in (0, 1)],
    ),
)
def test_conversions_and_divisions_are_exact(machine, case, tmp_path):
    source, result, value, reference = CASES[case]
    s = elementwise(source, result, value)
    arrays = {"X": special(source), "Y": np.zeros((40, 16), result.numpy)}
    np.testing.assert_array_equal(run(machine, s, arrays, tmp_path), reference(arrays["X"]))


FUNCTIONS = {
    "exp": np.exp,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sqrt": np.sqrt,
    "log": np.log,
}


def call(name: str, v: Expr) -> Expr:
    return Call(name, (v,), DType.FLOAT32)


@pytest.mark.parametrize("machine", ["aarch64", "riscv64", "riscv64-vectors", "armv7", "wasm32-vectors"])
def test_functions_are_part_of_the_object(machine, tmp_path):
    """An object file contains every scalar function (such as exp) that its kernel calls, so that it needs no library.
    The test compiles a kernel that calls all of them for a foreign machine and runs it in an emulator.
    """
    x, y = [
        Buffer(name=name, shape=(*more, 40, 16), dtype=DType.FLOAT32)
        for name, more in (("X", ()), ("Y", (len(FUNCTIONS),)))
    ]
    nests = []
    for number, name in enumerate(FUNCTIONS):
        i, j = Var(f"i{number}"), Var(f"j{number}")
        put = Assign(name=name, buffer=y, indices=(Const(number), i, j), value=call(name, x[i, j]))
        inner = For(var=j, extent=Const(16), body=put, kind="vectorize")
        nests.append(For(var=i, extent=Const(40), body=inner))
    s = Schedule(Program(name="functions", parameters=(x, y), body=seq(*nests)))
    values = np.linspace(-20, 20, 640, dtype=np.float32)
    values[:4] = np.nan, np.inf, -np.inf, 0.0
    arrays = {"X": values.reshape(40, 16), "Y": np.zeros(y.shape, np.float32)}
    for found, (name, function) in zip(run(machine, s, arrays, tmp_path), FUNCTIONS.items(), strict=True):
        with np.errstate(all="ignore"):
            expected = function(arrays["X"].astype(np.float64))
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-37, err_msg=name)


def test_a_missing_emulator_is_named(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(
        AssertionError, match=r"qemu-aarch64 is not on the path; .* apt-get install qemu-user"
    ):
        emulator("aarch64")

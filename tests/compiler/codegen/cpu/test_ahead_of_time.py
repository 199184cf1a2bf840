"""Tests object files, C headers and shared libraries of kernels. Objects have no undefined symbols, equal input gives
equal bytes, and C and C++ compilers accept the headers.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from cross import zig
from dense_schedules import dense

from vdla.benchmarks.harness.int8_products import dense_int8
from vdla.compiler.codegen.cpu.c_driver import driver_text
from vdla.compiler.codegen.cpu.errors import TargetError
from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.codegen.cpu.module import Module, lower
from vdla.compiler.codegen.cpu.object_files import WASM_BY_LINKER, read_symbols
from vdla.compiler.codegen.cpu.one_object import c_compiler, emit_object, write_object, write_shared_library
from vdla.compiler.codegen.cpu.options import parse_target
from vdla.compiler.ir.expr import Buffer, Call, Var, cast
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import Assign, Program, nest
from vdla.compiler.ir.types import DType
from vdla.compiler.schedule import Schedule
from vdla.compiler.schedule.pack import pack_arrays
from vdla.compiler.te.ops.product import DOT_INT8, Matrices, product
from vdla.compiler.te.ops.sums import Epilogue

TARGETS = {
    "host": "llvm",
    "x86-64": "llvm -mtriple=x86_64-linux-gnu",
    "aarch64": "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a53",
    "riscv64": "llvm -mtriple=riscv64-linux-gnu",
    "armv7": "llvm -mtriple=armv7-linux-gnueabihf -mcpu=cortex-a9",
    "cortex-m4": "llvm -mtriple=thumbv7em-none-eabihf -mcpu=cortex-m4",
    "wasm32": "llvm -mtriple=wasm32 -mattr=+simd128",
}


PROGRAMS = (
    product(Matrices(rows=9, depth=20, columns=33), epilogue=Epilogue(bias=True, activation="relu")),
    product(Matrices(rows=5, depth=11, columns=18), types=DOT_INT8),
)


def two_kernels(text: str) -> tuple[list[Module], list[Schedule]]:
    """A parallel float32 matrix product and an int8 matrix product, lowered for the target `text`; and their
    schedules.
    """
    target = parse_target(text)
    schedules = [
        dense(target, PROGRAMS[0], parallel=True),
        dense_int8(target, PROGRAMS[1]),
    ]
    names = ("two_floats", "two_bytes")
    modules = [lower(s.program, target, function=n) for s, n in zip(schedules, names, strict=True)]
    return modules, schedules


def odd_program() -> Program:
    """A program whose parameters have names, types and shapes that C does not allow as they are: a keyword, names with
    dots, 0 dimensions.
    """
    i = Var("i")
    buffers = [
        Buffer(name=name, shape=shape, dtype=dtype)
        for name, shape, dtype in [
            ("float", (4,), DType.INT64),
            ("workspace", (4, 1), DType.BOOL),
            ("a.b", (4,), DType.UINT8),
            ("A.B", (), DType.INT8),
            ("Y", (4,), DType.FLOAT32),
        ]
    ]
    value = cast(buffers[0][i], DType.FLOAT32) + cast(buffers[2][i], DType.FLOAT32)
    put = Assign(name="put", buffer=buffers[4], indices=(i,), value=Call("exp", (value,), DType.FLOAT32))
    return Program(name="odd", parameters=tuple(buffers), body=nest([(i, 4)], put))


@pytest.mark.parametrize("name", TARGETS)
def test_objects_have_no_undefined_symbols(name):
    modules, _ = two_kernels(TARGETS[name])
    target = parse_target(TARGETS[name])
    modules.append(lower(odd_program(), target, function="two_odd"))
    symbols = read_symbols(emit_object(modules, target, name="two").data)
    if name == "wasm32":
        assert symbols.undefined <= WASM_BY_LINKER
        assert "__linear_memory" in symbols.undefined
    else:
        assert symbols.undefined == set()
        assert symbols.defined == {"two_floats", "two_bytes", "two_odd"}


def calling(name: str, target) -> Module:
    """An LLVM module whose kernel calls an undefined external function `name`."""
    text = (
        f'target triple = "{target.triple}"\n'
        f"declare void @{name}(ptr)\n"
        f"define void @kernel(ptr %a) nounwind {{\n  call void @{name}(ptr %a)\n  ret void\n}}\n"
    )
    return Module(text=text, function="kernel", workspace_bytes=0, scratch_bytes=0)


@pytest.mark.parametrize("name", TARGETS)
def test_calls_of_library_functions_are_refused(name):
    target = parse_target(TARGETS[name])
    with pytest.raises(TargetError, match="without them its code calls memset; add features with -mattr"):
        emit_object([calling("memset", target)], target, name="library")


def test_other_files_are_no_objects():
    with pytest.raises(ValueError, match="neither"):
        read_symbols(b"MZ" + bytes(100))


def test_names_are_those_of_c():
    modules, _ = two_kernels("llvm")
    target = host_target()
    for bad in ("two kernels", "int", "2two", "a__b", "main", ""):
        with pytest.raises(ValueError, match="is not a valid name of a C function"):
            emit_object(modules, target, name=bad)
    with pytest.raises(ValueError, match="two kernels are called two_floats"):
        emit_object([modules[0], modules[0]], target, name="two")
    with pytest.raises(ValueError, match="at least one"):
        emit_object([], target, name="two")


@pytest.mark.parametrize("function", ["body", "task0", "parallel0", "scratch_bytes"])
def test_no_name_of_a_kernel_meets_one_inside(function):
    target = host_target()
    module = lower(two_kernels("llvm")[1][0].program, target, function=function)
    assert read_symbols(emit_object([module], target, name="library").data).defined == {function}


_PRINT = f"""
import sys
sys.path[:0] = [{os.path.dirname(__file__)!r}, {os.path.dirname(zig.__code__.co_filename)!r}]
from test_ahead_of_time import digests
print(*digests())
"""


def digests() -> list[str]:
    """SHA-256 digests of object and header of the same kernels for several targets."""
    found = []
    for name in ("host", "aarch64", "armv7", "wasm32"):
        text = TARGETS[name]
        code = emit_object(two_kernels(text)[0], parse_target(text), name="two")
        found.append(hashlib.sha256(code.data + code.header.encode()).hexdigest())
    return found


def test_equal_input_gives_equal_bytes():
    """Two processes with different hash seeds for strings generate the same code: its digests are equal."""
    found = digests()
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    result = subprocess.run(
        [sys.executable, "-c", _PRINT],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.split() == found
    assert len(set(found)) == 4


@pytest.mark.parametrize("language", [("-x", "c", "-std=c99"), ("-x", "c++", "-std=c++11")])
def test_the_header_is_c_and_cpp(language, tmp_path):
    target = host_target()
    modules, _ = two_kernels("llvm")
    modules.append(lower(odd_program(), target, function="two_odd"))
    write_object(emit_object(modules, target, name="two"), tmp_path)
    # Twice, beside another one: guards and shared types.
    write_object(emit_object(modules[:1], target, name="one"), tmp_path)
    (tmp_path / "user.c").write_text('#include "two.h"\n#include "two.h"\nint size = TWO_ODD_Y_BYTES;\n')
    warnings = ("-Wall", "-Wextra", "-Wno-unused-function", "-pedantic", "-Werror")
    zig("cc", *language, *warnings, "-c", "user.c", folder=tmp_path)


def test_the_header_says_what_the_module_says():
    target = host_target()
    modules, schedules = two_kernels("llvm")
    header = emit_object(modules, target, name="two").header
    for module, s in zip(modules, schedules, strict=True):
        upper = module.function.upper()
        assert f"#define {upper}_WORKSPACE_BYTES {module.workspace_bytes}\n" in header
        assert f"#define {upper}_SCRATCH_BYTES {module.scratch_bytes} " in header
        for p in s.program.parameters:
            size = int(np.prod(p.shape)) * p.dtype.numpy.itemsize
            shape = ", ".join(map(str, p.shape))
            assert f"#define {upper}_{p.name}_BYTES {size} /* {p.dtype}[{shape}] */" in header
    assert "const float *X, /* input float32[9, 20] */" in header
    assert "    float *Y, /* output float32[9, 33] */" in header


@pytest.mark.parametrize("which", [0, 1])
def test_a_shared_library_with_its_driver(which, tmp_path):
    target = host_target()
    modules, schedules = two_kernels("llvm")
    code = emit_object(modules, target, name="two")
    library = tmp_path / "libtwo.so"
    write_object(code, tmp_path)
    write_shared_library(code, library)
    driver = driver_text("two", modules[which])
    assert len(driver.splitlines()) < 50
    (tmp_path / "driver.c").write_text(driver)
    command = [c_compiler(), "-Wall", "-Werror", "driver.c", library.name, "-Wl,-rpath,.", "-o", "driver"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)

    rng = np.random.default_rng(which)
    arrays = {
        p.name: rng.integers(*(p.dtype.limits if which else (-20, 20)), p.shape).astype(p.dtype.numpy)
        for p in PROGRAMS[which].parameters
    }
    packed = pack_arrays(schedules[which].trace, arrays)
    files = [f"{p.name}.bin" for p in modules[which].parameters]
    for p, file in zip(modules[which].parameters, files, strict=True):
        packed[p.name].tofile(tmp_path / file)
    subprocess.run(["./driver", *files], cwd=tmp_path, check=True)
    expected = interpret(PROGRAMS[which], arrays)["Y"]
    found = np.fromfile(tmp_path / "Y.bin", expected.dtype).reshape(expected.shape)
    # Sums of small whole numbers are exact, in floats too.
    np.testing.assert_array_equal(found, expected)

    (tmp_path / "X.bin").write_bytes(b"short")
    failed = subprocess.run(["./driver", *files], cwd=tmp_path, check=False, capture_output=True, text=True)
    assert failed.returncode == 1
    assert "X.bin: 5 of" in failed.stderr
    failed = subprocess.run(["./driver"], cwd=tmp_path, check=False, capture_output=True, text=True)
    assert failed.returncode == 2
    assert "usage: ./driver X W" in failed.stderr


def test_a_missing_compiler_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    code = emit_object(two_kernels("llvm")[0], host_target(), name="two")
    with pytest.raises(
        TargetError, match=r"needs a C compiler, but none is on the path; .*apt-get install gcc"
    ):
        write_shared_library(code, tmp_path / "libtwo.so")


def test_a_foreign_object_is_no_library_here(tmp_path):
    elsewhere = "riscv64" if host_target().triple.startswith("aarch64") else "aarch64"
    target = parse_target(TARGETS[elsewhere])
    code = emit_object(two_kernels(TARGETS[elsewhere])[0], target, name="two")
    with pytest.raises(TargetError, match=f"cannot link a shared library for {target.triple}"):
        write_shared_library(code, tmp_path / "libtwo.so")

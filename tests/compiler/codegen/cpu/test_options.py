"""Targets as users write them: features come from LLVM's knowledge of the processor, and errors name the
wrong option.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from vdla.compiler.codegen.cpu.errors import TargetError
from vdla.compiler.codegen.cpu.kernel import build
from vdla.compiler.codegen.cpu.machine import cache_sizes, host_target, runs_here
from vdla.compiler.codegen.cpu.options import parse_target
from vdla.compiler.codegen.cpu.x86_levels import host_target_at
from vdla.compiler.ir.expr import Buffer, Var
from vdla.compiler.ir.stmt import Assign, Program, nest
from vdla.compiler.ir.types import DType


@pytest.mark.parametrize(
    ("text", "bits", "registers", "fused", "dots"),
    [
        ("-mtriple=x86_64-linux-gnu", 128, 16, False, False),
        ("-mtriple=x86_64-linux-gnu -mcpu=znver2", 256, 16, True, False),
        ("-mtriple=x86_64-linux-gnu -mcpu=skylake-avx512", 512, 32, True, False),
        ("-mtriple=x86_64-linux-gnu -mcpu=icelake-server", 512, 32, True, True),
        ("-mtriple=x86_64-linux-gnu -mcpu=icelake-server -mattr=-avx512vnni", 512, 32, True, False),
        ("-mtriple=x86_64-linux-gnu -mcpu=alderlake", 256, 16, True, True),
        # Half of AVX-512 is not enough.
        ("-mtriple=x86_64-linux-gnu -mcpu=knl", 256, 16, True, False),
        ("-mtriple=x86_64-linux-gnu -mattr=+avx2,+fma", 256, 16, True, False),
        ("-mtriple=aarch64-linux-gnu -mcpu=cortex-a53", 128, 32, True, False),
        ("-mtriple=aarch64-linux-gnu -mcpu=neoverse-v1", 128, 32, True, True),
        ("-mtriple=armv7-linux-gnueabihf -mcpu=cortex-a9", 128, 16, False, False),
        ("-mtriple=armv7-linux-gnueabihf -mcpu=cortex-a7", 128, 16, True, False),
        ("-mtriple=thumbv7em-none-eabihf -mcpu=cortex-m4", 64, 16, True, False),
        ("-mtriple=riscv64-linux-gnu", 64, 16, True, False),
        ("-mtriple=riscv64-linux-gnu -mattr=+v", 128, 32, True, False),
        ("-mtriple=riscv64-linux-gnu -mcpu=sifive-x280", 512, 32, True, False),
        ("-mtriple=wasm32", 64, 16, False, False),
        ("-mtriple=wasm32 -mattr=+simd128", 128, 16, False, False),
    ],
)
def test_vector_units(text, bits, registers, fused, dots):
    target = parse_target(f"llvm {text}")
    assert (target.vector_bits, target.vector_registers) == (bits, registers)
    assert (target.fused_multiply_add, target.dot_product) == (fused, dots)
    assert target.lanes(DType.FLOAT32) * 32 == bits


def test_without_options_it_is_this_machine():
    assert parse_target("llvm") == host_target()


def test_options_and_detection_agree_on_the_host():
    host = host_target()
    named = parse_target(f"llvm -mcpu={host.cpu} -mattr={host.features}")
    # Of a processor that is named, LLVM knows no caches.
    assert replace(named, cache_bytes=host.cache_bytes) == host


def test_caches_are_read_where_the_system_describes_them(tmp_path):
    assert cache_sizes(tmp_path / "none") is None
    for number, (kind, level, size) in enumerate(
        [("Data", 1, "48K"), ("Instruction", 1, "32K"), ("Unified", 2, "1024K"), ("Unified", 3, "32768K")]
    ):
        folder = tmp_path / "caches" / f"index{number}"
        folder.mkdir(parents=True)
        for name, text in (("type", kind), ("level", level), ("size", size)):
            (folder / name).write_text(f"{text}\n")
    assert cache_sizes(tmp_path / "caches") == (48 * 1024, 1024 * 1024)
    (tmp_path / "caches" / "index2" / "size").write_text("much\n")
    assert cache_sizes(tmp_path / "caches") is None


def test_calling_convention_of_riscv():
    assert parse_target("llvm -mtriple=riscv64-linux-gnu").abi == "lp64d"
    assert parse_target("llvm -mtriple=riscv64-linux-gnu -mattr=-d").abi == "lp64f"


AARCH64 = "llvm -mtriple=aarch64-linux-gnu"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'does not begin with "llvm"'),
        ("cuda", 'target "cuda" does not begin with "llvm"'),
        ("llvm -march=foo", "unknown target option -march; there are -mtriple, -mcpu, -mattr"),
        ("llvm cortex-a53", "unknown target option cortex-a53; there are"),
        ("llvm -mcpu=", "target option -mcpu needs a value"),
        ("llvm -mcpu", "target option -mcpu needs a value"),
        ("llvm -mcpu=generic -mcpu=generic", "target option -mcpu is given twice"),
        ('llvm -mcpu=a"b', "the value must be a name of letters"),
        (f"{AARCH64} -mattr=dotprod", r"the value must be a list such as \+dotprod,-sve"),
        (
            f"{AARCH64} -mcpu=cortex-a5",
            "-mcpu: aarch64 has no processor cortex-a5; close to it are .*cortex-a5",
        ),
        (f"{AARCH64} -mattr=+dots", "-mattr: aarch64 has no feature dots; close to it are .*dotprod"),
        ("llvm -mtriple=pdp11", "-mtriple=pdp11: .* supported are x86-64, aarch64, arm, riscv64, wasm32"),
        ("llvm -mtriple=nvptx64-nvidia-cuda", "this architecture is not supported"),
        ("llvm -mtriple=aarch64_be-linux-gnu", "this architecture is not supported"),
        ("llvm -mtriple=aarch64-apple-darwin", "MachO objects are not supported"),
        (f"{AARCH64} -mattr=-neon", r"no floating-point arithmetic; .* add -mattr=\+neon"),
        ("llvm -mtriple=riscv64 -mcpu=generic-rv64", r"no floating-point arithmetic; .* add -mattr=\+f"),
        ("llvm -mtriple=riscv64 -mattr=+zvl256b", "LLVM does not accept these: .*'zvl.*' requires 'v'"),
    ],
)
def test_mistakes_are_named(text, message):
    with pytest.raises(TargetError, match=message) as caught:
        parse_target(text)
    assert "\n" not in str(caught.value)


def test_other_machines_code_is_not_run():
    x, y = [Buffer(name=name, shape=(4,), dtype=DType.FLOAT32) for name in "XY"]
    i = Var("i")
    program = Program(
        name="copy",
        parameters=(x, y),
        body=nest([(i, 4)], Assign(name="put", buffer=y, indices=(i,), value=x[i])),
    )
    elsewhere = "aarch64" if host_target().triple.startswith("x86_64") else "riscv64"
    with pytest.raises(
        TargetError, match=r"this machine may lack instructions of .*; use the target llvm, or write"
    ):
        build(program, parse_target(f"llvm -mtriple={elsewhere}-linux-gnu"))


@pytest.mark.skipif(not host_target().triple.startswith("x86_64"), reason="levels of x86-64")
def test_lower_levels_run_and_higher_ones_do_not():
    assert runs_here(host_target_at("generic"))
    assert runs_here(parse_target("llvm -mcpu=x86-64-v2"))
    # Virtual machines hide features of systems, and vendors differ in `ermsb`; kernels have no use for them.
    assert runs_here(parse_target("llvm -mattr=+ermsb,+invpcid,+mwaitx,+pku"))
    missing = [word for word in host_target().features.split(",") if word[0] == "-"]
    assert missing and not runs_here(parse_target(f"llvm -mattr=+{missing[0][1:]}"))

"""Static libraries whose machine code several threads generate in the background: their contents, a C program that
links one, and errors that end the generation.
"""

import itertools
import shutil
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from patience import LONG

from vdla.compiler.codegen.cpu import ahead_of_time
from vdla.compiler.codegen.cpu.ahead_of_time import LibraryInProgress, ObjectCode, emit_library
from vdla.compiler.codegen.cpu.errors import CodeGenerationError, TargetError
from vdla.compiler.codegen.cpu.machine import CpuTarget, host_target
from vdla.compiler.codegen.cpu.machine_code import optimise, target_machine
from vdla.compiler.codegen.cpu.module import Module, lower
from vdla.compiler.codegen.cpu.object_files import library_objects, read_symbols, static_library
from vdla.compiler.codegen.cpu.options import parse_target
from vdla.compiler.te.ops.movement import permute

FUNCTIONS = ("first", "second", "third", "fourth", "fifth")


def modules(target: CpuTarget) -> tuple[Module, ...]:
    return tuple(
        [lower(permute((3, 8 + i), (1, 0)), target, function=name) for i, name in enumerate(FUNCTIONS)]
    )


def library(target: CpuTarget, monkeypatch: pytest.MonkeyPatch, characters: int) -> ObjectCode:
    monkeypatch.setattr(ahead_of_time, "BATCH_CHARACTERS", characters)
    return emit_library(modules(target), target, name="net")


@pytest.mark.parametrize("target", ["llvm", "llvm -mtriple=aarch64-linux-gnu", "llvm -mtriple=wasm32"])
def test_every_function_is_in_one_object(monkeypatch: pytest.MonkeyPatch, target: str):
    code = library(parse_target(target), monkeypatch, characters=1)
    objects = library_objects(code.data)
    assert len(objects) == len(FUNCTIONS)
    assert [module.function for module in code.modules] == list(FUNCTIONS)
    assert all(f"{name}(" in code.header for name in FUNCTIONS)
    if "wasm" not in target:
        assert [read_symbols(data).defined for data in objects] == [frozenset({name}) for name in FUNCTIONS]


def test_modules_share_objects_by_their_size_alone(monkeypatch: pytest.MonkeyPatch):
    target = host_target()
    size = len(modules(target)[0].text)
    codes = [library(target, monkeypatch, characters=2 * size) for _ in range(2)]
    assert codes[0] == codes[1]
    assert 1 < len(library_objects(codes[0].data)) < len(FUNCTIONS)


@pytest.mark.parametrize("target", ["llvm", "llvm -mtriple=aarch64-linux-gnu"])
def test_threads_make_at_once_what_one_makes(monkeypatch: pytest.MonkeyPatch, target: str):
    processor = parse_target(target)
    machine = target_machine(processor, jit=False)
    alone = [machine.emit_object(optimise([module], machine)) for module in modules(processor)]
    monkeypatch.setattr(ahead_of_time.os, "cpu_count", lambda: 4)
    assert library_objects(library(processor, monkeypatch, characters=1).data) == alone


def test_a_c_program_links_the_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    compiler = shutil.which("cc")
    assert compiler is not None
    code = library(host_target(), monkeypatch, characters=1)
    (tmp_path / "libnet.a").write_bytes(code.data)
    (tmp_path / "net.h").write_text(code.header)
    calls = " ".join(f"count += {name} != 0;" for name in FUNCTIONS)
    (tmp_path / "main.c").write_text(
        f'#include "net.h"\nint main(void) {{ int count = 0; {calls} return count; }}\n'
    )
    subprocess.run([compiler, "main.c", "-L.", "-lnet", "-o", "main"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "main"], check=False).returncode == len(FUNCTIONS)


def test_what_the_processor_lacks_is_told_of_its_kernel(monkeypatch: pytest.MonkeyPatch):
    def fail(modules: Sequence[Module], target: CpuTarget, *, name: str, exported: object) -> bytes:
        if "third" in [module.function for module in modules]:
            raise TargetError(f"it lacks what {name} needs")
        return b"object"

    monkeypatch.setattr(ahead_of_time, "object_bytes", fail)
    for characters in (1, 10**9):
        with pytest.raises(TargetError, match="lacks what third needs"):
            library(host_target(), monkeypatch, characters)


def test_what_llvm_refuses_is_told_by_node_and_before_all_is_lowered(monkeypatch: pytest.MonkeyPatch):
    target = host_target()
    monkeypatch.setattr(ahead_of_time, "BATCH_CHARACTERS", 1)
    good = modules(target)
    bad = replace(good[1], text=good[1].text.replace("ret void", "ret nothing"))
    with LibraryInProgress(target, name="net") as growing:
        growing.add(good[0], "/first/Conv")
        growing.add(bad, "/second/Conv")
        with pytest.raises(CodeGenerationError, match="/second/Conv: LLVM cannot compile this kernel"):
            growing.finish()
        with pytest.raises(CodeGenerationError, match="/second/Conv"):
            growing.add(good[2], "/third/Conv")


def test_code_generation_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch):
    go_on = threading.Event()

    def hang(*_: object, **__: object) -> bytes:
        go_on.wait(LONG)
        return b"object"

    monkeypatch.setattr(ahead_of_time, "object_bytes", hang)
    monkeypatch.setattr(ahead_of_time, "OBJECT_SECONDS", 0.05)
    try:
        with pytest.raises(CodeGenerationError, match=r"did not compile first of .* within 0\.05 s"):
            library(host_target(), monkeypatch, characters=1)
    finally:
        go_on.set()


def test_an_error_while_lowering_ends_the_thread(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ahead_of_time, "BATCH_CHARACTERS", 1)
    target = host_target()
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt), LibraryInProgress(target, name="net") as growing:
        for module in modules(target):
            growing.add(module)
        raise KeyboardInterrupt
    # Threads of tests before may end meanwhile.
    assert threading.active_count() <= before


def test_libraries_are_read_as_they_were_written():
    for sizes in itertools.product((0, 1, 2, 7), repeat=2):
        objects = [bytes([i + 1]) * size for i, size in enumerate(sizes)]
        assert library_objects(static_library([(data, ["f"]) for data in objects])) == objects


@pytest.mark.parametrize("cut", [3, 8 + 20, 8 + 59, -1])
def test_damaged_libraries_are_refused(cut: int):
    data = static_library([(b"object", ["function"])])
    with pytest.raises(ValueError, match="static library"):
        library_objects(data[:cut])

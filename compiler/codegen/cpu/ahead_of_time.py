"""Kernels compiled ahead of time: an object or static library for any processor, its C header; a shared library for
this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from vdla.util.whole_files import write_whole

from .c_header import header_text, is_c_name
from .errors import TargetError
from .machine import CpuTarget
from .machine_code import object_of, target_machine
from .module import Module
from .object_files import WASM_BY_LINKER, read_symbols
from .wide_integers import FUNCTIONS, wide_integers


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectCode:
    """A relocatable object (ELF or WebAssembly), or a static library of such objects, and its C header, `name`.h.

    `modules`: the modules whose functions are exported.
    """

    name: str
    target: CpuTarget
    modules: tuple[Module, ...]
    data: bytes
    header: str


def emit_object(
    modules: Sequence[Module], target: CpuTarget, *, name: str, exported: Collection[str] | None = None
) -> ObjectCode:
    """The modules, made by `lower` for `target`, each with a unique `function`, as one freestanding object.

    `exported`: functions that callers may use and the header declares (None: all); the rest are internal (see
    `sequence`). The object needs no C library and no runtime; parallel loops call a function that the caller passes.
    Equal modules give equal bytes. Raises ValueError for names that C does not allow or that occur twice; raises
    TargetError if the processor lacks instructions, so that LLVM would call library functions.
    """
    functions = checked_functions(modules, name)
    exported = functions if exported is None else exported
    if unknown := sorted(set(exported) - set(functions)):
        raise ValueError(f"{unknown[0]} cannot be exported: there are {', '.join(functions)}")
    data = object_bytes(modules, target, name=name, exported=exported)
    return ObjectCode(
        name=name,
        target=target,
        modules=(shown := tuple([m for m in modules if m.function in exported])),
        data=data,
        header=header_text(name, shown, target),
    )


def checked_functions(modules: Sequence[Module], name: str) -> list[str]:
    """The functions of an object or library `name`; raises ValueError for names that C does not allow or that occur
    twice.
    """
    functions = [module.function for module in modules]
    if not functions:
        raise ValueError("an object needs at least one module")
    for bad in [n for n in (name, *functions) if not is_c_name(n)]:
        raise ValueError(f"{bad!r} is no name of a C function or header")
    if twice := [n for n, count in Counter(f.upper() for f in functions).items() if count > 1]:
        raise ValueError(f"there are two kernels called {twice[0].lower()} (capitals or not)")
    return functions


def object_bytes(
    modules: Sequence[Module], target: CpuTarget, *, name: str, exported: Collection[str]
) -> bytes:
    """The modules as one object to be linked; TargetError, which names `name`, as in `emit_object`."""
    machine = target_machine(target, jit=False)
    data = object_of(modules, machine, exported)
    needed = read_symbols(data).undefined - WASM_BY_LINKER
    if needed and needed <= FUNCTIONS:
        data = object_of([*modules, wide_integers(needed)], machine, exported)
        needed = read_symbols(data).undefined - WASM_BY_LINKER
    if needed:
        raise TargetError(
            f"{target.cpu} ({target.triple}) lacks instructions that {name} needs: its code would call "
            f"{', '.join(sorted(needed))}; add features with -mattr or take another processor"
        )
    return data


def write_object(code: ObjectCode, folder: Path) -> tuple[Path, Path]:
    """Writes `name`.o and `name`.h, each whole, into an existing folder; returns their paths. Raises ProgramError if
    writing fails.
    """
    paths = folder / f"{code.name}.o", folder / f"{code.name}.h"
    write_whole(paths[0], code.data)
    write_whole(paths[1], code.header.encode())
    return paths


def write_shared_library(code: ObjectCode, library: Path) -> None:
    """Links the object to `library` with this machine's C compiler; the file is written whole or not at all.

    Raises TargetError if there is no compiler, or the object is for another kind of machine; raises ProgramError if the
    file cannot be written.
    """
    compiler = c_compiler()
    with tempfile.TemporaryDirectory() as folder:
        object_path, _ = write_object(code, Path(folder))
        linked = Path(folder, "linked.so")
        command = [compiler, "-shared", "-nostdlib", str(object_path), "-o", str(linked)]
        command.append(f"-Wl,-soname,{library.name}")
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            reason = " / ".join(result.stderr.replace(folder, "").strip().splitlines()[:5])
            raise TargetError(
                f"{compiler} links no shared library of code for {code.target.triple}: {reason}; write an "
                "object (.o) and link it with that system's own tools"
            )
        write_whole(library, linked.read_bytes())


def c_compiler() -> str:
    """The C compiler of this machine: $CC, or the first of cc, gcc, g++, clang. Raises TargetError if there is none."""
    for candidate in (os.environ.get("CC", ""), "cc", "gcc", "g++", "clang"):
        if candidate and (path := shutil.which(candidate)):
            return path
    raise TargetError(
        "there is no C compiler on the path, which links shared libraries (Debian: apt-get install gcc); "
        "an object and its header need none"
    )

"""Compiles kernels to one relocatable object with a C header, and links such an object to a shared library for this
machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

from vdla.util.files import write_whole

from .ahead_of_time import ObjectCode, checked_functions, object_bytes
from .c_header import header_text
from .errors import TargetError
from .machine import CpuTarget
from .module import Module


def emit_object(
    modules: Sequence[Module], target: CpuTarget, *, name: str, exported: Collection[str] | None = None
) -> ObjectCode:
    """Compiles the modules, which `lower` made for `target`, to one object that needs no C library. Each module has a
    unique `function`.

    `exported`: functions that callers may use and the header declares (None: all); only code in the object can call the
    rest. The object needs no runtime; parallel loops call a function that the caller passes. Equal modules give equal
    bytes.

    Raises ValueError if `modules` is empty, for names that C does not allow or that occur twice, and for names in
    `exported` that no module has. Raises TargetError if the processor lacks instructions, because LLVM would then call
    library functions.
    """
    functions = checked_functions(modules, name)
    exported = functions if exported is None else exported
    if unknown := sorted(set(exported) - set(functions)):
        raise ValueError(f"exported: there is no function {unknown[0]!r}; there are {', '.join(functions)}")
    data = object_bytes(modules, target, name=name, exported=exported)
    return ObjectCode(
        name=name,
        target=target,
        modules=(shown := tuple([m for m in modules if m.function in exported])),
        data=data,
        header=header_text(name, shown, target),
    )


def write_object(code: ObjectCode, folder: Path) -> tuple[Path, Path]:
    """Writes `name`.o and `name`.h into an existing folder, each completely or not at all; returns their paths. Raises
    WriteError if writing fails.
    """
    paths = folder / f"{code.name}.o", folder / f"{code.name}.h"
    write_whole(paths[0], code.data)
    write_whole(paths[1], code.header.encode())
    return paths


def write_shared_library(code: ObjectCode, library: Path) -> None:
    """Links the object to the shared library `library` with this machine's C compiler; the file is written completely
    or not at all.

    Raises TargetError if there is no compiler, or the compiler cannot link the object (for instance, the object is for
    another kind of machine); raises WriteError if the file cannot be written.
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
                f"{compiler} cannot link a shared library for {code.target.triple}: {reason}; write an object (.o) "
                "and link it with that system's own tools"
            )
        write_whole(library, linked.read_bytes())


def c_compiler() -> str:
    """The C compiler of this machine: $CC, or the first of cc, gcc, g++, clang. Raises TargetError if there is none."""
    for candidate in (os.environ.get("CC", ""), "cc", "gcc", "g++", "clang"):
        if candidate and (path := shutil.which(candidate)):
            return path
    raise TargetError(
        "linking a shared library needs a C compiler, but none is on the path; install one (Debian: apt-get install "
        "gcc), or write an object (.o) and its header"
    )

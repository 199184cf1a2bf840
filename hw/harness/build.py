"""Builds a shared library from Verilog with Verilator and g++, and caches it by a hash of all inputs."""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from importlib import resources
from pathlib import Path
from typing import Literal

from vdla.util.user_cache import cached_or_made

from ..counters import COUNTER_BITS
from ..interfaces import ADDRESS_BITS
from .library import TIMING
from .prepare import HARNESS_TOP, harness_verilog, port_names
from .toolchain import call, require, verilator

CACHE = "rtl"
"""Name of the part of the user's cache that holds the built libraries."""

Optimize = Literal["build", "run"]
"""Goal of a library's compilation: `build`, quick to compile, or `run`, quick to run."""

COMPILE = ("-fPIC", "-std=gnu++20", "-w", "-DVERILATOR=1", "-DVM_TRACE=0", "-DVM_COVERAGE=0")
"""Flags of g++ for C++ that Verilator wrote."""
_OPTIMIZE: dict[Optimize, str] = {"build": "-Og", "run": "-O1"}
"""Optimization flag of g++ for a library that should be quick to compile ("build") or quick to run ("run"). -Og
compiles in half the time of -O1, and small machines run as fast with it.
"""
_VERILATE = (
    *("--cc", "-O3", "--x-assign", "fast", "--x-initial", "unique", "--noassert"),
    *("-Wno-fatal", "-Wno-lint", "--output-split", "0", "--prefix", "Vvdla", "--top-module", HARNESS_TOP),
)
_RUNTIME = ("verilated.cpp", "verilated_threads.cpp")
"""Source files of Verilator's runtime, in its folder `include`."""

_MEMORIES = """`verilator_config
public_flat_rw -module "*compute*" -var "uops"
public_flat_rw -module "*compute*accumulators" -var "bank_*"
public_flat_rw -module "*inp" -var "words"
public_flat_rw -module "*wgt" -var "words"
public_flat_rw -module "*store*" -var "table_of_biases"
public_flat_rw -module "*store*" -var "table_of_scales"
public_flat_rw -module "*counters" -var "count_*"
public_flat_rw -module "*control" -var "cycles"
"""
"""Configuration of Verilator: scratchpads and counters, which the harness fills, are visible in the generated C++."""

_USER = "the RTL engine"
_INSTANCE = f"{HARNESS_TOP}__DOT__vdla__DOT__"


_TABLE_MODULE = re.compile(r"^module \\vdla\.store\S*\.table_lane ", re.MULTILINE)
_TABLE_MEMORY = 'public_flat_rw -module "*table_lane" -var "words"\n'
_CHAIN_MODULE = re.compile(r"^module \\vdla\.chain ", re.MULTILINE)
_CHAIN_MEMORY = 'public_flat_rw -module "*chain" -var "words"\n'
"""Configuration of Verilator that makes the words of the chain memory (on-chip buffer between layers) visible in the
generated C++. It is used only for machines that have this memory, so that the libraries of other machines keep their
names in the cache.
"""

_ROWS_MODULE = re.compile(r"^module \\vdla\.store\S*\.row_lane ", re.MULTILINE)
_ROWS_MEMORIES = """public_flat_rw -module "*row_lane" -var "plane_*"
public_flat_rw -module "*row_entries*" -var "row_factors"
public_flat_rw -module "*row_entries*" -var "row_values"
"""
_BANKED = re.compile(r"\bwords_\d+ \[\d")
_BANKS = 'public_flat_rw -module "*inp" -var "words_*"\npublic_flat_rw -module "*chain" -var "words_*"\n'
"""Configuration of Verilator for machines whose input scratchpad and chain memory (on-chip buffer between layers) have
banks: makes the banks' words visible in the generated C++.
"""


def require_tools() -> str:
    """The path of g++. Raises BuildError if Verilator, g++ or perl is missing; called before the first slow step."""
    verilator(user=_USER)
    compiler, _ = require("g++", "perl", user=_USER)
    return compiler


def _scratchpads(header: str) -> str:
    """C++ code that lists the arrays of the scratchpads with their kinds ("inp", "acc" ...). The arrays are found by
    name in `header`, the text of the C++ header with Verilator's root class.
    """
    arrays = re.findall(rf"VlUnpacked<[^;]*> ({_INSTANCE}\w+);", header)
    kinds = {
        "uop": r"compute\w*__DOT__uops",
        "inp": r"inp__DOT__words(?:_(\d+))?",
        "wgt": r"wgt__DOT__words",
        "acc": r"compute\w*__DOT__accumulators__DOT__bank_(\d+)",
        "par": r"store\w*__DOT__table_of_(?:biases|scales)",
        "chain": r"chain__DOT__words(?:_(\d+))?",
        "table": r"store\w*__DOT__tables__DOT__lane_(\d+)__DOT__words",
        "planes": r"store\w*__DOT__row_(\d+)__DOT__plane_\d",
        "rows": r"store\w*__DOT__row_entries\w*__DOT__row_(?:factors|values)",
    }
    lines = ["static const std::vector<Block> scratchpads(Vvdla___024root &root) { return {"]
    for kind, pattern in kinds.items():
        found = [(match, name) for name in arrays if (match := re.fullmatch(_INSTANCE + pattern, name))]
        for _, name in sorted(
            found, key=lambda item: (int(item[0][1] or 0) if item[0].groups() else 0, item[1])
        ):
            lines.append(f'{{"{kind}", &root.{name}, sizeof root.{name}}},')
    return "\n".join([*lines, "}; }", ""])


def _counters(header: str) -> str:
    """C++ code that lists the registers of the performance counters in the order of their numbers, then the register
    CYCLES. They are found in `header`, the text of the C++ header with Verilator's root class.
    """
    found = re.findall(rf"QData/\*{COUNTER_BITS - 1}:0\*/ ({_INSTANCE}counters__DOT__count_(\d+));", header)
    names = [name for name, _ in sorted(found, key=lambda item: int(item[1]))]
    names += re.findall(rf"QData/\*{COUNTER_BITS - 1}:0\*/ ({_INSTANCE}control__DOT__cycles);", header)
    listing = ", ".join(f"&root.{name}" for name in names)
    return f"static std::vector<uint64_t *> counters(Vvdla___024root &root) {{ return {{{listing}}}; }}\n"


def _ports(prepared: str) -> str:
    """C++ code that lists name, address and size of the ports of the module `harness` in the Verilog text `prepared`,
    in the order of their declaration and without the clock.
    """
    names = [name for name in port_names(prepared) if name != "clk"]
    listing = ", ".join(f'{{"{name}", &top.{name}, sizeof top.{name}}}' for name in names)
    return f"static std::vector<Block> ports(Vvdla &top) {{ return {{{listing}}}; }}\n"


def build_library(verilog: str, *, bus_bytes: int, optimize: Optimize = "build") -> Path:
    """Path of a shared library, built if the cache lacks it, with the design `verilog` (a Verilog text; top module
    vdla, with trace ports) and the memory model. `bus_bytes`: width of the design's memory port. `optimize`: whether
    the library should be quick to compile ("build") or quick to run ("run").

    Raises BuildError if a tool is missing or fails.
    """
    root, version = verilator(user=_USER)
    prepared = harness_verilog(verilog, gate=optimize == "run")
    source = (resources.files("vdla.hw.harness") / "harness.cpp").read_text(encoding="utf-8")
    widths = (f"-DADDRESS_BITS={ADDRESS_BITS}", f"-DCOUNTER_BITS={COUNTER_BITS}")
    timing = f"-DMEMORY_TIMING={','.join(TIMING)}"
    flags = (*COMPILE, _OPTIMIZE[optimize], f"-DBUS_BYTES={bus_bytes}", *widths, timing)
    memories = _MEMORIES + (_CHAIN_MEMORY if _CHAIN_MODULE.search(prepared) else "")
    memories += _TABLE_MEMORY if _TABLE_MODULE.search(prepared) else ""
    memories += _ROWS_MEMORIES if _ROWS_MODULE.search(prepared) else ""
    memories += _BANKS if _BANKED.search(prepared) else ""
    port = (resources.files("vdla.hw.harness.dram") / "port.h").read_text(encoding="utf-8")
    parts = (prepared, source, port, memories, version, *_VERILATE, *flags)
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def build(target: Path) -> None:
        compiler = require_tools()
        runtime = verilator_runtime(root, version, compiler)
        with tempfile.TemporaryDirectory(prefix="vdla-rtl-") as directory:
            work = Path(directory)
            unit = _generate(root, prepared, source, memories, work)
            (unit.parent / "port.h").write_text(port, encoding="utf-8")
            include = [*include_flags(root), f"-I{unit.parent}"]
            library = work / "library.so"
            call([compiler, "-shared", *flags, *include, str(unit), "-o", str(library), str(runtime)])
            # Copies, since g++ would report a full disk as an error of its own.
            shutil.copyfile(library, target)

    return cached_or_made(CACHE, f"{digest[:32]}.so", build)


def include_flags(root: Path) -> list[str]:
    """Flags of g++ for the folders of Verilator's headers; `root`: the folder in which Verilator is installed."""
    return [f"-I{root / 'include'}", f"-I{root / 'include' / 'vltstd'}"]


def verilator_runtime(root: Path, version: str, compiler: str) -> Path:
    """Compiles Verilator's runtime with the g++ at path `compiler`, if the cache lacks it, and returns the path of the
    object file. `root`: the folder in which Verilator is installed; `version`: Verilator's version.

    All compiled designs share the file, because compiling it takes a third as long as compiling a small design. It is
    always optimized for speed; designs may instead be optimized for a short compilation.
    """
    flags = (*COMPILE, "-O1")
    digest = hashlib.sha256("\0".join((version, *flags, *_RUNTIME)).encode()).hexdigest()

    def build(target: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="vdla-rtl-") as directory:
            unit, made = Path(directory) / "runtime.cc", Path(directory) / "runtime.o"
            unit.write_text("".join(f'#include "{root / "include" / name}"\n' for name in _RUNTIME))
            call([compiler, "-c", *flags, *include_flags(root), str(unit), "-o", str(made)])
            shutil.copyfile(made, target)

    return cached_or_made(CACHE, f"{digest[:32]}.o", build)


def _generate(root: Path, prepared: str, source: str, memories: str, work: Path) -> Path:
    """Converts the Verilog `prepared` to C++ classes by Verilator (installed in folder `root`, with the configuration
    `memories`). Writes the classes and the harness's C++ code `source` to one file in folder `work`; returns its path.
    """
    generated = work / "generated"
    (work / "vdla.v").write_text(prepared, encoding="utf-8")
    (work / "memories.vlt").write_text(memories, encoding="utf-8")
    program = [str(root / "bin" / "verilator"), *_VERILATE, "--Mdir", str(generated)]
    call(
        [*program, str(work / "memories.vlt"), str(work / "vdla.v")],
        {"VERILATOR_ROOT": str(root)},
    )
    header = (generated / "Vvdla___024root.h").read_text(encoding="utf-8")
    lists = _scratchpads(header) + _counters(header) + _ports(prepared)
    (generated / "scratchpads.inc").write_text(lists, encoding="utf-8")
    parts = sorted(generated.glob("*.cpp"))
    unit = generated / "unit.cc"
    unit.write_text("".join(f'#include "{path}"\n' for path in parts) + source, encoding="utf-8")
    return unit

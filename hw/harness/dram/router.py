"""Builds a library of the router's RTL (`hw/axi_router.py`), which makes one memory of several channels."""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import tempfile
from functools import lru_cache
from importlib import resources
from pathlib import Path

from vdla.isa.config import Memory
from vdla.util.user_cache import cached_or_made

from ...axi_router import ROUTER, router_of
from ...verilog import component_verilog
from ..build import COMPILE, include_flags, require_tools, verilator_runtime
from ..toolchain import call, verilator
from .design import CACHE, USER

_VERILATE = (
    *("--cc", "-O3", "--x-assign", "fast", "--x-initial", "fast", "--noassert", "-Wno-fatal", "-Wno-lint"),
    *("--output-split", "0", "--prefix", f"V{ROUTER}", "--top-module", ROUTER),
)


@lru_cache(maxsize=16)
def load_router(memory: Memory, kind: str, channel: int, count: int) -> tuple[int, int]:
    """Loads a library that simulates a memory of several channels, with the router of `memory` in front of them.
    Returns two addresses: the memory's table of functions, and its function that counts commands (port.h). `channel`,
    `count`: the same two addresses for a single channel. `kind`: a text that names these functions of a channel; the
    library stores their addresses, so other functions need another library. Raises UserError for a missing tool.
    """
    library = ctypes.CDLL(str(_library(memory, kind)))
    library.routed_calls.restype = ctypes.c_void_p
    library.routed_calls.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    return library.routed_calls(channel, count), ctypes.cast(library.dram_counts, ctypes.c_void_p).value or 0


def _library(memory: Memory, kind: str) -> Path:
    """The path of the library with the router of `memory`, built once for each `kind`. `kind`: a text that names the
    functions that simulate a channel.
    """
    root, version = verilator(user=USER)
    verilog = component_verilog(router_of(memory), ROUTER)
    folder = resources.files("vdla.hw.harness.dram")
    texts = {name: (folder / name).read_text(encoding="utf-8") for name in ("router.cpp", "port.h")}
    each = " ".join(f"X({index})" for index in range(memory.channels))
    flags = (
        *COMPILE,
        *("-O1", f"-DBUS_BYTES={memory.bus_bytes}", f"-DCHANNELS={memory.channels}"),
        *(f"-DCHANNEL_BYTES={memory.channel_bytes}", f"-DEACH_CHANNEL(X)={each}"),
    )
    parts = (verilog, *texts.values(), kind, version, *_VERILATE, *flags)
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]

    def build(target: Path) -> None:
        compiler = require_tools()
        runtime = verilator_runtime(root, version, compiler)
        with tempfile.TemporaryDirectory(prefix="vdla-dram-") as place:
            source, made, built = (Path(place) / name for name in ("router.v", "made", "built"))
            source.write_text(verilog, encoding="utf-8")
            program = [str(root / "bin" / "verilator"), *_VERILATE, "--Mdir", str(made), str(source)]
            call(program, {"VERILATOR_ROOT": str(root)})
            for name, text in texts.items():
                (made / name).write_text(text, encoding="utf-8")
            unit = made / "unit.cc"
            included = (made / "router.cpp", *sorted(made.glob("*.cpp")))
            unit.write_text("".join(f'#include "{path}"\n' for path in dict.fromkeys(included)))
            includes = [*include_flags(root), f"-I{made}"]
            call([compiler, "-shared", *flags, *includes, str(unit), str(runtime), "-o", str(built)])
            shutil.copy(built, target)

    return cached_or_made(CACHE, f"{digest}.so", build)

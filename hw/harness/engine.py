"""Programs on the Verilated RTL: memory, cycles, begin and end of every instruction, counters."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import metadata, resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from vdla.isa.config import Config, Memory
from vdla.isa.program import instruction_address
from vdla.isa.scratchpads import scratchpad_sizes, typed_scratchpads

from ..control import counter_address
from ..counters import COUNTERS
from ..trace import instruction_times
from ..verilog import generate_verilog
from .build import build_library, cache_directory, locked

FINISHED = 0
_REASONS = {
    1: "has not finished after {cycles} cycles",
    2: "had no data for a write burst in cycle {cycles}",
    3: "addressed memory outside the program's in cycle {cycles}",
    4: "had too many bursts outstanding in cycle {cycles}",
    6: "did not launch",
    5: "marked the wrong beat as last in cycle {cycles}",
}


class RtlError(Exception):
    """The RTL did not finish a program, or broke a rule of its port."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RtlResult:
    """What a run on the RTL took and left.

    `cycles` is the total; `begin` and `end` are (n,) int64, -1 for instructions that never began; `counters` by
    name (`counters.COUNTERS`); `memory` is the image after the run, uint8; `scratchpads` the
    bytes of uop, inp, wgt, acc and (with `post`) par.
    """

    cycles: int
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    counters: dict[str, int]
    memory: NDArray[np.uint8]
    scratchpads: dict[str, NDArray[np.uint8]]


_TIMING = (
    "read_latency",
    "write_latency",
    "outstanding_reads",
    "outstanding_writes",
    "jitter",
    "stall",
    "seed",
)


class _Parameters(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in _TIMING]


def hardware(config: Config) -> Config:
    """`config` with the default memory timing: machines that are one hardware, and so one library, become equal."""
    memory = config.memory
    kept = Memory(
        bus_bytes=memory.bus_bytes,
        outstanding_reads=memory.outstanding_reads,
        outstanding_writes=memory.outstanding_writes,
    )
    return replace(config, name="hardware", memory=kept)


def prepare_library(config: Config, *, unset: bool = False) -> Path:
    """Path of the library that runs programs on `config`, built if it is not there yet.

    With `unset` the one for `simulate_rtl(..., random_state=...)`. A machine is elaborated once: later calls find the
    library by a hash of the configuration and of our sources. Raises BuildError without the tools.
    """
    config = hardware(config)
    known = cache_directory() / f"{config.digest[:32]}-{_sources()[:16]}{'-unset' if unset else ''}.path"
    with locked(known.with_suffix(".lock")):
        if known.exists():
            library = cache_directory() / known.read_text(encoding="utf-8")
            if library.exists():
                return library
        verilog = generate_verilog(config, trace_ports=True)
        library = build_library(verilog, bus_bytes=config.memory.bus_bytes, unset=unset)
        known.write_text(library.name, encoding="utf-8")
    return library


@lru_cache(maxsize=1)
def _sources() -> str:
    """A hash of all that a library is made from besides its configuration."""
    digest = hashlib.sha256(metadata.version("amaranth").encode())
    for package in ("vdla.hw", "vdla.isa"):
        root = Path(str(resources.files(package)))
        for path in sorted((*root.rglob("*.py"), *root.rglob("*.cpp"))):
            digest.update(path.read_bytes())
    return digest.hexdigest()


@lru_cache(maxsize=64)
def _library(config: Config, unset: bool = False) -> ctypes.CDLL:
    return _loaded(prepare_library(config, unset=unset))


@lru_cache(maxsize=64)
def _loaded(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    handle = ctypes.c_void_p
    library.vdla_create.restype = handle
    library.vdla_create.argtypes = [ctypes.c_uint32]
    library.vdla_destroy.argtypes = [handle]
    library.vdla_run.argtypes = [
        handle,
        ctypes.c_void_p,
        ctypes.c_uint64,
        ctypes.POINTER(_Parameters),
        ctypes.c_uint64,
        ctypes.c_uint32,
        ctypes.c_int64,
    ]
    library.vdla_fill.argtypes = [handle, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_uint64]
    library.vdla_fill.restype = ctypes.c_uint64
    library.vdla_copy.argtypes = [handle, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_uint64]
    library.vdla_copy.restype = ctypes.c_uint64
    library.vdla_cycles.argtypes = [handle]
    library.vdla_cycles.restype = ctypes.c_int64
    library.vdla_read.argtypes = [handle, ctypes.c_uint32]
    library.vdla_read.restype = ctypes.c_uint32
    library.vdla_events.argtypes = [handle, ctypes.POINTER(ctypes.c_int64)]
    library.vdla_events.restype = ctypes.POINTER(ctypes.c_int64)
    return library


def simulate_rtl(
    config: Config,
    instructions: NDArray[np.uint64],
    image: NDArray[np.uint8],
    *,
    cycle_limit: int = 10_000_000,
    scratchpads: Mapping[str, NDArray[np.uint8]] | None = None,
    random_state: int | None = None,
    library_path: Path | None = None,
) -> RtlResult:
    """Run (n, 2) uint64 `instructions` with memory `image` on the RTL of `config`, from power-up.

    `scratchpads` are contents at launch by memory (`vdla.isa.scratchpads`), zero where not named. With `random_state`
    everything else that holds state (registers, queues, FIFOs) is random at power-up, seeded by it, and reset must
    suffice; without, it holds its initial values. The first run of a configuration builds its library; with
    `library_path` another one is used, `build.build_library` of a netlist or a mutated design. Raises
    BuildError without the tools, RtlError if the RTL does not finish within `cycle_limit` cycles or breaks a rule of
    the memory port.
    """
    if library_path is None:
        library = _library(hardware(config), random_state is not None)
    else:
        library = _loaded(library_path)
    program = instruction_address(len(image))
    size = program + 16 * len(instructions) + 4096
    memory = np.zeros(size, np.uint8)
    memory[: len(image)] = image
    memory[program : program + 16 * len(instructions)] = (
        np.ascontiguousarray(instructions).view(np.uint8).reshape(-1)
    )
    timing = config.memory
    parameters = _Parameters(*(getattr(timing, name) for name in _TIMING))
    harness = library.vdla_create(0 if random_state is None else random_state % (2**31 - 1) + 1)
    try:
        for kind, contents in _contents(config, scratchpads).items():
            there = library.vdla_fill(harness, kind.encode(), contents.ctypes.data, len(contents))
            if there != len(contents):
                raise RtlError(f"the RTL's {kind} scratchpad has {there} bytes, not {len(contents)}")
        status = library.vdla_run(
            harness,
            memory.ctypes.data,
            size,
            ctypes.byref(parameters),
            program,
            len(instructions),
            cycle_limit,
        )
        cycles = library.vdla_cycles(harness)
        rows = ctypes.c_int64()
        pointer = library.vdla_events(harness, ctypes.byref(rows))
        shape = (rows.value, 5)
        events = np.ctypeslib.as_array(pointer, shape).copy() if rows.value else np.zeros(shape, np.int64)
        begin, end = instruction_times(config, instructions, events)
        if status != FINISHED:
            waiting = _waiting(begin, end)
            raise RtlError(f"the RTL {_REASONS[status].format(cycles=min(cycles, cycle_limit))}{waiting}")
        scratchpads = {
            kind: _scratchpad(library, harness, kind, size) for kind, size in scratchpad_sizes(config).items()
        }
        counters = {name: _read_long(library, harness, counter_address(name)) for name in COUNTERS}
    finally:
        library.vdla_destroy(harness)
    return RtlResult(
        cycles=cycles,
        begin=begin,
        end=end,
        counters=counters,
        memory=memory[: len(image)],
        scratchpads=scratchpads,
    )


def _contents(
    config: Config, scratchpads: Mapping[str, NDArray[np.uint8]] | None
) -> dict[str, NDArray[np.uint8]]:
    """The bytes of every memory at launch. Raises ProgramError for contents that do not fit `config`."""
    typed = typed_scratchpads(config, scratchpads)
    return {
        kind: np.ascontiguousarray(typed[kind]).view(np.uint8).reshape(-1)
        for kind in scratchpad_sizes(config)
    }


def _scratchpad(library: ctypes.CDLL, harness: int, kind: str, size: int) -> NDArray[np.uint8]:
    contents = np.zeros(size, np.uint8)
    there = library.vdla_copy(harness, kind.encode(), contents.ctypes.data, size)
    if there != size:
        raise RtlError(f"the RTL's {kind} scratchpad has {there} bytes, not {size}")
    return contents


def _read_long(library: ctypes.CDLL, harness: int, address: int) -> int:
    return library.vdla_read(harness, address) | library.vdla_read(harness, address + 4) << 32


def _waiting(begin: NDArray[np.int64], end: NDArray[np.int64]) -> str:
    started = np.flatnonzero((begin >= 0) & (end < 0))
    waiting = np.flatnonzero(begin < 0)
    return (
        f"; begun and not ended: {started[:8].tolist() or 'none'}; "
        f"first that has not begun: {waiting[:1].tolist() or 'none'}"
    )

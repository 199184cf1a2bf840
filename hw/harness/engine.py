"""Programs on the Verilated RTL: memory, cycles, begin and end of every instruction, counters."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from vdla.isa.config import Config
from vdla.isa.program import instruction_address

from ..control import counter_address
from ..counters import COUNTERS
from ..trace import instruction_times
from ..verilog import generate_verilog
from .build import build_library

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


@lru_cache(maxsize=8)
def _library(config: Config) -> ctypes.CDLL:
    verilog = generate_verilog(config, trace_ports=True)
    library = ctypes.CDLL(str(build_library(verilog, bus_bytes=config.memory.bus_bytes)))
    handle = ctypes.c_void_p
    library.vdla_create.restype = handle
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
) -> RtlResult:
    """Run (n, 2) uint64 `instructions` with memory `image` on the RTL of `config`, from power-up.

    The first run of a configuration builds its library. Raises BuildError without the tools, RtlError if the RTL does
    not finish within `cycle_limit` cycles or breaks a rule of the memory port.
    """
    library = _library(config)
    program = instruction_address(len(image))
    size = program + 16 * len(instructions) + 4096
    memory = np.zeros(size, np.uint8)
    memory[: len(image)] = image
    memory[program : program + 16 * len(instructions)] = (
        np.ascontiguousarray(instructions).view(np.uint8).reshape(-1)
    )
    timing = config.memory
    parameters = _Parameters(*(getattr(timing, name) for name in _TIMING))
    harness = library.vdla_create()
    try:
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
            kind: _scratchpad(library, harness, kind, size) for kind, size in _sizes(config).items()
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


def _sizes(config: Config) -> dict[str, int]:
    sizes = {kind: getattr(config, f"{kind}_buffer_bytes") for kind in ("uop", "inp", "wgt", "acc")}
    return sizes | ({"par": config.par_depth * config.par_bytes} if config.has("post") else {})


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

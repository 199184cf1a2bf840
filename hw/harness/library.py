"""Loads a shared library and declares the types of the harness's C functions in it."""

from __future__ import annotations

import ctypes
from pathlib import Path

from vdla.isa.config import Memory
from vdla.isa.dram_memory import DRAM_FIELDS
from vdla.isa.parameters import declared

TIMING = tuple(name for name, _, _ in declared(Memory) if name != "bus_bytes" and name not in DRAM_FIELDS)
"""Fields of `isa.config.Memory` that the memory model takes, in this order: all fields except the width of the bus and
the fields of a DRAM.
"""


def timing_numbers(memory: Memory) -> list[int]:
    """The values in `memory` of the fields `TIMING`, in this order. A field with words as values gives the index, from
    0, of its word in the field's `choices`.
    """
    given = ((getattr(memory, name), item.choices) for name, _, item in declared(Memory) if name in TIMING)
    return [choices.index(value) if choices else value for value, choices in given]


PLACES = 16
"""Largest number of address ranges at which the memory appears (`Parameters.origins`)."""


class Parameters(ctypes.Structure):
    """Parameters of a run, the C struct `Parameters` of harness.cpp. `failing`: byte, counted from the begin of the
    memory, at which the memory answers with an error; -1 for none.

    `manners`: seed of random pauses and byte-wise accesses on the control bus; 0 for neither. The bytes of memory
    appear at `base` (register BASE) plus each of the first `places` elements of `origins`. `dram`: the functions of a
    DRAM (dram/port.h), or None; `dram_cycles`: number of cycles that the DRAM runs before the program; `dram_count`: a
    function of the DRAM that writes its counts at the program's end to the address `dram_counts`.
    """

    _fields_ = [
        *((name, ctypes.c_int64) for name in (*TIMING, "failing")),
        *((name, ctypes.c_uint64) for name in ("manners", "base", "places")),
        ("origins", ctypes.c_uint64 * PLACES),
        ("dram", ctypes.c_void_p),
        ("dram_cycles", ctypes.c_int64),
        ("dram_count", ctypes.c_void_p),
        ("dram_counts", ctypes.c_void_p),
    ]


def load_library(path: Path) -> ctypes.CDLL:
    """Loads the shared library at `path` and declares the types of arguments and results of its C functions."""
    library = ctypes.CDLL(str(path))
    handle, pointer = ctypes.c_void_p, ctypes.c_void_p
    signatures: dict[str, tuple[list[type], type | None]] = {
        "create": ([ctypes.c_int32], handle),
        "destroy": ([handle], None),
        "reset": ([handle], None),
        "launch": (
            [
                handle,
                pointer,
                ctypes.c_uint64,
                ctypes.POINTER(Parameters),
                ctypes.c_uint64,
                ctypes.c_uint32,
            ],
            ctypes.c_int32,
        ),
        "advance": ([handle, ctypes.c_int64], ctypes.c_int32),
        "copy": ([handle, ctypes.c_char_p, pointer, ctypes.c_uint64], ctypes.c_uint64),
        "fill": ([handle, ctypes.c_char_p, pointer, ctypes.c_uint64], ctypes.c_uint64),
        "cycles": ([handle], ctypes.c_int64),
        "read": ([handle, ctypes.c_uint32], ctypes.c_uint32),
        "counters": ([handle], ctypes.c_uint64),
        "preset": ([handle, pointer], None),
        "outside_cycle": ([handle], ctypes.c_int64),
        "outside_address": ([handle], ctypes.c_uint64),
        "watch": ([handle, ctypes.c_int32], None),
        "watched": ([handle, ctypes.POINTER(ctypes.c_uint64)], ctypes.POINTER(ctypes.c_uint8)),
        "port": ([handle, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint64)], ctypes.c_char_p),
        "activities": ([handle, ctypes.POINTER(ctypes.c_int64)], ctypes.POINTER(ctypes.c_int64)),
        "events": ([handle, ctypes.POINTER(ctypes.c_int64)], ctypes.POINTER(ctypes.c_int64)),
    }
    for name, (arguments, result) in signatures.items():
        function = getattr(library, f"vdla_{name}")
        function.argtypes, function.restype = arguments, result
    return library

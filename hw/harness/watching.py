"""Reads the values of the RTL's ports that the harness recorded in each cycle."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray


def watched_ports(library: ctypes.CDLL, harness: int | None) -> dict[str, NDArray[np.uint8]]:
    """Values of the accelerator's inputs and outputs in each cycle since the call of `vdla_watch`: by name, uint8
    (cycles, bytes), lowest byte first. Clock and trace ports are left out. `library`: the harness's C library;
    `harness`: address of the machine that its function `vdla_create` returned.
    """
    names, sizes = list[str](), list[int]()
    size = ctypes.c_uint64()
    while (name := library.vdla_port(harness, len(names), ctypes.byref(size))) is not None:
        names.append(name.decode())
        sizes.append(size.value)
    bytes_there = library.vdla_watched(harness, ctypes.byref(size))
    rows = size.value // sum(sizes)
    whole = (
        np.ctypeslib.as_array(bytes_there, (rows, sum(sizes)))
        if rows
        else np.zeros((0, sum(sizes)), np.uint8)
    )
    ends = np.cumsum(sizes)
    return {
        name: whole[:, end - own : end].copy()
        for name, own, end in zip(names, sizes, ends, strict=True)
        if not name.startswith("trace_")
    }

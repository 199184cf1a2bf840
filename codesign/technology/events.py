"""What a program makes a machine do, counted: operations of the array and the lanes, accesses of scratchpads, bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from vdla.isa.layout import Opcode, extract, formats
from vdla.isa.program import Program
from vdla.sim import SimulationResult

from ..report.traffic import register_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """Counts of one launch. Operations are of whole vectors; `overwriting` are those of the array that read no
    accumulator. `window_reads` are accumulator vectors that the store unit reads, `stored` those that it stores,
    `chained` those that go to the chain memory, `combined` those with an operand. `read` and `written` are bytes on the
    bus by kind."""

    cycles: int
    gemm: int
    depthwise: int
    overwriting: int
    alu: int
    stored: int
    window_reads: int
    combined: int
    read: dict[str, int]
    written: int
    chained: int = 0


def count_events(
    program: Program, simulation: SimulationResult, only: NDArray[np.bool_] | None = None
) -> Events:
    """The events of a program that was simulated; with `only` (n,) the operations of these instructions, beside cycles
    and bytes of the whole program."""
    words, layout = np.asarray(program.instructions), formats(program.config)
    opcode = (words[:, 0] & np.uint64(7)).astype(np.int64)
    if only is not None:
        opcode = np.where(only, opcode, -1)

    def field(format_name: str, name: str, which: np.ndarray) -> np.ndarray:
        return extract(words[which], layout[format_name].field(name))

    def operations(format_name: str, which: np.ndarray) -> np.ndarray:
        span = np.maximum(0, field(format_name, "uop_end", which) - field(format_name, "uop_bgn", which))
        return span * field(format_name, "iter_out", which) * field(format_name, "iter_in", which)

    gemm, depthwise, alu, store = (
        np.flatnonzero(opcode == code) for code in (Opcode.GEMM, Opcode.DEPTHWISE, Opcode.ALU, Opcode.STORE)
    )
    products = operations("GEMM", gemm)
    whole = (field("GEMM", "reset", gemm) | field("GEMM", "overwrite", gemm)) == 1
    vectors = field("STORE.OUT", "y_size", store) * field("STORE.OUT", "x_size", store)
    post = extract(words[store], layout["LOAD.INP"].field("memory_type")) == layout["STORE.POST"].memory_type
    windows = np.array(
        [(w["rows_minus_1"] + 1) * (w["columns_minus_1"] + 1) for w in register_at(words, "WINDOW", store)],
        dtype=np.int64,
    )
    combined = post & (field("STORE.POST", "operand", store) == 1)
    return Events(
        cycles=simulation.cycles,
        gemm=int(products.sum()),
        depthwise=int(operations("GEMM", depthwise).sum()),
        overwriting=int(products[whole].sum()),
        alu=int(operations("ALU", alu).sum()),
        stored=int(vectors.sum()),
        window_reads=int((vectors * np.where(post, windows, 1)).sum()) if store.size else 0,
        combined=int(vectors[combined].sum()),
        read={kind: item.bytes for kind, item in simulation.traffic.items() if kind != "out"},
        written=simulation.dram_write_bytes,
        chained=int(vectors[post & (field("STORE.POST", "chain", store) == 1)].sum()),
    )

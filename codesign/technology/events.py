"""Counts of the events of a program on a machine: operations of the array and of the lanes, accesses to scratchpads,
bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vdla.isa.alu import AluOpcode
from vdla.isa.array_modes import MODES
from vdla.isa.layout import Unit
from vdla.isa.program import Program
from vdla.sim import SimulationResult
from vdla.sim import state as s
from vdla.sim.decode import decode
from vdla.sim.folded_reads import adding_operations

from ..report.traffic import register_fields
from .dram import DramCommands, dram_commands

MOVERS = ("load", "compute", "store", "written")
"""Kinds of DRAM transfers: loads by the load unit, loads by the compute unit, loads and operand reads by the store
unit, and stored outputs.
"""

HELD = ("uop", "inp", "wgt")
"""Scratchpads for which `Events.held` counts consecutive reads of the same address."""


def _none() -> dict[str, int]:
    return dict.fromkeys(MOVERS, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """Counts of events in one launch (run of a program). An operation of the array or of the ALU processes whole
    vectors.

    - Operations of the array: `by_mode` counts the operations of each mode, by name of the mode (`isa.array_modes`).
      `overwriting` counts the operations that read no accumulator. `kept_lanes` counts the accumulator lanes that an
      array with the extension `fold` leaves unchanged.
    - Operations of the ALU: `alu` counts all of them, `slow` counts shifts and multiplications, and `two` counts
      operations whose operands are both accumulators (none is a constant).
    - Vectors of the store unit: `window_reads` counts the accumulator vectors that it reads. `stored` counts the
      vectors that it stores; among these, `chained` counts the ones that go to the chain memory (on-chip memory between
      layers), and `combined` counts the ones that it combines with an operand from memory.
    - Instructions: `issued` counts them by unit. `settings` counts the CONFIG instructions of the store unit, and
      `posts` the STORE.POST instructions.
    - Bus: `read` counts the bytes read by kind of data, and `written` counts the bytes written. `runs` counts the
      contiguous pieces of DRAM that are transferred, by kind of transfer (`MOVERS`).
    - `busy` counts the cycles in which the load unit and the store unit are busy, by unit.
    - `held` counts reads of micro-ops, input vectors and weight tiles from the same address as in the previous
      operation. It only considers instructions with a single micro-op.
    - `dram` counts the commands of a DRAM; it is None on a machine with a fixed memory.
    """

    cycles: int
    by_mode: Mapping[str, int]
    overwriting: int
    alu: int
    stored: int
    window_reads: int
    combined: int
    read: Mapping[str, int]
    written: int
    chained: int = 0
    slow: int = 0
    two: int = 0
    settings: int = 0
    posts: int = 0
    issued: Mapping[str, int] = field(default_factory=_none)
    runs: Mapping[str, int] = field(default_factory=_none)
    busy: Mapping[str, int] = field(default_factory=_none)
    kept_lanes: int = 0
    held: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(HELD, 0))
    dram: DramCommands | None = None

    @property
    def gemm(self) -> int:
        """Number of the array's operations of instruction GEMM."""
        return self.by_mode.get("gemm", 0)

    @property
    def depthwise(self) -> int:
        """Number of the array's operations of instruction DEPTHWISE."""
        return self.by_mode.get("depthwise", 0)

    @property
    def matrix(self) -> int:
        """Number of the array's operations, in all modes (GEMM, DEPTHWISE, TAPS) together."""
        return sum(self.by_mode.values())

    @property
    def vectors_read(self) -> int:
        """Number of input vectors that the array reads: for each mode, the number of operations times the input vectors
        (positions) that one operation reads.
        """
        return sum(mode.positions * self.by_mode.get(mode.name, 0) for mode in MODES)


def count_events(
    program: Program, simulation: SimulationResult, only: NDArray[np.bool_] | None = None
) -> Events:
    """The events of a simulated program. `only` (bool, one for each instruction) selects the instructions whose
    operations are counted; cycles, busy cycles, bytes and DRAM commands are always those of the whole program.
    """
    words = np.asarray(program.instructions)
    config = program.config
    decoded = decode(config, words, len(program.image))
    rows = decoded.rows
    counted = np.ones(len(rows), bool) if only is None else only[: len(rows)]
    kind = np.where(counted, rows[:, s.KIND], -1)

    def of(*kinds: int) -> NDArray[np.intp]:
        return np.flatnonzero(np.isin(kind, kinds))

    def operations(which: NDArray[np.intp]) -> NDArray[np.int64]:
        span = np.maximum(0, rows[which, s.UOP_END] - rows[which, s.UOP_BGN])
        return span * rows[which, s.ITER_OUT] * rows[which, s.ITER_IN]

    gemm, alu, post = of(s.GEMM), of(s.ALU), of(s.STORE_POST)
    matrix = of(*(s.KINDS[mode.instruction] for mode in MODES))
    store = of(s.STORE_OUT, s.STORE_POST)
    products, of_alu = operations(gemm), operations(alu)
    whole = (rows[gemm, s.RESET] | rows[gemm, s.OVERWRITE]) == 1
    adding = adding_operations(config, decoded, np.asarray(program.image))
    shapes = register_fields(words, "FOLD", gemm)["shape"]
    kept = np.where(rows[gemm, s.RESET] == 1, 0, config.block_out - (config.columns << shapes))
    vectors = rows[store, s.Y_SIZE] * rows[store, s.X_SIZE]
    windows = np.ones(len(store), np.int64)
    of_post = np.isin(store, post)
    window = register_fields(words, "WINDOW", post)
    windows[of_post] = (window["rows_minus_1"] + 1) * (window["columns_minus_1"] + 1)
    slow = np.isin(rows[alu, s.ALU_OPCODE], (AluOpcode.SHR, AluOpcode.MUL))
    combined = of_post & (rows[store, s.OPERAND] == 1)
    unit = np.where(counted, rows[:, s.UNIT], -1)
    return Events(
        cycles=simulation.cycles,
        by_mode=_by_mode(words, kind[matrix], matrix, operations(matrix)),
        overwriting=int(products[whole].sum() - adding[gemm].sum()),
        alu=int(of_alu.sum()),
        slow=int(of_alu[slow].sum()),
        two=int(of_alu[rows[alu, s.USE_IMM] == 0].sum()),
        stored=int(vectors.sum()),
        window_reads=int((vectors * windows).sum()),
        combined=int(vectors[combined].sum()),
        read={kind: item.bytes for kind, item in simulation.traffic.items() if kind != "out"},
        written=simulation.dram_write_bytes,
        chained=int(vectors[of_post & (rows[store, s.CHAIN] == 1)].sum()),
        settings=int((kind == s.CONFIG)[unit == Unit.STORE].sum()),
        posts=len(post),
        issued={item.name.lower(): int((unit == item).sum()) for item in Unit},
        runs=_runs(rows, of, words),
        busy={name: own.busy.get("busy", 0) for name, own in simulation.units.items() if name != "compute"},
        kept_lanes=config.batch * int((products * kept).sum()),
        held=_held(rows, matrix, alu),
        dram=dram_commands(simulation),
    )


def _by_mode(
    words: NDArray[np.uint64],
    kind: NDArray[np.int64],
    matrix: NDArray[np.intp],
    operations: NDArray[np.int64],
) -> dict[str, int]:
    """Number of operations in each mode of the array, by name of the mode. `words`: all encoded instructions; `matrix`:
    indices of the array's instructions; `kind`, `operations`: the kind and the number of operations of each of these.
    """
    found: dict[str, int] = {}
    left = np.ones(len(matrix), bool)
    for mode in reversed(
        MODES
    ):  # The default mode of an instruction takes the operations that no register selects.
        own = left & (kind == s.KINDS[mode.instruction])
        if mode.register is not None:
            own &= register_fields(words, mode.register, matrix)["on"] == 1
        found[mode.name] = int(operations[own].sum())
        left &= ~own
    return {mode.name: found[mode.name] for mode in MODES}


def _held(rows: NDArray[np.int64], matrix: NDArray[np.intp], alu: NDArray[np.intp]) -> dict[str, int]:
    """For each scratchpad of HELD, the number of operations that read the same address as the operation before; only
    instructions with one micro-op are counted. `rows`: decoded instructions; `matrix`, `alu`: indices of the
    instructions of the array and of the ALU.
    """

    def stays(which: NDArray[np.intp], out: int, inner: int) -> int:
        """Counts operations that read the same address as the operation before. Of the instructions with the indices
        `which`, only instructions with one micro-op are counted. `out` and `inner`: columns of `rows` with the address
        steps of the outer and the inner loop.
        """
        single = which[rows[which, s.UOP_END] - rows[which, s.UOP_BGN] == 1]
        outs, ins = np.maximum(rows[single, s.ITER_OUT], 0), rows[single, s.ITER_IN]
        within = np.where(rows[single, inner] == 0, outs * np.maximum(ins - 1, 0), 0)
        back = rows[single, out] == (ins - 1) * rows[single, inner]
        return int(within.sum() + np.where(back & (ins > 0), np.maximum(outs - 1, 0), 0).sum())

    def all_but_first(which: NDArray[np.intp]) -> int:
        single = which[rows[which, s.UOP_END] - rows[which, s.UOP_BGN] == 1]
        return int(np.maximum(rows[single, s.ITER_OUT] * rows[single, s.ITER_IN] - 1, 0).sum())

    return {
        "uop": all_but_first(matrix) + all_but_first(alu),
        "inp": stays(matrix, s.SRC_OUT, s.SRC_IN),
        "wgt": stays(matrix, s.WGT_OUT, s.WGT_IN),
    }


def _runs(
    rows: NDArray[np.int64], of: Callable[..., NDArray[np.intp]], words: NDArray[np.uint64]
) -> dict[str, int]:
    """Number of contiguous pieces of DRAM that loads and stores access, by kind of transfer (MOVERS); adjacent rows
    form one piece. `rows`: decoded instructions; `of(kind, ...)`: indices of the instructions of these kinds; `words`:
    the encoded instructions.
    """

    def pieces(*kinds: int) -> int:
        which = of(*kinds)
        y, x, stride = (rows[which, column] for column in (s.Y_SIZE, s.X_SIZE, s.X_STRIDE))
        joined = (stride == x) & (rows[which, s.KIND] != s.LOAD_PATCH)
        on_bus = (rows[which, s.KIND] != s.STORE_POST) | (rows[which, s.CHAIN] == 0)
        return int(np.where((x == 0) | ~on_bus, 0, np.where(joined, np.minimum(y, 1), y)).sum())

    operands = of(s.STORE_POST)
    used = operands[rows[operands, s.OPERAND] == 1]
    fields = register_fields(words, "OPERAND", used)
    own, stride, repeat = (fields[n] for n in ("own_stride", "stride", "repeat"))
    pitch = np.where(own == 1, stride, rows[used, s.X_STRIDE])
    width = np.where(repeat == 1, 1, rows[used, s.X_SIZE])
    with_operand = np.where(pitch == width, 1, rows[used, s.Y_SIZE])
    return {
        "load": pieces(s.LOAD_INP, s.LOAD_WGT, s.LOAD_PATCH),
        "compute": pieces(s.LOAD_UOP, s.LOAD_ACC, s.LOAD_ACC8),
        "store": pieces(s.LOAD_PAR, s.LOAD_TABLE) + int(with_operand.sum()),
        "written": pieces(s.STORE_OUT, s.STORE_POST),
    }

"""Counts of an accelerator program, from its instruction words: transfers, operations of the array, tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

import vdla.isa.layout as layout
from vdla.isa.config import Config
from vdla.isa.fields import extract
from vdla.isa.layout import LOADS, TOKEN_QUEUES, Unit
from vdla.isa.registers import register

KINDS = (
    *(name for name in LOADS if name != "LOAD.TABLE"),
    "STORE.OUT",
    "STORE.POST",
    "GEMM",
    "DEPTHWISE",
    "ALU",
    "CONFIG",
    "FINISH",
)
"""Names of instruction formats, in the order of the features. A LOAD.TABLE is counted as a LOAD.PAR. TAPS and ROWS have
no features.
"""
TRAFFIC = ("uop", "wgt", "inp", "acc", "par", "operand", "out")
"""Kinds of memory transfers, as the simulator counts them; instruction fetches are not included."""
_KIND_OF = {
    "INP": "inp",
    "PATCH": "inp",
    "WGT": "wgt",
    "UOP": "uop",
    "ACC": "acc",
    "ACC8": "acc",
    "PAR": "par",
    "TABLE": "par",
}

Columns = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCounts:
    """Counts of one program.

    `instructions`: number of instructions of each format in `KINDS`. For each kind of transfer, `bytes` is the number
    of bytes, `beats` the number of beats of the bus, and `runs` the number of contiguous runs in DRAM. `operations`:
    number of steps of the array by the instructions GEMM, DEPTHWISE and ALU. `tokens`: number of tokens sent to each
    queue.
    """

    instructions: dict[str, int]
    bytes: dict[str, int]
    beats: dict[str, int]
    runs: dict[str, int]
    operations: dict[str, int]
    tokens: dict[str, int]


MACHINE_FEATURES = (
    *(f"machine.instructions.{kind}" for kind in KINDS),
    *(f"machine.{what}.{kind}" for kind in TRAFFIC for what in ("beats", "runs")),
    *(f"machine.operations.{kind}" for kind in ("GEMM", "DEPTHWISE", "ALU")),
    *(f"machine.tokens.{queue.name}" for queue in TOKEN_QUEUES),
    "machine.operations a beat",
)
"""Names of the entries of `machine_features`, in order."""


def machine_features(config: Config, instructions: np.ndarray) -> np.ndarray:
    """Features of a program on `config`, float64 [features]: log2(1 + x) of each count and ratio x in MACHINE_FEATURES.

    `instructions`: the program's encoded words, uint64 (n, words).
    """
    counts = count_machine(config, instructions)
    operations = sum(counts.operations.values())
    values = [
        *counts.instructions.values(),
        *(count for kind in TRAFFIC for count in (counts.beats[kind], counts.runs[kind])),
        *counts.operations.values(),
        *counts.tokens.values(),
        operations / max(1, sum(counts.beats.values())),
    ]
    return np.log2(1.0 + np.array(values, dtype=np.float64))


def count_machine(config: Config, instructions: np.ndarray) -> MachineCounts:
    """Counts the transfers, array operations and tokens of a program. `instructions`: its encoded instructions, uint64
    (n, words). Bytes and bus beats are counted as in the simulator's `SimulationResult.traffic`.
    """
    formats = layout.formats(config)
    opcodes = (instructions[:, 0] & np.uint64(7)).astype(np.int64)
    types = (instructions[:, 0] >> np.uint64(7) & np.uint64(7)).astype(np.int64)
    rows: dict[str, np.ndarray] = {}
    for kind in layout.names_of():
        found = opcodes == int(formats[kind].opcode)
        if formats[kind].memory_type is not None:
            found &= types == formats[kind].memory_type
        rows[kind] = np.flatnonzero(found)
    transfers = {kind: [0, 0, 0] for kind in TRAFFIC}
    for name, at in rows.items():
        if not len(at) or not name.startswith(("LOAD.", "STORE.")):
            continue
        fields = _fields(config, name, instructions[at])
        load = name.removeprefix("LOAD.")
        if name == "LOAD.PATCH":
            _add(transfers["inp"], config, _patches(config, fields, at, instructions, rows["CONFIG"]))
        elif name in LOADS:
            _add(transfers[_KIND_OF[load]], config, _rectangle(fields, config.element_bytes(load.lower())))
        else:
            written = _rectangle(fields, config.out_bytes)
            _add(transfers["out"], config, written)
            if name == "STORE.POST" and (reads := fields["operand"] != 0).any():
                moved = _operands(
                    config, fields, reads, _register(instructions, rows["CONFIG"], "OPERAND", at, whole=True)
                )
                _add(transfers["operand"], config, moved)
    return MachineCounts(
        instructions={kind: len(rows[kind]) for kind in KINDS}
        | {"LOAD.PAR": len(rows["LOAD.PAR"]) + len(rows["LOAD.TABLE"])},
        bytes={kind: moved[0] for kind, moved in transfers.items()},
        beats={kind: moved[1] for kind, moved in transfers.items()},
        runs={kind: moved[2] for kind, moved in transfers.items()},
        operations={
            kind: _operations(_fields(config, kind, instructions[rows[kind]]))
            for kind in ("GEMM", "DEPTHWISE", "ALU")
        },
        tokens=_tokens(config, instructions, rows),
    )


Runs = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Contiguous runs of DRAM accesses, four arrays with one entry for each instruction: first byte, number of runs, bytes
of a run, distance of runs in bytes.
"""


def _fields(config: Config, name: str, words: np.ndarray) -> dict[str, np.ndarray]:
    return {item.name: extract(words, item) for item in layout.formats(config)[name].fields}


def _rectangle(fields: Columns, size: int) -> Runs:
    """The contiguous runs that each load or store accesses in DRAM. Adjacent rows form one run (hw/README.md, sections
    6 and 8). `fields`: fields of the instructions. `size`: bytes of an element.
    """
    rows, columns, pitch = fields["y_size"], fields["x_size"], fields["x_stride"]
    joined = pitch == columns
    runs = np.where(rows * columns == 0, 0, np.where(joined, 1, rows))
    return fields["dram_base"] * size, runs, columns * size * np.where(joined, rows, 1), pitch * size


def _patches(config: Config, fields: Columns, at: np.ndarray, words: np.ndarray, configs: np.ndarray) -> Runs:
    held = _register(words, configs, "PATCH", at, whole=True)
    parts = {item.name: held >> item.low & ((1 << item.width) - 1) for item in register("PATCH").fields}
    columns = fields["x_size"]
    end = (columns - 1) * parts["step"] + parts["run"] - parts["pad_left"]
    length = np.maximum(0, np.minimum(parts["row_bytes"], end))
    length = np.where((parts["run"] == 0) | (columns == 0), 0, length)
    return fields["dram_base"], np.where(length > 0, fields["y_size"], 0), length, fields["x_stride"]


def _operands(config: Config, fields: Columns, reads: np.ndarray, held: np.ndarray) -> Runs:
    """For each store, the contiguous runs of DRAM from which the store loads its second operand. Stores for which
    `reads` is false load no second operand and have no runs. `fields`: the fields of the store instructions. `held`:
    the value of the configuration register OPERAND at each store.
    """
    delta = held << 32 >> 32
    stride = np.where(held >> 48 & 1, held >> 32 & 0xFFFF, fields["x_stride"])
    width = np.where(held >> 49 & 1, np.minimum(fields["x_size"], 1), fields["x_size"])
    shape = {"dram_base": fields["dram_base"] + delta, "x_stride": stride, "x_size": width}
    start, runs, length, pitch = _rectangle({**fields, **shape}, config.out_bytes)
    return start, np.where(reads, runs, 0), length, pitch


def _register(
    words: np.ndarray, configs: np.ndarray, name: str, at: np.ndarray, whole: bool = False
) -> np.ndarray:
    """The values of the configuration register `name` at the instructions `at` (indices). A value is the register's
    first field or, with `whole`, all its bits.

    `words`: the program's encoded instructions. `configs`: indices of its CONFIG instructions. A register is 0 before
    it is first written.
    """
    target = register(name)
    low = words[configs, 0]
    mine = (low >> np.uint64(7) & np.uint64(3)) == np.uint64(target.unit)
    mine &= (low >> np.uint64(9) & np.uint64(127)) == np.uint64(target.index)
    places = configs[mine]
    values = np.concatenate([np.zeros(1, np.uint64), words[places, 1]])[np.searchsorted(places, at)]
    if whole:
        return values.astype(np.int64)
    return extract(np.stack([values, values], axis=1), target.fields[0])


def _add(total: list[int], config: Config, moved: Runs) -> None:
    """Adds the bytes, bus beats and runs of `moved` to the three numbers in `total`. A run takes one beat for each bus
    word that contains bytes of the run.
    """
    start, runs, length, pitch = moved
    bus = config.memory.bus_bytes
    number = np.arange(int(runs.sum())) - np.repeat(np.cumsum(runs) - runs, runs)
    first = np.repeat(start, runs) + number * np.repeat(pitch, runs)
    last = first + np.repeat(length, runs) - 1
    total[0] += int((runs * length).sum())
    total[1] += int((last // bus - first // bus + 1).sum())
    total[2] += int(runs.sum())


def _operations(fields: Columns) -> int:
    micro_ops = np.maximum(0, fields["uop_end"] - fields["uop_bgn"])
    return int((fields["iter_out"] * fields["iter_in"] * micro_ops).sum())


def _tokens(config: Config, words: np.ndarray, rows: Mapping[str, np.ndarray]) -> dict[str, int]:
    units = np.full(len(words), int(Unit.COMPUTE))
    for kind, at in rows.items():
        if kind == "CONFIG":
            units[at] = extract(words[at], layout.formats(config)[kind].field("unit"))
        else:
            units[at] = int(layout.unit_of(kind, {}))
    common = layout.formats(config)["FINISH"]
    pushed = {flag: extract(words, common.field(flag)) for flag in ("push_prev", "push_next")}
    return {
        queue.name: int(pushed[queue.push_flag][units == int(queue.producer)].sum()) for queue in TOKEN_QUEUES
    }

"""A program's traffic on the memory bus, from its instructions: bytes by kind of data, and the number of distinct
addresses among them.

Nothing is simulated here; a test compares the sums with the simulator's counters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vdla.isa.config import Config
from vdla.isa.fields import extract, unpack_fields
from vdla.isa.layout import ROWS, MemoryType, Opcode, formats
from vdla.isa.program import Program, instruction_address
from vdla.isa.registers import register

KINDS = ("instruction", "uop", "wgt", "inp", "acc", "par", "operand", "out")
"""Kinds of bytes on the bus, named as in the timing contract; `out` is written, the others are read."""

_LOADS = {"uop": "uop", "wgt": "wgt", "inp": "inp", "acc": "acc", "acc8": "acc", "par": "par", "table": "par"}
"""Maps the kind of elements that a load instruction loads to its kind of traffic (`KINDS`). LOAD.PATCH is not included.
"""
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Runs:
    """Contiguous pieces of DRAM that instructions read or write, as columns of int64.

    `instruction` is the index of the instruction, `kind` indexes KINDS, `start` is a byte address, `length` counts
    bytes.
    """

    instruction: Integers
    kind: Integers
    start: Integers
    length: Integers


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Numbers of bytes that a program moves between DRAM and the chip. Each attribute maps the kinds of data (KINDS) to
    a number.

    `moved` counts every byte as often as it is moved. `distinct` counts every address once. `unread`, only for the
    kinds in INPUTS, counts the addresses of those input elements that are moved but that no window of the layer reads.
    """

    moved: dict[str, int]
    distinct: dict[str, int]
    unread: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def total(self) -> int:
        """Number of bytes moved, of all kinds."""
        return sum(self.moved.values())


def _rows(
    which: Integers, kind: str, start: Integers, pitch: Integers, rows: Integers, length: Integers
) -> tuple[Integers, ...]:
    # One row of output for each of the `rows` rows of each instruction in `which`.
    rows = np.where(length > 0, rows, 0)
    first = np.repeat(np.cumsum(rows) - rows, rows)
    row = np.arange(int(rows.sum())) - first
    return (
        np.repeat(which, rows),
        np.full(len(row), KINDS.index(kind)),
        np.repeat(start, rows) + row * np.repeat(pitch, rows),
        np.repeat(length, rows),
    )


def register_fields(words: NDArray[np.uint64], name: str, which: Integers) -> dict[str, Integers]:
    """The fields of the configuration register `name` as they are at each instruction in `which` (indices): int64
    [len(which)] by the field's name. `words` are all instructions, uint64 [n, words]. Queues keep program order, so
    that the last CONFIG before an instruction determines the fields; before the first CONFIG they are 0.
    """
    item = register(name)
    opcode = (words[:, 0] & np.uint64(7)).astype(np.int64)
    target = (words[:, 0] >> np.uint64(7)).astype(np.int64) & 0x1FF
    writes = np.flatnonzero((opcode == Opcode.CONFIG) & (target == (item.unit | item.index << 2)))
    values = [unpack_fields(item.fields, 0), *(unpack_fields(item.fields, int(words[i, 1])) for i in writes)]
    found = np.searchsorted(writes, which)
    return {
        field.name: np.array([value[field.name] for value in values], np.int64)[found]
        for field in item.fields
    }


def find_runs(config: Config, instructions: NDArray[np.uint64], instruction_base: int) -> Runs:
    """All pieces of DRAM that `instructions`, uint64 (n, words), read or write, including the fetch of the instructions
    themselves from address `instruction_base`.
    """
    words = instructions
    layouts = formats(config)
    memory = layouts["LOAD.INP"]
    opcode = (words[:, 0] & np.uint64(7)).astype(np.int64)
    kind = extract(words, memory.field("memory_type"))
    dram, y, x, stride = (
        extract(words, memory.field(n)) for n in ("dram_base", "y_size", "x_size", "x_stride")
    )
    everything = np.arange(len(words), dtype=np.int64)
    one = np.ones(len(words), np.int64)
    pieces = [
        _rows(
            everything,
            "instruction",
            instruction_base + config.instruction_bytes * everything,
            one,
            one,
            config.instruction_bytes * one,
        )
    ]
    for element, name in _LOADS.items():
        memory_type = layouts[f"LOAD.{element.upper()}"].memory_type
        which = np.flatnonzero((opcode == Opcode.LOAD) & (kind == memory_type))
        size = config.element_bytes(element)
        pieces.append(_rows(which, name, dram[which] * size, stride[which] * size, y[which], x[which] * size))
    which = np.flatnonzero((opcode == Opcode.LOAD) & (kind == MemoryType.PATCH))
    if which.size:
        patch = register_fields(words, "PATCH", which)
        run, step, left, row_bytes = (patch[n] for n in ("run", "step", "pad_left", "row_bytes"))
        low = np.maximum(0, -left)
        high = np.minimum(row_bytes, (x[which] - 1) * step + run - left)
        length = np.where(x[which] > 0, np.maximum(high - low, 0), 0)
        pieces.append(_rows(which, "inp", dram[which] + low, stride[which], y[which], length))
    post = layouts["STORE.POST"]
    is_post = (opcode == Opcode.STORE) & (kind == post.memory_type)
    chained = is_post & (extract(words, post.field("chain")) == 1)
    which = np.flatnonzero((opcode == Opcode.STORE) & (kind != ROWS) & ~chained)
    size = config.out_bytes
    pieces.append(_rows(which, "out", dram[which] * size, stride[which] * size, y[which], x[which] * size))
    which = np.flatnonzero(is_post & (extract(words, post.field("operand")) == 1))
    if which.size:
        operand = register_fields(words, "OPERAND", which)
        delta, own, own_stride, repeat = (operand[n] for n in ("delta", "own_stride", "stride", "repeat"))
        pitch = np.where(own == 1, own_stride, stride[which])
        width = np.where(repeat == 1, np.minimum(x[which], 1), x[which])
        start = (dram[which] + delta) * size
        pieces.append(_rows(which, "operand", start, pitch * size, y[which], width * size))
    columns = [np.concatenate(column) for column in zip(*pieces, strict=True)]
    return Runs(instruction=columns[0], kind=columns[1], start=columns[2], length=columns[3])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Unread:
    """Marks those bytes of a tensor that no window of a convolution or pool reads. `mask`: bool (bytes,), true for
    these bytes. `start`: byte address of the tensor.
    """

    start: int
    mask: NDArray[np.bool_]


def _joined(key: Integers, start: Integers, length: Integers) -> tuple[Integers, Integers, Integers]:
    """Returns (keys, begins, ends) of the pieces of DRAM [start, start + length). Consecutive pieces with the same key
    are merged if the second begins where the first ends.
    """
    end = start + length
    first = np.ones(len(key), bool)
    first[1:] = (key[1:] != key[:-1]) | (start[1:] != end[:-1])
    firsts = np.flatnonzero(first)
    lasts = np.append(firsts[1:], len(key)) - 1
    return key[firsts], start[firsts], end[lasts]


def _sorted_apart(key: Integers, begin: Integers, end: Integers) -> tuple[Integers, Integers, Integers]:
    """The pieces of DRAM [begin, end), sorted by key and address. Where pieces of one key overlap, the later piece is
    cut at its beginning: [0, 8) and [4, 12) become [0, 8) and [8, 12). A piece that earlier pieces cover becomes empty.
    """
    # Each key has its own range of addresses, after the ranges of the keys before.
    space = int(end.max(initial=0)) + 1
    order = np.argsort(key * space + begin)
    key, begin, end = key[order], begin[order], end[order]
    reached = np.maximum.accumulate(end + key * space)
    reached = np.concatenate((begin[:1], reached[:-1] - key[1:] * space))
    begin = np.minimum(np.maximum(begin, reached), end)
    return key, begin, end


def _covered(begin: Integers, end: Integers, unread: Unread) -> int:
    # Number of unread bytes in the disjoint intervals.
    if not unread.mask.size:
        return 0
    before = np.concatenate(([0], np.cumsum(unread.mask)))
    low, high = (np.clip(edge - unread.start, 0, len(unread.mask)) for edge in (begin, end))
    return int((before[high] - before[low]).sum())


def owners(program: Program) -> Integers:
    """For each instruction, the index of the layer (group in `program.groups`) to which its bytes are attributed, int64
    (n,). If an instruction is in no group, its bytes go to the group of the nearest earlier instruction that has one,
    or else to the first group. So every byte belongs to a layer.
    """
    group = program.group_of.astype(np.int64)
    last = np.maximum.accumulate(np.where(group >= 0, np.arange(len(group)), -1))
    return np.where(last >= 0, group[np.maximum(last, 0)], 0)


INPUTS = ("inp", "acc")
"""Kinds of bytes that may be a layer's input: pools and element-wise layers load their input straight into the
accumulators (acc).
"""


def group_traffic(program: Program, unread: Sequence[Unread] | None = None) -> list[Traffic]:
    """The traffic of each group (layer) of `program`, in the order of `program.groups`; `unread` has, in the same
    order, the bytes of each group's input that no window reads (None: not counted).

    One sort serves all groups, so the cost depends on the number of pieces of DRAM, not of groups.
    """
    base = instruction_address(len(program.image))
    runs = find_runs(program.config, np.asarray(program.instructions), base)
    groups, kinds = len(program.groups), len(KINDS)
    key = owners(program)[runs.instruction] * kinds + runs.kind
    key, begin, end = _joined(key, runs.start, runs.length)
    moved = _sums(key, end - begin, groups * kinds)
    key, begin, end = _sorted_apart(key, begin, end)
    distinct = _sums(key, end - begin, groups * kinds)
    edges = np.searchsorted(key, np.arange(groups * kinds + 1))
    result = []
    for group in range(groups):
        never: dict[str, int] = {}
        if unread is not None:
            for name in INPUTS:
                first = group * kinds + KINDS.index(name)
                mine = slice(edges[first], edges[first + 1])
                never[name] = _covered(begin[mine], end[mine], unread[group])
        own = slice(group * kinds, (group + 1) * kinds)
        result.append(
            Traffic(
                moved=dict(zip(KINDS, moved[own].tolist(), strict=True)),
                distinct=dict(zip(KINDS, distinct[own].tolist(), strict=True)),
                unread=never,
            )
        )
    return result


def _sums(key: Integers, value: Integers, size: int) -> Integers:
    """The sum of the values of each key from 0 to `size` - 1, int64 (size,)."""
    sums = np.zeros(size, np.int64)
    np.add.at(sums, key, value)
    return sums


EXPLANATIONS = {
    "instruction": "instructions",
    "uop": "micro-ops",
    "par": "scales and padded channels",
}
"""Kinds of bytes whose excess over the compulsory bytes has a single reason, with the text of this reason. The excess
of other kinds is divided into repeated reads and padding.
"""


def explain_excess(traffic: Traffic, compulsory: Mapping[str, int]) -> dict[str, int]:
    """Gives the reasons for the bytes that were moved in excess of the `compulsory` bytes (by kind): a number of bytes
    by reason. Reasons without bytes are left out. The numbers add up exactly to the total excess.

    Some reasons are named in `EXPLANATIONS`. The others begin with the kind of data, as in "wgt read again":

    - `read again`: bytes that were read more than once, such as halo rows, or inputs for several output blocks; for
      outputs `written again`.
    - `skipped by windows`: input elements that no window reads. They are moved because they lie between elements that
      are read (skipped by a stride, or in the gaps of a dilated kernel).
    - `padding`: lanes of a block beyond the end of the tensor.
    - `not moved`: a negative number, which occurs only if compulsory bytes were not moved.
    """
    excess: dict[str, int] = {}
    for kind, moved in traffic.moved.items():
        needed = compulsory.get(kind, 0)
        if kind in EXPLANATIONS:
            excess[EXPLANATIONS[kind]] = moved - needed
            continue
        again = "written again" if kind == "out" else "read again"
        distinct = traffic.distinct[kind]
        excess[f"{kind} {again}"] = moved - distinct
        unread = traffic.unread.get(kind, 0)
        excess[f"{kind} skipped by windows"] = unread
        rest = distinct - needed - unread
        excess[f"{kind} {'padding' if rest >= 0 else 'not moved'}"] = rest
    return {reason: size for reason, size in excess.items() if size}

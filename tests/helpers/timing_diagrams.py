"""The timing diagrams of hw/README.md, generated from the constants of isa.timing; begin and end of instructions are
the simulator's.

`python tests/helpers/timing_diagrams.py` writes them into the page; a test compares the page with them.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vdla.isa import timing
from vdla.isa.alu import AluOpcode
from vdla.isa.assembler import assemble
from vdla.isa.config import Config, Memory, load_config
from vdla.sim import SimulationResult, simulate

PAGE = Path(__file__).parents[2] / "hw" / "README.md"
OPEN, CLOSE = "<!-- timing diagrams -->\n", "<!-- /timing diagrams -->\n"

MACHINE = dataclasses.replace(load_config("tiny"), memory=Memory(read_latency=5, write_latency=4))
"""The machine of the diagrams: the preset `tiny` (4x4, bus of 8 bytes) with small latencies, so that the diagrams are
narrow.
"""

Row = tuple[str, dict[int, str]]


def run(text: str, config: Config = MACHINE) -> SimulationResult:
    return simulate(config, assemble(text + "\nFINISH\n", config), np.zeros(4096, np.uint8))


def draw(rows: Sequence[Row]) -> str:
    """A diagram as text: a line for each row (name, marks by cycle), with dots in cycles without a mark, below a line
    of cycle numbers. Cycles are relative to the begin "b" of the instruction.
    """
    cycles = range(min(min(row) for _, row in rows), max(max(row) for _, row in rows) + 1)
    width = max(len(name) for name, _ in rows)
    cell = max(len(mark) for _, row in rows for mark in row.values()) + 1
    cell = max(cell, max(len(str(cycle)) for cycle in cycles) + 1)
    lines = ["cycle".ljust(width) + "".join(str(cycle).rjust(cell) for cycle in cycles)]
    lines += [name.ljust(width) + "".join(row.get(c, ".").rjust(cell) for c in cycles) for name, row in rows]
    return "\n".join("    " + line.rstrip() for line in lines) + "\n"


def duration(result: SimulationResult, index: int) -> int:
    return int(result.end[index] - result.begin[index])


def load() -> tuple[str, str]:
    result = run("LOAD.INP y_size=1 x_size=4 x_stride=4")
    shown = timing.REQUEST_DELAY
    first = shown + MACHINE.memory.read_latency
    steps = [first + timing.FIFO_LATENCY + k // 2 + (k % 2) for k in range(4)]
    steps = [max(step, steps[0] + k) for k, step in enumerate(steps)]
    end = steps[-1] + timing.STEP_LATENCY
    assert duration(result, 0) == end
    rows: list[Row] = [
        ("instruction", {0: "b", end: "e"}),
        ("address (ARVALID)", {shown: "a"}),
        ("read data", {first: "0", first + 1: "1"}),
        ("words in the FIFO", {first + timing.FIFO_LATENCY + k: str(k) for k in range(2)}),
        ("steps", {step: str(k) for k, step in enumerate(steps)}),
    ]
    latency = f"read latency {MACHINE.memory.read_latency}"
    title = f"**A load** of four vectors of 4 bytes, two beats, {latency} (sections 1 to 3 and 6):"
    return title, draw(rows)


def gemm() -> tuple[str, str]:
    count = 3
    result = run(f"GEMM uop_bgn=0 uop_end=1 iter_out=1 iter_in={count}")
    latency, read = timing.gemm_latency(MACHINE), timing.gemm_read_stage(MACHINE)
    end = count + latency
    assert duration(result, 0) == end
    rows: list[Row] = [
        ("instruction", {0: "b", end: "e"}),
        ("issue", {1 + k: str(k) for k in range(count)}),
        ("accumulators read", {1 + k + read: str(k) for k in range(count)}),
        ("accumulators written", {1 + k + latency: str(k) for k in range(count)}),
    ]
    return f"**A GEMM** of three operations on a 4x4 array, gemm_latency {latency} (section 7):", draw(rows)


def alu() -> tuple[str, str]:
    count = 2
    result = run(f"ALU alu_opcode=ADD uop_bgn=0 uop_end=1 iter_out=1 iter_in={count}")
    each = timing.alu_cycles(MACHINE, AluOpcode.ADD, use_imm=False)
    end = count * each + timing.alu_latency(MACHINE)
    assert duration(result, 0) == end
    first = [1 + k * each for k in range(count)]
    stage = timing.alu_read_stage(MACHINE)
    rows: list[Row] = [
        ("instruction", {0: "b", end: "e"}),
        ("issue", {cycle + i: str(k) for k, cycle in enumerate(first) for i in range(each)}),
        (
            "accumulators read",
            {cycle + stage: f"s{k}" for k, cycle in enumerate(first)}
            | {cycle + stage + 1: f"d{k}" for k, cycle in enumerate(first)},
        ),
        (
            "accumulators written",
            {cycle + each - 1 + timing.alu_latency(MACHINE): str(k) for k, cycle in enumerate(first)},
        ),
    ]
    return "**An ADD** of two accumulator vectors, source (s) and destination (d), twice (section 7):", draw(
        rows
    )


def store() -> tuple[str, str]:
    result = run("STORE.OUT y_size=1 x_size=2 x_stride=2")
    reads = [1, 2]
    entered = [read + timing.store_latency(MACHINE) + 1 for read in reads]
    address = max(entered[-1], timing.WRITE_DELAY)
    data = address + 1
    end = data + MACHINE.memory.write_latency
    assert duration(result, 0) == end
    rows: list[Row] = [
        ("instruction", {0: "b", end: "e"}),
        ("accumulators read", {cycle: str(k) for k, cycle in enumerate(reads)}),
        ("vectors in the FIFO", {cycle: str(k) for k, cycle in enumerate(entered)}),
        ("address (AWVALID)", {address: "a"}),
        ("write data", {data: "0"}),
        ("response", {end: "r"}),
    ]
    latency = f"write latency {MACHINE.memory.write_latency}"
    title = f"**A STORE.OUT** of two vectors, one beat, {latency} (sections 1, 3 and 8):"
    return title, draw(rows)


def stores() -> tuple[str, str]:
    """Returns the diagram of two stores. It shows the following order: the only burst of the first store leaves the
    burst cutter, and only then the data of the second store are divided into bursts.
    """
    result = run("STORE.OUT y_size=1 x_size=1 x_stride=1\nSTORE.OUT y_size=1 x_size=1 x_stride=1")
    begins = [0, int(result.begin[1] - result.begin[0])]
    reads = [begin + 1 for begin in begins]
    assert begins[1] == reads[0] + 1 + timing.BEGIN_DELAY
    entered = [read + timing.store_latency(MACHINE) + 1 for read in reads]
    cut = [0, max(begins[1], timing.WRITE_DELAY - 1)]
    addresses = [max(*pair) for pair in zip(entered, (at + timing.WRITE_DELAY for at in cut), strict=True)]
    ends = [address + 1 + MACHINE.memory.write_latency for address in addresses]
    assert ends == [int(end - result.begin[0]) for end in result.end[:2]]
    rows: list[Row] = [
        ("first store", {begins[0]: "b", ends[0]: "e"}),
        ("second store", {begins[1]: "b", ends[1]: "e"}),
        ("accumulators read", {cycle: str(k) for k, cycle in enumerate(reads)}),
        ("vectors in the FIFO", {cycle: str(k) for k, cycle in enumerate(entered)}),
        ("address (AWVALID)", dict.fromkeys(addresses, "a")),
        ("write data", {cycle + 1: str(k) for k, cycle in enumerate(addresses)}),
        ("response", dict.fromkeys(ends, "r")),
    ]
    return "**Two STORE.OUTs** of one vector each, which overlap (section 8):", draw(rows)


def token() -> tuple[str, str]:
    result = run("LOAD.INP y_pad_0=1 x_size=0 x_pad_0=1 push_next\nGEMM pop_prev")
    pushed = duration(result, 0)
    begin = int(result.begin[1] - result.begin[0])
    ready = pushed + 1
    assert begin == ready + timing.BEGIN_DELAY
    rows: list[Row] = [
        ("load", {0: "b", pushed: "e"}),
        ("load->compute token", {ready: "1"}),
        ("compute", {ready: "r", begin: "b", begin + int(result.end[1] - result.begin[1]): "e"}),
    ]
    return (
        "**A token** from a load (of one pad vector) to a GEMM without operations, which is ready in r (section 5):",
        draw(rows),
    )


def diagrams() -> str:
    return "\n".join(
        f"{title}\n\n{picture}" for title, picture in (load(), gemm(), alu(), store(), stores(), token())
    )


def on_page(page: str) -> tuple[str, str, str]:
    """The text of the page (`page`: its contents) before, between and after the two marks around the diagrams."""
    before, rest = page.split(OPEN)
    between, after = rest.split(CLOSE)
    return before, between, after


if __name__ == "__main__":
    before, _, after = on_page(PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(before + OPEN + diagrams() + CLOSE + after, encoding="utf-8")

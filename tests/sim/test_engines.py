"""The simulator on random programs and random machines: values against the reference, timing against the per-cycle
model.
"""

import dataclasses
import itertools
import json
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import slow_model
from campaign import representatives

from vdla.isa.assembler import assemble
from vdla.isa.config import Config, Memory, load_config
from vdla.isa.layout import Unit
from vdla.isa.program import Program, bare_program
from vdla.isa.reference import run_reference
from vdla.isa.scratchpads import KINDS
from vdla.sim import SimulationResult, simulate
from vdla.verify.random_programs import random_config, random_program

HERE = Path(__file__).parent
VECTORS = sorted((HERE.parent / "isa" / "vectors").glob("*.json"))


VTA, TINY = load_config("vta"), load_config("tiny")
MACHINES = {
    "vta": VTA,
    "tiny": TINY,
    "batch 2": dataclasses.replace(TINY, batch=2),
    "32x32": dataclasses.replace(
        VTA,
        block_in=32,
        block_out=32,
        inp_buffer_bytes=65536,
        wgt_buffer_bytes=1 << 20,
        acc_buffer_bytes=1 << 18,
    ),
    "512-bit bus": dataclasses.replace(VTA, memory=Memory(bus_bytes=64)),
    "latency 1": dataclasses.replace(TINY, memory=Memory(read_latency=1, write_latency=1)),
    "latency 240": dataclasses.replace(TINY, memory=Memory(read_latency=240, outstanding_reads=2)),
    "noise": dataclasses.replace(TINY, memory=Memory(jitter=40, stall=7, seed=5)),
    "small queues": dataclasses.replace(
        TINY,
        command_queue_depth=1,
        token_queue_depth=1,
        fetch_buffer_depth=2,
        load_fifo_bytes=16,
        store_fifo_bytes=16,
    ),
    "one bank": dataclasses.replace(TINY, acc_banks=1),
    "chain memory": dataclasses.replace(TINY, chain_buffer_bytes=512),
    "chain memory, 4x16": dataclasses.replace(
        TINY, block_out=16, extensions=("post",), wgt_buffer_bytes=8192, chain_buffer_bytes=256
    ),
    "chain memory, 16x4": dataclasses.replace(
        TINY, block_in=16, extensions=("post",), wgt_buffer_bytes=8192, chain_buffer_bytes=256
    ),
    "look-up tables": dataclasses.replace(
        TINY, batch=2, post_lanes=2, tables=3, extensions=("post", "depthwise", "table", "broadcast")
    ),
    "rows, 2 passes": dataclasses.replace(
        TINY, post_lanes=2, row_entries=8, extensions=("post", "table", "rows")
    ),
    "8x4 that folds": dataclasses.replace(
        TINY,
        block_in=8,
        block_out=8,
        wgt_buffer_bytes=512,
        folds=2,
        extensions=("post", "depthwise", "taps", "fold", "zero_points"),
    ),
    "64x16 that folds": dataclasses.replace(
        VTA,
        block_in=64,
        block_out=64,
        inp_buffer_bytes=8192,
        wgt_buffer_bytes=65536,
        acc_buffer_bytes=32768,
        folds=4,
        extensions=("post", "depthwise", "taps", "sweep", "fold"),
    ),
    "edge8, 2 passes": load_config("edge8"),
    "one lane, 4 passes": dataclasses.replace(TINY, post_lanes=1),
    "one lane, 16 passes": dataclasses.replace(
        TINY, batch=2, block_in=8, block_out=8, post_lanes=1, wgt_buffer_bytes=8192
    ),
}


def same_run(first: SimulationResult, second: SimulationResult) -> None:
    assert first.cycles == second.cycles
    np.testing.assert_array_equal(first.begin, second.begin)
    np.testing.assert_array_equal(first.end, second.end)
    assert first.units == second.units
    assert first.traffic == second.traffic


def check_values(program: Program) -> None:
    config = program.config
    expected = run_reference(config, program.instructions, program.image)
    result = simulate(config, program.instructions, program.image)
    assert result.memory is not None and result.scratchpads is not None
    np.testing.assert_array_equal(result.memory, expected.memory)
    for name in KINDS:
        np.testing.assert_array_equal(getattr(result.scratchpads, name), getattr(expected, name), name)
    same_run(result, simulate(config, program.instructions, program.image, data=False))
    for counters in result.units.values():
        assert sum(counters.busy.values()) + sum(counters.stalls.values()) == result.cycles


def cycles(program: Program) -> int:
    return simulate(program.config, program.instructions, program.image, data=False).cycles


def check_timing(program: Program) -> None:
    result = simulate(program.config, program.instructions, program.image, data=False)
    model = slow_model.Model(program.config, program.instructions, program.image)
    assert slow_model.run(model) == result.cycles
    count = len(model.program)
    assert [i.begin for i in model.program] == result.begin[:count].tolist()
    assert [i.end for i in model.program] == result.end[:count].tolist()
    for unit in Unit:
        counters = result.units[unit.name.lower()]
        assert dict(slow_model.counters(model, unit, result.cycles)) == {**counters.busy, **counters.stalls}
    for kind, traffic in result.traffic.items():
        assert (traffic.bytes, traffic.beats) == (model.bytes[kind], model.beats[kind]), kind


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_vta_programs_byte_for_byte(path: Path):
    vector = json.loads(path.read_text())
    words = [int(line, 16) for line in vector["insns"]]
    instructions = np.array([[word & (1 << 64) - 1, word >> 64] for word in words], np.uint64)
    rng = np.random.default_rng(vector["seed"] + 10**6)
    memory = rng.integers(0, 256, vector["size"], dtype=np.uint8)
    micro_ops = np.frombuffer(bytes.fromhex(vector["uop_hex"]), np.uint8)
    memory[: len(micro_ops)] = micro_ops
    result = simulate(VTA, instructions, memory)
    assert result.memory is not None
    assert sha256(result.memory.tobytes()).hexdigest() == vector["sha256"]
    same_run(result, simulate(VTA, instructions, memory, data=False))


def test_there_are_eight_programs_of_vtas_simulator():
    assert len(VECTORS) == 8


@pytest.mark.parametrize("seed", representatives(range(60), 20))
def test_random_values(seed: int):
    config = random_config(seed)
    check_values(random_program(config, seed, length=50))


# Machines with which programs take few cycles: the slow model takes them one by one.
QUICK = (1000, 1003, 1004, 1005, 1007, 1011, 1038, 1001, 1008, 1015, 1017, 1028)
QUICK_CYCLES = 4000


@pytest.mark.parametrize("seed", representatives(QUICK, 0, always=[1003, 1011, 1017]))
def test_random_timing(seed: int):
    config = random_config(seed)
    check_timing(random_program(config, seed, length=30))


def test_pops_of_a_busy_unit_make_room():
    # Once wrong: a pop at the head of compute, busy with a load, lets the store's push have its place.
    check_timing(random_program(random_config(16), 16, length=40))


@pytest.mark.parametrize("seed", representatives([42, 68, 377], 0, always=[42]))
def test_a_matrix_instruction_without_operations_hides_no_alu(seed: int):
    # Once wrong, found by the RTL: the store read a bank that the ALU behind an empty GEMM was using.
    check_timing(random_program(load_config("tiny"), seed, length=60))


def test_parameters_wait_for_reads_before_an_empty_store():
    # Once wrong in the slow model: behind an empty store it forgot the reads of the one before.
    # A vector is under way for longer than its store and an empty one take.
    machine = dataclasses.replace(VTA, post_lanes=1, memory=Memory(read_latency=1, write_latency=1))
    text = (
        "STORE.OUT dram_base=64 y_size=1 x_size=2 x_stride=2\nSTORE.OUT\n"
        "LOAD.PAR y_pad_0=1 y_size=1 x_size=1 x_stride=1\nFINISH\n"
    )
    check_timing(bare_program(machine, assemble(text, machine), np.zeros(4096, np.uint8)))


def test_loads_in_flight_are_bounded():
    # Loads of nothing but pads need no memory: only the job queue holds them back.
    fill = "LOAD.INP y_pad_0=15 y_pad_1=15 x_size=3\n"
    text = fill * 40 + "CONFIG LOAD_PAD pad_value=1\n" + fill * 3 + "FINISH\n"
    check_timing(bare_program(TINY, assemble(text, TINY)))


# Each of these is between two others, or differs from another by what a third has.
BETWEEN = ("32x32", "512-bit bus", "latency 1", "one bank", "chain memory, 16x4", "one lane, 4 passes")


@pytest.mark.parametrize(
    "name", representatives(MACHINES, 0, always=[name for name in MACHINES if name not in BETWEEN])
)
def test_machines(name: str):
    config: Config = MACHINES[name]
    check_values(random_program(config, 7, length=40))
    programs = (random_program(config, seed, length=16) for seed in itertools.count(3))
    # Some wait for tens of thousands of cycles, each of which costs the slow model a millisecond; some do little.
    check_timing(
        next(item for item in programs if len(item.instructions) >= 30 and cycles(item) < QUICK_CYCLES)
    )

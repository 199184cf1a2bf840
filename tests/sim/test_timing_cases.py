"""Timing computed by hand from hw/README.md, for a machine with an 8-byte bus, read latency 30, write latency 10, array
16x16.

All programs begin alike: the fetch request is shown and accepted in cycle 4, and its data are ready in cycle 34. 16
bytes are two beats, so instruction i is in the buffer and dispatched in cycle 38 + 2i, visible in 39 + 2i, and may
begin in 40 + 2i.
"""

import dataclasses

import numpy as np
import pytest

from vdla.isa.alu import AluOpcode
from vdla.isa.config import Config, Memory, load_config
from vdla.isa.layout import Unit, encode
from vdla.isa.registers import register_value
from vdla.isa.store_stages import TABLE_CYCLES
from vdla.sim import compute_timeline, cycles_by_category, simulate, timeline

VTA = load_config("vta")


def run(*instructions: tuple[str, dict[str, int]], config: Config = VTA, size: int = 8192):
    code = [encode(config, name, **values) for name, values in (*instructions, ("FINISH", {}))]
    memory = np.arange(size, dtype=np.uint32).astype(np.uint8)
    return simulate(config, np.array(code, np.uint64), memory)


def load(kind: str, **values: int) -> tuple[str, dict[str, int]]:
    return f"LOAD.{kind}", {"y_size": 1, "x_size": 1, "x_stride": 1, **values}


def gemm(count: int, **values: int) -> tuple[str, dict[str, int]]:
    return "GEMM", {"uop_bgn": 0, "uop_end": 1, "iter_out": 1, "iter_in": count, **values}


def test_finish_alone():
    result = run()
    assert (result.begin[0], result.end[0], result.cycles) == (40, 41, 41)
    assert result.traffic["instruction"].bytes == 16
    assert result.traffic["instruction"].beats == 2
    assert result.units["load"].stalls == {"instruction": 41}


def test_load_of_one_element():
    # Shown and accepted in 45, ready in 75, beats in 75 and 76, steps in 78 and 79. FINISH is ready in 83.
    result = run(load("INP"))
    assert (result.begin[0], result.end[0]) == (40, 82)
    assert (result.begin[1], result.cycles) == (84, 85)
    assert result.units["load"].busy == {"busy": 42}
    assert result.units["load"].stalls == {"instruction": 41, "begin": 2}


def test_pads_are_one_step_each_and_overlap_the_latency():
    # Two pad rows of 3 elements before the data pass while it is on its way; 2 pads and 2 rows behind do not.
    result = run(load("INP", y_pad_0=2, y_pad_1=2, x_pad_0=1, x_pad_1=1))
    assert result.end[0] == 82 + 1 + 6


def test_unaligned_rows_are_bursts_of_their_own():
    # Rows of 16 bytes, 48 apart: accepted in 45 and 47, ready in 75 and 77; beats 75, 76 and 77, 78.
    result = run(load("INP", y_size=2, x_stride=3))
    assert result.end[0] == 84
    assert result.traffic["inp"].beats == 4


def test_second_load_begins_behind_the_last_accepted_address():
    # The first is accepted in 45; the second is visible in 41, ready in 46, begins in 47; its steps follow the first's.
    result = run(load("INP"), load("WGT"))
    assert result.begin[1] == 47
    # Accepted in 52, ready in 82 (33 beats would fit 64): 32 beats in 82 .. 113, steps in 85 .. 116.
    assert result.end.tolist()[:2] == [82, 119]


def test_a_burst_stops_at_4096_bytes():
    # 8 tiles of 256 bytes from byte 2816 on: 512, 512, 256 | 512, 256 bytes; FIFO and outstanding reads suffice.
    result = run(load("WGT", dram_base=11, x_size=8, x_stride=8))
    assert result.traffic["wgt"].beats == 256
    assert result.end[0] == 75 + 255 + 3 + 3


def test_gemm_and_counters():
    result = run(gemm(5))
    assert (result.begin[0], result.end[0], result.cycles) == (40, 57, 60)
    compute = result.units["compute"]
    assert compute.busy == {"gemm": 5, "drain": 12, "other": 1}
    assert compute.stalls == {"instruction": 38, "begin": 4}


def test_gemms_follow_without_a_gap_and_config_hides():
    base = ("CONFIG", {"unit": 1, "register": 0, "value": register_value("BASE", acc_base=3)})
    result = run(gemm(9), base, gemm(7))
    # CONFIG begins in 42 and ends in 43; the second GEMM, visible in 43, is ready in 48, a cycle before the last issue.
    assert result.begin.tolist()[:3] == [40, 42, 49]
    assert result.end.tolist()[:3] == [40 + 9 + 12, 43, 49 + 7 + 12]
    assert result.units["compute"].busy["gemm"] == 16


def test_alu_with_and_without_immediate():
    for opcode, cycles in {"MIN": 1, "MAX": 1, "ADD": 1, "SHR": 3, "MUL": 5}.items():
        operations = {"uop_bgn": 0, "uop_end": 1, "iter_out": 1, "iter_in": 4}
        operations |= {"alu_opcode": int(AluOpcode[opcode])}
        assert run(("ALU", {**operations, "use_imm": 1})).end[0] == 40 + 4 * cycles + 7
        assert run(("ALU", operations)).end[0] == 40 + 4 * (cycles + 1) + 7


def test_store_of_one_vector():
    # Read in 41, in the FIFO and accepted in 45, ready in 46, beats 46 and 47, response in 57.
    result = run(("STORE.OUT", {"y_size": 1, "x_size": 1, "x_stride": 1}))
    assert (result.begin[0], result.end[0], result.cycles) == (40, 57, 60)
    assert result.traffic["out"].bytes == 16


def test_post_store_takes_its_pipeline():
    result = run(("STORE.POST", {"y_size": 1, "x_size": 1, "x_stride": 1}))
    assert result.end[0] == 41 + 48 + TABLE_CYCLES + 1 + 1 + 1 + 10


def test_operand_is_waited_for():
    # CONFIG ends in 41. The operand is accepted in 48, its second beat moves in 79: first read in 82.
    delta = ("CONFIG", {"unit": 2, "register": 5, "value": register_value("OPERAND", delta=4)})
    store = ("STORE.POST", {"y_size": 1, "x_size": 1, "x_stride": 1, "combine": 1, "operand": 1})
    result = run(delta, store)
    begin = int(result.begin[1])
    assert begin == 43
    assert result.end[1] == (begin + 5 + 30 + 1 + 3) + 48 + TABLE_CYCLES + 1 + 1 + 1 + 10
    assert result.traffic["operand"].bytes == 16


def test_token_shows_one_cycle_after_the_end():
    result = run(load("INP", push_next=1), gemm(1, pop_prev=1))
    assert result.end[0] == 82
    assert result.begin[1] == 84  # popped in 83
    assert result.units["compute"].stalls["token:load->compute"] == 83 - 41


def test_full_token_queue_waits_for_the_pop():
    config = dataclasses.replace(VTA, token_queue_depth=1)
    empty = ("LOAD.INP", {"push_next": 1})
    result = run(empty, empty, gemm(1), gemm(1, pop_prev=1), gemm(1, pop_prev=1), config=config)
    popped = int(result.begin[3]) - 1
    # The first load is busy up to 47; from popped + 1 on there is room for the second.
    assert result.begin[1] == popped + 2
    assert result.units["load"].stalls["full:load->compute"] == popped - 47


def test_store_yields_the_port_to_the_array():
    # GEMM issues in 41 .. 60 and reads its bank in 49 .. 68; the store's first vector is read in 43, before that.
    def store(base: int) -> tuple[str, dict[str, int]]:
        return "STORE.OUT", {"sram_base": base, "y_size": 1, "x_size": 10, "x_stride": 10}

    # Reads in 43 .. 48, then 4 more from 69 on if the bank is the same.
    same, other = run(gemm(20), store(0)), run(gemm(20), store(1024))
    assert other.end[1] == 52 + 3 + 1 + 1 + 19 + 10
    assert same.end[1] == 72 + 3 + 1 + 1 + 19 + 10
    assert run(gemm(20, overwrite=1), store(0)).end[1] == other.end[1]


def test_patch_takes_one_word_a_cycle():
    # CONFIG begins in 40 and frees the address side in 41; the load is ready in 42, shows its request in 43 + 12, and
    # its beats move in 85, 86 and 87.
    patch = register_value("PATCH", run=3, step=3, pitch=1, row_bytes=24)
    result = run(
        ("CONFIG", {"unit": 0, "register": 1, "value": patch}),
        ("LOAD.PATCH", {"y_size": 1, "x_size": 8, "x_stride": 24}),
    )
    # Patches 0 1 | 2 3 4 | 5 6 7 need words 0 | 1 | 2: eight steps without a gap from 88 on.
    assert result.end[1] == 88 + 7 + 3
    far = register_value("PATCH", run=1, step=16, pitch=1, row_bytes=24)
    result = run(
        ("CONFIG", {"unit": 0, "register": 1, "value": far}),
        ("LOAD.PATCH", {"y_size": 1, "x_size": 2, "x_stride": 24}),
    )
    # Patch 1 needs word 2: words 1 and 2 are taken in 89 and 90.
    assert result.end[1] == 90 + 3


@pytest.mark.parametrize("latency", [1, 60, 240])
def test_latency_moves_what_waits_for_memory(latency: int):
    config = dataclasses.replace(VTA, memory=Memory(read_latency=latency))
    result = run(load("INP"), config=config)
    assert result.end[0] == 22 + 2 * latency
    assert result.cycles == 25 + 2 * latency


def test_command_queue_of_one():
    config = dataclasses.replace(VTA, command_queue_depth=1)
    result = run(gemm(50), gemm(1), gemm(1), gemm(1), config=config)
    # The third leaves the fetch buffer the cycle after the second has begun, in 91, and is visible in 92.
    assert result.begin.tolist()[:3] == [40, 90, 93]


def test_timeline_covers_the_run_and_splits_exactly():
    result = run(load("INP", push_next=1), gemm(40, pop_prev=1, push_next=1), ("STORE.OUT", {"pop_prev": 1}))
    for unit in Unit:
        intervals = timeline(result, unit)
        assert intervals.start[0] == 0
        assert intervals.stop[-1] == result.cycles
        assert (intervals.start[1:] == intervals.stop[:-1]).all()
        assert (intervals.stop > intervals.start).all()
    whole = cycles_by_category(compute_timeline(result), 0, result.cycles)
    counters = result.units["compute"]
    assert whole == {**counters.busy, **counters.stalls}
    middle = result.cycles // 2
    left = cycles_by_category(compute_timeline(result), 0, middle)
    right = cycles_by_category(compute_timeline(result), middle, result.cycles)
    assert {name: left.get(name, 0) + right.get(name, 0) for name in whole} == whole
    assert sum(left.values()) == middle

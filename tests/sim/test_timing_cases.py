"""Timing computed by hand from hw/README.md: 8-byte bus, read latency 30, write latency 10, array 16x16.

All programs share their start: the fetch request shows in cycle 1, is accepted in 1, ready in 31; 16 bytes are two
beats, so instruction i arrives in 33 + 2i, is dispatched then and visible in 34 + 2i.
"""

import dataclasses

import numpy as np
import pytest
from vdla.isa.config import Config, Memory, load_config
from vdla.isa.layout import Unit, encode, register_value
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
    assert (result.begin[0], result.end[0], result.cycles) == (34, 35, 35)
    assert result.traffic["instruction"].bytes == 16
    assert result.traffic["instruction"].beats == 2
    assert result.units["load"].stalls == {"instruction": 35}


def test_load_of_one_element():
    # Shown and accepted in 35, ready in 65, beats in 65 and 66, steps in 66 and 67.
    result = run(load("INP"))
    assert (result.begin[0], result.end[0]) == (34, 68)
    assert (result.begin[1], result.cycles) == (69, 70)
    assert result.units["load"].busy == {"busy": 34}
    assert result.units["load"].stalls == {"instruction": 35, "begin": 1}


def test_pads_are_one_step_each_and_overlap_the_latency():
    # Two pad rows of 3 elements before the data pass while it is on its way; 2 pads and 2 rows behind do not.
    result = run(load("INP", y_pad_0=2, y_pad_1=2, x_pad_0=1, x_pad_1=1))
    assert result.end[0] == 68 + 1 + 6


def test_unaligned_rows_are_bursts_of_their_own():
    # Rows of 16 bytes, 48 apart: accepted in 35 and 36, ready in 65 and 66; beats 65, 66 and 67, 68.
    result = run(load("INP", y_size=2, x_stride=3))
    assert result.end[0] == 70
    assert result.traffic["inp"].beats == 4


def test_second_load_begins_behind_the_last_accepted_address():
    # The first is accepted in 35; the second is visible in 36 and begins then; its steps follow the first's.
    result = run(load("INP"), load("WGT"))
    assert result.begin[1] == 36
    # Accepted in 37, ready in 67 (33 beats would fit 64): 32 beats in 67 .. 98, steps in 68 .. 99.
    assert result.end.tolist()[:2] == [68, 100]


def test_a_burst_stops_at_4096_bytes():
    # 8 tiles of 256 bytes from byte 2816 on: 512, 512, 256 | 512, 256 bytes; FIFO and outstanding reads suffice.
    result = run(load("WGT", dram_base=11, x_size=8, x_stride=8))
    assert result.traffic["wgt"].beats == 256
    assert result.end[0] == 65 + 256 + 1


def test_gemm_and_counters():
    result = run(gemm(5))
    assert (result.begin[0], result.end[0], result.cycles) == (34, 49, 51)
    compute = result.units["compute"]
    assert compute.busy == {"gemm": 5, "drain": 10, "other": 1}
    assert compute.stalls == {"instruction": 33, "begin": 2}


def test_gemms_follow_without_a_gap_and_config_hides():
    base = ("CONFIG", {"unit": 1, "register": 0, "value": register_value("BASE", acc_base=3)})
    result = run(gemm(9), base, gemm(7))
    # The second GEMM is visible in 38; CONFIG begins in 36 and ends in 37.
    assert result.begin.tolist()[:3] == [34, 36, 43]
    assert result.end.tolist()[:3] == [34 + 9 + 10, 37, 43 + 7 + 10]
    assert result.units["compute"].busy["gemm"] == 16


def test_alu_with_and_without_immediate():
    operations = {"uop_bgn": 0, "uop_end": 1, "iter_out": 1, "iter_in": 4, "alu_opcode": 2}
    assert run(("ALU", {**operations, "use_imm": 1})).end[0] == 34 + 4 + 3
    assert run(("ALU", operations)).end[0] == 34 + 8 + 3


def test_store_of_one_vector():
    # Read in 35, in the FIFO and accepted in 37, ready in 38, beats 38 and 39, response in 49.
    result = run(("STORE.OUT", {"y_size": 1, "x_size": 1, "x_stride": 1}))
    assert (result.begin[0], result.end[0], result.cycles) == (34, 49, 51)
    assert result.traffic["out"].bytes == 16


def test_post_store_takes_its_pipeline():
    result = run(("STORE.POST", {"y_size": 1, "x_size": 1, "x_stride": 1}))
    assert result.end[0] == 35 + 16 + 1 + 1 + 1 + 10


def test_operand_is_waited_for():
    # The operand is accepted in 35, its second beat moves in 66: first read in 67.
    delta = ("CONFIG", {"unit": 2, "register": 5, "value": register_value("OPERAND", delta=4)})
    store = ("STORE.POST", {"y_size": 1, "x_size": 1, "x_stride": 1, "combine": 1, "operand": 1})
    result = run(delta, store)
    begin = int(result.begin[1])
    assert begin == 36
    assert result.end[1] == (begin + 1 + 30 + 1 + 1) + 16 + 1 + 1 + 1 + 10
    assert result.traffic["operand"].bytes == 16


def test_token_shows_one_cycle_after_the_end():
    result = run(load("INP", push_next=1), gemm(1, pop_prev=1))
    assert result.end[0] == 68
    assert result.begin[1] == 69
    assert result.units["compute"].stalls["token:load->compute"] == 69 - 36


def test_full_token_queue_waits_for_the_pop():
    config = dataclasses.replace(VTA, token_queue_depth=1)
    empty = ("LOAD.INP", {"push_next": 1})
    result = run(empty, empty, gemm(1), gemm(1, pop_prev=1), gemm(1, pop_prev=1), config=config)
    popped = int(result.begin[3])
    assert result.begin[1] == popped + 1
    # The first load is busy up to 36, in popped + 1 the second begins.
    assert result.units["load"].stalls["full:load->compute"] == popped - 36


def test_store_yields_the_port_to_the_array():
    # GEMM issues in 35 .. 54 and reads its bank in 43 .. 62; the store's first vector is read in 37, before that.
    def store(base: int) -> tuple[str, dict[str, int]]:
        return "STORE.OUT", {"sram_base": base, "y_size": 1, "x_size": 10, "x_stride": 10}

    # Reads in 37 .. 42, then 4 more from 63 on if the bank is the same.
    same, other = run(gemm(20), store(0)), run(gemm(20), store(1024))
    assert other.end[1] == 46 + 1 + 1 + 1 + 19 + 10
    assert same.end[1] == 66 + 1 + 1 + 1 + 19 + 10
    assert run(gemm(20, overwrite=1), store(0)).end[1] == other.end[1]


def test_patch_takes_one_word_a_cycle():
    # CONFIG begins in 34 and frees the address side in 35; the load begins in 36, beats move in 67, 68 and 69.
    patch = register_value("PATCH", run=3, step=3, pitch=1, row_bytes=24)
    result = run(
        ("CONFIG", {"unit": 0, "register": 1, "value": patch}),
        ("LOAD.PATCH", {"y_size": 1, "x_size": 8, "x_stride": 24}),
    )
    # Patches 0 1 | 2 3 4 | 5 6 7 need words 0 | 1 | 2: eight steps without a gap from 68 on.
    assert result.end[1] == 68 + 7 + 1
    far = register_value("PATCH", run=1, step=16, pitch=1, row_bytes=24)
    result = run(
        ("CONFIG", {"unit": 0, "register": 1, "value": far}),
        ("LOAD.PATCH", {"y_size": 1, "x_size": 2, "x_stride": 24}),
    )
    # Patch 1 needs word 2: words 1 and 2 are taken in 69 and 70.
    assert result.end[1] == 71


@pytest.mark.parametrize("latency", [1, 60, 240])
def test_latency_moves_what_waits_for_memory(latency: int):
    config = dataclasses.replace(VTA, memory=Memory(read_latency=latency))
    result = run(load("INP"), config=config)
    assert result.end[0] == 8 + 2 * latency
    assert result.cycles == 10 + 2 * latency


def test_command_queue_of_one():
    config = dataclasses.replace(VTA, command_queue_depth=1)
    result = run(gemm(50), gemm(1), gemm(1), gemm(1), config=config)
    # The third leaves the fetch buffer the cycle after the second has begun, in 84, and is visible in 86.
    assert result.begin.tolist()[:3] == [34, 84, 86]


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

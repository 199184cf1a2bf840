import dataclasses
from collections import Counter

import numpy as np
import pytest

from vdla.isa.assembler import assemble
from vdla.isa.config import Config, Memory, load_config
from vdla.isa.program import bare_program
from vdla.isa.timing import CHANNELS
from vdla.sim import simulate
from vdla.verify.cosim.campaign import Campaign
from vdla.verify.cosim.cases import launch, plan
from vdla.verify.cosim.compare import simulate_program
from vdla.verify.cosim.coverage import ENOUGH, machine_bin, measure
from vdla.verify.cosim.dram import with_dram
from vdla.verify.cosim.machines import default_machines
from vdla.verify.cosim.observe import Bin, alignment, observe

MACHINES = default_machines()
TINY = load_config("tiny")


def bins(text: str, config: Config = TINY, size: int = 20000) -> set[Bin]:
    program = bare_program(config, assemble(text + "FINISH\n", config), np.zeros(size, np.uint8))
    result = simulate(config, program.instructions, program.image)
    return observe(config, program, result, None)


def named(found: set[Bin], group: str) -> set[str]:
    return {name for where, name in found if where == group}


def test_every_bin_that_programs_hit_is_declared_and_most_are_hit():
    """Runs a few hundred programs on the simulator only; `vdla cosim` requires all bins for 1,000 programs or more."""
    counts: Counter[Bin] = Counter()
    for group in plan(MACHINES, 240, 0):
        for item in group:
            start = launch(item)
            result = simulate_program(item.config, start.program, start.scratchpads)
            counts.update(observe(item.config, start.program, result, start.uop))
            counts[machine_bin(item.machine, item.timing, item.random_state is not None)] += 1
    coverage = measure(MACHINES, counts)  # a bin that is not declared raises
    assert coverage.unexpected == []
    # With every instruction there are more bins; the programs stay as many.
    assert len(coverage.empty) < 0.06 * len(coverage.hits), coverage.empty


def test_an_undeclared_bin_is_refused():
    with pytest.raises(KeyError, match="not declared"):
        measure(MACHINES, Counter({("no such group", "x"): 1}))


def test_empty_bins_fail_only_long_runs_and_unreachable_ones_never():
    campaign = Campaign(machines=(TINY,), seed=0, lengths=[50] * (ENOUGH - 1))
    assert campaign.holes == []
    campaign.lengths.append(50)
    assert "format x tokens: GEMM none" in campaign.holes
    assert not any(item.startswith("format x wait: GEMM unit") for item in campaign.holes)
    campaign.counts["format x wait", "GEMM unit"] = 1
    assert "format x wait: GEMM unit" in campaign.holes


def test_reasons_follow_the_machines():
    bare = dataclasses.replace(TINY, name="bare", extensions=())
    unreachable = measure((bare,), Counter()).unreachable
    assert unreachable["format x tokens", "STORE.POST none"] == "no machine has the extension post"
    assert ("format x tokens", "STORE.POST none") not in measure((bare, TINY), Counter()).unreachable
    assert ("alignment", "wgt start unaligned") in measure((TINY,), Counter()).unreachable
    wide = dataclasses.replace(TINY, name="wide", memory=Memory(bus_bytes=64))
    assert ("alignment", "wgt start unaligned") not in measure((wide,), Counter()).unreachable
    # A fetch of 8 instructions on a bus of 16 bytes is always aligned; one of 1 on 32 bytes is not.
    assert ("alignment", "instruction start unaligned") in measure((TINY,), Counter()).unreachable
    narrow = dataclasses.replace(TINY, name="f2", fetch_buffer_depth=2, memory=Memory(bus_bytes=32))
    assert ("alignment", "instruction start unaligned") not in measure((narrow,), Counter()).unreachable


def test_alignment():
    assert alignment(0, 8, 8) == "aligned"
    assert alignment(4, 8, 8) == "start unaligned"
    assert alignment(8, 12, 8) == "end unaligned"
    assert alignment(4, 12, 8) == "both ends unaligned"


def test_tokens_operations_and_empty_instructions():
    found = bins(
        "LOAD.INP push_next\nGEMM pop_prev\nALU alu_opcode=SHR use_imm=1 uop_end=1 iter_out=1 iter_in=1\n"
    )
    assert named(found, "format x tokens") == {
        "LOAD.INP push_next",
        "GEMM pop_prev",
        "ALU none",
        "FINISH none",
    }
    assert {"LOAD.INP empty", "GEMM empty", "ALU SHR immediate"} <= named(found, "operations")
    assert "ALU empty" not in named(found, "operations")


def test_splits_alignment_and_lengths():
    found = bins("LOAD.INP dram_base=1021 y_size=1 x_size=7 x_stride=7\n")
    assert named(found, "4 KiB split") == {"inp"}
    assert named(found, "alignment") >= {"inp start unaligned"}
    assert named(found, "length") == {"inp one burst"}
    found = bins("LOAD.INP y_size=1 x_size=600 x_stride=600\n")
    assert named(found, "length") == {"inp several bursts", "inp more than the FIFO holds"}
    assert named(found, "4 KiB split") == set()


def test_hazard_distances():
    loop = "uop_end=1 iter_out=1 iter_in=4"
    assert "GEMM accumulate 1" in named(bins(f"GEMM {loop}\n"), "hazard distance")
    assert named(bins(f"GEMM {loop} dst_factor_in=1\n"), "hazard distance") == set()
    assert named(bins("GEMM uop_end=2 iter_out=2 iter_in=1\n"), "hazard distance") == {
        f"GEMM accumulate {distance}" for distance in (1, 2, 3)
    }
    chain = f"ALU alu_opcode=ADD {loop} src_factor_in=1 dst_factor_in=1\n"
    assert named(bins(chain), "hazard distance") == set()
    found = bins("GEMM overwrite=1 uop_end=1 iter_out=1 iter_in=1\nGEMM uop_end=1 iter_out=1 iter_in=1\n")
    assert named(found, "hazard distance") == {"GEMM then GEMM 1"}


FOLDING = dataclasses.replace(
    TINY,
    name="folding",
    block_in=16,
    block_out=16,
    folds=4,
    wgt_buffer_bytes=4096,
    extensions=("post", "fold"),
)


def test_lanes_used_again():
    """Coverage of the extension `fold` tells whether a later operation adds to the same lanes of an accumulator or to
    others. With two groups, tiles 0 and 1 contribute to the same lanes (from different parts of the inputs), tiles 2
    and 3 to other lanes.
    """
    parts = "uop_end=1 iter_out=1 iter_in=4 wgt_factor_in=1"
    found = named(bins(f"CONFIG FOLD shape=1\nGEMM {parts} overwrite=1\n", FOLDING), "folds")
    assert found == {
        "2 groups, overwrite of the first part",
        "2 groups, overwrite of another part",
        "the same lanes of an accumulator, 1 operations later",
        "other lanes of an accumulator, 2 operations later",
        "other lanes of an accumulator, 3 operations later",
    }
    # The first part of the inputs adds to nothing, of the lanes it is always another one.
    found = named(bins(f"GEMM {parts} overwrite=1\nGEMM {parts}\n", FOLDING), "folds")
    assert {name for name in found if "later" in name} == {
        f"{lanes} lanes of an accumulator, {distance} operations later"
        for lanes, distances in (("other", (1, 2, 3, 5)), ("the same", (4,)))
        for distance in distances
    }
    assert {"1 group, overwrite of the first part", "1 group, accumulate"} <= found
    whole = "GEMM uop_end=1 iter_out=1 iter_in=1 reset=1\n"
    found = named(bins(f"{whole}GEMM uop_end=1 iter_out=1 iter_in=1\n", FOLDING), "folds")
    assert "some of the lanes of an accumulator, 1 operations later" in found
    assert not named(bins(f"GEMM {parts}\n"), "folds")


def test_shapes_that_no_machine_has():
    unreachable = measure((FOLDING,), Counter()).unreachable
    assert unreachable["folds", "8 groups, accumulate"] == "no array folds so often"
    assert ("folds", "4 groups, accumulate") not in unreachable
    assert ("folds", "1 group, accumulate") in measure((TINY,), Counter()).unreachable


def test_values_used_at_once():
    found = bins(
        "LOAD.ACC y_size=1 x_size=1 x_stride=1\n"
        "ALU alu_opcode=ADD use_imm=1 uop_end=1 iter_out=1 iter_in=1 push_next\n"
        "STORE.OUT dram_base=100 y_size=1 x_size=1 x_stride=1 pop_prev push_prev\n"
        "LOAD.ACC8 dram_base=100 y_size=1 x_size=1 x_stride=1 pop_next\n"
    )
    assert named(found, "read after write") == {
        "acc: LOAD.ACC -> ALU, at once",
        "acc: ALU -> STORE.OUT",
        "dram: STORE.OUT -> LOAD.ACC8",
    }
    assert named(found, "write after read") == {"acc: STORE.OUT -> LOAD.ACC8"}


def test_full_queues():
    small = dataclasses.replace(TINY, token_queue_depth=1, command_queue_depth=1)
    long = "ALU alu_opcode=ADD use_imm=1 uop_end=1 iter_out=1 iter_in=2000\n"
    pairs = "LOAD.INP push_next\nLOAD.UOP pop_prev\n" * 4
    found = named(bins(long + pairs, small), "full queue")
    assert {"tokens load->compute of 1", "commands compute of 1"} <= found
    assert named(bins(long + pairs), "full queue") == set()


def test_loads_in_flight():
    fill = "LOAD.INP y_pad_0=15 y_pad_1=15 x_size=3\n"
    limit = "a load waits for a place among those in flight"
    assert limit in named(bins(fill * 40), "instructions in flight")
    assert limit not in named(bins(fill * 20), "instructions in flight")


def test_data_channels_count_with_and_without_a_load_beside_a_store() -> None:
    apart = "LOAD.INP dram_base=100 y_size=1 x_size=1 x_stride=1\n"
    beside = apart + "STORE.OUT dram_base=100 y_size=1 x_size=1 x_stride=1\n"
    for channels in CHANNELS:
        config = TINY.with_memory(dataclasses.replace(TINY.memory, data_channels=channels))
        assert named(bins(apart, config), "data channels") == {channels}
        both = {channels, f"{channels}, a load while a store runs"}
        assert named(bins(beside, config), "data channels") == both
    separate = TINY.with_memory(dataclasses.replace(TINY.memory, data_channels="separate"))
    reasons = measure((separate,), Counter()).unreachable
    assert reasons["data channels", "shared"] == "every fixed memory has separate data channels"
    assert ("data channels", "separate") not in reasons
    dram = with_dram(TINY, 100, part="MT41K256M8")
    assert not named(bins(beside, dram), "data channels")
    assert measure((dram,), Counter()).unreachable["data channels", "separate"] == "every machine has a DRAM"

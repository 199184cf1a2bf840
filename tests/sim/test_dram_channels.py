"""Timing runs on machines whose DRAM has several channels: counts by channel, words by address, deadlocks, limits."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from vdla.isa.assembler import assemble
from vdla.isa.config import Config, Memory, load_config
from vdla.sim import CycleLimitError, DeadlockError, SimulationResult, simulate
from vdla.sim.dram_log import word_runs
from vdla.sim.state import DRAM_CYCLES
from vdla.verify.cosim.cases import case, launch

TINY = load_config("tiny")
PIECE = 4096
READS = """
LOAD.INP sram_base=0 dram_base={first} y_size=1 x_size={vectors} x_stride={vectors}
LOAD.INP sram_base={vectors} dram_base={second} y_size=1 x_size={vectors} x_stride={vectors} push_next
{finish}
"""


def machine(channels: int, **fields: int) -> Config:
    memory = Memory(kind="dram", part="MT41K256M8", channels=channels, refresh=False, **fields)
    return dataclasses.replace(TINY, name=f"{channels} channels", memory=memory)


def reads(config: Config, first: int, second: int, finish: str = "FINISH pop_prev") -> SimulationResult:
    """Simulates the timing of two loads of 1 KiB each, from the bytes `first` and `second` of DRAM on. `finish`: the
    last line of the program.
    """
    places = {"first": first // config.inp_bytes, "second": second // config.inp_bytes}
    text = READS.format(**places, vectors=1024 // config.inp_bytes, finish=finish)
    return simulate(config, assemble(text, config), np.zeros(1 << 16, np.uint8), data=False)


@pytest.mark.parametrize("channels", [2, 4])
@pytest.mark.parametrize("number", [0, 3, 31])
def test_counts_of_the_channels_add_up(channels: int, number: int) -> None:
    config = machine(channels)
    start = launch(case(config, number, 0))
    run = simulate(config, start.program.instructions, start.program.image, scratchpads=start.scratchpads)
    assert run.dram is not None and len(run.dram.channels) == channels
    for name in ("opened", "refreshes", "turnarounds", "beats"):
        assert getattr(run.dram, name) == sum(getattr(own, name) for own in run.dram.channels)
    for own in run.dram.channels:
        assert own.beats + sum(own.waits.values()) == run.cycles and own.channels == ()
    assert set(run.dram.waits) == {*DRAM_CYCLES} - {"words"}
    runs = word_runs(config, start.program.instructions, start.program.image, scratchpads=start.scratchpads)
    assert runs is not None
    words = np.bincount(runs.channel, runs.stop - runs.start, channels)
    assert words.tolist() == [own.beats for own in run.dram.channels]
    assert sum(own.beats > 0 for own in run.dram.channels) > 1
    places, names = runs.banks()
    assert names[0] == "channel 0, bank 0" and len(names) > places.max() >= 0


def test_words_lie_in_the_channel_of_their_piece() -> None:
    words = 1024 // 8
    found = reads(machine(2), 2 * PIECE, 5 * PIECE)
    assert found.dram is not None
    # Instructions lie behind 16 pieces, in channel 0.
    code = found.traffic["instruction"].beats
    assert [own.beats for own in found.dram.channels] == [words + code, words]
    wider = reads(machine(2, channel_bytes=2 * PIECE), 2 * PIECE, 5 * PIECE).dram
    assert wider is not None
    # Pieces of twice the size: bytes 2 * PIECE on are in channel 1, 5 * PIECE on in channel 0.
    assert [own.beats for own in wider.channels] == [words + code, words]


def test_another_channel_opens_its_row_while_one_delivers() -> None:
    alone = dataclasses.replace(load_config("vta"), memory=machine(1).memory)
    config = dataclasses.replace(alone, memory=machine(2).memory)
    vectors = 3 * PIECE // config.inp_bytes
    second = 16 * PIECE // config.inp_bytes
    words = assemble(READS.format(first=0, second=second, vectors=vectors, finish="FINISH pop_prev"), config)
    image = np.zeros(32 * PIECE, np.uint8)
    two, one = (simulate(each, words, image, data=False) for each in (config, alone))
    assert two.dram is not None and one.dram is not None and two.dram.beats == one.dram.beats
    lost = one.dram.waits["precharge"] + one.dram.waits["activate"]
    assert lost > 100 and one.cycles - two.cycles > 0.7 * lost


def test_a_router_costs_a_cycle_of_latency() -> None:
    assert machine(2).memory.read_latency == machine(1).memory.read_latency + 1


def test_a_deadlock_and_a_limit_end_the_run() -> None:
    config = machine(2)
    with pytest.raises(DeadlockError, match="deadlock after cycle"):
        reads(config, 0, PIECE, "FINISH pop_next")
    text = READS.format(first=0, second=64, vectors=4, finish="FINISH pop_prev")
    with pytest.raises(CycleLimitError, match="not finished after 30 cycles"):
        simulate(config, assemble(text, config), np.zeros(1 << 16, np.uint8), data=False, cycle_limit=30)

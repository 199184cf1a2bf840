"""The slopes of a roofline plot: the most bytes that a machine's memory moves in a cycle."""

from dataclasses import replace

import numpy as np

from vdla.codesign.report.memory_roofs import memory_roofs
from vdla.isa.config import Config, Memory, load_config
from vdla.isa.dram_memory import controller_of
from vdla.isa.dram_streams import S_GAP, T_END, T_FIRST, Streams
from vdla.sim.dram_streams import run_streams

VTA = load_config("vta")
DRAM = replace(VTA, memory=Memory(kind="dram", part="MT41K256M8"))


def slopes(config: Config) -> list[float]:
    return [roof.bytes_per_cycle for roof in memory_roofs(config)]


def test_machines_whose_reads_and_writes_overlap_have_two_slopes() -> None:
    assert slopes(VTA) == [8]
    assert slopes(replace(VTA, memory=Memory(bus_bytes=32, data_channels="separate"))) == [64, 32]
    for channels in (2, 4):
        one, several = slopes(DRAM), slopes(replace(DRAM, memory=replace(DRAM.memory, channels=channels)))
        assert several == [min(16, channels * one[0]), 8]


def test_a_dram_reads_one_row_at_nearly_the_rate_that_its_refreshes_leave() -> None:
    numbers = controller_of(DRAM)
    words, count = 32, 2000
    requests = np.zeros((1, count, S_GAP + 1), np.int64)
    requests[0, :] = [(0, i % 2 * words, words, 0, 0) for i in range(count)]
    times = run_streams(numbers, Streams(requests=requests, stalls=np.zeros(1, np.int64)))[0]
    rate = numbers.word_bytes * words * count / (times[-1, T_END] - times[0, T_FIRST] + 1)
    (roof,) = slopes(DRAM)
    assert 0.985 * roof < rate <= roof

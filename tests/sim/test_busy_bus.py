"""FIFO sizes and outstanding reads for a stream of loads: the bus is busy exactly if the configuration gives no
warning.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from vdla.isa.config import Config, Memory
from vdla.isa.fifos import FIFOS
from vdla.isa.layout import encode
from vdla.sim import simulate

BUS = 32
BASE = Config(name="streams", memory=Memory(bus_bytes=BUS))
TILES = 256


def busy(config: Config, loads: int = 30) -> float:
    """Share of cycles in which the bus moves weights, for a program of `loads` weight loads."""
    load = encode(config, "LOAD.WGT", y_size=1, x_size=TILES, x_stride=TILES)
    code = np.array([load] * loads + [encode(config, "FINISH")], np.uint64)
    result = simulate(config, code, np.zeros(TILES * config.wgt_bytes, np.uint8))
    return result.traffic["wgt"].beats / result.cycles


@pytest.mark.parametrize("latency", [1, 30, 200])
@pytest.mark.parametrize("jitter", [0, 60])
def test_the_warning_is_there_where_the_bus_is_not_busy(latency: int, jitter: int) -> None:
    seen = set()
    for outstanding, words in itertools.product((1, 2, 4, 16), (2, 16, 64, 128, 256, 512)):
        memory = replace(BASE.memory, read_latency=latency, outstanding_reads=outstanding, jitter=jitter)
        config = replace(BASE, load_fifo_bytes=words * BUS, memory=memory)
        warned = any("load_fifo_bytes" in line or "outstanding_reads" in line for line in config.warnings)
        assert warned == (busy(config) < 0.945), (outstanding, words, config.warnings)
        seen.add(warned)
    assert seen == {True, False}


@pytest.mark.parametrize("bus", [8, 64])
@pytest.mark.parametrize("latency", [1, 100, 3000])
def test_sizes_left_out_keep_the_bus_busy(bus: int, latency: int) -> None:
    memory = Memory(bus_bytes=bus, read_latency=latency, outstanding_reads=64)
    config = Config(name="left out", memory=memory)
    assert config.warnings == () and busy(config, 120) > 0.95
    # A size given that is the one derived is the same machine.
    given = replace(config, **{f"{fifo}_fifo_bytes": config.fifo_bytes(fifo) for fifo in FIFOS})
    assert given.digest == config.digest
    if latency > 1:
        half = replace(config, load_fifo_bytes=config.fifo_bytes("load") // 4)
        assert "load_fifo_bytes" in half.warnings[0] and busy(half, 120) < 0.95


def test_what_a_warning_asks_for_is_enough() -> None:
    memory = Memory(bus_bytes=64, read_latency=100, outstanding_reads=1)
    config = Config(name="asks", load_fifo_bytes=1024, memory=memory)
    fifo, reads = config.warnings
    size, count = (int(line.rsplit("; ", 1)[1].split(" ")[0]) for line in (fifo, reads))
    assert busy(replace(config, load_fifo_bytes=size, memory=replace(memory, outstanding_reads=count))) > 0.95
    assert busy(replace(config, load_fifo_bytes=size)) < 0.95
    assert busy(replace(config, memory=replace(memory, outstanding_reads=count))) < 0.95


def test_a_fifo_may_be_as_large_as_its_field_allows() -> None:
    large = replace(BASE, load_fifo_bytes=65536 * BUS, store_fifo_bytes=65536 * BUS)
    assert sum(large.extra_storage.values()) > 4 << 20
    assert busy(large) > 0.95


def test_the_same_hardware_behind_another_memory_keeps_its_fifos() -> None:
    slow = BASE.with_memory(replace(BASE.memory, read_latency=1000))
    assert [slow.fifo_bytes(fifo) for fifo in FIFOS] == [BASE.fifo_bytes(fifo) for fifo in FIFOS]
    assert replace(BASE, memory=slow.memory).fifo_bytes("load") > BASE.fifo_bytes("load")
    assert any("load_fifo_bytes" in line for line in slow.warnings)

"""Separate channels for read and write data (hw/README.md section 1): each direction has its own order of service and
its own random delays, and both may move a beat in the same cycle.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import slow_model
from campaign import some

from vdla.isa.config import Config, load_config
from vdla.isa.layout import Unit, encode
from vdla.sim import DeadlockError, SimulationResult, simulate
from vdla.verify.random_programs import random_config, random_program

TINY = load_config("tiny")
TILES = 200


def machine(base: Config = TINY, **timing: object) -> Config:
    return base.with_memory(replace(base.memory, **timing))  # pyright: ignore[reportArgumentType]


def loads_and_stores(config: Config, stored: int) -> SimulationResult:
    """Four loads and four stores that do not wait for each other. A store writes `stored` vectors."""
    load = encode(config, "LOAD.WGT", y_size=1, x_size=TILES, x_stride=TILES)
    store = encode(config, "STORE.OUT", dram_base=2048, y_size=1, x_size=stored, x_stride=stored)
    code = [load, store] * 4 + [encode(config, "FINISH")]
    return simulate(config, np.array(code, np.uint64), np.zeros(16384, np.uint8))


def beats(result: SimulationResult) -> tuple[int, int]:
    """(beats that a program read, instructions included; beats that it wrote)."""
    written = result.traffic["out"].beats
    return sum(item.beats for item in result.traffic.values()) - written, written


def test_a_read_beat_and_a_write_beat_move_in_the_same_cycle() -> None:
    results = {name: loads_and_stores(machine(data_channels=name), 400) for name in ("shared", "separate")}
    read, written = beats(results["separate"])
    assert beats(results["shared"]) == (read, written) and written == 800
    assert results["shared"].cycles > read + written > results["separate"].cycles > max(read, written)
    # Alone, the loads take as long as they do beside the stores.
    assert results["separate"].cycles - loads_and_stores(machine(data_channels="separate"), 0).cycles < 30


@pytest.mark.parametrize("seed", range(3))
def test_writes_never_delay_reads(seed: int) -> None:
    """With separate data channels, loads end in the same cycles whether or not there are stores, also with random
    delays; with shared channels they do not.
    """
    ends = {}
    for name in ("shared", "separate"):
        config = machine(data_channels=name, jitter=20, stall=9, seed=seed)
        ends[name] = [loads_and_stores(config, stored).end[:8:2].tolist() for stored in (0, 200)]
    assert ends["separate"][0] == ends["separate"][1]
    assert ends["shared"][0] != ends["shared"][1]


def test_reads_never_delay_writes() -> None:
    """With separate data channels, stores end in the same cycles, whether a load beside them is short or long."""
    config = machine(data_channels="separate", jitter=20, stall=9, seed=5)
    found = []
    for size in (2, TILES):
        load = encode(config, "LOAD.WGT", y_size=1, x_size=size, x_stride=size)
        store = encode(config, "STORE.OUT", dram_base=2048, y_size=1, x_size=200, x_stride=200)
        code = np.array([*[store] * 4, load, encode(config, "FINISH")], np.uint64)
        found.append(simulate(config, code, np.zeros(16384, np.uint8)).end[:4].tolist())
    assert found[0] == found[1]


@pytest.mark.parametrize("delay", ["jitter", "stall"])
def test_writes_have_random_delays_of_their_own(delay: str) -> None:
    def end(seed: int, channels: str) -> list[int]:
        config = machine(data_channels=channels, seed=seed, **{delay: 50})
        store = encode(config, "STORE.OUT", dram_base=2048, y_size=1, x_size=100, x_stride=100)
        result = simulate(
            config, np.array([store] * 6 + [encode(config, "FINISH")], np.uint64), np.zeros(16384, np.uint8)
        )
        return (result.end[1:6] - result.end[0]).tolist()

    assert len({tuple(end(seed, "separate")) for seed in range(4)}) == 4
    # Jitter delays only reads where both directions share a channel.
    assert (len({tuple(end(seed, "shared")) for seed in range(4)}) == 1) == (delay == "jitter")


SLOW = [
    {"outstanding_reads": 1, "outstanding_writes": 1},
    {"outstanding_reads": 1, "outstanding_writes": 1, "stall": 5, "write_latency": 40},
    {"outstanding_reads": 8, "outstanding_writes": 1, "read_latency": 1, "write_latency": 1},
    {"outstanding_reads": 2, "outstanding_writes": 4, "stall": 7, "jitter": 50, "write_latency": 1},
]


@pytest.mark.parametrize("seed", some(range(2000, 2012), 3))
def test_the_slow_model_agrees(seed: int) -> None:
    for number, timing in enumerate(SLOW):
        config = machine(random_config(seed), data_channels="separate", seed=seed + number, **timing)
        program = random_program(config, seed, length=20)
        result = simulate(config, program.instructions, program.image, data=False)
        if result.cycles > 8000:
            continue
        model = slow_model.Model(config, program.instructions, program.image)
        assert slow_model.run(model) == result.cycles, timing
        count = len(model.program)
        assert [i.begin for i in model.program] == result.begin[:count].tolist()
        assert [i.end for i in model.program] == result.end[:count].tolist()
        for unit in Unit:
            counters = result.units[unit.name.lower()]
            expected = dict(slow_model.counters(model, unit, result.cycles))
            assert expected == {**counters.busy, **counters.stalls}


def test_a_deadlock_ends_the_run() -> None:
    config = machine(data_channels="separate")
    store = encode(config, "STORE.OUT", pop_prev=1, y_size=1, x_size=1, x_stride=1)
    code = np.array([store, encode(config, "FINISH")], np.uint64)
    with pytest.raises(DeadlockError, match="store"):
        simulate(config, code, np.zeros(4096, np.uint8))

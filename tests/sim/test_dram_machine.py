"""Timing runs on machines with a DRAM: whole bursts beside cycle by cycle, counts of the memory, deadlocks, limits."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import vdla.sim.dram_cycles as dram_cycles
import vdla.sim.dram_machine as dram_machine
from vdla.isa.assembler import assemble
from vdla.isa.config import Config, Memory, load_config
from vdla.isa.dram_memory import controller_of
from vdla.isa.program import Program, bare_program
from vdla.isa.scratchpads import Contents
from vdla.sim import CycleLimitError, DeadlockError, DramCounts, SimulationResult, simulate
from vdla.sim.dram_words import has_closed_form
from vdla.sim.state import DRAM_CYCLES
from vdla.verify.cosim.cases import case, launch
from vdla.verify.cosim.dram import dram_machines

TINY = load_config("tiny")
MEMORIES: dict[str, dict[str, Any]] = {
    "DDR3": {"part": "MT41K256M8"},
    "DDR2, two rows in a bank": {"part": "MT47H64M16", "bank_bytes": 4096},
    "SDR, no refresh": {"part": "MT48LC16M16", "width": 64, "refresh": False},
    "DDR4": {"part": "MT40A1G8"},
    "DDR3, one burst at a time": {"part": "MT41K256M8", "outstanding_reads": 1, "outstanding_writes": 1},
    "SDR, many bursts": {
        "part": "MT48LC4M16",
        "width": 64,
        "outstanding_reads": 16,
        "outstanding_writes": 16,
    },
}
WRITES = """
LOAD.INP sram_base=0 dram_base=0 y_size=1 x_size=1024 x_stride=1024
LOAD.INP sram_base=0 dram_base=0 y_size=1 x_size=1024 x_stride=1024
STORE.OUT sram_base=0 dram_base=32768 y_size=1 x_size=512 x_stride=512
STORE.OUT sram_base=0 dram_base=32768 y_size=1 x_size=512 x_stride=512
FINISH
"""


def machine(name: str) -> Config:
    return dataclasses.replace(TINY, name=name, memory=Memory(kind="dram", **MEMORIES[name]))


def same(left: SimulationResult, right: SimulationResult) -> bool:
    assert left.dram is not None
    assert left.dram.beats + sum(left.dram.waits.values()) == left.cycles
    return (
        (left.cycles, left.traffic, left.dram) == (right.cycles, right.traffic, right.dram)
        and all(
            np.array_equal(getattr(left, name), getattr(right, name)) for name in ("begin", "end", "dispatch")
        )
        and all(map(np.array_equal, left.segments, right.segments))
    )


def both_ways(
    config: Config, program: Program, monkeypatch: pytest.MonkeyPatch, scratchpads: Contents | None = None
) -> tuple[SimulationResult, ...]:
    """Simulates the timing of a program with the memory cycle by cycle, and with whole bursts computed; returns the two
    results in this order.
    """
    results = []
    for fast in (False, True):
        monkeypatch.setattr(dram_machine, "FAST", fast)
        results.append(
            simulate(config, program.instructions, program.image, data=False, scratchpads=scratchpads)
        )
    return tuple(results)


def assert_equal(config: Config, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    start = launch(case(config, number, 0))
    slow, fast = both_ways(config, start.program, monkeypatch, start.scratchpads)
    assert same(slow, fast), number


def change_controller(monkeypatch: pytest.MonkeyPatch, **changes: int) -> None:
    for module in (dram_machine, dram_cycles):
        monkeypatch.setattr(
            module, "controller_of", lambda config: dataclasses.replace(controller_of(config), **changes)
        )


@pytest.mark.parametrize("name", MEMORIES)
def test_whole_bursts_equal_single_cycles(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (*range(8), 31):
        assert_equal(machine(name), number, monkeypatch)


@pytest.mark.campaign
@pytest.mark.parametrize("name", MEMORIES)
def test_whole_bursts_of_many_programs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(400):
        assert_equal(machine(name), number, monkeypatch)


def test_a_calibration_with_each_refresh(monkeypatch: pytest.MonkeyPatch) -> None:
    config = machine("DDR3")
    program = launch(case(config, 0, 0)).program
    before = simulate(config, program.instructions, program.image, data=False)
    change_controller(monkeypatch, zqcs_period=1)
    slow, fast = both_ways(config, program, monkeypatch)
    assert same(slow, fast)
    assert fast.cycles > before.cycles


@pytest.mark.parametrize("write_fifo", [17, 128])
def test_write_data_wait_for_room_in_the_fifo(write_fifo: int, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory(kind="dram", part="MT41K256M8", outstanding_writes=16)
    config = dataclasses.replace(load_config("vta"), memory=memory)
    program = bare_program(config, assemble(WRITES, config), np.zeros(1 << 20, np.uint8))
    change_controller(monkeypatch, write_fifo=write_fifo)
    slow, fast = both_ways(config, program, monkeypatch)
    assert same(slow, fast)


@pytest.mark.parametrize("name", MEMORIES)
def test_instructions_that_are_fetched_when_the_run_ends(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = machine(name)
    words = assemble("FINISH\n" * 100, config)
    slow, fast = both_ways(config, bare_program(config, words, np.zeros(4096, np.uint8)), monkeypatch)
    assert same(slow, fast) and fast.dram is not None
    assert 0 < fast.dram.beats < fast.traffic["instruction"].beats


def test_every_machine_of_co_simulation_computes_whole_bursts() -> None:
    numbers = [controller_of(machine) for machine in dram_machines()]
    assert all(map(has_closed_form, numbers))
    assert not has_closed_form(dataclasses.replace(numbers[0], t_ccd=2))


LOADS = """
LOAD.INP sram_base=0 dram_base=0 y_size=1 x_size=4 x_stride=4
LOAD.INP sram_base=0 dram_base={second} y_size=1 x_size=4 x_stride=4 push_next
{finish}
"""


def loads(config: Config, second: int, finish: str = "FINISH pop_prev") -> SimulationResult:
    """Simulates the timing of two loads of 16 bytes each, one from byte 0 and one from byte `second` of DRAM on.
    `finish`: the last line of the program.
    """
    words = assemble(LOADS.format(second=second // config.inp_bytes, finish=finish), config)
    return simulate(config, words, np.zeros(1 << 16, np.uint8), data=False)


def test_a_row_conflict_costs_an_activate() -> None:
    config = machine("DDR3")
    numbers = controller_of(config)
    row = numbers.row_bytes
    hit, conflict = loads(config, 256), loads(config, row * numbers.banks)
    assert hit.dram is not None and conflict.dram is not None
    # Instructions lie in a row of their own.
    assert (hit.dram.opened, conflict.dram.opened) == (2, 3)
    assert hit.dram.beats == sum(item.beats for item in hit.traffic.values()) > 2 * 16 // 8
    assert hit.dram.row_hit_rate == 1 - 2 / hit.dram.beats
    assert conflict.cycles - hit.cycles >= numbers.t_rcd


def test_waits_of_a_row_conflict_and_of_another_bank() -> None:
    config = machine("DDR3")
    config = config.with_memory(dataclasses.replace(config.memory, bank_bytes=1024))
    numbers = controller_of(config)
    row = numbers.row_bytes
    hit, conflict, other = (loads(config, second) for second in (256, row * numbers.banks, row))
    assert hit.dram is not None and conflict.dram is not None and other.dram is not None
    assert set(hit.dram.waits) == {*DRAM_CYCLES} - {"words"}

    def more(counts: DramCounts) -> dict[str, int]:
        before = hit.dram.waits if hit.dram else {}
        causes = ("refresh", "precharge", "activate", "turnaround", "bank")
        return {
            cause: counts.waits[cause] - before[cause]
            for cause in causes
            if counts.waits[cause] > before[cause]
        }

    # The second load waits in the bank's queue, so the first one's column command closes the row.
    assert more(conflict.dram) == {"precharge": numbers.t_rp, "activate": numbers.t_rcd}
    # Two cycles from the crossbar to the other bank; a cycle each for the bank to find its row closed, for the chooser
    # of row commands and for that of column commands to move to the bank.
    assert more(other.dram) == {"activate": 1 + 1 + numbers.t_rcd, "bank": 2 + 1}


def test_refreshes_are_counted_and_can_be_left_out() -> None:
    config = machine("DDR3")
    program = launch(case(config, 0, 0)).program
    run = simulate(config, program.instructions, program.image, data=False)
    without = dataclasses.replace(config, memory=dataclasses.replace(config.memory, refresh=False))
    other = simulate(without, program.instructions, program.image, data=False)
    assert run.dram is not None and other.dram is not None
    assert run.dram.refreshes == pytest.approx(run.cycles / controller_of(config).t_refi, abs=1)
    assert other.dram.refreshes == 0 and other.cycles < run.cycles
    assert other.dram.waits["refresh"] == 0 < run.dram.waits["refresh"]


def test_a_fixed_memory_has_no_counts() -> None:
    assert loads(TINY, 256).dram is None


def test_a_deadlock_and_a_limit_end_the_run() -> None:
    config = machine("DDR3")
    with pytest.raises(DeadlockError, match="deadlock after cycle"):
        loads(config, 256, "FINISH pop_next")
    words = assemble(LOADS.format(second=64, finish="FINISH pop_prev"), config)
    with pytest.raises(CycleLimitError, match="not finished after 30 cycles"):
        simulate(config, words, np.zeros(1 << 16, np.uint8), data=False, cycle_limit=30)

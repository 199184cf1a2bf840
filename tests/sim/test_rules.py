"""Timing rules reach the simulator through `sim/parameters.py`, so that a configuration field may change them.
Exceptions are the sizes of bursts, the read stages of GEMM and ALU, and the number of loads in flight.

Each rule gets another value there and in the per-cycle model of the timing contract; both must still agree in every
cycle.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import pytest
import slow_model
from campaign import representatives, some

from vdla.isa import timing
from vdla.isa.config import Config, load_config
from vdla.isa.layout import Unit
from vdla.isa.program import Program
from vdla.sim import parameters, simulate
from vdla.verify.random_programs import random_config, random_program

CHANGED = {
    "BEGIN_DELAY": 2,
    "FETCH_DELAY": 6,
    "FETCH_ROOM_DELAY": 5,
    "FIFO_LATENCY": 4,
    "PATCH_STEP_DELAY": 18,
    "PRODUCT_CYCLES": 9,
    "REQUEST_DELAY": 6,
    "REQUEST_GAP": 3,
    "ROOM_DELAY": 6,
    "STEP_DELAY": 6,
    "STEP_GAP": 3,
    "STEP_LATENCY": 5,
    "STORES_IN_FLIGHT": 3,
    "WRITE_DELAY": 7,
}
"""Constant timing rules, each with another value for the test."""
OF_A_CONFIGURATION = (
    "alu_cycles",
    "alu_latency",
    "gemm_latency",
    "parameter_cycles",
    "post_latency",
    "store_latency",
)
QUICK, LONG = (1003, 1017), (1000, 1004, 1005)
"""Seeds of random machines on which programs take less than 5,000 cycles, and of some on which they take less than
10,000.
"""


@pytest.fixture
def changed(monkeypatch: pytest.MonkeyPatch):
    """A function that gives a timing rule another value in the simulator's parameters and in the slow model."""

    def change(name: str) -> None:
        was = getattr(timing, name)
        now: Any = CHANGED[name] if name in CHANGED else lambda *arguments: was(*arguments) + 2
        holders = [module for key, module in sys.modules.items() if key.startswith("slow_model.")]
        found = [module for module in (parameters, *holders) if hasattr(module, name)]
        assert parameters in found and len(found) > 1
        for module in found:
            monkeypatch.setattr(module, name, now)

    return change


@cache
def programs() -> list[Program]:
    machines: list[tuple[Config, int]] = [(random_config(seed), seed) for seed in (*QUICK, *some(LONG, 0))]
    found = [random_program(config, seed, length=30) for config, seed in machines]
    return [*found, random_program(load_config("tiny"), 1009, length=60)]


def timing_of(program: Program) -> tuple[int, list[int]]:
    result = simulate(program.config, program.instructions, program.image, data=False)
    return result.cycles, result.end.tolist()


@pytest.mark.parametrize(
    "name", representatives([*CHANGED, *OF_A_CONFIGURATION], 2, always=["alu_cycles", "STEP_DELAY"])
)
def test_a_rule_that_changes_changes_the_simulator(name: str, changed) -> None:
    before = [timing_of(program) for program in programs()]
    changed(name)
    differ = 0
    for program, (cycles, end) in zip(programs(), before, strict=True):
        result = simulate(program.config, program.instructions, program.image, data=False)
        model = slow_model.Model(program.config, program.instructions, program.image)
        assert slow_model.run(model) == result.cycles
        count = len(model.program)
        assert [i.begin for i in model.program] == result.begin[:count].tolist()
        assert [i.end for i in model.program] == result.end[:count].tolist()
        for unit in Unit:
            counters = result.units[unit.name.lower()]
            seen = dict(slow_model.counters(model, unit, result.cycles))
            assert seen == {**counters.busy, **counters.stalls}
        differ += (result.cycles, result.end.tolist()) != (cycles, end)
    assert differ


def test_every_rule_of_the_model_is_changed() -> None:
    holders = [module for key, module in sys.modules.items() if key.startswith("slow_model.")]
    used = {
        name
        for module in holders
        for name, value in vars(module).items()
        if value is getattr(timing, name, None) and (name.isupper() or callable(value))
    }
    apart = {
        "read_burst_beats",
        "write_burst_beats",
        "gemm_read_stage",
        "alu_read_stage",
    }
    # How many loads are in flight is decided where a program is decoded.
    assert used - apart - {"LOADS_IN_FLIGHT"} == {*CHANGED, *OF_A_CONFIGURATION}

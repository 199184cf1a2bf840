"""Faults in the simulator's model of a DRAM controller: random programs on a machine with a DRAM must notice each."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from vdla.hw.harness.dram import design
from vdla.hw.harness.dram.memory import design_of, load_dram
from vdla.hw.harness.engine import RtlResult
from vdla.isa import dram
from vdla.isa.dram import Controller
from vdla.verify.cosim.cases import Case, Launch, case, launch
from vdla.verify.cosim.compare import differences, run_both, run_rtl, simulate_program
from vdla.verify.cosim.dram import dram_machines
from vdla.verify.faults.fault import Fault, simulator_fault
from vdla.verify.faults.injected import run_fault

DDR3 = dram_machines()[0]
ROWS = DDR3.with_memory(dataclasses.replace(DDR3.memory, bank_bytes=1024))
"""The machine with consecutive rows in different banks, so that small programs use all banks."""
DESIGN = design_of(ROWS)
PROGRAMS = 20
IN_ORDER = "a master's requests are executed in order, so that reads and writes never wait together"
ONE_BANK = "a master opens one bank at a time"
UNNOTICED = {
    "word_bytes": "is for users of the controller",
    "read_time": IN_ORDER,
    "write_time": IN_ORDER,
    "t_rc": "is shorter than t_ras and t_rp together",
    "t_rrd": ONE_BANK,
    "t_faw": ONE_BANK,
    "t_zqcs": "calibrations are a second apart",
    "zqcs_period": "calibrations are a second apart",
    "read_fifo": "the machine's FIFOs hold fewer words",
    "write_fifo": "the machine's FIFOs hold fewer words",
}
"""Parameters of the DRAM controller that may be wrong without an effect on programs of this machine, each with the
reason.
"""
NUMBERS = [item.name for item in dataclasses.fields(Controller) if item.name not in UNNOTICED]

Run = tuple[Case, Launch, RtlResult]


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    """Random programs with their results on the RTL, which equal those of the simulator without a fault."""
    found = []
    for number in range(PROGRAMS):
        item = case(ROWS, number, 0)
        start = launch(item)
        outcome = run_both(item.config, start)
        assert not outcome.differences and outcome.rtl is not None
        found.append((item, start, outcome.rtl))
    return found


def notices(run: Run) -> bool:
    """Whether the simulator's results on the program of `run`, computed now, differ from the RTL's results in `run`."""
    item, start, rtl = run
    return bool(differences(simulate_program(item.config, start.program, start.scratchpads), rtl))


def test_there_are_more_than_twelve_numbers() -> None:
    assert len(NUMBERS) >= 16


@pytest.mark.system_tools("g++")
@pytest.mark.parametrize("field", NUMBERS)
def test_a_wrong_number_of_the_controller_is_noticed(
    field: str, runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random programs notice a wrong parameter of the simulator's DRAM controller: twice the number of banks, one DRAM
    clock in each controller clock, or any other parameter increased by one.
    """
    right = dram.controller

    def wrong(*arguments: Any, **options: Any) -> Controller:
        exact = right(*arguments, **options)
        value = {"banks": 2 * exact.banks, "phases": 1}.get(field, getattr(exact, field) + 1)
        return dataclasses.replace(exact, **{field: value})

    monkeypatch.setattr(dram, "controller", wrong)
    assert any(map(notices, runs))


@pytest.mark.system_tools("g++")
@pytest.mark.parametrize("field", ["t_rcd", "t_refi"])
def test_a_wrong_number_of_the_model_in_c_plus_plus_is_noticed(
    field: str, runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random programs notice that the model of LiteDRAM's controller, as the RTL's memory, has a parameter increased by
    one.
    """
    exact = DESIGN.controller
    wrong = dataclasses.replace(exact, **{field: getattr(exact, field) + 1})
    monkeypatch.setattr(design, "controller", lambda *arguments, **options: wrong)
    load_dram.cache_clear()
    try:
        outcomes = (
            run_rtl(
                item.config, start, simulate_program(item.config, start.program, start.scratchpads), "model"
            )
            for item, start, _ in runs
        )
        assert any(outcome.differences for outcome in outcomes)
    finally:
        load_dram.cache_clear()


def rule(name: str, line: str, faulty: str, breaks: str) -> Fault:
    return simulator_fault(name, "dram_words.py", line, faulty, breaks, DDR3.name)


RULES = (
    rule(
        "auto-precharge",
        "queued = number == S[S_BANK] and accepted < S[S_COLUMN]",
        "queued = False",
        "no column command closes its row",
    ),
    rule(
        "one bank a master",
        "waits = number != S[S_BANK] and accepted <= S[S_COLUMN]",
        "waits = False",
        "a burst that crosses a row does not wait for the bank before",
    ),
    rule(
        "write to read",
        "turned = max(cycle + 1, G[G_WTR]) + 1",
        "turned = cycle + 2",
        "reads follow writes without t_wtr",
    ),
    rule(
        "count of rows closed",
        "_note_closed(G, S, S[S_COLUMN])",
        "cycle = held",
        "auto-precharge is not counted",
    ),
    rule(
        "state after a refresh",
        "S[S_REFRESHED] = begin",
        "S[S_REFRESHED], G[G_STATE] = begin, WRITES",
        "writes follow a refresh",
    ),
)
"""Faults in the simulator's DRAM timing: each replaces one line of sim/dram_words.py, and so breaks one rule."""


@pytest.mark.campaign
@pytest.mark.system_tools("g++")
@pytest.mark.parametrize("fault", RULES, ids=[fault.name for fault in RULES])
def test_a_wrong_rule_of_the_controller_is_noticed(fault: Fault) -> None:
    assert run_fault(fault, programs=PROGRAMS, campaign=0).program is not None

"""Random programs on machines with a DRAM: the simulator against the RTL on LiteDRAM's RTL and on the model of its
controller.

LiteDRAM's Verilog contains a checker of timings, which prints a line to the standard output of the process for each
rule that is broken; `broken_rules` redirects and reads it. Silence is expected, except for one rule that LiteDRAM's
controller itself breaks with fast clocks (`known_rule`).
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

from vdla.hw.harness.dram import design
from vdla.hw.harness.dram.checker import broken_rules
from vdla.hw.harness.dram.counts import CommandCounts
from vdla.hw.harness.dram.memory import load_dram
from vdla.hw.harness.dram.oracle import line_about_oracle
from vdla.isa.config import Config
from vdla.isa.dram import PARTS
from vdla.sim import DramCounts
from vdla.verify.cosim.cases import case, launch
from vdla.verify.cosim.compare import dram_differences, run_both
from vdla.verify.cosim.dram import dram_machines, known_rule, run_on_dram

MACHINES = dram_machines()
DDR3 = MACHINES[0]


def assert_equal(machine: Config, programs: int, *, rules_kept: bool) -> None:
    """Asserts that simulator and RTL agree on random programs, with LiteDRAM's RTL and with the model of its controller
    as memory, and that LiteDRAM's checker reports no broken rule of the DRAM part. Without `rules_kept`, the rule that
    LiteDRAM's controller itself breaks (`known_rule`) may be broken.
    """
    found = run_on_dram(machine, programs)
    assert found.programs == programs and found.cycles > 1000 * programs
    assert not found.differences, [(case.name, text) for case, text in found.differences]
    assert not [line for line in found.broken if rules_kept or not known_rule(line)]


@pytest.mark.system_tools("g++")
def test_twenty_programs_on_ddr3_take_the_cycles_of_the_rtl() -> None:
    assert (DDR3.name, DDR3.memory.part, DDR3.memory.bus_bytes) == (
        "tiny, 100 MHz, MT41K256M8", "MT41K256M8", 8,
    )  # fmt: skip
    assert_equal(DDR3, 20, rules_kept=True)


@pytest.mark.system_tools("g++")
def test_twelve_programs_on_two_channels_take_the_cycles_of_the_rtl() -> None:
    machine = next(machine for machine in MACHINES if machine.memory.channels > 1)
    assert (machine.memory.part, machine.memory.channels) == ("MT41K256M8", 2)
    assert_equal(machine, 12, rules_kept=True)


@pytest.mark.system_tools("g++")
def test_programs_run_on_the_model_without_litedram(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without LiteDRAM co-simulates a machine with a DRAM: the RTL runs on the model, whose cycles by cause and
    turnarounds are compared with the simulator's, too.
    """
    monkeypatch.setattr(design, "PACKAGES", ("no-such-package",))
    load_dram.cache_clear()
    item = case(DDR3, 3, 0)
    outcome = run_both(item.config, launch(item))
    load_dram.cache_clear()
    assert outcome.differences == ()
    assert outcome.simulated is not None and outcome.simulated.dram is not None
    assert outcome.rtl is not None and outcome.rtl.dram is not None
    assert outcome.rtl.dram.turnarounds == outcome.simulated.dram.turnarounds > 0
    assert outcome.rtl.dram.waits == {
        **outcome.simulated.dram.waits, "words": outcome.simulated.dram.beats,
    }  # fmt: skip
    assert sum(outcome.rtl.dram.waits.values()) == outcome.rtl.cycles
    assert line_about_oracle(DDR3) == (
        "the RTL runs with MT41K256M8 on the model of LiteDRAM's controller in C++, because LiteDRAM is not "
        'installed (pip install "vdla[dram]")'
    )
    assert line_about_oracle(DDR3, "model") == ""


COUNTS = CommandCounts(
    activates=9, precharges=3, reads=20, writes=10, auto_precharges=4, all_precharges=2, refreshes=2, calibrations=0,
    digest=1, turnarounds=5, waits={"words": 30, "refresh": 80, "idle": 7},
)  # fmt: skip
SIMULATED = DramCounts(
    opened=9, closed=7, refreshes=2, turnarounds=5, beats=30, waits={"refresh": 80, "idle": 7}
)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"opened": 8}, "rows opened: simulator 8, RTL 9"),
        ({"closed": 3}, "rows closed: simulator 3, RTL 7"),
        ({"refreshes": 3}, "refreshes: simulator 3, RTL 2"),
        ({"turnarounds": 4}, "turnarounds: simulator 4, RTL 5"),
        ({"waits": {"refresh": 81, "idle": 7}}, "cycles of refresh: simulator 81, RTL 80"),
    ],
)
def test_a_count_that_differs_from_the_commands_is_named(change: dict[str, Any], line: str) -> None:
    assert dram_differences(SIMULATED, COUNTS) == []
    assert dram_differences(replace(SIMULATED, **change), COUNTS) == [f"DRAM, {line}"]


@pytest.mark.campaign
@pytest.mark.system_tools("g++")
@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_programs_on_every_machine_take_the_cycles_of_the_rtl(machine: Config) -> None:
    assert_equal(machine, 12, rules_kept=machine.clock_mhz <= 100)


def test_the_machines_have_every_generation_of_parts_and_several_widths() -> None:
    memories = [machine.memory for machine in MACHINES]
    assert {PARTS[memory.part or ""].kind for memory in memories} == {"SDR", "DDR2", "DDR3", "DDR4"}
    assert {memory.bus_bytes for memory in memories} == {8, 16, 32, 64}
    assert {memory.refresh for memory in memories} == {True, False}
    assert len({memory.bank_bytes for memory in memories}) > 3
    assert {memory.channels for memory in memories} == {1, 2, 4}
    assert len({machine.clock_mhz for machine in MACHINES}) > 4
    assert len({machine.digest for machine in MACHINES}) == len(MACHINES) > 24


def test_lines_of_the_checker_are_taken_from_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    print("before")
    with broken_rules() as broken:
        os.write(1, b"[0000000000052500ps] ACT->PRE violation on bank 3\n")
        print("between")
    print("behind")
    assert broken == ["[0000000000052500ps] ACT->PRE violation on bank 3"]
    assert capfd.readouterr().out == "before\nbetween\nbehind\n"
    assert known_rule(broken[0]) and not known_rule("[0000000000052500ps] tRRD violation on bank 3")

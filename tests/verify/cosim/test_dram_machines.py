"""Random programs on machines with a DRAM: the simulator against the RTL on LiteDRAM's RTL.

LiteDRAM's Verilog contains a checker of timings, which prints a line to the standard output of the process for each
rule that is broken; `broken_rules` redirects and reads it. Silence is expected, except for one rule that LiteDRAM's
controller itself breaks with fast clocks (`known_rule`).
"""

from __future__ import annotations

import os

import pytest

from vdla.hw.harness.dram.checker import broken_rules
from vdla.isa.config import Config
from vdla.isa.dram import PARTS
from vdla.verify.cosim.dram import dram_machines, known_rule, run_on_dram

MACHINES = dram_machines()
DDR3 = MACHINES[0]


def assert_equal(machine: Config, programs: int, *, rules_kept: bool) -> None:
    """Asserts that simulator and RTL agree on random programs, and that LiteDRAM's checker reports no broken rule of
    the DRAM part. Without `rules_kept`, the rule that LiteDRAM's controller itself breaks (`known_rule`) may be broken.
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

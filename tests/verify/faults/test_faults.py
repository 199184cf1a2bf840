"""Faults in simulator and RTL, and mutations of the netlist: a sample of the campaigns in benchmarks/."""

import random

import pytest

from vdla.hw.synthesis.mutants import make_mutants
from vdla.hw.verilog import generate_verilog
from vdla.isa.config import Config, load_config
from vdla.verify.cosim.machines import default_machines
from vdla.verify.faults.fault import Fault
from vdla.verify.faults.injected import FaultError, faulty_text, run_fault, source_folder
from vdla.verify.faults.mutants import expected_programs, run_mutants
from vdla.verify.faults.table import FAULTS

SAMPLE = ("pad value", "stall cause", "separate data channels")


def test_there_are_61_faults_in_both_engines():
    assert len(FAULTS) == len({fault.name for fault in FAULTS}) == 61
    assert {fault.package for fault in FAULTS} == {"hw", "sim"}


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_every_fault_changes_one_line_that_compiles(fault: Fault):
    before = (source_folder(fault.package) / fault.file).read_text(encoding="utf-8").splitlines()
    after = faulty_text(fault).splitlines()
    changed = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    assert [(old.strip(), new.strip()) for old, new in changed] == [(fault.line, fault.faulty)]
    compile(faulty_text(fault), fault.file, "exec")


def test_a_fault_whose_line_is_gone_is_an_error():
    with pytest.raises(FaultError, match="0 lines"):
        faulty_text(
            Fault(
                name="gone",
                package="hw",
                file="tokens.py",
                line="no such line",
                faulty="",
                breaks="",
                machine="tiny",
            )
        )


@pytest.mark.system_tools("g++")
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.name in SAMPLE], ids=SAMPLE)
def test_a_faulty_simulator_is_caught(fault: Fault):
    # Of the first campaigns the one whose first programs tell: the fifth shows a wrong pad, the others up to the 49th.
    assert run_fault(fault, programs=60, campaign=2).program is not None


@pytest.mark.system_tools("g++")
def test_without_a_fault_nothing_differs():
    assert run_fault(None, programs=3).program is None


def test_a_run_hangs_by_cpu_time():
    found = run_fault(None, programs=3, cpu_seconds=1)
    assert (found.program, found.difference) == (0, "hangs")


def check_mutants(config: Config, count: int, chosen: int, least: int, programs: int) -> None:
    """Asserts that the unchanged netlist of `config` passes the first `programs` programs of a campaign, and that they
    detect at least `least` of `chosen` mutants, drawn from the `count` mutants that are made.
    """
    mutants = make_mutants(
        generate_verilog(config, trace_ports=True), count=count, seed=1, report=lambda text: None
    )
    expected = expected_programs(config, programs, campaign=1)
    numbers = sorted(random.Random(0).sample(range(1, count + 1), chosen))
    verdicts = run_mutants(mutants, [0, *numbers], expected, jobs=1)
    assert not verdicts[0].caught, verdicts[0].difference
    # Programs are few: the bar says that the study works, benchmarks/mutations.py measures how much is caught.
    assert sum(verdict.caught for verdict in verdicts[1:]) >= least, verdicts


# A library of its own takes 16 s. tests/hw/synthesis/test_mutants.py makes mutants of a small design in every run.
@pytest.mark.campaign
def test_the_netlist_of_the_smallest_machine_passes_and_its_mutants_do_not():
    small = next(machine for machine in default_machines() if not machine.extensions)
    check_mutants(small, count=40, chosen=3, least=1, programs=6)


@pytest.mark.campaign
def test_the_netlist_of_tiny_passes_and_its_mutants_do_not():
    check_mutants(load_config("tiny"), count=60, chosen=12, least=4, programs=12)

"""Co-simulation of simulator and Verilated RTL on the same programs: all common results must be equal.

The random programs are a fixed 100 of the 1,000 that `vdla cosim --seed 0` runs.
"""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from campaign import representatives
from shipped import shipped

from vdla.compiler.pipeline import compile_program
from vdla.hw.harness.engine import simulate_rtl
from vdla.isa.assembler import assemble
from vdla.isa.config import Memory, load_config
from vdla.isa.decoding import format_names
from vdla.isa.program import bare_program
from vdla.isa.program_file import read_hex
from vdla.isa.program_text import read_program
from vdla.isa.timing import store_latency
from vdla.sim import parameters as sim_parameters
from vdla.sim import simulate
from vdla.verify.cosim.campaign import Listener, run_campaign
from vdla.verify.cosim.cases import Launch, case, launch
from vdla.verify.cosim.compare import differences, run_both
from vdla.verify.cosim.failure import report_text, write_failure
from vdla.verify.cosim.machines import default_machines
from vdla.verify.cosim.networks import compiled, filled_image
from vdla.verify.cosim.work import CaseResult, Failure, minimize_case, run_case

TINY = load_config("tiny")
MACHINES = {machine.name: machine for machine in default_machines()}
WITHOUT = "4x4 without extensions, smallest queues"
NAMED = {"tiny": 40, WITHOUT: 30, "4x8, 256-bit bus, patch": 30}
"""Number of cases for each machine, beginning with case 0."""

EVERY = "8x8, 2 folds, every extension and chain memory"

TENS = [(name, start) for name, count in NAMED.items() for start in range(0, count, 10)]


def test_the_named_programs_are_100():
    assert 10 * len(TENS) == sum(NAMED.values()) == 100


# A machine's library takes as long as all programs here: always run are twenty programs of the default machine, and ten
# of the machine whose library `test_networks_on_every_extension` builds.
@pytest.mark.parametrize(
    ("name", "start"),
    representatives([*TENS, (EVERY, 0)], 0, always=[("tiny", 0), ("tiny", 10), (EVERY, 0)]),
)
def test_random_programs(name: str, start: int):
    results = [run_case(case(MACHINES[name], number, 0)) for number in range(start, start + 10)]
    assert {result.case.name: result.differences for result in results if result.differences} == {}
    assert all(result.instructions > 10 and result.cycles > 100 and result.bins for result in results)


def test_reads_and_writes_at_once():
    memory = dataclasses.replace(TINY.memory, data_channels="separate")
    machine = dataclasses.replace(TINY, memory=memory)
    results = [run_case(case(machine, number, 7)) for number in range(6)]
    assert {result.case.name: result.differences for result in results if result.differences} == {}


# Three libraries to build. The unit benches hold the chain memory's parts to the contract in every run.
@pytest.mark.campaign
@pytest.mark.parametrize("name", [name for name, item in MACHINES.items() if item.chain_buffer_bytes])
def test_programs_on_chain_memories(name: str):
    results = [run_case(case(MACHINES[name], number, 0)) for number in range(12)]
    assert {result.case.name: result.differences for result in results if result.differences} == {}
    assert any(("chain memory", "GEMM of it and the input scratchpad") in result.bins for result in results)


@pytest.mark.campaign
@pytest.mark.parametrize("name", [name for name, item in MACHINES.items() if item.has("fold")])
def test_programs_on_arrays_that_fold(name: str):
    results = [run_case(case(MACHINES[name], number, 0)) for number in range(12)]
    assert {result.case.name: result.differences for result in results if result.differences} == {}
    assert any(("folds", "2 groups, overwrite of another part") in result.bins for result in results)


@pytest.mark.campaign
@pytest.mark.parametrize("name", [name for name, item in MACHINES.items() if item.table_depth])
def test_programs_on_look_up_tables_and_operands_of_their_own_shape(name: str):
    results = [run_case(case(MACHINES[name], number, 0)) for number in range(12)]
    assert {result.case.name: result.differences for result in results if result.differences} == {}
    groups = {group for result in results for group, _ in result.bins}
    assert groups >= {"look-up tables", "operands"}


def both(text: str) -> tuple[str, ...]:
    program = bare_program(TINY, assemble(text, TINY), np.zeros(64, np.uint8))
    return run_both(TINY, Launch(program=program, scratchpads=None, random_state=None)).differences


def test_loads_in_flight_are_bounded():
    fill = "LOAD.INP y_pad_0=15 y_pad_1=15 x_size=3\n"
    assert both(fill * 40 + "CONFIG LOAD_PAD pad_value=1\n" + fill * 3 + "FINISH\n") == ()


@pytest.mark.parametrize("name", ["mlp", "small_cnn"])
def test_whole_network(name: str):
    program = compile_program(shipped(name, "u8"), TINY).program
    image = program.image.copy()
    rng = np.random.default_rng(0)
    for segment in program.segments:
        if segment.kind == "input":
            image[segment.address : segment.address + segment.size] = rng.integers(
                0, 256, segment.size, np.uint8
            )
    simulated = simulate(TINY, program.instructions, image)
    run = simulate_rtl(TINY, program.instructions, image)
    assert differences(simulated, run) == []


# The only library here beside the default machine's: a network on a machine with all optional hardware.
@pytest.mark.parametrize("source", ["blocks", "attention"])
def test_networks_on_every_extension(source: str):
    machine = MACHINES[EVERY]
    program = compiled(machine, source, 2)
    assert program is not None
    image = filled_image(program, np.random.default_rng(0))
    start = Launch(program=dataclasses.replace(program, image=image), scratchpads=None, random_state=None)
    assert run_both(machine, start).differences == ()


def test_an_engine_that_does_not_finish_differs():
    found = both("LOAD.INP pop_next\nFINISH\n")
    assert len(found) == 1 and found[0].startswith("the simulator does not finish: deadlock")


# --- faults ---------------------------------------------------------------------------------------------


def test_a_fault_in_the_simulator_is_found_minimized_and_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """Co-simulation finds that the simulator was changed (a plain store takes one cycle too many), minimizes the
    program, and writes it to a file.
    """
    item = case(TINY, 4, 0)
    assert run_case(item).differences == ()
    monkeypatch.setattr(sim_parameters, "store_latency", lambda config: store_latency(config) + 1)
    found = run_case(item).differences
    assert any(re.match(r"end of instruction \d+: simulator \d+, RTL \d+", line) for line in found)

    failure = minimize_case(item)
    program = failure.launch.program
    assert format_names(program.instructions) == ["STORE.OUT", "FINISH"]
    assert failure.launch.scratchpads is None and failure.config.memory.jitter == 0
    assert failure.outcome.differences

    folder = tmp_path / "mismatch"
    write_failure(folder, "a fault", failure.config, failure.launch, failure.outcome)
    config = load_config(str(folder / "config.toml"))
    assert config == failure.config
    assert read_program(folder / "program.txt") == program
    assert np.array_equal(read_hex(folder / "program.hex"), program.instructions)
    assert (folder / "memory.bin").read_bytes() == program.image.tobytes()
    text = (folder / "report.txt").read_text()
    assert text == report_text(folder, "a fault", failure.config, failure.launch, failure.outcome)
    marked = [line for line in text.splitlines() if line.startswith("* ")]
    assert "STORE.OUT" in marked[0]
    begin, end, begin_rtl, end_rtl = (int(word) for word in marked[0].split()[2:6])
    assert (begin, end) == (begin_rtl, end_rtl + 1)


def test_a_fault_in_what_the_rtl_computes_is_found(monkeypatch: pytest.MonkeyPatch):
    """Co-simulation reports a difference if one bit of the RTL's accumulators is changed after the run."""
    from vdla.verify.cosim import compare

    def wrong(*arguments: object, **options: object):
        result = simulate_rtl(*arguments, **options)  # type: ignore[arg-type]
        acc = result.scratchpads["acc"].copy()
        acc[5] ^= 4
        return dataclasses.replace(result, scratchpads=result.scratchpads | {"acc": acc})

    monkeypatch.setattr(compare, "simulate_rtl", wrong)
    assert [line[:13] for line in run_case(case(TINY, 3, 0)).differences] == ["byte 5 of acc"]


@pytest.mark.system_tools("g++")
def test_a_campaign_in_processes_runs_every_case_once():
    heard: list[CaseResult] = []
    failures: list[Failure] = []
    listener = Listener(ran=heard.append, minimized=failures.append)
    count = 8
    campaign = run_campaign((TINY,), count, 0, jobs=2, listener=listener)
    assert campaign.mismatches == [] and failures == [] and campaign.failure is None
    assert sorted(result.case.number for result in heard) == list(range(count))
    document = campaign.document()
    assert document["programs"] == count and document["mismatches"] == 0
    assert document["instructions"] == sum(
        len(launch(case(TINY, n, 0)).program.instructions) for n in range(count)
    )
    assert document["configurations"] == {"tiny": count}
    assert document["coverage"]["hit"] > 300 and document["coverage_holes"] == []


def test_the_memory_timing_is_no_part_of_the_hardware():
    item = case(TINY, 2, 0)
    slow = dataclasses.replace(TINY, memory=Memory(read_latency=77, write_latency=3))
    assert run_both(slow, launch(item)).differences == ()

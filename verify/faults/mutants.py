"""Runs co-simulation with mutations of the netlist: finds for each mutation the first program that detects it, if any
does.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vdla.hw.control import ERROR_BIT, QUIET_BIT
from vdla.hw.harness.build import build_library
from vdla.hw.harness.engine import Machine, RtlError
from vdla.hw.harness.surroundings import Surroundings
from vdla.hw.synthesis.mutants import SELECTION, Mutants
from vdla.isa.config import Config
from vdla.isa.program import instruction_address
from vdla.sim import SimulationResult

from ..cosim.cases import Launch, case, launch
from ..cosim.compare import differences, placed, simulate_program

TIMEOUT = 300.0
"""Seconds after which the run of all programs on one mutation counts as hung, if it has not ended."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Expected:
    """A program, and the simulator's results for it. `words` uint64 (n, words): the instructions that the RTL runs,
    relocated to other memory addresses; `surroundings`: conditions of the RTL's run.
    """

    config: Config
    launch: Launch
    words: NDArray[np.uint64]
    surroundings: Surroundings
    simulated: SimulationResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Result of co-simulation with mutation `number`. `program`: index of the first program, in the order in which they
    were run, on which simulator and RTL differ; `difference`: description of the difference. Both are None if no
    program detects the mutation. `program` is 0 if the process crashed or hung, whichever program it ran.
    """

    number: int
    program: int | None
    difference: str | None

    @property
    def caught(self) -> bool:
        """Whether any program gave a different result on the mutant than on the design."""
        return self.program is not None


def expected_programs(machine: Config, count: int, campaign: int) -> list[Expected]:
    """The cases 0 to `count` - 1 of `machine` in the co-simulation campaign of seed `campaign`, with the simulator's
    results, the fewest cycles first.
    """
    found = []
    for number in range(count):
        item = case(machine, number, campaign)
        start = launch(item)
        words, surroundings = placed(item.config, start)
        simulated = simulate_program(item.config, start.program, start.scratchpads)
        found.append(
            Expected(
                config=item.config, launch=start, words=words, surroundings=surroundings, simulated=simulated
            )
        )
    return sorted(found, key=lambda item: item.simulated.cycles)


def first_difference(programs: Sequence[Expected], library: Path) -> tuple[int, str] | None:
    """Returns the first of `programs` whose result on the RTL in `library` differs from the simulator's, as (index,
    difference); None if all results agree.

    Programs run one after the other without reset on one instance of the RTL; a program that starts with random
    registers gets a new instance. In a run before the first program, memory answers with an error: the error must stop
    that run, else the result is (0, description of the wrong behaviour), and must not affect the next run.
    """
    machine = None
    try:
        for index, item in enumerate(programs):
            try:
                if machine is None or item.launch.random_state is not None:
                    if machine is not None:
                        machine.close()
                    state = item.launch.random_state
                    machine = Machine(item.config, random_state=state, library_path=library)
                if index == 0 and (problem := _error_differs(machine, item)) is not None:
                    return index, problem
                found = _differences(machine, item)
            except RtlError as error:
                return index, str(error)
            if found:
                return index, found[0]
    finally:
        if machine is not None:
            machine.close()
    return None


def _differences(machine: Machine, item: Expected) -> list[str]:
    contents = item.launch.scratchpads
    machine.fill_scratchpads({} if contents is None else contents)
    run = machine.run(
        item.words,
        item.launch.program.image,
        cycle_limit=4 * item.simulated.cycles + 1000,
        memory_timing=item.config.memory,
        surroundings=item.surroundings,
    )
    return differences(item.simulated, run)


def _error_differs(machine: Machine, item: Expected) -> str | None:
    """Description of the mutant's wrong behaviour when memory answers with an error at the first instruction; None if
    the behaviour is right.
    """
    image = item.launch.program.image
    try:
        machine.run(item.words, image, failing_address=instruction_address(len(image)), cycle_limit=100_000)
    except RtlError as error:
        expected = 1 << ERROR_BIT | 1 << QUIET_BIT
        if error.status == expected:
            return None
        return f"a memory error leaves STATUS at {error.status}, not {expected}: {error}"
    return "a memory error does not stop the run"


def run_mutants(
    mutants: Mutants,
    numbers: Sequence[int],
    programs: Sequence[Expected],
    *,
    jobs: int = 1,
    done: Callable[[Verdict], None] = lambda verdict: None,
) -> list[Verdict]:
    """Runs the programs on mutations of the design, and returns a verdict on each of the mutations `numbers`, in this
    order. Number 0 is the unchanged design.

    The library of the Verilated RTL contains all mutations, and a run selects one of them. Each mutation runs in a
    separate process, `jobs` of them at a time; `done` is called with each verdict as it comes. If the process crashes
    or hangs, the mutation counts as detected.
    """
    verdicts: dict[int, Verdict] = {}
    library = build_library(mutants.verilog, bus_bytes=programs[0].config.memory.bus_bytes)
    with tempfile.TemporaryDirectory(prefix="vdla-mutants-") as directory:
        waiting, running = list(numbers), dict[int, _Run]()
        while waiting or running:
            while waiting and len(running) < jobs:
                number = waiting.pop(0)
                running[number] = _start(Path(directory), number, programs, library)
            for number, run in list(running.items()):
                verdict = _finished(number, run)
                if verdict is not None:
                    verdicts[number] = verdict
                    del running[number]
                    done(verdict)
            time.sleep(0.005)
    return [verdicts[number] for number in numbers]


@dataclass(frozen=True, slots=True)
class _Run:
    process: BaseProcess
    answers: Connection
    started: float


def _start(directory: Path, number: int, programs: Sequence[Expected], library: Path) -> _Run:
    place = directory / str(number)
    place.mkdir()
    (place / SELECTION).write_text(f"{number}\n", encoding="utf-8")
    context = multiprocessing.get_context("fork")
    answers, ours = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(place, programs, library, ours), daemon=True)
    process.start()
    ours.close()
    return _Run(process, answers, time.monotonic())


def _child(place: Path, programs: Sequence[Expected], library: Path, answers: Connection) -> None:
    os.chdir(place)
    # Discards the output of a broken model.
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    answers.send(first_difference(programs, library))
    answers.close()


def _finished(number: int, run: _Run) -> Verdict | None:
    if run.answers.poll():
        try:
            answer = run.answers.recv()
        except EOFError:
            answer = (0, "the model stopped the process")
        run.process.join()
    elif not run.process.is_alive():
        answer = (0, "the model stopped the process")
    elif time.monotonic() - run.started > TIMEOUT:
        run.process.kill()
        run.process.join()
        answer = (0, "the model hangs")
    else:
        return None
    program, difference = answer if answer is not None else (None, None)
    return Verdict(number=number, program=program, difference=difference)

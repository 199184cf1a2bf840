"""Trials on the accelerator: a candidate is lowered, linked alone and simulated, timing only."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from vdla.isa.config import Config
from vdla.sim import SimulationError, simulate

from ...ir.stmt import Program
from ...passes.pipeline import run_pipeline
from ...schedule import LegalityError
from ...target.vdla.emit import EmissionError
from ...target.vdla.link_alone import Alone, link_alone
from ...target.vdla.placement import PlacementError
from ...templates.lower_vdla import pipeline
from ...templates.schedule_vdla import schedule_workload, space_of
from ...templates.space import Space, Values
from ...templates.tiling import NoTileError
from ...templates.workload_vdla import Workload, program_of
from .trial import Result

VIRTUAL_THREADS = 2
"""What templates choose for where a candidate does not say how many copies there are."""
ACTIVATIONS = frozenset("XRY")
"""The parameters of a kernel that are tensors of a network; the others are constants."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AcceleratorTask:
    """A workload to be tuned on one machine; `program` is its tensor expression."""

    config: Config
    workload: Workload
    space: Space
    program: Program

    @staticmethod
    def of(config: Config, workload: Workload) -> AcceleratorTask:
        """The task of a workload. ValueError for one that computes nothing."""
        return AcceleratorTask(
            config=config,
            workload=workload,
            space=space_of(config, workload),
            program=program_of(config, workload),
        )


def measure(task: AcceleratorTask, values: Values | None) -> Result:
    """The cycles of the candidate with these values of the knobs (None: the template's own choice), alone.

    What cannot be lowered is a failed trial.
    """
    started = time.thread_time()
    try:
        cycles = _cycles(task, values)
    except (LegalityError, EmissionError, PlacementError, NoTileError, SimulationError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        return Result(cost=math.inf, error=reason, seconds=time.thread_time() - started)
    return Result(cost=float(cycles), seconds=time.thread_time() - started)


def _cycles(task: AcceleratorTask, values: Values | None) -> int:
    alone = program_alone(task, values)
    return simulate(task.config, alone.instructions, alone.image, data=False).cycles


def program_alone(task: AcceleratorTask, values: Values | None) -> Alone:
    """The program of one candidate, by itself."""
    config, workload = task.config, task.workload
    schedule, copies = schedule_workload(
        config, workload, task.program, workload.post, VIRTUAL_THREADS, values
    )
    lowered = run_pipeline(schedule.program, pipeline(config, VIRTUAL_THREADS, copies), check=False)
    return link_alone(config, lowered, ACTIVATIONS)

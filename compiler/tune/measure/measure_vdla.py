"""Trials on the accelerator: a candidate is lowered, linked as a single kernel, and simulated for its timing only."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from vdla.isa.config import Config
from vdla.sim import SimulationError, simulate

from ... import VIRTUAL_THREADS
from ...codegen.vdla.errors import EmissionError
from ...codegen.vdla.link_alone import ACTIVATIONS, Alone, link_alone
from ...codegen.vdla.placement import PlacementError
from ...ir.stmt import Program
from ...passes.pipeline import run_pipeline
from ...schedule import LegalityError
from ...templates.columns import Values
from ...templates.space import EmptySpaceError, Space
from ...templates.vdla.folded_work import folded_dense_weights
from ...templates.vdla.lower import pipeline
from ...templates.vdla.template import space_of, template_of
from ...templates.vdla.workload import Workload
from .trial import Result

SCHEDULES = 256
"""Number of scheduled programs that a task caches. (Most candidates of a search share their schedule with one of the
few hundred candidates before.)
"""

NOT_LOWERED = (LegalityError, EmissionError, PlacementError, EmptySpaceError, ValueError)
"""Exceptions of a candidate that cannot be lowered."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AcceleratorTask:
    """A workload to be tuned on one machine. `program`: the workload's tensor expression.

    `scheduled(values)`: schedules the program with the knob values of a candidate. The last `SCHEDULES` results are
    cached, because many candidates have equal schedules: only their numbers of copies of buffers, or knobs without
    effect, differ.
    """

    config: Config
    workload: Workload
    space: Space
    program: Program
    scheduled: Callable[[tuple[tuple[str, int], ...]], Program]

    @staticmethod
    def of(config: Config, workload: Workload) -> AcceleratorTask:
        """The task of tuning a workload. Raises ValueError for a workload without computation, EmptySpaceError if no
        point (setting of the knobs) fits the machine's memories.
        """
        template = template_of(workload)
        expression = template.expression(config, workload)

        @lru_cache(SCHEDULES)
        def scheduled(values: tuple[tuple[str, int], ...]) -> Program:
            return template.schedule(config, workload, expression, dict(values)).program

        return AcceleratorTask(
            config=config,
            workload=workload,
            space=space_of(config, workload),
            program=expression.program,
            scheduled=scheduled,
        )


def measure(task: AcceleratorTask, values: Values | None) -> Result:
    """The cycles of a single kernel with the knobs `values` (None: the template's default).

    A candidate that cannot be lowered or simulated is a failed trial.
    """
    started = time.thread_time()
    try:
        cycles = _cycles(task, values)
    except (*NOT_LOWERED, SimulationError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        return Result(cost=math.inf, error=reason, seconds=time.thread_time() - started)
    return Result(cost=float(cycles), seconds=time.thread_time() - started)


def _cycles(task: AcceleratorTask, values: Values | None) -> int:
    alone = program_alone(task, values)
    return simulate(task.config, alone.instructions, alone.image, data=False).cycles


def program_alone(task: AcceleratorTask, values: Values | None) -> Alone:
    """The program that runs one candidate (knobs `values` of a task) as a single kernel."""
    return link_lowered(task, lower(task, values))


def link_lowered(task: AcceleratorTask, program: Program) -> Alone:
    """The program that runs the loop IR of one candidate as a single kernel, once."""
    weights = folded_dense_weights(task.config, task.workload)
    return link_alone(task.config, program, ACTIVATIONS, task.workload.margins, weights=weights)


def lower(task: AcceleratorTask, values: Values | None) -> Program:
    """The loop IR of one candidate, ready for emission. `values`: its knobs (None: the template's default).

    Raises EmptySpaceError if there is no default.
    """
    config, template = task.config, template_of(task.workload)
    if not values:
        values = template.default_for(config, task.workload, VIRTUAL_THREADS)
    effective = task.space.cost(task.space.columns(task.space.point(values)[None])).effective
    cut = {name: int(effective[name][0]) for name in values} | dict.fromkeys(template.copies, 1)
    program = task.scheduled(tuple(cut.items()))
    passes = pipeline(config, template.copies_by_scope(values, VIRTUAL_THREADS))
    return run_pipeline(program, passes, check=False)

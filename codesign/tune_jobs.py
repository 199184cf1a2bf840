"""Steps of `vdla tune` common to both kinds of target: strategies from options, and trials of workloads alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from vdla.compiler.records.record import Record
from vdla.compiler.templates.space import EmptySpaceError, Space
from vdla.compiler.tune.program_features.program import Read
from vdla.compiler.tune.runs.session import Job, Plan, tune
from vdla.compiler.tune.search.cost_model import Samples
from vdla.compiler.tune.search.history import History, Strategy
from vdla.compiler.tune.search.short_list import ShortList
from vdla.compiler.tune.search.strategies import strategy_of
from vdla.util.errors import UserError

from .tune_options import Options, Watchers

W = TypeVar("W")
"""Workloads of one kind of target."""


def strategy_for(
    options: Options,
    space: Space,
    workload: W,
    samples: Callable[[Callable[[W], Read] | None], tuple[Samples, ...]],
    read_of: Callable[[W], Read],
) -> Strategy:
    """The strategy for a workload, trained with `samples` of others: their accounts' features, or with `read_of` also
    those of their programs.
    """
    short_list = None
    if options.reads_programs(space):
        short_list = ShortList(read=read_of(workload), prior=samples(read_of))
    return strategy_of(options.strategy, samples(None), short_list, options.model(space))


def tune_jobs(
    jobs: Sequence[Job],
    options: Options,
    *,
    compiler: str,
    machine: str,
    write: Callable[[Record], None],
    watchers: Watchers,
) -> list[History]:
    """The histories of jobs after their trials. A job that has no legal schedule on `machine` is skipped, so that its
    template's choice remains. Raises UserError if no job has one.
    """
    plan = Plan(
        trials=options.trials,
        batch=options.batch,
        seed=options.seed,
        strategy=options.strategy,
        compiler=compiler,
        patience=options.patience,
    )
    empty: list[EmptySpaceError] = []

    def refuse(job: Job, error: EmptySpaceError) -> None:
        empty.append(error)
        watchers.remark(f"{job.name}: {error} of {machine}; its template decides")

    histories = tune(jobs, plan, write=write, watch=watchers.trial, refuse=refuse)
    if len(empty) == len(jobs):
        raise UserError(f"{empty[0]} of {machine}")
    return histories

"""Errors of the cost models of GPU templates: estimates compared with measured seconds of candidates."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np

from vdla.codesign.workload_models import cuda_workloads
from vdla.compiler.codegen.cuda.machine import GpuTarget, cuda_target
from vdla.compiler.records.record import Record
from vdla.compiler.templates.columns import ESTIMATE, Columns
from vdla.compiler.templates.gpu.table import GPU
from vdla.compiler.templates.gpu.workload import CudaWorkload, workload_from_dict
from vdla.util.errors import UserError


class TilesError(UserError):
    """Raised for an invalid file of measured candidate schedules of GPU templates."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measured:
    """Measured candidates of one workload. `knobs`: for each axis of the workload's space, the values of all
    candidates; `seconds`: the candidates' times on a GPU.
    """

    name: str
    target: GpuTarget
    workload: CudaWorkload
    knobs: Columns
    seconds: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Errors of the cost model on one workload's candidates.

    `regret`: time of the candidate that the model ranks first over the time of the fastest candidate. `spread`:
    standard deviation of the logarithm of measured over estimated seconds; a smaller spread means a better ranking.
    `bias`: geometric mean of estimated over measured seconds; meaningless for Winograd, whose cost model here covers
    the products alone.
    """

    name: str
    template: str
    candidates: int
    best: float
    regret: float
    spread: float
    bias: float


def read_tiles(path: Path) -> list[Measured]:
    """The candidates, one item for each workload, in a file such as benchmarks/results/gpu-tiles-CARD.json. Raises
    TilesError if the file cannot be read or has another form.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        card = replace(cuda_target(document["arch"]), card=document["card"])
        return [_of_task(card, task) for task in document["tasks"]]
    except OSError as error:
        raise TilesError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise TilesError(f"{path}: is no file of measured candidates: {error}") from None


def measured_in(records: Iterable[Record], target: GpuTarget) -> list[Measured]:
    """The successful candidates in the tuner's `records` of GPUs, one item for each workload, as candidates for
    `target`. Records of other kinds of target, and of other knobs than the present space has, are left out.
    """
    found: dict[str, tuple[CudaWorkload, list[Record]]] = {}
    for record in records:
        if record.task.target["kind"] == "cuda" and record.cost is not None and record.knobs:
            text, _ = record.task.key
            if text not in found:
                found[text] = workload_from_dict(record.task.workload), []
            found[text][1].append(record)
    measured: list[Measured] = []
    for workload, trials in found.values():
        names = [axis.name for axis in GPU.space(target, workload).axes]
        kept = [trial for trial in trials if sorted(trial.knobs) == sorted(names)]
        if kept:
            measured.append(
                Measured(
                    name=_shapes(workload),
                    target=target,
                    workload=workload,
                    knobs={n: np.array([trial.knobs[n] for trial in kept], np.int64) for n in names},
                    seconds=np.array([trial.cost for trial in kept], np.float64),
                )
            )
    return measured


def _shapes(workload: CudaWorkload) -> str:
    """The shapes of a workload's arrays as text; the workload's name does not contain them."""
    return " ".join("x".join(map(str, p.shape)) for p in workload.expression.parameters)


def _of_task(card: GpuTarget, task: dict[str, Any]) -> Measured:
    target = replace(card, tensor_float=task["tensor_float"])
    found = [w for w in cuda_workloads(task["workload"], target) if w.template == task["template"]]
    if len(found) != 1:
        raise TilesError(f"{task['workload']} is not computed by {task['template']}")
    table = np.array(task["candidates"], np.float64)
    return Measured(
        name=task["workload"],
        target=target,
        workload=found[0],
        knobs={name: table[:, k].astype(np.int64) for k, name in enumerate(task["knobs"])},
        seconds=table[:, -1] * 1e-6,
    )


def judge(measured: Measured) -> Judgement:
    """Compares the cost model's estimates with the measured times of one workload; returns the model's errors."""
    found = GPU.space(measured.target, measured.workload).cost(measured.knobs)
    estimates = found.quantities[ESTIMATE]
    ratios = np.log(estimates / measured.seconds)
    best = float(measured.seconds.min())
    return Judgement(
        name=measured.name,
        template=measured.workload.template,
        candidates=len(ratios),
        best=best,
        regret=float(measured.seconds[np.argmin(estimates)]) / best,
        spread=float(np.std(ratios)),
        bias=float(np.exp(np.mean(ratios))),
    )


def mean_regret(judgements: Sequence[Judgement]) -> float:
    """The geometric mean of the regrets (time of the cost model's first choice over the time of the fastest
    candidate).
    """
    return exp(sum(log(judgement.regret) for judgement in judgements) / len(judgements))

"""Quantizes with at most a given number of evaluations: calibrates once, searches for quantization decisions, chooses
one set of decisions, and tests the quantized model.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import onnx

from vdla.compiler.cpu_stages import SharedKernels
from vdla.compiler.quantize.decisions import check_products, fix, layers_of
from vdla.compiler.quantize.float_model import FloatModel
from vdla.compiler.quantize.observe import Arrays, Run
from vdla.compiler.quantize.plan import plan_quantization
from vdla.compiler.quantize.quantize import Recipe, calibrate_model
from vdla.util.errors import UserError

from ..quantize_run import prepare_here
from .evaluate import Evaluator, Target
from .study import Found, Member, SearchSettings, Study, search, study_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Limits by which `Found.choose` selects a set of decisions from the Pareto front of error and cost: least SQNR in
    dB, largest latency in milliseconds; None is no limit.
    """

    sqnr: float | None = None
    latency: float | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """The result of a search: the chosen member (set of decisions), the reason for the choice, and the quantized model
    `proto`.

    `exact_sqnr` is the model's SQNR in dB on the held-out samples, with the accelerator's regions simulated in
    integers. `runs` and `held_out` are the numbers of calibration samples and of held-out samples.
    """

    found: Found
    chosen: Member
    reason: str
    proto: onnx.ModelProto
    exact_sqnr: float
    runs: int
    held_out: int


def split(samples: Sequence[Arrays], where: str) -> tuple[list[Arrays], list[Arrays]]:
    """Splits `samples` into samples for calibration and held-out samples: the last quarter, rounded down, but at least
    one sample. Raises UserError for a single sample; its message calls the samples `where`.
    """
    if len(samples) < 2:
        raise UserError(
            f"{where}: contains one sample only, but calibration and measurement of errors need different samples; "
            "give more samples, or others with --held-out"
        )
    kept = len(samples) - max(1, len(samples) // 4)
    return list(samples[:kept]), list(samples[kept:])


def seen_before(samples: Sequence[Arrays], held_out: Sequence[Arrays]) -> int:
    """Number of held-out samples that calibration has used."""
    known = {_digest(feeds) for feeds in samples}
    return sum(_digest(feeds) in known for feeds in held_out)


@contextlib.contextmanager
def open_study(
    model: FloatModel,
    samples: Sequence[Arrays],
    held_out: Sequence[Arrays],
    *,
    target: Target,
    recipe: Recipe,
    choices: Mapping[str, Collection[str]],
    settings: SearchSettings,
    remark: Callable[[str], None] = lambda text: None,
) -> Iterator[Study]:
    """A context with a search for the quantization of `model` on `target`, calibrated on `samples` by the method of
    `recipe`. Decisions can be evaluated only inside the block. The error is measured on the `held_out` samples;
    `choices` are decisions made by the user, by layer. `remark` is called with a line of text about each slow step.

    Raises UserError, also if calibration has used every held-out sample.
    """
    plan = plan_quantization(model, whole=recipe.whole)
    check_products(model, plan)
    fixed = fix(model.source, layers_of(plan), choices)
    if seen_before(samples, held_out) == len(held_out):
        raise UserError(
            f"{model.source}: calibration has used every held-out sample, so their error says nothing; give other "
            "samples with --held-out"
        )
    with SharedKernels() as kernels:

        def prepare(proto: onnx.ModelProto) -> Run:
            return prepare_here(proto, remark, kernels)

        calibrated, real = calibrate_model(model, plan, samples, prepare, recipe)
        yield Study(
            evaluator=Evaluator(
                calibrated=calibrated,
                held_out=held_out,
                real=real,
                prepare=prepare,
                target=target,
                kernels=kernels,
            ),
            recipe=recipe,
            key=study_key(
                _content(model),
                samples,
                held_out,
                recipe,
                (target.config.digest, target.components.digest, repr(target.processor)),
            ),
            settings=settings,
            fixed=fixed,
        )


def decide(
    study: Study,
    *,
    goal: Goal | None = None,
    folder: Path | None = None,
    told: Callable[[Found], object] | None = None,
    runs: int,
) -> Outcome:
    """Runs the search `study`, and chooses one of the sets of decisions that it found. The chosen set keeps the limits
    in `goal` (of error and latency).

    `runs`: number of samples with which the model was calibrated, for the report. `folder`, `told`: as for `search`.
    Raises UserError.
    """
    found = search(study, folder=folder, told=told)
    wanted = goal or Goal()
    chosen, reason = found.choose(sqnr=wanted.sqnr, latency=wanted.latency)
    proto = study.evaluator.calibrated.write(chosen.decisions).proto
    return Outcome(
        found=found,
        chosen=chosen,
        reason=reason,
        proto=proto,
        exact_sqnr=study.evaluator.exact_sqnr(proto),
        runs=runs,
        held_out=len(study.evaluator.held_out),
    )


def _digest(feeds: Arrays) -> bytes:
    digest = blake2b(digest_size=16)
    for name in sorted(feeds):
        digest.update(name.encode() + feeds[name].tobytes())
    return digest.digest()


def _content(model: FloatModel) -> bytes:
    digest = blake2b(digest_size=16)
    digest.update(model.header.SerializeToString(deterministic=True))
    for node in model.nodes:
        digest.update(node.SerializeToString(deterministic=True))
    for name in sorted(model.constants):
        digest.update(name.encode() + model.constants[name].tobytes())
    return digest.digest()

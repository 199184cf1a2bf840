"""A search for quantization decisions: evaluates and records sets of decisions one after the other; then one set of
their Pareto front is chosen.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from math import log
from pathlib import Path
from typing import Literal

from vdla.compiler.quantize.decisions import Decisions, Fixed, Layer, uniform
from vdla.compiler.quantize.observe import Arrays
from vdla.compiler.quantize.quantize import Recipe
from vdla.compiler.records.package_identity import compiler_identity
from vdla.util.errors import UserError
from vdla.util.user_files import make_directory

from .evaluate import Evaluator, Figures
from .processor import node_seconds
from .records import Known, RecordsFile, read_records
from .search import Move, Search, front_of, knee

RECORDS = "records.jsonl"
CostName = Literal["latency", "energy"]
COSTS: Mapping[str, tuple[str, Callable[[Figures], float]]] = {
    "latency": ("ms", lambda figures: figures.milliseconds),
    "energy": ("uJ", lambda figures: figures.microjoules),
}
"""Costs that are traded off against the error, by name: (unit, function that computes the cost from figures)."""
UNIFORM = {
    "per-channel u8": (True, "uint8"),
    "per-channel s8": (True, "int8"),
    "per-tensor u8": (False, "uint8"),
    "per-tensor s8": (False, "int8"),
}
"""Sets of decisions that treat all layers equally, by name. Each value is a pair (whether weights have one scale for
each channel, type of the activations).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """An evaluated set of decisions; `number` counts evaluations from 0, `label` is its name in UNIFORM, else empty."""

    number: int
    decisions: Decisions
    figures: Figures
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """Settings of a search: at most `budget` evaluations, a `cost` that is traded off against the error, and the `seed`
    of its random choices. Raises UserError for a budget below 1 and a seed below 0.
    """

    budget: int
    cost: CostName = "latency"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.budget < 1:
            raise UserError(f"budget = {self.budget}; give 1 evaluation or more")
        if self.seed < 0:
            raise UserError(f"seed = {self.seed}; give a number of 0 or more")


@dataclass(frozen=True, kw_only=True, eq=False)
class Study:
    """The settings of a search for a network's quantization on a target. `key`: a hash of these settings, under which
    results are recorded. `fixed`: decisions made by the user.
    """

    evaluator: Evaluator
    recipe: Recipe
    key: str
    settings: SearchSettings
    fixed: Fixed = field(default_factory=Fixed)

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """The layers of the network for which quantization decisions are made."""
        return self.evaluator.calibrated.layers

    def canonical(self, decisions: Decisions) -> Decisions | None:
        """The standard form of a set of decisions, so that sets with the same effect are equal. The user's own
        decisions replace those in `decisions`, and decisions without an effect are removed. None if no convolution or
        product would remain quantized.
        """
        calibrated, whole = self.evaluator.calibrated, self.fixed.over(decisions)
        if all(layer.name in whole.floats for layer in self.layers if layer.weighted):
            return None
        return calibrated.canonical(whole)

    @cached_property
    def starts(self) -> dict[str, Decisions]:
        """The decisions with which the search starts, by name: they are equal for all layers. If several of them have
        the same effect, only the first is included.
        """
        found: dict[str, Decisions] = {}
        for name, (per_channel, activations) in UNIFORM.items():
            made = self.canonical(
                uniform(self.layers, "uint8" if activations == "uint8" else "int8", per_channel=per_channel)
            )
            if made is not None and made not in found.values():
                found[name] = made
        return found

    def value(self, figures: Figures) -> float:
        """The cost that the search trades off against the error, taken from `figures`: latency in ms or
        energy in uJ.
        """
        return COSTS[self.settings.cost][1](figures)

    def moves(self) -> tuple[Move, ...]:
        """All moves of the search. A move changes one decision of one layer or tensor group; decisions that the user
        has made are not changed. The estimated cost of moving a layer to the processor is the cost of the layer on the
        target's processor; all other moves have the estimated cost 0.
        """
        moves: dict[tuple[str, str], Move] = {}
        for layer in self.layers:
            if layer.operator and layer.name not in self.fixed.places:
                moves["place", layer.name] = Move(kind="place", name=layer.name, cost=self._float_cost(layer))
            if layer.group not in self.fixed.groups:
                moves["type", layer.group] = Move(kind="type", name=layer.group)
            if layer.weighted and layer.name not in self.fixed.weights:
                moves["weights", layer.name] = Move(kind="weights", name=layer.name)
        return tuple(moves.values())

    def _float_cost(self, layer: Layer) -> float:
        model, processor = self.evaluator.calibrated.model, self.evaluator.target.processor

        def shape(name: str) -> tuple[int, ...]:
            if name in model.constants:
                return model.constants[name].shape
            return model.static_shapes.get(name, ())

        node = next(node for node in model.nodes if node.name == layer.name)
        seconds = node_seconds(processor, node, shape)
        return 1e3 * seconds if self.settings.cost == "latency" else processor.microjoules(seconds)


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """The result of a search so far: `members`, the evaluated sets of decisions in the order of their evaluation.

    `evaluated`: number of members that were run in this search; the others come from records. `interrupted`: whether
    Ctrl-C ended the search.
    """

    study: Study
    members: tuple[Member, ...] = ()
    evaluated: int = 0
    interrupted: bool = False

    @cached_property
    def front(self) -> tuple[Member, ...]:
        """The Pareto front: members (evaluated sets of decisions) that no other one beats in both error and cost; the
        least cost comes first.
        """
        by_decisions = {member.decisions: member for member in self.members}
        known = {member.decisions: member.figures for member in self.members}
        return tuple(by_decisions[decisions] for decisions in front_of(known, self.study.value))

    def choose(self, *, sqnr: float | None = None, latency: float | None = None) -> tuple[Member, str]:
        """Chooses a member of the Pareto front; returns it and the reason.

        Only members of at most `latency` milliseconds are considered. With `sqnr`, the cheapest member with at least
        `sqnr` dB is chosen; with `latency` alone, the member with the least error; with neither, the knee of the front.
        If no member is within the limits, raises UserError, which names the nearest member.
        """
        source = self.study.evaluator.calibrated.model.source
        if not self.front:
            why = next(
                (member.figures.failed for member in self.members if member.figures.failed), "none was run"
            )
            raise UserError(
                f"{source}: none of the quantized networks that the search tried can be run: {why}"
            )
        within = [m for m in self.front if latency is None or m.figures.milliseconds <= latency]
        if not within:
            least = min(self.front, key=lambda member: member.figures.milliseconds)
            raise UserError(
                f"{source}: no quantized network that the search found takes at most {latency:g} ms; the fastest takes "
                f"{least.figures.milliseconds:.4g} ms at {least.figures.sqnr:.1f} dB; a larger --budget looks further"
            )
        if sqnr is not None:
            good = [member for member in within if member.figures.sqnr >= sqnr]
            if not good:
                best = max(within, key=lambda member: member.figures.sqnr)
                raise UserError(
                    f"{source}: no quantized network that the search found reaches {sqnr:g} dB; the best has "
                    f"{best.figures.sqnr:.1f} dB at {best.figures.milliseconds:.4g} ms; a larger --budget looks further"
                )
            return min(
                good, key=lambda member: self.study.value(member.figures)
            ), f"the cheapest of {sqnr:g} dB or more"
        if latency is not None:
            return max(
                within, key=lambda member: member.figures.sqnr
            ), f"the least error within {latency:g} ms"
        points = [(log(self.study.value(m.figures)), m.figures.sqnr) for m in self.front]
        if len(points) < 3:
            return self.front[0], f"the cheapest of {len(points)}; a front this short has no knee"
        return self.front[knee(points)], "the knee of the front"


def search(
    study: Study, *, folder: Path | None = None, told: Callable[[Found], object] | None = None
) -> Found:
    """Evaluates sets of decisions until the search has made its number of evaluations (`budget`), or finds no new set.

    Records are written to `folder`, which is created if necessary; decisions with a record there are not evaluated
    again, but count as evaluations. `told` is called with the results after every evaluation. A KeyboardInterrupt ends
    the search and returns the results so far, marked `interrupted`; before the first result it is raised. Raises
    UserError if the user has chosen that every convolution and matrix product is float.
    """
    labels = {decisions: name for name, decisions in study.starts.items()}
    if not labels:
        raise UserError(
            f"{study.evaluator.calibrated.model.source}: every convolution and matrix product is chosen to be float; "
            "leave one of them to the search"
        )
    asking = Search(
        starts=list(study.starts.values()),
        moves=study.moves(),
        canonical=study.canonical,
        cost=study.value,
        budget=study.settings.budget,
        seed=study.settings.seed,
    ).ask()
    records: Known = {}
    members: list[Member] = []
    evaluated, interrupted = 0, False
    with contextlib.ExitStack() as stack:
        file = None
        if folder is not None:
            make_directory(folder)
            file = stack.enter_context(RecordsFile(folder / RECORDS))
            records = read_records(folder / RECORDS)
        try:
            figures: Figures | None = None
            while True:
                try:
                    decisions = next(asking) if figures is None else asking.send(figures)
                except StopIteration:
                    break
                figures = records.get((study.key, decisions))
                if figures is None:
                    figures = study.evaluator.evaluate(decisions)
                    evaluated += 1
                    if file is not None:
                        file.append(study.key, decisions, figures)
                members.append(
                    Member(
                        number=len(members),
                        decisions=decisions,
                        figures=figures,
                        label=labels.get(decisions, ""),
                    )
                )
                if told is not None:
                    told(Found(study=study, members=tuple(members), evaluated=evaluated))
        except KeyboardInterrupt:
            if not members:
                raise
            interrupted = True
    return Found(study=study, members=tuple(members), evaluated=evaluated, interrupted=interrupted)


def study_key(
    model: bytes,
    samples: Sequence[Arrays],
    held_out: Sequence[Arrays],
    recipe: Recipe,
    evaluation: Sequence[str],
) -> str:
    """A hash, 16 hexadecimal digits, of everything that error, latency and energy depend on, except the decisions.

    `evaluation`: digest of the machine, digest of the table of components, and text of the processor.
    """
    digest = blake2b(digest_size=8)
    digest.update(model)
    for group in (samples, held_out):
        digest.update(b"samples")
        for feeds in group:
            for name in sorted(feeds):
                digest.update(name.encode() + feeds[name].tobytes())
    text = repr(
        (recipe.method, recipe.percentile, recipe.whole, tuple(evaluation), compiler_identity("vdla"))
    )
    digest.update(text.encode())
    return digest.hexdigest()

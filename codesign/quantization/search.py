"""A search for quantization decisions. First it tries decisions that are uniform over all layers, then changes of
single layers, then combinations of these changes in the order of gain per cost. At last it tries random changes of the
best sets of decisions (the Pareto front).

The search is a generator: it yields decisions and receives their figures, so that it neither runs nor records anything.
Equal seeds and figures give equal decisions. Decisions are compared by two numbers: noise over signal at the output,
and a cost. A move (a change of one decision) that was evaluated alone is predicted to change both numbers by the same
amounts in a combination. For any other move, the amounts are estimated (`Search.expected`). Reported figures are always
evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, log10
from random import Random
from statistics import median
from typing import Literal

import numpy as np

from vdla.compiler.quantize.decisions import Decisions

from ..explore.front import pareto
from .evaluate import Figures

Kind = Literal["place", "type", "weights"]
Cost = Callable[[Figures], float]
Asking = Generator[Decisions, Figures, None]
SINGLES = 0.5
"""Share of the evaluations after the first part that is spent on changes of a single decision of a single layer
("moves"). The first part evaluates the sets of decisions that are equal for all layers.
"""
CHAIN = 0.7
"""Share of the evaluations after the single changes that is spent on combinations of these changes. The changes are
added in the order of gain per cost.
"""
DRAWN = 24
"""The last part of the search changes sets of decisions on the Pareto front at random. Each time, it draws this many
changed sets, and evaluates only the most promising one.
"""
EQUAL_DB, EQUAL_COST = 0.05, 1.001
"""Two sets of decisions count as equal up to this difference of SQNR in dB and this ratio of costs; other held-out
samples might reverse smaller differences.
"""
MOST_TRIES = 20
"""The search ends after this number of consecutive draws of random changes that gave no new set of decisions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A change of one quantization decision, of kind "place" (layer `name` on accelerator or processor), "type"
    (activation type of the tensor group `name`) or "weights" (one scale or one for each channel, for the weights of
    layer `name`).

    `cost` is an estimate of the change of cost, in the search's unit of costs, made before any evaluation.
    """

    kind: Kind
    name: str
    cost: float = 0.0

    def on(self, decisions: Decisions) -> Decisions:
        """`decisions` after this move (a change of one quantization decision)."""
        match self.kind:
            case "place":
                return replace(decisions, floats=decisions.floats ^ {self.name})
            case "type":
                return replace(decisions, symmetric=decisions.symmetric ^ {self.name})
            case "weights":
                return replace(decisions, per_tensor=decisions.per_tensor ^ {self.name})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Effect:
    """Changes of noise and of cost that are caused by a move (a change of one quantization decision)."""

    noise: float
    cost: float


@dataclass(kw_only=True, eq=False)
class Search:
    """State of a search for quantization decisions. `starts`: the sets of decisions that are equal for all layers.
    `moves`: the possible changes of one decision. `canonical`: removes decisions that have no effect, and returns None
    if no layer stays quantized.

    `budget`: largest number of sets of decisions that the search yields for evaluation. `known`: the figures of all
    evaluated sets. `effects`: for each move that was evaluated alone, its measured changes of noise and cost.
    """

    starts: Sequence[Decisions]
    moves: Sequence[Move]
    canonical: Callable[[Decisions], Decisions | None]
    cost: Cost
    budget: int
    seed: int
    known: dict[Decisions, Figures] = field(default_factory=dict[Decisions, Figures])
    effects: dict[Move, _Effect] = field(default_factory=dict[Move, _Effect])

    def ask(self) -> Asking:
        """The search as a generator: it yields sets of decisions to be evaluated; the caller sends the figures of
        each set.
        """
        for start in self.starts:
            yield from self._run(start)
        if not self._begun:
            return
        base = min(self._begun, key=lambda start: (self.known[start].noise, self.cost(self.known[start])))
        yield from self._singles(base)
        yield from self._chain(base)
        yield from self._around()

    @property
    def left(self) -> int:
        """Number of sets of decisions that may still be evaluated."""
        return self.budget - len(self.known)

    def _run(self, decisions: Decisions) -> Generator[Decisions, Figures, Figures | None]:
        """Returns the figures of `decisions`, and evaluates them first if they are not known yet. Returns None if no
        layer stays quantized, if the quantized network cannot run, or if the figures are unknown and no evaluation is
        left in the budget.
        """
        made = self.canonical(decisions)
        if made is None:
            return None
        if made not in self.known:
            if self.left < 1:
                return None
            self.known[made] = yield made
        return self.known[made] if self.known[made].failed is None else None

    @property
    def _begun(self) -> list[Decisions]:
        """Starts of the search (decisions that are equal for all layers) that were evaluated and give a network that
        runs.
        """
        made = [start for start in map(self.canonical, self.starts) if start is not None]
        return [start for start in made if start in self.known and self.known[start].failed is None]

    def _singles(self, base: Decisions) -> Asking:
        """Evaluates moves (changes of one decision), each alone applied to `base`. Moves of layers to the processor
        come first, in the order of estimated cost. Moves of types and moves of scales follow; a kind is left out if the
        cost or the error did not get lower when all decisions of this kind were changed together. Ends when the share
        `SINGLES` of the evaluations left is spent.
        """
        paying = {kind for kind in ("type", "weights") if self._pays(kind)}
        order = sorted(
            (move for move in self.moves if move.kind == "place" or move.kind in paying),
            key=lambda move: (move.kind != "place", move.cost),
        )
        until = self.left - int(SINGLES * self.left)
        before = self.known[base]
        for move in order:
            if self.left <= until:
                break
            found = yield from self._run(move.on(base))
            if found is not None:
                self.effects[move] = _Effect(
                    noise=found.noise - before.noise, cost=self.cost(found) - self.cost(before)
                )

    def _pays(self, kind: Kind) -> bool:
        """Whether more decisions of one `kind` can improve the cost or the error. For the kind "type", more decisions
        means more tensors with symmetric types; for all other kinds, more layers with a single scale.

        Compares pairs of evaluated start points (sets of decisions that are equal for all layers) that differ only in
        decisions of this kind. Returns True if, in at least one pair, the point with more of these decisions has less
        cost or less error.
        """
        found = [(start, self.known[start]) for start in self._begun]
        for one, figures in found:
            for other, others in found:
                same = one.floats == other.floats and (
                    (one.per_tensor == other.per_tensor and one.symmetric < other.symmetric)
                    if kind == "type"
                    else (one.symmetric == other.symmetric and one.per_tensor < other.per_tensor)
                )
                if same and (self.cost(others) < self.cost(figures) or others.noise < figures.noise):
                    return True
        return False

    def _chain(self, base: Decisions) -> Asking:
        """Adds moves (changes of one decision) to `base`, one after the other, and evaluates each result. The next move
        is always the cheapest one: the move with the least expected cost for the noise that it is expected to remove. A
        move that does not reduce the noise is dropped. Ends when the share `CHAIN` of the evaluations left is spent.
        """
        until, before = self.left - int(CHAIN * self.left), self.known[base]
        current, waiting = base, [move for move in self.moves if self.expected(move, base).noise < 0]
        while waiting and self.left > until:
            waiting.sort(key=lambda move: _price(self.expected(move, current)))
            move = waiting.pop(0)
            found = yield from self._run(move.on(current))
            if found is not None and found.noise < before.noise:
                current, before = move.on(current), found

    def _around(self) -> Asking:
        """Evaluates random changes of sets of decisions on the Pareto front: draws `DRAWN` changes at a time and
        evaluates the most promising of these.
        """
        random, tries = Random(self.seed), 0
        while self.left > 0 and tries < MOST_TRIES:
            front = self.front()
            drawn: dict[Decisions, float] = {}
            for _ in range(DRAWN):
                parent = random.choice(front)
                moves = random.sample(self.moves, min(len(self.moves), random.choice((1, 1, 1, 2))))
                changed, figures = parent, self.known[parent]
                noise, cost = figures.noise, self.cost(figures)
                for move in moves:
                    effect = self.expected(move, changed)
                    noise, cost = noise + effect.noise, cost + effect.cost
                    changed = move.on(changed)
                made = self.canonical(changed)
                if made is not None and made not in self.known:
                    drawn[made] = self._promise(noise, cost, front)
            tries += 1
            if drawn:
                tries = 0
                yield from self._run(max(drawn, key=drawn.__getitem__))

    def front(self) -> list[Decisions]:
        """The Pareto front: evaluated sets of decisions that no other set beats in both noise and cost; the least cost
        comes first.
        """
        return front_of(self.known, self.cost)

    def expected(self, move: Move, decisions: Decisions) -> _Effect:
        """Expected changes of noise and cost if a move (change of one decision) is applied to `decisions`. If the move
        was evaluated alone, its measured changes are expected. Otherwise, the change of noise is the median over the
        evaluated moves of the same kind (0 without any), and the change of cost is the move's estimate. A move that
        takes a layer back from the processor has the opposite changes.
        """
        known = self.effects.get(move)
        if known is None:
            alike = [effect for other, effect in self.effects.items() if other.kind == move.kind]
            noise = median(effect.noise for effect in alike) if alike else 0.0
            known = _Effect(noise=noise, cost=move.cost)
        undone = {"place": decisions.floats, "type": decisions.symmetric, "weights": decisions.per_tensor}
        # The base is a uniform start: a move that it already contains is reversed.
        made = move.name in undone[move.kind] and move.kind == "place"
        return _Effect(noise=-known.noise, cost=-known.cost) if made else known

    def _promise(self, noise: float, cost: float, front: Sequence[Decisions]) -> float:
        """Expected gain in dB of a set of decisions with this noise and cost: the ratio of noises between the reference
        and the set. The reference is the set with the least noise among the sets of the Pareto front that cost no more.
        The gain is at most 10, and 0 if the reference has no noise.

        For a set that is cheaper than the whole front, the reference is the front's set with the most noise.
        """
        below = [self.known[member].noise for member in front if self.cost(self.known[member]) <= cost]
        reference = min(below) if below else max(self.known[member].noise for member in front)
        return 10.0 * log10(reference / max(noise, 0.1 * reference)) if reference > 0 else 0.0


def front_of(known: Mapping[Decisions, Figures], cost: Cost) -> list[Decisions]:
    """The Pareto front of `known`: sets of decisions that no other set beats in both noise and cost; the least cost
    comes first.

    Differences up to `EQUAL_DB` and `EQUAL_COST` do not count: of several sets that are equal in this sense, the front
    has the set that differs least from uint8 with a scale for each channel.
    """
    kept: list[Decisions] = []
    running = [decisions for decisions, figures in known.items() if figures.failed is None]
    for decisions in sorted(running, key=_differences):
        figures = known[decisions]
        if not any(
            known[other].sqnr >= figures.sqnr - EQUAL_DB and cost(known[other]) <= EQUAL_COST * cost(figures)
            for other in kept
        ):
            kept.append(decisions)
    if not kept:
        return []
    values = np.array([(cost(known[decisions]), known[decisions].noise) for decisions in kept])
    best = np.flatnonzero(pareto(values))
    return [kept[index] for index in best[np.argsort(values[best, 0], kind="stable")]]


def _differences(decisions: Decisions) -> int:
    return len(decisions.floats) + len(decisions.symmetric) + len(decisions.per_tensor)


def knee(points: Iterable[tuple[float, float]]) -> int:
    """Index of the knee of a Pareto front: the point that is farthest above the line between the front's ends.

    Points are (log of cost, dB), cheapest first; with fewer than three points the index is 0.
    """
    values = np.array(list(points), float)
    if len(values) < 3:
        return 0
    spans = values[-1] - values[0]
    scaled = (values - values[0]) / np.where(spans > 0, spans, 1.0)
    return int(np.argmax(scaled[:, 1] - scaled[:, 0]))


def _price(effect: _Effect) -> float:
    """Cost per unit of noise that a move (change of one decision) removes, a key for sorting; inf for a move that
    removes no noise.
    """
    if effect.noise >= 0:
        return inf
    return effect.cost / -effect.noise

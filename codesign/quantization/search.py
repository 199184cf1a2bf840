"""A search for decisions: uniform ones, then layers one at a time, then both ways along gain per cost.

The search is a generator: it yields decisions and is sent their figures, so that it neither runs nor records anything.
The same seed and figures give the same decisions. It works on two numbers, the noise over signal at the output and a
cost, and expects each move to change both as much as it did alone; all reported figures were evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, log10
from random import Random
from statistics import median
from typing import Literal

import numpy as np

from vdla.compiler.graph.quantize.decisions import Decisions

from ..explore.front import pareto
from .evaluate import Figures

Kind = Literal["place", "type", "weights"]
Cost = Callable[[Figures], float]
Asking = Generator[Decisions, Figures, None]
SINGLES = 0.5
"""Share of the remaining budget for layers one at a time."""
CHAIN = 0.7
"""Share of the budget remaining after them for the way along gain per cost."""
DRAWN = 24
"""Changes that are drawn around the front for each that is evaluated."""
EQUAL_DB, EQUAL_COST = 0.05, 1.001
"""Decibels and a factor of cost that are no difference: with other held-out samples they would fall otherwise."""
MOST_TRIES = 20
"""Draws without anything new before the search ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A decision that is turned around: where a layer is placed, the type of a group, the scales of its weights.

    `cost` is what the move is expected to cost, before anything is known.
    """

    kind: Kind
    name: str
    cost: float = 0.0

    def on(self, decisions: Decisions) -> Decisions:
        """The decisions with this one turned around."""
        match self.kind:
            case "place":
                return replace(decisions, floats=decisions.floats ^ {self.name})
            case "type":
                return replace(decisions, symmetric=decisions.symmetric ^ {self.name})
            case "weights":
                return replace(decisions, per_tensor=decisions.per_tensor ^ {self.name})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Effect:
    """Changes of noise and cost by a move."""

    noise: float
    cost: float


@dataclass(kw_only=True, eq=False)
class Search:
    """`starts` are uniform decisions; `settled` drops decisions without effect, and returns None for decisions that
    make no network; the search yields at most `budget` decisions."""

    starts: Sequence[Decisions]
    moves: Sequence[Move]
    settled: Callable[[Decisions], Decisions | None]
    cost: Cost
    budget: int
    seed: int
    known: dict[Decisions, Figures] = field(default_factory=dict[Decisions, Figures])
    effects: dict[Move, _Effect] = field(default_factory=dict[Move, _Effect])

    def ask(self) -> Asking:
        """The generator of the search: yields decisions, is sent their figures."""
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
        """Decisions that may still be asked."""
        return self.budget - len(self.known)

    def _run(self, decisions: Decisions) -> Generator[Decisions, Figures, Figures | None]:
        """The figures of decisions, asked for where they are new; None where they make no network that runs, or the
        budget is spent."""
        made = self.settled(decisions)
        if made is None:
            return None
        if made not in self.known:
            if self.left < 1:
                return None
            self.known[made] = yield made
        return self.known[made] if self.known[made].failed is None else None

    @property
    def _begun(self) -> list[Decisions]:
        """The starts that run."""
        made = [start for start in map(self.settled, self.starts) if start is not None]
        return [start for start in made if start in self.known and self.known[start].failed is None]

    def _singles(self, base: Decisions) -> Asking:
        """Each move alone, the cheapest by expectation first; types and scales only where all of them together paid."""
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
        """Whether a uniform start that differs in `kind` alone costs less, or loses less."""
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
        """One move after the other on top of the base, that of most noise removed for its cost next."""
        until, before = self.left - int(CHAIN * self.left), self.known[base]
        current, waiting = base, [move for move in self.moves if self.expected(move, base).noise < 0]
        while waiting and self.left > until:
            waiting.sort(key=lambda move: _price(self.expected(move, current)))
            move = waiting.pop(0)
            found = yield from self._run(move.on(current))
            if found is not None and found.noise < before.noise:
                current, before = move.on(current), found

    def _around(self) -> Asking:
        """Changes of members of the front, drawn by chance; of each handful that one which promises most."""
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
                made = self.settled(changed)
                if made is not None and made not in self.known:
                    drawn[made] = self._promise(noise, cost, front)
            tries += 1
            if drawn:
                tries = 0
                yield from self._run(max(drawn, key=drawn.__getitem__))

    def front(self) -> list[Decisions]:
        """The decisions that no other ones beat in noise and cost, cheapest first."""
        return front_of(self.known, self.cost)

    def expected(self, move: Move, decisions: Decisions) -> _Effect:
        """Expected effect of a move on top of `decisions`: its effect alone, or the median effect of its kind."""
        known = self.effects.get(move)
        if known is None:
            alike = [effect for other, effect in self.effects.items() if other.kind == move.kind]
            noise = median(effect.noise for effect in alike) if alike else 0.0
            known = _Effect(noise=noise, cost=move.cost)
        undone = {"place": decisions.floats, "type": decisions.symmetric, "weights": decisions.per_tensor}
        # The base is a uniform start: a move that is made already is taken back.
        made = move.name in undone[move.kind] and move.kind == "place"
        return _Effect(noise=-known.noise, cost=-known.cost) if made else known

    def _promise(self, noise: float, cost: float, front: Sequence[Decisions]) -> float:
        """Decibels by which a point would be above the front; a point cheaper than the whole front is compared with its
        lowest."""
        below = [self.known[member].noise for member in front if self.cost(self.known[member]) <= cost]
        reference = min(below) if below else max(self.known[member].noise for member in front)
        return 10.0 * log10(reference / max(noise, 0.1 * reference)) if reference > 0 else 0.0


def front_of(known: Mapping[Decisions, Figures], cost: Cost) -> list[Decisions]:
    """The decisions that no other ones beat in noise and cost, cheapest first; of equal ones those that differ least
    from uint8 with a scale a channel. So much as `EQUAL_DB` and `EQUAL_COST` is no difference."""
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
    """The point farthest above the line between the ends of a front of (log of cost, dB), cheapest first; with fewer
    than three points the first."""
    values = np.array(list(points), float)
    if len(values) < 3:
        return 0
    spans = values[-1] - values[0]
    scaled = (values - values[0]) / np.where(spans > 0, spans, 1.0)
    return int(np.argmax(scaled[:, 1] - scaled[:, 0]))


def _price(effect: _Effect) -> float:
    """Cost for each unit of noise that goes; moves that cost nothing come first, those that take none away last."""
    if effect.noise >= 0:
        return inf
    return effect.cost / -effect.noise

"""The search for quantization decisions, on made-up networks with known noise and cost: what it evaluates, and how much
of the best front it finds.
"""

from __future__ import annotations

import itertools
from random import Random

import numpy as np
import pytest

from vdla.codesign.explore.front import hypervolume
from vdla.codesign.quantization.evaluate import Figures
from vdla.codesign.quantization.search import Move, Search, knee
from vdla.compiler.quantize.decisions import Decisions

LAYERS = 9


class MadeUp:
    """A made-up network. Each layer adds cost if it is float, and noise if it is quantized; two adjacent float layers
    save the cost of a conversion between them.
    """

    def __init__(self, seed: int, free: bool = False) -> None:
        drawn = Random(seed)
        self.noise = [10 ** drawn.uniform(-3, -1.5) for _ in range(LAYERS)]
        self.cost = [10 ** drawn.uniform(-1, 1) for _ in range(LAYERS)]
        if free:
            self.cost[3] = -0.5
        self.asked: list[Decisions] = []

    def figures(self, decisions: Decisions) -> Figures:
        on = [str(layer) in decisions.floats for layer in range(LAYERS)]
        noise = 1e-4 + sum(n for n, f in zip(self.noise, on, strict=True) if not f)
        noise *= 1 + 0.2 * len(decisions.symmetric) + 0.3 * len(decisions.per_tensor)
        cost = 10.0 + sum(c for c, f in zip(self.cost, on, strict=True) if f)
        cost -= sum(0.05 for a, b in itertools.pairwise(on) if a and b)
        return Figures(sqnr=-10 * np.log10(noise), accelerator_seconds=cost / 1e3, cycles=1)

    def run(self, budget: int, seed: int = 0) -> Search:
        every = frozenset(str(layer) for layer in range(LAYERS))
        moves = [Move(kind="place", name=str(layer), cost=self.cost[layer]) for layer in range(LAYERS)]
        moves += [Move(kind=kind, name=name) for name in sorted(every) for kind in ("type", "weights")]
        search = Search(
            starts=[Decisions(), Decisions(symmetric=every), Decisions(per_tensor=every)],
            moves=moves,
            canonical=lambda decisions: None if decisions.floats == every else decisions,
            cost=lambda figures: figures.milliseconds,
            budget=budget,
            seed=seed,
        )
        asking = search.ask()
        decisions = next(asking)
        try:
            while True:
                self.asked.append(decisions)
                decisions = asking.send(self.figures(decisions))
        except StopIteration:
            return search

    def volume(self, decisions: list[Decisions]) -> float:
        found = [self.figures(each) for each in decisions]
        values = np.array([(np.log(f.milliseconds), np.log(f.noise)) for f in found])
        return hypervolume(values, (np.log(100.0), np.log(2.0)))

    def everything(self) -> list[Decisions]:
        chosen = itertools.product((False, True), repeat=LAYERS)
        return [
            Decisions(floats=frozenset(str(i) for i, f in enumerate(on) if f)) for on in chosen if not all(on)
        ]


@pytest.mark.parametrize("seed", range(3))
def test_the_search_finds_nearly_the_whole_front(seed: int) -> None:
    net = MadeUp(seed)
    search = net.run(budget=60)
    assert len(net.asked) == 60 == len(set(net.asked)) and net.asked[0] == Decisions()
    # Symmetric types and one scale cost noise and save nothing here: no layer is tried with them alone.
    assert all(not d.symmetric and not d.per_tensor for d in net.asked[3 : 3 + LAYERS])
    assert net.volume(search.front()) > 0.99 * net.volume(net.everything())
    drawn = Random(seed).sample(net.everything(), 60)
    assert net.volume(search.front()) > net.volume(drawn)


def test_the_same_seed_asks_the_same_and_a_small_budget_is_kept() -> None:
    asked = []
    for seed in (5, 5, 6):
        net = MadeUp(1)
        net.run(budget=40, seed=seed)
        asked.append(net.asked)
    assert asked[0] == asked[1] != asked[2]
    for budget in (1, 2, 5):
        net = MadeUp(1)
        net.run(budget)
        assert len(net.asked) == budget


def test_a_choice_with_less_cost_and_less_loss_is_in_the_whole_front() -> None:
    search = MadeUp(2, free=True).run(budget=40)
    assert all("3" in member.floats for member in search.front())


def test_the_knee_of_a_front() -> None:
    assert knee([(0.0, 10.0), (0.1, 19.0), (1.0, 20.0)]) == 1
    assert knee([(0.0, 10.0), (1.0, 20.0)]) == knee([(0.0, 10.0)]) == 0

"""Searches with a learned cost model. Such a search trains the model on the history, walks to points with high scores,
and proposes the best of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ...templates.space import Space
from .cost_model import CostModel, Samples
from .guesses import first_points, guessed_count, with_guesses
from .history import History
from .novelty import distinct_new, random_new
from .point_features import Candidates, examine
from .selection import select_diverse
from .short_list import ShortList, joined
from .walks import Annealing, Evolution, Walk, walk_starts


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSearch:
    """A strategy that walks through the space guided by a learned cost model (`model`). It proposes the visited points
    that the model ranks best.

    `walk`: the method of the walk, which begins at `starts` points. Up to half of these are the best measured points,
    the others are random. A proposed batch has three parts: a share of random points (`random`), points that follow the
    template's estimate (`guesses`), and points that the model chooses. `diversity`: how far the points that the model
    chooses should be apart (`select_diverse`).

    `prior`: training samples of other workloads of the template. Without these samples there is no model until two
    trials have succeeded, and the proposals are `guesses.first_points`. `short_list`: if given, the model chooses more
    points than needed. All chosen points are lowered, and a second model selects among them by features of their
    programs. `follow_estimate`: if False, no part of a batch follows the template's estimate, and the first points are
    random. Studies use this setting to measure the gain of the estimate.
    """

    model: CostModel = field(default_factory=CostModel)
    walk: Walk = field(default_factory=Annealing)
    starts: int = 256
    random: float = 0.05
    diversity: float = 1.0
    prior: Sequence[Samples] = ()
    short_list: ShortList | None = None
    follow_estimate: bool = True

    def propose(
        self, space: Space, history: History, generator: np.random.Generator, count: int
    ) -> np.ndarray:
        """Up to `count` legal points [n, axes] to measure next, whose programs are not in the history. Raises
        EmptySpaceError if no point is legal, MissingTunerError without xgboost.
        """
        measured = examine(space, history.points)
        groups = [*self.prior, *own_samples(measured.features, history)]
        if not groups and not self.follow_estimate:
            return random_new(space, generator, count, measured.programs)
        if not groups:
            return first_points(space, history, measured, generator, count)
        ranking = self.model.fit(groups, seed=int(generator.integers(1 << 31)))
        starts = walk_starts(space, history, generator, self.starts)
        found = distinct_new(self.walk.visit(space, ranking.scores, starts, generator), measured.programs)
        # Shares of a batch are rounded at random, so that small shares get their number on average.
        guesses = guessed_count(measured, history, generator, count) if self.follow_estimate else 0
        guided = max(0, count - guesses - int(self.random * count + generator.random()))
        scores = ranking.scores(found.features)
        wanted = guided if self.short_list is None else self.short_list.length(guided)
        chosen = found.take(select_diverse(found.places, scores, measured.places, wanted, self.diversity))
        if self.short_list is not None:
            chosen = _ranked(self.short_list, space, chosen, measured, history, generator).take(slice(guided))
        return with_guesses(space, history, measured, chosen, found, generator, guesses, count)


def _ranked(
    short_list: ShortList,
    space: Space,
    listed: Candidates,
    measured: Candidates,
    history: History,
    generator: np.random.Generator,
) -> Candidates:
    """Sorts the candidates `listed`, which were chosen for lowering, by the score of the short list's model, best
    first. This model also uses features of the lowered programs; it is trained on `measured`, the points of `history`.
    If there are too few trials to train the model, the order is kept.
    """
    training_samples = short_list.training_samples(space, measured, history.costs)
    if not training_samples or not len(listed):
        return listed
    ranking = short_list.model.fit(training_samples, seed=int(generator.integers(1 << 31)))
    scores = ranking.scores(joined(space, listed, short_list.read))
    return listed.take(np.argsort(-scores, kind="stable"))


def own_samples(features: np.ndarray, history: History) -> tuple[Samples, ...]:
    """The history as a group of training samples; empty while fewer than two trials have succeeded. `features`: float64
    [n, f], of the history's n points.
    """
    if np.isfinite(history.costs).sum() < 2:
        return ()
    return (Samples(features=features, costs=history.costs),)


def evolutionary_search(
    prior: Sequence[Samples] = (), short_list: ShortList | None = None, model: CostModel | None = None
) -> ModelSearch:
    """Evolutionary search with a cost model, in the manner of MetaSchedule.

    `prior`: training samples of other workloads. `short_list`: if given, a second model ranks the candidates by
    features of their lowered programs. `model`: training parameters of the cost model (None: default).
    """
    model = CostModel() if model is None else model
    return ModelSearch(walk=Evolution(), prior=prior, short_list=short_list, model=model)

"""Thompson sampling. Several models are trained, each on a random resample of the history, and take turns to propose
points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ...templates.space import Space
from .cost_model import CostModel, Ranking, Samples
from .guesses import first_points, guessed_count, with_guesses
from .history import History
from .model_search import own_samples
from .novelty import distinct_new
from .point_features import examine
from .short_list import ShortList, joined
from .walks import Evolution, Walk, walk_starts


@dataclass(frozen=True, slots=True, kw_only=True)
class ThompsonSearch:
    """A strategy with an ensemble of models. For each proposal one of the models chooses the point that it ranks best.

    The ensemble approximates a posterior: `members` models trained on as many bootstrap resamples of the history. The
    models agree in regions with many measurements and differ in others, so that a batch explores without random points.
    A share of each batch follows the template's cost estimate instead of the models (`guesses.py`). `prior`: samples of
    other workloads of the template, on which the models are trained as well. With a `short_list`, the models choose
    candidates to lower, and a second ensemble ranks the lowered candidates by features of their programs.
    """

    model: CostModel = field(default_factory=CostModel)
    walk: Walk = field(default_factory=Evolution)
    members: int = 8
    starts: int = 256
    prior: Sequence[Samples] = ()
    short_list: ShortList | None = None

    def propose(
        self, space: Space, history: History, generator: np.random.Generator, count: int
    ) -> np.ndarray:
        """Up to `count` legal points [n, axes] to measure next, whose programs are not in the history. Raises
        EmptySpaceError if no point is legal, MissingTunerError without xgboost.
        """
        measured = examine(space, history.points)
        groups = [*self.prior, *own_samples(measured.features, history)]
        if not groups:
            return first_points(space, history, measured, generator, count)
        ensemble = self._ensemble(self.model, groups, generator, count)
        starts = walk_starts(space, history, generator, self.starts)

        def score(features: np.ndarray) -> np.ndarray:
            # Every member guides a separate share of the chains, from best and from random starts.
            scores = np.empty(len(features))
            for k, member in enumerate(ensemble):
                scores[k :: len(ensemble)] = member.scores(features[k :: len(ensemble)])
            return scores

        found = distinct_new(self.walk.visit(space, score, starts, generator), measured.programs)
        guesses = guessed_count(measured, history, generator, count)
        left = count - guesses
        merits = np.stack([member.scores(found.features) for member in ensemble])
        listing = self.short_list
        chosen = found.take(first_choices(merits, left if listing is None else listing.length(left)))
        if listing is not None:
            training_samples = listing.training_samples(space, measured, history.costs)
            if training_samples and len(chosen):
                features = joined(space, chosen, listing.read)
                members = self._ensemble(listing.model, training_samples, generator, count)
                merits = np.stack([member.scores(features) for member in members])
                chosen = chosen.take(first_choices(merits, left))
            chosen = chosen.take(slice(left))
        return with_guesses(space, history, measured, chosen, found, generator, guesses, count)

    def _ensemble(
        self, model: CostModel, groups: Sequence[Samples], generator: np.random.Generator, count: int
    ) -> list[Ranking]:
        """min(`members`, `count`) models, each trained on its own resample of the groups."""
        return [
            model.fit([resample(group, generator) for group in groups], seed=int(generator.integers(1 << 31)))
            for _ in range(min(self.members, count))
        ]


def resample(samples: Samples, generator: np.random.Generator) -> Samples:
    """A bootstrap resample: as many samples as there are in `samples`, drawn with replacement."""
    drawn = generator.integers(0, len(samples.costs), len(samples.costs))
    return Samples(features=samples.features[drawn], costs=samples.costs[drawn])


def first_choices(merits: np.ndarray, count: int) -> np.ndarray:
    """Chooses min(count, n) columns of `merits` [members, n], and returns their indices in the order of choice. The
    members (rows) take turns; each chooses the column in which its merit is greatest, among the columns not chosen yet.
    """
    merits = merits.copy()
    chosen: list[int] = []
    for k in range(min(count, merits.shape[1])):
        chosen.append(int(np.argmax(merits[k % len(merits)])))
        merits[:, chosen[-1]] = -np.inf
    return np.array(chosen, dtype=np.int64)

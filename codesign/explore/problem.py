"""The inputs of a search strategy: the problem (space, networks, metrics, seed), and the results of the designs that
the strategy proposed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import TYPE_CHECKING

from vdla.util.errors import UserError

from .metrics import Constraint, Metric
from .space import Point, Space

if TYPE_CHECKING:
    from ..technology.components import Components
    from .networks import Network

FIRST = 20
"""Number of random machines that the strategies model, nsga2 and tpe evaluate first."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """The problem that a search strategy solves: a space of machines, the networks and metrics on which they are
    compared, and the seed of the search.
    """

    space: Space
    networks: Sequence[Network]
    components: Components
    objectives: Sequence[Metric]
    constraints: Sequence[Constraint] = ()
    seed: int = 0

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each network in sums over the networks, by name."""
        return {network.name: network.weight for network in self.networks}


def first_points(problem: Problem) -> list[Point]:
    """The first `FIRST` random points that are valid machines; fewer if the space has no more. Searches with Optuna
    begin with these points. The strategies random and model take their first points from the same random sequence,
    which makes comparisons of searches fair.
    """
    return list(islice(_machines(problem), FIRST))


def _machines(problem: Problem) -> Iterator[Point]:
    space, random, seen = problem.space, Random(problem.seed), set[Point]()
    while len(seen) < space.size:
        point = space.point(random.randrange(space.size))
        if point in seen:
            continue
        seen.add(point)
        try:
            space.machine(point)
        except UserError:
            continue
        yield point


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Result of evaluating a point of the space. `objectives`: values to minimize (None: the point is no valid machine,
    or a network does not run); `excess`: the largest excess over a constraint's limit, as a fraction of the limit;
    `limited`: the values of the constraints' metrics, in the order of the constraints, without unknown values.
    """

    point: Point
    objectives: tuple[float, ...] | None
    excess: float = 0.0
    limited: tuple[float, ...] = ()

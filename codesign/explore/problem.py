"""What a strategy knows of a study, and what it is told of the designs that it named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .metrics import Constraint, Metric
from .space import Point, Space

if TYPE_CHECKING:
    from ..technology.components import Components
    from .evaluate import Network


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """A space, what its machines are evaluated on and compared by, and the seed of the search."""

    space: Space
    networks: Sequence[Network]
    components: Components
    objectives: Sequence[Metric]
    constraints: Sequence[Constraint] = ()
    seed: int = 0

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each network."""
        return {network.name: network.weight for network in self.networks}


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A point, its objectives to minimize (None: it is no machine, or cannot run a network), by how much it breaks the
    worst constraint, and the metric of each constraint."""

    point: Point
    objectives: tuple[float, ...] | None
    excess: float = 0.0
    limited: tuple[float, ...] = ()

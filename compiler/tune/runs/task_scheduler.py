"""Distributes trials over a network's tasks (its distinct layers): the next trials go to the task with the largest
expected gain.

The method follows the gradient of Ansor (Zheng et al., OSDI 2020, section 6.2). The expected gain of a trial is the
task's number of occurrences times a weighted mean of two estimates. One is the mean gain of the last trials. The other
assumes that the cost falls to its floor (a lower bound) within as many trials as the task has already had. Tasks that
compute the same layer in different ways are rivals. For a task with rivals, only a cost below the rivals' least cost
counts as gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from ..search.history import History

HOPELESS = 10.0
"""Assumed cost of a task while all its trials have failed, as a multiple of its floor (lower bound of the cost)."""
RIVAL_MARGIN = 2.0
"""A layer may have several tasks, which compute it in different ways (rivals). A task whose cost exceeds this multiple
of the least cost of its rivals gets no more warm-up trials.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Task:
    """A layer that is being tuned: its trials, its number of occurrences, and the lower bound on its cost
    (`Space.floor`).

    Costs and floors of a network's tasks have the same unit. A task that is `finished` (its space is exhausted, or its
    search has stalled) gets no more trials. `rival`: least cost of the other tasks that compute the layer in another
    way.
    """

    history: History
    weight: float
    floor: float
    finished: bool = False
    rival: float = inf

    @property
    def is_behind(self) -> bool:
        """Whether the task's best cost is more than `RIVAL_MARGIN` times the least cost of its rivals, tasks that
        compute the same layer in another way.
        """
        return len(self.history) > 0 and self.history.best > RIVAL_MARGIN * self.rival


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskScheduler:
    """Chooses the task for the next trials: first gives `warm_up` trials to every task that is not behind its rivals,
    then prefers the task with the largest expected gain.

    The expected gain is a weighted mean of two estimates. One is the mean gain of the last `window` trials, with the
    weight `experience`. The other is the gain if the cost fell to its floor (lower bound).
    """

    warm_up: int = 16
    window: int = 32
    experience: float = 0.2

    def next_task(self, tasks: Sequence[Task]) -> int | None:
        """The index of the task that gets the next trials. If several tasks have the same gain, the first is chosen.
        None if all tasks are finished.
        """
        turns = [k for k, task in enumerate(tasks) if not task.finished]
        if not turns:
            return None
        cold = [k for k in turns if len(tasks[k].history) < self.warm_up and not tasks[k].is_behind]
        if cold:
            return min(cold, key=lambda k: len(tasks[k].history))
        return max(turns, key=lambda k: self.gain(tasks[k]))

    def gain(self, task: Task) -> float:
        """Expected saving by the next trial of `task`, in the unit of costs. It is multiplied by the number of
        occurrences of the task's layer in the network.
        """
        costs = np.where(np.isfinite(task.history.costs), task.history.costs, HOPELESS * task.floor)
        trials = max(1, len(costs))
        best = costs.min(initial=HOPELESS * task.floor)
        window = min(self.window, max(1, len(costs) - 1))
        before = costs[: len(costs) - window].min(initial=HOPELESS * task.floor)
        needed = min(best, task.rival)
        gained = max(0.0, min(before, task.rival) - needed) / window
        # The further the task is behind its rival, the smaller the gain it can expect.
        hoped = max(0.0, needed - task.floor) / trials * (needed / best if best > 0 else 1.0)
        return task.weight * float(self.experience * gained + (1 - self.experience) * hoped)

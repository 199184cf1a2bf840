"""Transfer learning: training samples for a cost model from other workloads' records, one group for each workload."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from ...records.book import in_space
from ...records.record import Description, Key, Record, Task
from ...templates.registry import TargetT, Templates, WorkloadT
from ...templates.space import EmptySpaceError, Space
from ...templates.workload_limits import WorkloadError
from ..program_features.program import Read
from .cost_model import Samples
from .point_features import examine
from .short_list import joined

LOWERED = 64
"""Largest number of records of a workload that are lowered again. They are spread evenly over the workload's records.
Lowering a record takes a fraction of a trial's time.
"""


def samples_from(
    records: Iterable[Record],
    templates: Templates[TargetT, WorkloadT],
    target: TargetT,
    workload: WorkloadT,
    read_of: Callable[[WorkloadT], Read] | None = None,
) -> tuple[Samples, ...]:
    """Groups of samples from records of the same template on the same target, without records of `workload` itself.

    Records of other targets, illegal points and groups with fewer than two legal points are skipped. Workloads whose
    knobs differ from those of `workload` are skipped too: their features have another meaning. Records of different
    versions of the compiler are different groups. `read_of`: returns a function that reads the features of a workload's
    lowered programs. If it is given, the samples have these features too (`short_list.joined`), but a group has at most
    LOWERED samples.
    """
    own = Task(workload=workload.to_dict(), target=target.described)
    axes = [axis.name for axis in templates.space(target, workload).axes]

    def alike(description: Description) -> tuple[WorkloadT, Space] | None:
        try:
            other = templates.read(description)
            space = templates.space(target, other) if other.template == workload.template else None
        except (WorkloadError, LookupError, ValueError, AssertionError, EmptySpaceError):
            # Skipped: a node in place, whose costs are the network's; a program that the template cannot
            # schedule; a workload none of whose points fits the machine.
            return None
        return (other, space) if space is not None and [a.name for a in space.axes] == axes else None

    groups: dict[tuple[Key, str | None], list[Record]] = {}
    for record in records:
        if record.task.key[1] == own.key[1] and record.task.key != own.key:
            groups.setdefault((record.task.key, record.compiler), []).append(record)
    found = []
    for members in groups.values():
        if (other := alike(members[0].task.workload)) is None:
            continue
        points, _, legal = in_space(members, other[1])
        if legal.sum() < 2:
            continue
        costs = np.array([np.inf if record.cost is None else record.cost for record in members])[legal]
        known = examine(other[1], points[legal])
        if read_of is None:
            found.append(Samples(features=known.features, costs=costs))
            continue
        some = slice(None, None, -(-len(known) // LOWERED))
        features = joined(other[1], known.take(some), read_of(other[0]))
        found.append(Samples(features=features, costs=costs[some]))
    return tuple(found)

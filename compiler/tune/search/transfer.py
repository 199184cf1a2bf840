"""Transfer learning: training samples for a cost model from other workloads' records, one group for each workload.

`samples_from` is for targets with a registry of templates, `transfer_vdla.py` for the accelerator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from ...records.book import in_space
from ...records.record import Description, Key, Record, Task, describe_target
from ...templates.registry import Registry, TargetT, WorkloadT
from ...templates.space import Space
from ...templates.workload_limits import WorkloadError
from ..program_features.program import Read
from .cost_model import Samples
from .point_features import examine
from .short_list import joined

LOWERED = 64
"""Most records of a workload that are lowered again, spread evenly: each costs a fraction of a trial."""


SpaceOf = Callable[[Description], Space | None]
"""The space of a workload; None if its records are not used."""


def with_axes(own: Space, space_of: SpaceOf) -> SpaceOf:
    """`space_of`, but None for spaces whose knobs differ from those of `own`, because their features have another
    meaning.
    """
    axes = [axis.name for axis in own.axes]

    def alike(description: Description) -> Space | None:
        found = space_of(description)
        return found if found is not None and [axis.name for axis in found.axes] == axes else None

    return alike


def groups_of(
    records: Iterable[Record],
    own: Task,
    space_of: SpaceOf,
    read_of: Callable[[Description], Read] | None = None,
) -> tuple[Samples, ...]:
    """Groups of samples from records on the same target, without records of the task `own` itself.

    Illegal points are skipped, and groups with fewer than two legal points. Records of different versions of the
    compiler are different groups. With `read_of`, which makes the reader of a workload's program features, features are
    those of `short_list.joined`.
    """
    groups: dict[tuple[Key, str | None], list[Record]] = {}
    for record in records:
        if record.task.key[1] == own.key[1] and record.task.key != own.key:
            groups.setdefault((record.task.key, record.compiler), []).append(record)
    found = []
    for members in groups.values():
        space = space_of(members[0].task.workload)
        if space is None:
            continue
        points, _, legal = in_space(members, space)
        if legal.sum() < 2:
            continue
        costs = np.array([np.inf if record.cost is None else record.cost for record in members])[legal]
        known = examine(space, points[legal])
        if read_of is None:
            found.append(Samples(features=known.features, costs=costs))
            continue
        some = slice(None, None, -(-len(known) // LOWERED))
        read = read_of(members[0].task.workload)
        found.append(Samples(features=joined(space, known.take(some), read), costs=costs[some]))
    return tuple(found)


def samples_from(
    records: Iterable[Record],
    registry: Registry[TargetT, WorkloadT],
    target: TargetT,
    workload: WorkloadT,
    read_of: Callable[[WorkloadT], Read] | None = None,
) -> tuple[Samples, ...]:
    """Groups of samples from records of the same template on the same target, without records of `workload` itself.
    Records of other targets and illegal points are skipped. `read_of` as for `groups_of`.
    """

    def other_space(description: Description) -> Space | None:
        try:
            other = registry.read(description)
            return registry.space(target, other) if other.template == workload.template else None
        except (WorkloadError, LookupError, ValueError, AssertionError):
            # This includes programs that the template cannot schedule.
            return None

    own = Task(workload=workload.to_dict(), target=describe_target(target))
    reading = None if read_of is None else lambda description: read_of(registry.read(description))
    return groups_of(records, own, with_axes(registry.space(target, workload), other_space), reading)

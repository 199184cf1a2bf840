"""What other workloads' records teach a model: samples of their features and costs, one group for each workload."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from vdla.isa.config import Config

from ..templates.schedule_vdla import space_of
from ..templates.workload_vdla import Workload, WorkloadError, workload_from_dict
from .cost_model import Samples
from .features import point_features
from .record_book import in_space
from .records import Record, Task, describe_target


def samples_from(records: Iterable[Record], config: Config, workload: Workload) -> tuple[Samples, ...]:
    """Groups of samples from records of the same template on the same machine; those of `workload` itself are left out.

    Records of other machines, and points that are not legal, are passed over.
    """
    target = describe_target(config)
    own = Task(workload=workload.to_dict(), target=target).key
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if record.task.key[1] == own[1] and record.task.key != own:
            groups.setdefault(record.task.key, []).append(record)
    found = []
    for members in groups.values():
        try:
            other = workload_from_dict(members[0].task.workload)
        except WorkloadError:
            continue  # In its place in a network, where costs are the network's.
        if other.template != workload.template:
            continue
        space = space_of(config, other)
        points, _, legal = in_space(members, space)
        if legal.sum() < 2:
            continue
        costs = np.array([np.inf if record.cost is None else record.cost for record in members])[legal]
        found.append(Samples(features=point_features(space, points[legal])[1], costs=costs))
    return tuple(found)

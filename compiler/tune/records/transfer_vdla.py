"""What records of other workloads on the accelerator teach a model."""

from __future__ import annotations

from collections.abc import Iterable

from vdla.isa.config import Config

from ...templates.schedule_vdla import space_of
from ...templates.space import Space
from ...templates.workload_vdla import Workload, WorkloadError, workload_from_dict
from ..search.cost_model import Samples
from .record import Description, Record, Task, describe_target
from .transfer import groups_of


def samples_from(records: Iterable[Record], config: Config, workload: Workload) -> tuple[Samples, ...]:
    """Groups of samples from records of the same template on the same machine; those of `workload` itself are left out.

    Records of other machines, and points that are not legal, are passed over.
    """

    def other_space(description: Description) -> Space | None:
        try:
            other = workload_from_dict(description)
        except WorkloadError:
            return None  # In its place in a network, where costs are the network's.
        return space_of(config, other) if other.template == workload.template else None

    own = Task(workload=workload.to_dict(), target=describe_target(config))
    return groups_of(records, own, other_space)

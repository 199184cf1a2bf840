"""What records of other workloads on a processor teach a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...target.cpu.machine import CpuTarget
from ...templates.cpu.tasks import space
from ...templates.cpu.workload import CpuWorkload, workload_from_dict
from ...templates.space import Space
from ...templates.workload_limits import WorkloadError
from ..program_features.program import Read
from ..search.cost_model import Samples
from .record import Description, Record, Task, describe_target
from .transfer import groups_of, with_axes


def samples_from(
    records: Iterable[Record],
    target: CpuTarget,
    workload: CpuWorkload,
    read_of: Callable[[CpuWorkload], Read] | None = None,
) -> tuple[Samples, ...]:
    """Groups of samples from records of the same template on the same processor; those of `workload` are left out.

    Records of other processors, and points that are not legal, are passed over. `read_of` as of `groups_of`.
    """

    def other_space(description: Description) -> Space | None:
        try:
            other = workload_from_dict(description)
        except WorkloadError:
            return None
        return space(target, other) if other.template == workload.template else None

    own = Task(workload=workload.to_dict(), target=describe_target(target))
    reading = None if read_of is None else lambda description: read_of(workload_from_dict(description))
    return groups_of(records, own, with_axes(space(target, workload), other_space), reading)

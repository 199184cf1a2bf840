"""What records of other workloads on a GPU teach a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...target.cuda.machine import CudaTarget
from ...templates.gpu.tasks import space
from ...templates.gpu.workload import CudaWorkload, workload_from_dict
from ...templates.space import Space
from ...templates.workload_limits import WorkloadError
from ..program_features.program import Read
from ..search.cost_model import Samples
from .record import Description, Record, Task, describe_target
from .transfer import groups_of, with_axes


def samples_from(
    records: Iterable[Record],
    target: CudaTarget,
    workload: CudaWorkload,
    read_of: Callable[[CudaWorkload], Read] | None = None,
) -> tuple[Samples, ...]:
    """Groups of samples from records of the same template on the same card; those of `workload` are left out.

    Records of other cards, and points that are not legal, are passed over. `read_of` as of `groups_of`.
    """

    def other_space(description: Description) -> Space | None:
        try:
            other = workload_from_dict(description)
            return space(target, other) if other.template == workload.template else None
        except (WorkloadError, LookupError, ValueError, AssertionError):
            # Also programs that are not what their template schedules.
            return None

    own = Task(workload=workload.to_dict(), target=describe_target(target))
    reading = None if read_of is None else lambda description: read_of(workload_from_dict(description))
    return groups_of(records, own, with_axes(space(target, workload), other_space), reading)

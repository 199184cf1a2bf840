"""Training samples for a cost model from records of other workloads on the accelerator."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from vdla.isa.config import Config

from ...records.record import Description, Record, Task, describe_target
from ...templates.space import EmptySpaceError, Space
from ...templates.vdla.read_workload import workload_from_dict
from ...templates.vdla.table import space_of
from ...templates.vdla.workload import Workload
from ...templates.workload_limits import WorkloadError
from ..program_features.program import Read
from .cost_model import Samples
from .transfer import groups_of


def samples_from(
    records: Iterable[Record],
    config: Config,
    workload: Workload,
    read_of: Callable[[Workload], Read] | None = None,
) -> tuple[Samples, ...]:
    """Groups of samples from records of the same template on the same machine, without records of `workload` itself.

    Records of other machines and illegal points are skipped. `read_of` as for `transfer.groups_of`.
    """

    def other_space(description: Description) -> Space | None:
        try:
            other = workload_from_dict(description)
        except WorkloadError:
            return None  # A record of a node in place: its costs are the network's.
        if other.template != workload.template:
            return None
        try:
            return space_of(config, other)
        except EmptySpaceError:
            return None  # No point of the workload fits this machine.

    own = Task(workload=workload.to_dict(), target=describe_target(config))
    reading = None if read_of is None else lambda description: read_of(workload_from_dict(description))
    return groups_of(records, own, other_space, reading)

"""Records when a network is compiled for a GPU: how a node is computed, and which knobs each workload gets."""

from __future__ import annotations

from collections.abc import Sequence

from ...target.cuda.machine import CudaTarget
from ...templates.chosen_knobs import ChosenKnobs
from ...templates.gpu.tasks import space
from ...templates.gpu.workload import CudaWorkload
from ...templates.space import Values
from .book import RecordBook
from .record import describe_target


def knobs_from(book: RecordBook, target: CudaTarget) -> ChosenKnobs[CudaWorkload]:
    """For one compilation: the best knobs that are legal here, as `apply_cpu.knobs_from` has them.

    Records of this very card count first, then those of others of its compute capability. Of several ways to compute a
    node the one with the best record is taken, if what is taken without records has one, too.
    """
    described = describe_target(target)

    def choose(workload: CudaWorkload) -> Values | None:
        description = workload.to_dict()
        best = book.lookup(description, described)
        if best is None:
            return None
        legal = book.lookup(description, described, space(target, workload))
        # Without knobs it is the template's own choice.
        return best if legal is None else legal or None

    def compare(workloads: Sequence[CudaWorkload]) -> int:
        if len(workloads) == 1 or book.lookup(workloads[0].to_dict(), described) is None:
            return 0
        choices = [(workload.to_dict(), space(target, workload)) for workload in workloads]
        return book.fastest(choices, described) or 0

    return ChosenKnobs(choose=choose, compare=compare)

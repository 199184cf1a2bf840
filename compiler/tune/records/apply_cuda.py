"""Records when a network is compiled for a GPU: which knobs each workload gets."""

from __future__ import annotations

from ...target.cuda.machine import CudaTarget
from ...templates.cuda.tasks import ChosenKnobs, space
from ...templates.cuda.workload import CudaWorkload
from ...templates.space import Values
from .book import RecordBook
from .record import describe_target


def knobs_from(book: RecordBook, target: CudaTarget) -> ChosenKnobs:
    """For one compilation: the best knobs that are legal here, as `apply_cpu.knobs_from` has them."""
    described = describe_target(target)

    def choose(workload: CudaWorkload) -> Values | None:
        description = workload.to_dict()
        best = book.lookup(description, described)
        if best is None:
            return None
        legal = book.lookup(description, described, space(target, workload))
        # Without knobs it is the template's own choice.
        return best if legal is None else legal or None

    return ChosenKnobs(choose=choose)

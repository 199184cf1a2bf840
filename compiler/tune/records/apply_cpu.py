"""Records when a network is compiled for a processor: which knobs each workload gets."""

from __future__ import annotations

from ...target.cpu.machine import CpuTarget
from ...templates.chosen_knobs import ChosenKnobs
from ...templates.cpu.tasks import space
from ...templates.cpu.workload import CpuWorkload
from ...templates.space import Values
from .book import RecordBook
from .record import describe_target


def knobs_from(book: RecordBook, target: CpuTarget) -> ChosenKnobs[CpuWorkload]:
    """For one compilation: the best knobs that are legal here.

    Of a workload whose records are all illegal it gives those of the best, for `ChosenKnobs` to say that it ignored
    them, and why.
    """
    described = describe_target(target)

    def choose(workload: CpuWorkload) -> Values | None:
        description = workload.to_dict()
        best = book.lookup(description, described)
        if best is None:
            return None
        legal = book.lookup(description, described, space(target, workload))
        # Without knobs it is the template's own choice.
        return best if legal is None else legal or None

    return ChosenKnobs(choose=choose)

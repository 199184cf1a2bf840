"""Records when a network is compiled for a processor or GPU: how a node is computed, and which knobs it gets."""

from __future__ import annotations

from collections.abc import Sequence

from ...templates.chosen_knobs import ChosenKnobs
from ...templates.registry import Registry, TargetT, WorkloadT
from ...templates.space import Values
from .book import RecordBook
from .record import describe_target


def knobs_from(
    book: RecordBook, registry: Registry[TargetT, WorkloadT], target: TargetT
) -> ChosenKnobs[WorkloadT]:
    """For one compilation: the best knobs that are legal on the target, whose templates are those of `registry`.

    Of a workload whose records are all illegal it gives those of the best, for `ChosenKnobs` to say that it ignored
    them, and why. Of several ways to compute a node the one with the best record is taken, if what is taken without
    records has one, too. Records of this very machine count first, then those of its relatives (`RecordBook.lookup`).
    """
    described = describe_target(target)

    def choose(workload: WorkloadT) -> Values | None:
        description = workload.to_dict()
        best = book.lookup(description, described)
        if best is None:
            return None
        legal = book.lookup(description, described, registry.space(target, workload))
        # Without knobs it is the template's own choice.
        return best if legal is None else legal or None

    def compare(workloads: Sequence[WorkloadT]) -> int:
        if len(workloads) == 1 or book.lookup(workloads[0].to_dict(), described) is None:
            return 0
        choices = [(workload.to_dict(), registry.space(target, workload)) for workload in workloads]
        return book.fastest(choices, described) or 0

    return ChosenKnobs(choose=choose, compare=compare)

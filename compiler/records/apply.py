"""Applies tuning records to the compilation for a processor or GPU: chooses the workload and the knobs of each node."""

from __future__ import annotations

from collections.abc import Sequence

from ..templates.chosen_knobs import ChosenKnobs
from ..templates.columns import Values
from ..templates.registry import TargetT, Templates, WorkloadT
from .book import RecordBook


def knobs_from(
    book: RecordBook, templates: Templates[TargetT, WorkloadT], target: TargetT
) -> ChosenKnobs[WorkloadT]:
    """Chooses knobs for one compilation. Each workload gets the best recorded knobs that are legal on the target. Knobs
    are legal if they are in the search space that `templates` gives for the workload.

    If all records of a workload are illegal, the workload gets the knobs of its best record, so that `ChosenKnobs` can
    report why it ignores them. If several workloads compute the same node, the workload with the best record is chosen,
    but only if the default workload has a record. Records of this machine come before those of its family. A family is
    all machines with the same "family" in their description (`RecordBook.lookup`).
    """
    described = target.described

    def choose(workload: WorkloadT) -> Values | None:
        description = workload.to_dict()
        best = book.lookup(description, described)
        if best is None:
            return None
        legal = book.lookup(description, described, templates.space(target, workload))
        # A record without knobs is the template's own choice.
        return best if legal is None else legal or None

    def compare(workloads: Sequence[WorkloadT]) -> int:
        if len(workloads) == 1 or book.lookup(workloads[0].to_dict(), described) is None:
            return 0
        choices = [(workload.to_dict(), templates.space(target, workload)) for workload in workloads]
        return book.fastest(choices, described) or 0

    return ChosenKnobs(choose=choose, compare=compare)

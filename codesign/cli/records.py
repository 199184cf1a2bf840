"""The option --records: files of tuned schedules, or the records that ship with the package."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .output import note

if TYPE_CHECKING:
    from vdla.compiler.records.book import RecordBook
    from vdla.compiler.templates.chosen_knobs import ChosenKnobs

SHIPPED = "shipped"
"""Value of --records that means the records that ship with the package."""

RecordsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--records",
        metavar="FILE|shipped",
        help=(
            "Records of `vdla tune`, whose best schedules are used; shipped: the records of the package. May be "
            "repeated."
        ),
    ),
]


def book_from(records: Sequence[str] | None) -> RecordBook | None:
    """The best tuning record of each workload in the files `records`; None if no file is named.

    The name "shipped" stands for the package's own records, which are used only for workloads without a record in the
    other files. Lines that are no records are reported on standard error. Raises UserError for files that cannot be
    read.
    """
    if not records:
        return None
    from vdla.compiler.records.book import read_book, shipped_book

    book, account = read_book([Path(name) for name in records if name != SHIPPED])
    for skipped in account:
        if skipped.warning is not None:
            note(f"warning: {skipped.warning}")
    stale, count = book.stale
    if stale:
        note(
            f"remark: {stale} of {count} records are of another version of the compiler: they are applied, but rank "
            "behind records of this version; tune again for the best schedules"
        )
    return book.over(shipped_book()) if SHIPPED in records else book


def applied_text(knobs: ChosenKnobs[Any] | None) -> str:
    """A text that says how many kernels use records. `knobs` is None if the network came from the cache; the text then
    says that the network was compiled with the same records.
    """
    if knobs is None:
        return "records: the network in the cache was compiled with the same records"
    applied, ignored = len(knobs.applied), len(knobs.ignored)
    why = f" ({knobs.ignored[0][1]})" if ignored else ""
    return f"records: {applied} kernels use recorded knobs; recorded knobs of {ignored} kernels were ignored{why}"

"""Options for compiling a network of kernels, common to `vdla run`, `vdla compile` and divided runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vdla.compiler.records.book import RecordBook


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkOptions:
    """Options for compiling a network. `batch` replaces a dynamic first dimension; `dump_passes` is a folder for the
    program after each pass.

    With `cache`, networks come from the user's cache and are stored there, unless passes are dumped. `records` of the
    tuner set the knobs of kernels whose workloads they contain.
    """

    batch: int = 1
    cache: bool = True
    dump_passes: Path | None = None
    records: RecordBook | None = None

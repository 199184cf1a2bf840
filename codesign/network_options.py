"""Options for compiling a network kernel by kernel, common to `vdla run`, `vdla compile` and runs partitioned between
accelerator and processor.
"""

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

    With `cache`, networks are read from and stored in the user's cache, unless passes are dumped. `records` are tuning
    records: they set the knobs of kernels whose workloads they contain.
    """

    batch: int = 1
    cache: bool = True
    dump_passes: Path | None = None
    records: RecordBook | None = None

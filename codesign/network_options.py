"""How a network of kernels is compiled: what `vdla run`, `vdla compile` and a divided run say alike."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vdla.compiler.tune.records.book import RecordBook


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkOptions:
    """`batch` replaces a dynamic first dimension; `dump_passes` is a folder for the program after each pass.

    With `cache` the user's cache is asked first and keeps what is compiled, unless passes are dumped. `records` of the
    tuner set the knobs of the kernels that they know.
    """

    batch: int = 1
    cache: bool = True
    dump_passes: Path | None = None
    records: RecordBook | None = None

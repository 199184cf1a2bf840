"""Writes all files of an exploration into its folder: tables, machines, the page, pictures."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path

from vdla.util.files import write_whole

from ..study import Exploration
from ..tables import rows, write_tables
from .data import Verified, exploration_data
from .details import MOST_DESIGNS, details_of
from .page import html

PAGE = "report.html"
PARQUET = "designs.parquet"


def write_page(
    exploration: Exploration, folder: Path, verified: Mapping[int, Verified] | None = None
) -> Path:
    """Writes the page of the report into `folder` and returns its path; no tables or pictures are written. The page
    shows only the layers computed so far, so that it can be written during a search. `verified`: results of
    co-simulation by number of the design.
    """
    details = details_of(exploration, folder, most=0, verified=verified)
    path = folder / PAGE
    write_whole(path, html(exploration_data(exploration, details)).encode())
    return path


def write_report(
    exploration: Exploration,
    folder: Path,
    *,
    verified: Mapping[int, Verified] | None = None,
    layers: int = MOST_DESIGNS,
    drawn: bool = True,
    told: Callable[[int, int], object] = lambda done, count: None,
) -> tuple[Path, ...]:
    """Writes tables (as Parquet, too, if the packages for it are installed), machines, page and (if `drawn`) pictures
    into `folder`. Returns the paths of all files except the machines. Raises WriteError.

    The page is written before the layers of up to `layers` designs are computed, and again after; `told` is called with
    (machines done, machines to do). `verified`: results of co-simulations by number of the design (None: none).
    """
    paths = [*write_tables(exploration, folder), write_page(exploration, folder, verified)]
    details = details_of(exploration, folder, most=layers, verified=verified, told=told)
    data = exploration_data(exploration, details)
    write_whole(folder / PAGE, html(data).encode())
    if (table := _parquet(exploration)) is not None:
        write_whole(folder / PARQUET, table)
        paths.append(folder / PARQUET)
    if drawn:
        # The drawing library is imported only when something is drawn.
        from . import pictures

        for name, content in pictures.all_pictures(data):
            write_whole(folder / f"{name}.png", content)
            paths.append(folder / f"{name}.png")
    return tuple(paths)


def parquet_missing() -> str | None:
    """Text with the packages to install for designs.parquet; None if they are installed."""
    try:
        import pandas  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError:
        return f"{PARQUET} needs pandas and pyarrow: pip install 'vdla[data]'"
    return None


def _parquet(exploration: Exploration) -> bytes | None:
    if parquet_missing() is not None:
        return None
    import pandas as pd

    table, buffer = rows(exploration), io.BytesIO()
    pd.DataFrame(table).to_parquet(buffer, index=False)
    return buffer.getvalue()

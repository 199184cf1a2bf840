"""Makes pandas DataFrames of the rows of reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vdla.util.errors import UserError

if TYPE_CHECKING:
    import pandas as pd


def data_frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """A frame with a row for each dictionary; nested values become columns (dram.inp). Raises UserError if pandas is
    not installed.
    """
    try:
        import pandas as pd
    except ImportError:
        raise UserError("data frames need pandas: pip install 'vdla[data]'") from None
    return pd.json_normalize([dict(row) for row in rows])

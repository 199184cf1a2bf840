"""Contents of the scratchpads at launch.

Contents are a uint8 array of bytes for each memory (`KINDS`), with elements in the order of their indices; the test
harness of the RTL has the same format.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .config import Config
from .errors import ProgramError
from .layout import uop_dtype
from .rows import FACTOR_BITS, SHIFT_BITS, VALUE_BITS
from .store_stages import TABLE_BYTES, StoreParts

KINDS = ("uop", "inp", "wgt", "acc", "par", "chain", "table", "rows")
"""Names of the memories that programs fill. A machine has `par` if it has the extension `post`, `chain` if
`Config.chain_buffer_bytes` is above 0, and `table` and `rows` if it has the extensions of these names.
"""

ROW_ENTRY_BYTES = 8
"""Bytes of an entry of `rows` in contents: a packed factor and a value, 4 bytes each."""

ROW_MASKS = ((1 << FACTOR_BITS + SHIFT_BITS) - 1, (1 << VALUE_BITS) - 1)
"""For the two words of an entry of `rows` (packed factor, value), a mask of the bits that the hardware stores."""

Contents = Mapping[str, NDArray[np.uint8]]


def scratchpad_sizes(config: Config) -> dict[str, int]:
    """Size in bytes of each memory that `config` has, by name."""
    sizes = {kind: getattr(config, f"{kind}_buffer_bytes") for kind in ("uop", "inp", "wgt", "acc", "chain")}
    sizes |= {
        "par": config.par_depth * config.par_bytes,
        "table": config.table_depth * TABLE_BYTES,
        "rows": config.row_depth * ROW_ENTRY_BYTES,
    }
    parts = StoreParts.of(config)
    lacking = {
        "par": not parts.post,
        "chain": not parts.chain,
        "table": not parts.table,
        "rows": not parts.rows,
    }
    return {kind: sizes[kind] for kind in KINDS if not lacking.get(kind)}


def typed_scratchpads(config: Config, contents: Contents | None = None) -> dict[str, NDArray[Any]]:
    """New arrays for all KINDS, filled from `contents`; memories that `contents` does not name are zero.

    `uop` (uop_depth,) of `layout.uop_dtype`; `inp` int8 (inp_depth, batch, block_in); `wgt` int8 (wgt_depth, columns,
    block_in); `acc` int32 (acc_depth, batch, block_out); `par` uint32 (par_depth, 2, block_out); `chain` int8
    (chain_depth, batch, block_in); `table` int8 (table_depth, 256); `rows` uint32 (row_depth, 2): packed factor, and
    the bits of the value. Raises ProgramError for a memory that `config` lacks or that has another size.
    """
    contents = {} if contents is None else contents
    sizes = scratchpad_sizes(config)
    for kind, data in contents.items():
        if kind not in sizes:
            raise ProgramError(
                f"scratchpads: configuration {config.name!r} has no {kind!r}; it has {', '.join(sizes)}"
            )
        if data.dtype != np.uint8 or data.shape != (sizes[kind],):
            raise ProgramError(
                f"scratchpads: {kind} is {data.dtype} of shape {data.shape}, expected uint8 of ({sizes[kind]},)"
            )
    shapes: dict[str, tuple[tuple[int, ...], Any]] = {
        "uop": ((config.uop_depth,), uop_dtype(config)),
        "inp": ((config.inp_depth, config.batch, config.block_in), np.int8),
        "wgt": ((config.wgt_depth, config.columns, config.block_in), np.int8),
        "acc": ((config.acc_depth, config.batch, config.block_out), np.int32),
        "par": ((config.par_depth, 2, config.block_out), np.uint32),
        "chain": ((config.chain_depth, config.batch, config.block_in), np.int8),
        "table": ((config.table_depth, TABLE_BYTES), np.int8),
        "rows": ((config.row_depth, 2), np.uint32),
    }
    arrays: dict[str, NDArray[Any]] = {
        kind: contents[kind].copy().view(dtype).reshape(shape) if kind in contents else np.zeros(shape, dtype)
        for kind, (shape, dtype) in shapes.items()
    }
    # The hardware stores no other bits.
    arrays["rows"] &= np.array(ROW_MASKS, np.uint32)
    return arrays

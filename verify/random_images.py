"""Makes the initial DRAM contents ("image") of random programs. At fixed addresses the image has valid micro-ops,
post-processing parameters, and int32 accumulator values in the range for which the parameters are made. All other bytes
are random.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.isa.config import Config
from vdla.isa.layout import encode_uops, uop_fields

from .random_operands import TOTALS, log_uniform_int32, near_tie_totals
from .random_scratchpads import random_parameters
from .worst_roundings import worst_totals

SIXTEEN = 2**16 - 1
"""The largest unsigned number of 16 bits."""

UOPS = 64
"""Number of micro-ops in the image, and number of micro-op scratchpad entries that random programs use."""

ENTRIES = 8
"""Number of parameter entries at which a LOAD.PAR may start; it reads at most 10 entries from there, all valid."""

CHAINED = 16
"""Number of micro-ops that access only the first few vectors. They are the last micro-ops of the image, and make
operations use results that operations shortly before them wrote.
"""

TABLE = 3 * ENTRIES
"""Number of entries of the parameter table in the image."""

WORST = TABLE - 1
"""Index of the parameter entry whose totals are the hardest to round (`worst_roundings`)."""

NEAR = 4
"""Programs use the first NEAR accumulators and input vectors more often than the others; some instructions use the
first 2 x NEAR.
"""

EVEN = 32
"""Number of vectors in the image whose bytes are all equal: such a vector, as the operand of a store, gives the same
operand to all lanes.
"""

_FAR = 4 * 2**20
"""Largest number of bytes of a random program's memory behind the region that programs write. Only instructions with
long strides access these bytes.
"""


@dataclass(slots=True, kw_only=True)
class Regions:
    """Byte addresses of the parts of the memory image of random programs.

    - `uops`: micro-ops. `parameters`: the parameter table. Both lie across a multiple of 4096, so that a load of all
      has to be split into two bursts.
    - `data`: random numbers.
    - `even`: EVEN output vectors; within each of them all bytes are equal.
    - `totals`: accumulator vectors, TOTALS for each parameter entry. Their products with the scales of the entry are
      near rounding ties. `zero_points` has a zero point for each entry, with which the results are in the range of
      int8.
    - `output` to `end`: the region that programs write. There may be more memory after `end`.
    """

    uops: int
    data: int
    even: int
    totals: int
    parameters: int
    output: int
    end: int
    zero_points: tuple[int, ...]


def _page(size: int) -> int:
    return -(-size // 4096) * 4096


def random_image(
    config: Config, rng: np.random.Generator, *, far: bool = False
) -> tuple[np.ndarray, Regions]:
    """A DRAM image, uint8, and its regions: micro-ops, parameters and totals at fixed addresses, random bytes
    elsewhere.

    Half of the random data are uniform bytes, half int32 of every magnitude. With `far`, up to _FAR bytes of zeros
    follow.
    """
    boundary = 4096
    uops = boundary - config.uop_bytes * UOPS // 2
    data = 2 * boundary
    size = 2 * boundary + _page(
        max(3 * config.fifo_bytes("load"), 12 * config.wgt_bytes, 40 * config.acc_bytes)
    )
    even = data + size
    totals = _page(even + EVEN * config.out_bytes)
    half = TABLE // 3 * config.par_bytes
    parameters = _page(totals + TABLE * TOTALS * config.acc_bytes + half) - half
    output = _page(parameters + TABLE * config.par_bytes)
    end = output + boundary + _page(max(160 * config.out_bytes, 3 * config.fifo_bytes("store")))
    image = rng.integers(0, 256, end, dtype=np.uint8)
    for page in range(data, even, 2 * boundary):
        image[page : page + boundary] = log_uniform_int32(rng, boundary // 4).view(np.uint8)
    image[even : even + EVEN * config.out_bytes] = np.repeat(
        rng.integers(0, 256, EVEN, np.uint8), config.out_bytes
    )
    limits = (config.acc_depth // 2, config.inp_depth // 2, config.wgt_depth // 2)
    columns = [rng.integers(0, limit, UOPS) for limit in limits]
    for column in columns:
        column[-CHAINED:] %= NEAR
    if rng.random() < 0.3:
        # Sources valid for ALU operations, too, whose sources are accumulators.
        columns[1] = np.minimum(columns[1], config.acc_depth // 2 - 1)
    assert all(column.max() <= item.maximum for item, column in zip(uop_fields(config), columns, strict=True))
    image[uops : uops + config.uop_bytes * UOPS] = encode_uops(config, *columns).view(np.uint8)
    table = random_parameters(rng, TABLE, config.block_out)
    rows = TOTALS * config.batch
    # A third of the zero points are far from zero: else high bits of the products would only saturate.
    zero_points = (log_uniform_int32(rng, TABLE) >> 16) * (rng.random(TABLE) < 0.35)
    worst = _worst_entry(rng, table, zero_points)
    image[parameters : parameters + table.nbytes] = table.reshape(-1).view(np.uint8)
    near = [
        near_tie_totals(rng, entry[1].view(np.float32), entry[0].view(np.int32), rows, zero_point)
        for entry, zero_point in zip(table, zero_points.tolist(), strict=True)
    ]
    biases = table[WORST, 0].view(np.int32)[: len(worst)]
    near[WORST][rng.random(rows) < 0.5, : len(worst)] = (worst.astype(np.int64) - biases).astype(np.int32)
    image[totals : totals + TABLE * TOTALS * config.acc_bytes] = (
        np.concatenate(near).reshape(-1).view(np.uint8)
    )
    if far:
        image = np.concatenate([image, np.zeros(min(_FAR, 2 * SIXTEEN * config.par_bytes), np.uint8)])
    return image, Regions(
        uops=uops,
        data=data,
        even=even,
        totals=totals,
        parameters=parameters,
        output=output,
        end=end,
        zero_points=tuple(zero_points.tolist()),
    )


def _worst_entry(
    rng: np.random.Generator, table: NDArray[np.uint32], zero_points: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Overwrites the scales of parameter entry WORST in `table`, and its zero point in `zero_points`. Returns
    accumulator totals, int32 (lanes,), whose products with these scales are the hardest to round.
    """
    worst = worst_totals(rng, table.shape[2])
    table[WORST, 1, : len(worst.scales)] = worst.scales.view(np.uint32)
    zero_points[WORST] = worst.zero_point
    return worst.totals

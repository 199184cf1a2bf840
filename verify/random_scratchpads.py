"""Random contents of the scratchpads at launch.

The indices in micro-ops are in bounds and scales are finite; otherwise programs that use them would be undefined.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.isa.config import Config
from vdla.isa.layout import encode_uops
from vdla.isa.scratchpads import ROW_MASKS, scratchpad_sizes

from .random_operands import log_uniform_int32, random_scales


def random_parameters(rng: np.random.Generator, entries: int, block_out: int) -> NDArray[np.uint32]:
    """A random parameter table, uint32 (entries, 2, block_out): first biases, then the bits of finite float32 scales,
    both of every magnitude.
    """
    table = np.zeros((entries, 2, block_out), np.uint32)
    count = entries * block_out
    table[:, 0] = log_uniform_int32(rng, count).view(np.uint32).reshape(entries, block_out)
    table[:, 1] = random_scales(rng, count).view(np.uint32).reshape(entries, block_out)
    return table


def random_scratchpads(config: Config, seed: int) -> dict[str, NDArray[np.uint8]]:
    """Random contents of each scratchpad of `config`, uint8 by name: arbitrary bytes, but valid micro-ops, parameters
    and row entries.
    """
    rng = np.random.default_rng((seed, 3))
    contents = {
        kind: rng.integers(0, 256, size, dtype=np.uint8) for kind, size in scratchpad_sizes(config).items()
    }
    limits = (config.acc_depth // 2, min(config.inp_depth, config.acc_depth) // 2, config.wgt_depth // 2)
    columns = [rng.integers(0, limit, config.uop_depth) for limit in limits]
    contents["uop"] = encode_uops(config, columns[0], columns[1], columns[2]).view(np.uint8)
    if "par" in contents:
        contents["par"] = (
            random_parameters(rng, config.par_depth, config.block_out).reshape(-1).view(np.uint8)
        )
    if "rows" in contents:
        entries = contents["rows"].view(np.uint32).reshape(-1, 2) & np.array(ROW_MASKS, np.uint32)
        contents["rows"] = entries.reshape(-1).view(np.uint8)
    return contents

"""Pads around tensors in the chain memory (on-chip memory between layers): every position is written once, by the
tensor or as a pad.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vdla.compiler.codegen.vdla.chain_memory import margin_runs
from vdla.compiler.codegen.vdla.placement import ChainBuffer
from vdla.compiler.ir.expr import Buffer
from vdla.compiler.ir.types import DType
from vdla.compiler.te.blocks import Blocks
from vdla.isa.config import load_config

TINY = load_config("tiny")


@pytest.mark.parametrize("block_out", [4, 2 * TINY.block_in])
@pytest.mark.parametrize("margins", [(1, 1, 1, 1), (0, 2, 0, 1), (3, 0, 1, 0), (0, 0, 0, 2), (0, 0, 0, 0)])
@pytest.mark.parametrize("plane", [(1, 1), (1, 5), (4, 3)])
def test_tensor_and_pads_fill_the_memory(block_out, margins, plane):
    config = replace(TINY, block_in=8, block_out=block_out, extensions=("post",))
    vectors, (top, left, bottom, right) = Blocks.of(config).outputs, margins
    rows, columns = plane[0] + top + bottom, plane[1] + left + right
    shape = (2, 3, rows, columns * vectors, config.batch, config.block_out)
    buffer = Buffer(name="Y", shape=shape, dtype=DType.INT8, scope="chain")
    written = np.zeros(shape[:4], dtype=int)
    written[:, :, top : rows - bottom, left * vectors : (columns - right) * vectors] = 1
    flat = written.reshape(-1)
    for first, count, length, distance in margin_runs(config, buffer, ChainBuffer(0, margins, 5)):
        for row in range(count):
            flat[first + row * distance : first + row * distance + length] += 1
    assert (flat == 1).all()

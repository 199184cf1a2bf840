"""Weight tiles of more than 4,096 bytes: constants start at multiples of the tile size, because addresses
count tiles.
"""

import pytest

from vdla.compiler.pipeline import compile_program
from vdla.compiler.rewrites.fuse import fuse
from vdla.isa.config import Config

from ..random_networks import builder
from ..right_programs import assert_right


@pytest.mark.parametrize(("block_in", "block_out"), [(64, 128), (128, 64), (128, 128)])
def test_weights_of_large_tiles(block_in, block_out):
    config = Config(
        block_in=block_in,
        block_out=block_out,
        inp_buffer_bytes=512 * block_in,
        wgt_buffer_bytes=16 * block_in * block_out,
        acc_buffer_bytes=4 * 512 * block_out,
        par_buffer_bytes=8 * 8 * block_out,
        extensions=("post",),
    )
    b = builder(2)
    first = b.convolution(b.input(1, 40, 4, 5), 70, (3, 3), pads=(1, 1, 1, 1))
    assert_right(compile_program(fuse(b.graph(b.convolution(first, 12, (1, 1)))), config))

"""Weight tiles of more than 4,096 bytes: constants lie where addresses, which count tiles, can name them."""

import numpy as np
import pytest
from vdla.compiler.driver import compile_graph
from vdla.compiler.graph.fuse import fuse
from vdla.compiler.graph.host import store_inputs
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.runtime.executor import run
from vdla.isa.config import Config

from ..random_networks import builder


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
    result = compile_graph(fuse(b.graph(b.convolution(first, 12, (1, 1)))), config)
    random = np.random.default_rng(6)
    inputs = {
        item.name: random.integers(0, 256, item.shape).astype(np.uint8).view(item.dtype)
        for item in result.graph.inputs
    }
    expected = interpret(result.graph, store_inputs(result.graph, inputs))
    found = run(result, inputs)
    for item in result.graph.outputs:
        np.testing.assert_array_equal(found.integer_outputs[item.name], expected[item.tensor])

"""Published networks, made narrow and shallow, on random machines: outputs equal the interpreter's, or the network is
refused.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path

import pytest
from campaign import representatives

from vdla.benchmarks.outside_networks import quantize
from vdla.codesign.evaluate import interpreter_outputs, largest_difference, sample_arrays
from vdla.codesign.models.originals.table import NAMES, build_original, original
from vdla.compiler.graph.errors import ModelError
from vdla.compiler.pipeline import compile_program
from vdla.compiler.runtime.accelerator import run
from vdla.isa.config import Config, load_config

ARRAYS = ((8, 8), (16, 16), (16, 16), (16, 16), (32, 32), (8, 16), (16, 8), (4, 4))
ALWAYS = ("post", "patch", "depthwise", "table", "broadcast", "zero_points", "rows")
SOMETIMES = ("taps", "subtract", "wide_loads")


def machine(chance: random.Random) -> Config:
    """A random machine with the extensions that the networks need; arrays that are not square get `taps`."""
    block_in, block_out = chance.choice(ARRAYS)
    more = [name for name in SOMETIMES if chance.random() < 0.6]
    if block_in != block_out and "taps" not in more:
        more.append("taps")
    if "taps" in more and chance.random() < 0.6:
        more.append("sweep")
    base = load_config("vta")
    return replace(
        base,
        block_in=block_in,
        block_out=block_out,
        extensions=(*ALWAYS, *(name for name in more if name != "wide_loads" or "taps" in more)),
        chain_buffer_bytes=chance.choice((0, 0, 8192, 16384, 65536)),
        wgt_buffer_bytes=chance.choice((65536, 262144)),
        acc_buffer_bytes=chance.choice((32768, 65536, 131072)),
        inp_buffer_bytes=chance.choice((16384, 32768)),
        par_buffer_bytes=8192,
        load_fifo_bytes=None,
        compute_fifo_bytes=None,
        store_fifo_bytes=None,
        operand_fifo_bytes=None,
        memory=replace(
            base.memory, bus_bytes=chance.choice((8, 16, 32)), read_latency=chance.choice((30, 100))
        ),
    )


def folding(config: Config, chance: random.Random) -> Config:
    """The machine with half or a quarter of its array's columns (extension `fold`, chosen by `chance`), if the array is
    square and large enough; else unchanged.
    """
    folds = min(chance.choice((2, 4)), config.block_out // 4)
    if config.block_in != config.block_out or folds < 2:
        return config
    return replace(config, extensions=(*config.extensions, "fold"), folds=folds)


@pytest.mark.parametrize(
    ("seed", "folds"),
    representatives(
        itertools.product(range(200), (False, True)), 0, always=((8, False), (19, True), (100, True))
    ),
)
def test_networks_equal_the_interpreter(seed: int, folds: bool, tmp_path: Path):
    chance = random.Random(seed)
    name, width, depth = chance.choice(NAMES), chance.choice((0.125, 0.25, 0.5)), chance.choice((0.1, 0.25))
    network = original(name)
    least = max(network.least, chance.choice((32, 40, 48, 64, 80)))
    size = -(-least // network.multiple) * network.multiple
    plain, quantized = tmp_path / "float.onnx", tmp_path / "net.onnx"
    model = build_original(name, size=size, width=width, depth=depth, seed=seed)
    plain.write_bytes(model.SerializeToString())
    quantize(name, plain, quantized, size=size)
    config = machine(chance)
    if folds:
        config = folding(config, chance)
    try:
        compiled = compile_program(quantized, config)
    except ModelError as error:
        # Gates, normalizations and products of activations need arrays of other shapes.
        assert config.block_in != config.block_out and "block_out" in str(error)
        return
    arrays = dict(sample_arrays(compiled.graph, 1)[0])
    expected = interpreter_outputs(compiled.graph, arrays)
    assert largest_difference(compiled.graph, dict(run(compiled, arrays).outputs), expected) == 0

"""Compiles small networks to programs, which `mutate.py` changes to get unusual programs.

The networks have convolutions (also depthwise and grouped), pools, sums, dense layers, blocks that expand and reduce
channels, and attention if the machine can run it. Two of the networks are shipped models.

The compiler does not support machines without the extension `post`, or with both a batch above 1 and block_in unequal
to block_out. For such a machine, a network is compiled for a similar machine of equal scratchpad depths, and the
program is translated instruction by instruction. The translated program does not compute the network's results, but it
suffices to compare simulator and RTL.
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from vdla.codesign import models
from vdla.compiler.graph.abilities import Abilities
from vdla.compiler.graph.graph import (
    Graph,
    quantized_tensor,
)
from vdla.compiler.pipeline import compile_program
from vdla.compiler.rewrites.fuse import fuse
from vdla.compiler.templates.vdla.lower import DoesNotFitError
from vdla.isa.config import Config
from vdla.isa.decoding import decode_one
from vdla.isa.layout import EXTENSION_OF, MemoryType
from vdla.isa.program import Program
from vdla.isa.program_builder import Instruction
from vdla.isa.store_stages import StoreParts

from ..small_networks import QUANTIZATION, NetworkBuilder

GRAPHS = ("convolutions", "depthwise", "pools", "dense", "blocks", "attention")
"""Names of the small graphs; all but the last one run on every machine that has enough memory."""
SOURCES = (*GRAPHS, "small_cnn", "mlp")
"""Names of the networks: small graphs, then shipped models."""

_HEAD = 16
_ROWS, _KEYS = 32, 48
"""Sizes of attention: queries, keys and values have `_HEAD` channels; there are `_ROWS` rows of queries, and `_KEYS`
rows of keys and of values. The sizes are large enough to be compiled as one kernel on machines with a chain memory
(on-chip buffer between layers).
"""


def _graph(source: str, config: Config) -> Graph:
    rng = np.random.default_rng(SOURCES.index(source))
    if source == "attention":
        return _attention(rng, config)
    shape = (1, 12, 9, 9) if source != "dense" else (2, 40, 1, 1)
    start = quantized_tensor("input", shape, QUANTIZATION)
    network = NetworkBuilder(rng=rng, tensors={"input": start})
    match source:
        case "convolutions":
            first = network.convolution("input", 16, 3)
            second = network.convolution(first, 16, 3)
            last = network.convolution(network.add_tensors(second, first), 20, 3, stride=2)
        case "depthwise":
            first = network.convolution("input", 12, 3, groups=12)
            last = network.convolution(network.convolution(first, 24, 1), 24, 3, stride=2, groups=24)
        case "pools":
            first = network.convolution("input", 8, 5)
            last = network.average_pool(network.max_pool(first, 3, 2))
        case "blocks":
            last = network.convolution("input", 4, 1)
            for filters in (24, 20):
                deep = network.convolution(network.convolution(last, filters, 1), filters, 3, groups=filters)
                last = network.add_tensors(network.convolution(deep, 4, 1), last)
        case _:
            last = network.convolution(network.convolution("input", 33, 1), 10, 1)
    graph = network.graph(source, ("input",), last)
    return fuse(graph) if source == "blocks" else graph


def _attention(rng: np.random.Generator, config: Config) -> Graph:
    shapes = {"queries": (_HEAD, _ROWS), "keys": (_HEAD, _KEYS), "values": (_KEYS, _HEAD)}
    tensors = {
        name: quantized_tensor(name, (1, channels, positions, 1), QUANTIZATION)
        for name, (channels, positions) in shapes.items()
    }
    network = NetworkBuilder(rng=rng, tensors=tensors)
    zero_points = (3, -2) if config.has("zero_points") else (0, 0)
    last = network.attention("queries", "keys", "values", zero_points)
    return network.graph("attention", tuple(shapes), last)


@lru_cache(maxsize=2)
def _model(name: str) -> bytes:
    return models.build(name).SerializeToString()


def _served(config: Config) -> Config:
    """`config` if the compiler supports this machine, else a similar machine of equal scratchpad depths. Raises
    ConfigError if there is none.
    """
    stores = StoreParts.of(config).post
    if stores and (config.block_in == config.block_out or config.batch == 1):
        return config
    block = max(config.block_in, config.block_out)
    extensions = config.extensions if stores else ("post", *config.extensions)
    out = config.batch * block
    return dataclasses.replace(
        config,
        block_in=block,
        block_out=block,
        inp_buffer_bytes=config.inp_depth * config.batch * block,
        wgt_buffer_bytes=config.wgt_depth * block * block,
        acc_buffer_bytes=4 * config.acc_depth * out,
        chain_buffer_bytes=config.chain_depth * out,
        par_buffer_bytes=8 * block * max(2, -(-config.par_buffer_bytes // (8 * block))),
        operand_fifo_bytes=max(config.fifo_bytes("operand"), 2 * out),
        store_fifo_bytes=max(config.fifo_bytes("store"), 2 * out),
        extensions=extensions,
    )


@lru_cache(maxsize=32)
def compiled(config: Config, source: str, virtual_threads: int) -> Program | None:
    """The program of network `source` (of SOURCES) for `config`, compiled with `virtual_threads` virtual threads; None
    if the machine lacks memory or extensions for it.

    Raises ConfigError if the compiler supports no similar machine.
    """
    served = _served(config)
    abilities = Abilities.of(served)
    if source == "attention" and not (abilities.rows and abilities.products):
        return None
    try:
        if source in models.NAMES:
            return compile_program(_model(source), served, virtual_threads=virtual_threads).program
        return compile_program(_graph(source, served), served, virtual_threads=virtual_threads).program
    except DoesNotFitError:
        return None


def carried_over(program: Program, config: Config, *words: int) -> Instruction:
    """The instruction `words` of `program`, translated for the machine `config`; an instruction that the machine lacks
    is replaced by a STORE.OUT with the same token flags and the same shape (for a LOAD.PAR, only the token flags).
    """
    name, values = decode_one(program.config, *words)
    if program.config is config:
        return name, values
    if name.startswith(("LOAD.", "STORE.")):
        kind = name.partition(".")[2].lower()
        address = values["dram_base"] * program.config.element_bytes(kind)
        values["dram_base"] = address // config.element_bytes(kind)
    extension = EXTENSION_OF.get(name)
    if extension is None or config.has(extension):
        return name, values
    kept = ("pop_prev", "pop_next", "push_prev", "push_next")
    if name == "LOAD.PAR":
        return "STORE.OUT", {key: values[key] for key in kept}
    shape = ("sram_base", "dram_base", "y_size", "x_size", "x_stride")
    return "STORE.OUT", {key: values[key] for key in (*kept, *shape)} | {"memory_type": MemoryType.OUT}


def filled_image(program: Program, rng: np.random.Generator) -> NDArray[np.uint8]:
    """The program's memory image, uint8, with random bytes as the network's input."""
    image = program.image.copy()
    for segment in program.segments:
        if segment.kind == "input":
            place = slice(segment.address, segment.address + segment.size)
            image[place] = rng.integers(0, 256, segment.size, dtype=np.uint8)
    return image

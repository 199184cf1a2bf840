"""Small networks, compiled: what mutated programs are made from.

The graphs are of the kinds that compilers meet (convolutions, depthwise and grouped ones, pools, sums, dense layers);
two are shipped models. Machines that the compiler does not serve (no `post`, or blocks that differ) get programs
compiled for a sibling of equal depths and carried over instruction by instruction: what they compute means nothing,
which is all the same to a comparison of engines.
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from vdla.codesign import models
from vdla.compiler.driver import DoesNotFitError, compile_graph, compile_model
from vdla.compiler.graph.graph import (
    Graph,
    GraphInput,
    GraphOutput,
    Node,
    Tensor,
    quantized_tensor,
)
from vdla.compiler.graph.int8_operators import (
    Int8AveragePool,
    Int8Convolution,
    Int8Elementwise,
    Int8MaxPool,
    Int8Operator,
)
from vdla.compiler.graph.quantization import Quantization
from vdla.compiler.ir.types import DType
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.post import Combination, Post
from vdla.isa.config import Config
from vdla.isa.layout import EXTENSION_OF, MemoryType, decode_one
from vdla.isa.program import Program
from vdla.isa.program_builder import Instruction

SOURCES = ("convolutions", "depthwise", "pools", "dense", "small_cnn", "mlp")
"""The networks: four small graphs, then shipped models."""

_QUANTIZATION = Quantization(scale=np.float32(0.05), zero_point=0, dtype="int8")


@dataclasses.dataclass(slots=True, kw_only=True)
class _Network:
    """A graph under construction, a chain of tensors on one input."""

    rng: np.random.Generator
    tensors: dict[str, Tensor]
    nodes: list[Node] = dataclasses.field(default_factory=list)

    def add(self, operator: Int8Operator, inputs: tuple[str, ...], shape: tuple[int, ...]) -> str:
        name = f"node{len(self.nodes)}"
        node = Node(name=name, members=(name,), operator=operator, inputs=inputs, output=f"t{name}")
        self.nodes.append(node)
        self.tensors[node.output] = quantized_tensor(node.output, shape, _QUANTIZATION)
        return node.output

    def convolution(self, data: str, filters: int, kernel: int, stride: int = 1, groups: int = 1) -> str:
        batch, channels, height, width = self.tensors[data].nchw
        pad = kernel // 2 if kernel < height else 0
        weight = self.rng.integers(-127, 128, (filters, channels // groups, kernel, kernel)).astype(np.int8)
        operator = Int8Convolution(
            weight=weight,
            bias=self.rng.integers(-2000, 2000, filters).astype(np.int32),
            scale=self.rng.uniform(1e-3, 2e-2, filters).astype(np.float32),
            window=Window(kernel=(kernel, kernel), strides=(stride, stride), pads=(pad, pad, pad, pad)),
            groups=groups,
            pad_value=0,
            post=Post(low=0),
        )
        rows, columns = ((size + 2 * pad - kernel) // stride + 1 for size in (height, width))
        return self.add(operator, (data,), (batch, filters, rows, columns))

    def max_pool(self, data: str, kernel: int, stride: int) -> str:
        batch, channels, height, width = self.tensors[data].nchw
        operator = Int8MaxPool(window=Window(kernel=(kernel, kernel), strides=(stride, stride)))
        rows, columns = ((size - kernel) // stride + 1 for size in (height, width))
        return self.add(operator, (data,), (batch, channels, rows, columns))

    def average_pool(self, data: str) -> str:
        batch, channels, height, width = self.tensors[data].nchw
        count = height * width
        operator = Int8AveragePool(
            window=Window(kernel=(height, width)),
            count_include_pad=False,
            pad_value=0,
            bias=0,
            divisors=np.full((1, 1), count, np.int64),
            scale_by_divisor=((count, np.float32(1 / count)),),
            post=Post(),
        )
        return self.add(operator, (data,), (batch, channels, 1, 1))

    def add_tensors(self, a: str, b: str) -> str:
        combination = Combination(kind="add", ratio_self=0.7, ratio_operand=0.9, offset=3)
        return self.add(Int8Elementwise(combination=combination), (a, b), self.tensors[a].shape)


def _graph(source: str) -> Graph:
    rng = np.random.default_rng(SOURCES.index(source))
    shape = (1, 12, 9, 9) if source != "dense" else (2, 40, 1, 1)
    start = quantized_tensor("input", shape, _QUANTIZATION)
    network = _Network(rng=rng, tensors={"input": start})
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
        case _:
            last = network.convolution(network.convolution("input", 33, 1), 10, 1)
    result = network.tensors[last]
    return Graph(
        name=source,
        inputs=(GraphInput(name="input", tensor="input", shape=shape, dtype=DType.INT8),),
        outputs=(
            GraphOutput(
                name="output", tensor=last, shape=result.shape, dtype=DType.INT8, quantization=_QUANTIZATION
            ),
        ),
        nodes=tuple(network.nodes),
        tensors=network.tensors,
        constants={},
    )


@lru_cache(maxsize=2)
def _model(name: str) -> bytes:
    return models.build(name).SerializeToString()


def _served(config: Config) -> Config:
    """`config`, or its sibling of equal depths that the compiler serves. Raises ConfigError if there is none."""
    if config.has("post") and (config.block_in == config.block_out or config.batch == 1):
        return config
    block = max(config.block_in, config.block_out)
    extensions = config.extensions if config.has("post") else ("post", *config.extensions)
    out = config.batch * block
    return dataclasses.replace(
        config,
        block_in=block,
        block_out=block,
        inp_buffer_bytes=config.inp_depth * config.batch * block,
        wgt_buffer_bytes=config.wgt_depth * block * block,
        acc_buffer_bytes=4 * config.acc_depth * out,
        par_buffer_bytes=8 * block * max(2, -(-config.par_buffer_bytes // (8 * block))),
        operand_fifo_bytes=max(config.fifo_bytes("operand"), 2 * out),
        store_fifo_bytes=max(config.fifo_bytes("store"), 2 * out),
        extensions=extensions,
    )


@lru_cache(maxsize=32)
def compiled(config: Config, source: str, virtual_threads: int) -> Program | None:
    """The program of network `source` for `config`; None where the network does not fit the machine.

    Raises ConfigError where the machine has no sibling that the compiler serves.
    """
    served = _served(config)
    try:
        if source in models.NAMES:
            return compile_model(_model(source), served, virtual_threads=virtual_threads).program
        return compile_graph(_graph(source), served, virtual_threads=virtual_threads).program
    except DoesNotFitError:
        return None


def carried_over(program: Program, config: Config, *words: int) -> Instruction:
    """One instruction of `program` as `config` has it: what the machine lacks becomes what is nearest to it."""
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
    """The program's memory with random bytes wherever the host would put a network's input."""
    image = program.image.copy()
    for segment in program.segments:
        if segment.kind == "input":
            place = slice(segment.address, segment.address + segment.size)
            image[place] = rng.integers(0, 256, segment.size, dtype=np.uint8)
    return image

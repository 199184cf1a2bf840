"""Kernels that move channels of tensors: concatenations, splits, shuffles.

Output blocks that are a whole block of an input are copied by the store unit. Other blocks, whose channels come from
several blocks, are computed as products with a selection matrix of ones and zeros, one product for each source tensor;
each adds to the stored result of the product before it. Both methods are exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from vdla.isa.config import Config

from ...graph.graph import Graph, Node
from ...graph.int8_operators import Channels
from ...graph.layout import Constant, pack_weight
from ...te.blocks import Blocks, Window, ceil_div
from ...te.combination import Combination
from ...te.post import PLAIN, Post
from .conv2d import CONV2D
from .pool_kernels import elementwise_kernel
from .template import Details, Kernel, Source, byte_of, identity_parameters
from .workload import of_vectors, windowed

if TYPE_CHECKING:
    from .legalize import Legalized

ADDED = Post(combination=Combination(kind="add", ratio_self=1.0, ratio_operand=1.0))
"""Post-processing that adds a second tensor. For each channel one of the two tensors is 0, so the sum is the value of
the other.
"""
POINTWISE = Window(kernel=(1, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A range of adjacent channel blocks of the output, from `first` to `last` (exclusive). `parts`: numbers of the
    inputs that contain the channels of these blocks.

    `copied`: set if whole blocks of a single input are copied: (number of the input, first block of that input). None
    if channels move to another position within a block.
    """

    first: int
    last: int
    parts: tuple[int, ...]
    copied: tuple[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Image:
    """One group of images of a node, the argument of the functions that make kernels. The array computes `batch` images
    together; `index` is the number of this group of `batch` images.
    """

    config: Config
    graph: Graph
    node: Node
    index: int
    batch: int

    def offset(self, tensor: str, block: int) -> int:
        """The byte of a tensor at which block `block` of this image group's channels begins."""
        channel, image = block * Blocks.of(self.config).block, self.index * self.config.batch
        return byte_of(self.config, self.graph.tensors[tensor].nchw, image=image, channel=channel)

    def sizes(self, blocks: int) -> tuple[int, int, int, int]:
        """Batch, channels, height and width of a part of the node's output with `blocks` blocks of channels."""
        lanes = Blocks.of(self.config).block
        return (self.batch, blocks * lanes, *self.graph.tensors[self.node.output].nchw[2:])


def channel_kernels(config: Config, legalized: Legalized, node: Node, operator: Channels) -> list[Kernel]:
    """One kernel for each run of copied blocks, and one for each source tensor of every run that is not copied.

    Input tensors whose memory is already inside the output (`Legalized.inside`) are not copied.
    """
    graph = legalized.graph
    batch = graph.tensors[node.output].nchw[0]
    kernels: list[Kernel] = []
    for index in range(ceil_div(batch, config.batch)):
        image = _Image(
            config=config,
            graph=graph,
            node=node,
            index=index,
            batch=min(config.batch, batch - index * config.batch),
        )
        for run in _runs(operator.sources, Blocks.of(config).block):
            if run.copied is not None:
                part, block = run.copied
                there = legalized.inside.get(node.inputs[part])
                if there is None or (there.tensor, there.block) != (node.output, run.first - block):
                    kernels.append(_copy(image, run, part, block))
                continue
            for position, part in enumerate(run.parts):
                kernels.append(_selection(image, run, operator.sources, part, added=position > 0))
    return kernels


def _runs(sources: Sequence[tuple[int, int]], lanes: int) -> Iterator[_Run]:
    """Divides the output's blocks into runs of neighbouring blocks. A run is computed by one copy, or by one selection
    for each input that it reads. `sources`: for each output channel (number of the input, channel of this input);
    `lanes`: channels of a block.
    """

    def origin(block: int) -> tuple[tuple[int, ...], tuple[int, int] | None]:
        """Numbers of the inputs from which the channels of output block number `block` come. If the block is one whole
        block of an input, also (number of that input, number of the source block in this input minus `block`), else
        None.
        """
        mine = sources[block * lanes : (block + 1) * lanes]
        parts = tuple(sorted({part for part, _ in mine}))
        channel = mine[0][1]
        whole = len(parts) == 1 and channel % lanes == 0
        if whole and [c for _, c in mine] == list(range(channel, channel + len(mine))):
            return parts, (parts[0], channel // lanes - block)
        return parts, None

    for (parts, ahead), group in groupby(range(ceil_div(len(sources), lanes)), key=origin):
        blocks = list(group)
        if ahead is not None:
            yield _Run(
                first=blocks[0], last=blocks[-1] + 1, parts=parts, copied=(ahead[0], blocks[0] + ahead[1])
            )
            continue
        alone = [[block] for block in blocks]
        # A kernel costs about as much as two tiles of a matrix.
        if _tiles(sources, lanes, blocks) <= sum(_tiles(sources, lanes, each) + 2 for each in alone) - 2:
            alone = [blocks]
        for each in alone:
            yield _Run(first=each[0], last=each[-1] + 1, parts=parts, copied=None)


def _tiles(sources: Sequence[tuple[int, int]], lanes: int, blocks: Sequence[int]) -> int:
    """Number of weight tiles of the selection matrices if one run computes all output `blocks` (adjacent, ascending).
    `sources`: for each output channel (number of the input, channel of this input); `lanes`: channels of a block.
    """
    taken: dict[int, set[int]] = {}
    for part, channel in sources[blocks[0] * lanes : (blocks[-1] + 1) * lanes]:
        taken.setdefault(part, set()).add(channel // lanes)
    return len(blocks) * sum(max(of) - min(of) + 1 for of in taken.values())


def _copy(image: _Image, run: _Run, part: int, block: int) -> Kernel:
    """The kernel that copies the run's blocks from input `part`, whose first copied block is `block`."""
    source, target = image.node.inputs[part], image.node.output
    sizes = image.sizes(run.last - run.first)
    return replace(
        elementwise_kernel(image.config, image.node, sizes, PLAIN),
        tensors={"X": source, "Y": target},
        recorded=False,
        offsets={"X": image.offset(source, block), "Y": image.offset(target, run.first)},
    )


def _selection(
    image: _Image, run: _Run, sources: Sequence[tuple[int, int]], part: int, *, added: bool
) -> Kernel:
    """The kernel of a 1x1 convolution that copies channels of input number `part` to their places in the output blocks
    of `run`, and writes 0 to all other channels of these blocks. `sources`: (input, channel) of each output channel.
    `added`: adds to the stored output instead of replacing it.
    """
    config, lanes = image.config, Blocks.of(image.config).block
    source, target = image.node.inputs[part], image.node.output
    taken = [
        (channel - run.first * lanes, sources[channel][1])
        for channel in range(run.first * lanes, min(run.last * lanes, len(sources)))
        if sources[channel][0] == part
    ]
    first = min(channel for _, channel in taken) // lanes
    last = max(channel for _, channel in taken) // lanes + 1
    filters = (run.last - run.first) * lanes
    weight = np.zeros((filters, (last - first) * lanes, 1, 1), dtype=np.int8)
    for row, channel in taken:
        weight[row, channel - first * lanes] = 1
    post = ADDED if added else PLAIN
    workload = of_vectors(
        config, windowed(CONV2D.name, image.sizes(last - first), filters, POINTWISE, operand=added)
    )
    tensors = {"X": source, "Y": target} | ({"R": target} if added else {})
    begin = image.offset(target, run.first)
    return Kernel(
        workload=workload,
        source=Source(workload=workload, details=Details(post=post, name=image.node.name)),
        tensors=tensors,
        constants={
            "W": Constant(form=pack_weight, arrays=(weight,)),
            "P": identity_parameters(config, filters, 0),
        },
        recorded=False,
        offsets={name: begin for name in tensors if name != "X"} | {"X": image.offset(source, first)},
    )

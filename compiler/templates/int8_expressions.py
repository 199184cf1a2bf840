"""Tensor expressions of integer operators other than convolutions and conversions, for processors and GPUs: a function
for each operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from types import MappingProxyType

import numpy as np

from vdla.isa.arithmetic import UNSIGNED_OFFSET

from ..graph.graph import Graph, Node, Tensor
from ..graph.int8_convolution import Interleave
from ..graph.int8_operators import (
    Channels,
    Int8AveragePool,
    Int8Elementwise,
    Int8MaxPool,
    Interpolation,
    Positions,
    Swap,
    Table,
)
from ..ir.types import DType
from ..te.combination import combined
from ..te.ops.float_elementwise import float_elementwise
from ..te.ops.int8_channels import (
    Part,
    channel_places,
    int8_blocks,
    int8_channels,
    int8_interleave,
    int8_table,
    whole_runs,
)
from ..te.ops.int8_pool import int8_average_pool, int8_max_pool
from ..te.ops.int8_positions import int8_interpolation, int8_positions, int8_swap
from ..te.ops.quantization import stored_value, unsigned_activation
from ..te.scalars import argument
from .expressions import Expression


def _max_pool(graph: Graph, node: Node, operator: Int8MaxPool) -> Expression:
    """The tensor expression of an integer max-pool."""
    batch, blocks, height, width, lanes = graph.tensors[node.inputs[0]].storage
    program = int8_max_pool((batch * blocks, height, width, lanes), operator.window)
    return Expression(program=program)


def _average_pool(graph: Graph, node: Node, operator: Int8AveragePool) -> Expression:
    """The expression of an average pool; each sum is divided by the number of input pixels that its window counts."""
    batch, blocks, height, width, lanes = graph.tensors[node.inputs[0]].storage
    window = operator.window
    program = int8_average_pool(
        (batch * blocks, height, width, lanes),
        window,
        pad_value=operator.pad_value + UNSIGNED_OFFSET,
        bias=operator.bias - UNSIGNED_OFFSET * prod(window.kernel),
        post=operator.post,
    )
    return Expression(program=program, arrays={"S": operator.scales})


def _elementwise(graph: Graph, node: Node, operator: Int8Elementwise) -> Expression:
    """The expression of an element-wise addition or multiplication of two quantized tensors, on whole blocks of
    channels.
    """
    values = [stored_value(argument(position, DType.UINT8)) for position in range(len(node.inputs))]
    body = unsigned_activation(
        combined(values[0], values[1] if len(values) > 1 else None, operator.combination)
    )
    batch, blocks, height, width, block = graph.tensors[node.output].storage
    shapes = [(batch * blocks * height * width * block,)] * len(values)
    planes = [graph.tensors[name].shape[2:] for name in node.inputs]
    if len(set(planes)) > 1:
        shapes = [(batch * blocks, prod(plane), block) for plane in planes]
    program = float_elementwise(shapes, body, name="int8_elementwise")
    return Expression(program=program)


def _table(graph: Graph, node: Node, operator: Table) -> Expression:
    """The expression of a table look-up, on whole blocks of channels. It also looks up elements of the last block that
    belong to no channel; nothing reads these results.
    """
    program = int8_table(size=prod(graph.tensors[node.output].storage))
    values = (operator.table.astype(np.int16) + UNSIGNED_OFFSET).astype(np.uint8)
    return Expression(program=program, arrays={"T": values})


MOST_RUNS = 8
"""Largest number of runs of adjacent channels for which a kernel has one copy for each run; with more runs, the kernel
looks up the source of each channel in a table.
"""


def _channels(graph: Graph, node: Node, operator: Channels) -> Expression:
    """The expression that moves channels: by whole blocks of channels if possible, or by runs of channels if each
    tensor is one full block and there are at most `MOST_RUNS` runs; else one channel after the other.
    """
    tensors = [graph.tensors[name] for name in node.inputs]
    out = graph.tensors[node.output]
    batch, channels, height, width = out.shape
    parts = [_part(tensor) for tensor in tensors]
    counts = [tensor.shape[1] for tensor in tensors]
    runs = whole_runs(operator.sources, counts, [tensor.block for tensor in tensors], out.block)
    if runs is not None:
        program = int8_blocks(batch=batch, plane=height * width, parts=parts, runs=runs)
        return Expression(program=program)
    if all(tensor.shape[1] == tensor.block for tensor in (*tensors, out)):
        singles = [Part(blocks=count, block=1) for count in counts]
        runs = whole_runs(operator.sources, counts, [1] * len(parts), 1)
        if runs is not None and len(runs) <= MOST_RUNS:
            program = int8_blocks(batch=batch * height * width, plane=1, parts=singles, runs=runs)
            return Expression(program=program)
    places = channel_places(operator.sources, len(parts))
    program = int8_channels(
        batch=batch,
        plane=height * width,
        parts=parts,
        counts=[table.shape[1] for table in places],
        channels=channels,
        block=out.block,
    )
    tables = {f"I{i}": table for i, table in enumerate(places)}
    return Expression(program=program, arrays=tables)


def _part(tensor: Tensor) -> Part:
    return Part(blocks=tensor.storage[1], block=tensor.block)


def _interleave(graph: Graph, node: Node, operator: Interleave) -> Expression:
    """The expression that interleaves the phases of a transposed convolution (convolutions for output pixels of equal
    remainder modulo the stride) along rows and columns.
    """
    data, out = graph.tensors[node.inputs[0]], graph.tensors[node.output]
    program = int8_interleave(
        data.storage,
        out.storage,
        factors=operator.factors,
        before=operator.before,
        stride=operator.stride,
    )
    return Expression(program=program)


def _positions(graph: Graph, node: Node, operator: Positions) -> Expression:
    """The expression that moves positions (pixels) of a tensor, for all channels alike."""
    parts = [graph.tensors[name].storage for name in node.inputs]
    fill = (operator.fill or 0) + UNSIGNED_OFFSET
    program = int8_positions(parts, graph.tensors[node.output].storage, fill=fill)
    index = {"I": operator.index.reshape(-1).astype(np.int64)}
    return Expression(program=program, arrays=index)


def _swap(graph: Graph, node: Node, _operator: Swap) -> Expression:
    """The expression that exchanges the positions (pixels) and the channels of a tensor."""
    program = int8_swap(graph.tensors[node.inputs[0]].storage, graph.tensors[node.output].storage)
    return Expression(program=program)


def _interpolation(graph: Graph, node: Node, operator: Interpolation) -> Expression:
    """The expression that interpolates between neighbouring rows and columns."""
    batch, blocks, height, width, block = graph.tensors[node.inputs[0]].storage
    rows, columns = operator.rows, operator.columns
    source, grid = ((float(g.scale), g.stored_zero_point) for g in (operator.source, operator.grid))
    program = int8_interpolation(
        (batch * blocks, height, width, block),
        (len(rows.first), len(columns.first)),
        source=source,
        grid=grid,
        limits=(operator.low, operator.high),
    )
    constants = {"RF": rows.first, "RW": rows.weight, "CF": columns.first, "CW": columns.weight}
    return Expression(program=program, arrays=constants)


EXPRESSIONS: Mapping[type, Callable[..., Expression]] = MappingProxyType(
    {
        Int8MaxPool: _max_pool,
        Int8AveragePool: _average_pool,
        Int8Elementwise: _elementwise,
        Table: _table,
        Channels: _channels,
        Interleave: _interleave,
        Interpolation: _interpolation,
        Positions: _positions,
        Swap: _swap,
    }
)
"""For each operator type, the function that makes the expression of a node."""

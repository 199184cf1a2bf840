"""Nodes of the integer graph as programs, with their weights, biases and scales in blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import numpy as np
from vdla.isa.arithmetic import UNSIGNED_OFFSET

from ...graph import graph as integer
from ...graph.cost import count_macs
from ...ir.stmt import Program
from ...ir.types import DType
from ...schedule import Schedule
from ...target.cpu.machine import CpuTarget
from ...te.blocks import Window, ceil_div
from ...te.ops.blocked_conv2d import QuantizedSums, blocked_conv2d, blocked_depthwise
from ...te.ops.convolution import Convolution
from ...te.ops.float_elementwise import float_elementwise
from ...te.ops.int8_channels import (
    Part,
    channel_places,
    int8_blocks,
    int8_channels,
    int8_interleave,
    int8_table,
    whole_runs,
)
from ...te.ops.int8_pool import int8_average_pool, int8_max_pool
from ...te.ops.unsigned import biases_of_unsigned, held, stored_value
from ...te.post import combined
from ...te.scalars import argument
from ..vdla.stages import combination_of, post_of
from . import conv2d_int8 as conv2d_int8_cpu
from . import depthwise as depthwise_cpu
from . import elementwise as elementwise_cpu
from . import movement as movement_cpu
from . import pool as pool_cpu
from .conv2d_knobs import flattened
from .int8_network import Int8Network


def lower_node(network: Int8Network, node: integer.Node) -> None:
    """One step of integer arithmetic."""
    match node:
        case integer.Convolution(groups=groups):
            channels = network.graph.tensors[node.data].nchw[1]
            if groups > 1 and groups == channels == node.weight.shape[0]:
                _depthwise(network, node)
            else:
                _convolution(network, node)
        case integer.MaxPool():
            _max_pool(network, node)
        case integer.AveragePool():
            _average_pool(network, node)
        case integer.Elementwise():
            _elementwise(network, node)
        case integer.Table():
            _table(network, node)
        case integer.Channels():
            _channels(network, node)
        case integer.Interleave():
            _interleave(network, node)


def _convolution(network: Int8Network, node: integer.Convolution) -> None:
    """Groups of which no whole blocks of channels are made go together, with zeros between them."""
    batch, channels, height, width = network.graph.tensors[node.data].nchw
    filters, block_in = node.weight.shape[0], network.block(channels)
    block_out = network.block(filters)
    joined = _joined_groups(channels, filters, node.groups, block_in, block_out)
    groups = node.groups // joined
    window = _window(node.weight.shape[2:], node.strides, node.pads, node.dilations)
    height, width = flattened(window, height, width)
    blocks_in = ceil_div(channels // groups, block_in)
    blocks_out = ceil_div(filters // groups, block_out)
    shape = Convolution(
        batch=batch,
        channels=groups * blocks_in * block_in,
        height=height,
        width=width,
        filters=groups * blocks_out * block_out,
        window=window,
        groups=groups,
    )
    program = blocked_conv2d(
        shape, block_in=block_in, block_out=block_out, sums=_quantized_sums(node), name="int8_conv2d"
    )
    weight = np.zeros((groups, blocks_out * block_out, blocks_in * block_in, *window.kernel), np.int8)
    own_in, own_out = channels // node.groups, filters // node.groups
    for group in range(node.groups):
        whole, part = divmod(group, joined)
        rows = slice(part * own_out, (part + 1) * own_out)
        columns = slice(part * own_in, (part + 1) * own_in)
        weight[whole, rows, columns] = node.weight[group * own_out : (group + 1) * own_out]
    weight = weight.reshape(*weight.shape[:2], blocks_in, block_in, *window.kernel)
    _sums(
        network,
        node,
        program,
        lambda target: conv2d_int8_cpu.schedule(target, program, window, parallel=True),
        weight.transpose(0, 1, 2, 4, 5, 3),
        groups,
    )


def _depthwise(network: Int8Network, node: integer.Convolution) -> None:
    """A filter for each channel by itself."""
    batch, channels, height, width = network.graph.tensors[node.data].nchw
    block = network.block(channels)
    blocks = ceil_div(channels, block)
    window = _window(node.weight.shape[2:], node.strides, node.pads, node.dilations)
    shape = Convolution(
        batch=batch,
        channels=blocks * block,
        height=height,
        width=width,
        filters=blocks * block,
        window=window,
        groups=blocks * block,
    )
    program = blocked_depthwise(shape, block=block, sums=_quantized_sums(node), name="int8_depthwise")
    weight = node.weight[:, 0].transpose(1, 2, 0)
    _sums(
        network,
        node,
        program,
        lambda target: depthwise_cpu.schedule(
            target, program, window, _depthwise_knobs(target, program, window), parallel=True
        ),
        np.pad(weight, ((0, 0), (0, 0), (0, blocks * block - channels))),
        1,
    )


def _quantized_sums(node: integer.Convolution) -> QuantizedSums:
    return QuantizedSums(
        pad_value=node.pad_value + UNSIGNED_OFFSET, post=post_of(node.requantize, node.combine)
    )


def _sums(
    network: Int8Network,
    node: integer.Convolution,
    program: Program,
    template: Callable[[CpuTarget], Schedule],
    weight: np.ndarray,
    groups: int,
) -> None:
    """A convolution's kernel, with its biases and scales in blocks."""
    if node.pool is not None:
        raise ValueError(f"{node.name} has a pool in it; lower the graph before `fuse_pool`")
    shape = next(p.shape for p in program.parameters if p.name == "P")
    filters = node.weight.shape[0]
    scale = np.broadcast_to(np.asarray(node.requantize.scale, np.float32), (filters,))
    pairs = np.stack([biases_of_unsigned(node.bias, node.weight), scale.view(np.int32)])
    pairs = pairs.reshape(2, groups, filters // groups)
    pairs = np.pad(pairs, ((0, 0), (0, 0), (0, shape[0] * shape[2] // groups - filters // groups)))
    parameters = pairs.reshape(2, shape[0], shape[2]).transpose(1, 0, 2)
    tensors, constants = {"X": network.names[node.data], "Y": network.names[node.output]}, {}
    if node.combine is not None and node.combine.operand is not None:
        network.bind("R", node.combine.operand, tensors, constants)
    constants |= {"W": weight, "P": np.ascontiguousarray(parameters)}
    network.add(
        node.name,
        type(node).__name__,
        node.members,
        program,
        template,
        tensors,
        constants,
        operations=2 * count_macs(network.graph, node),
    )


def _max_pool(network: Int8Network, node: integer.MaxPool) -> None:
    """Greatest values."""
    data = network.tensors[network.names[node.data]]
    window = _window(node.kernel, node.strides, node.pads)
    batch, blocks, height, width, lanes = data.storage
    program = int8_max_pool(outer=batch * blocks, height=height, width=width, lanes=lanes, window=window)
    _pool(network, node, program, window, {})


def _average_pool(network: Int8Network, node: integer.AveragePool) -> None:
    """Averages, each with the scale of what its window counts."""
    data = network.tensors[network.names[node.data]]
    window = _window(node.kernel, node.strides, node.pads)
    batch, blocks, height, width, lanes = data.storage
    program = int8_average_pool(
        outer=batch * blocks,
        height=height,
        width=width,
        lanes=lanes,
        window=window,
        pad_value=node.pad_value + UNSIGNED_OFFSET,
        bias=node.bias - UNSIGNED_OFFSET * prod(node.kernel),
        zero_point=node.requantize.zero_point,
        low=node.requantize.low,
        high=node.requantize.high,
    )
    scales = np.zeros(node.divisors.shape, np.float32)
    for divisor, scale in node.scale_by_divisor:
        scales[node.divisors == divisor] = scale
    _pool(network, node, program, window, {"S": scales})


def _pool(
    network: Int8Network,
    node: integer.MaxPool | integer.AveragePool,
    program: Program,
    window: Window,
    constants: Mapping[str, np.ndarray],
) -> None:
    """A pool's kernel."""
    network.add(
        node.name,
        type(node).__name__,
        node.members,
        program,
        lambda target: pool_cpu.schedule(target, program, window, parallel=True),
        {"X": network.names[node.data], "Y": network.names[node.output]},
        constants,
        operations=network.graph.tensors[node.output].size * prod(node.kernel),
    )


def _elementwise(network: Int8Network, node: integer.Elementwise) -> None:
    """Stage B by itself, on whole blocks."""
    operands = integer.reads(node)
    values = [stored_value(argument(position, DType.UINT8)) for position in range(len(operands))]
    second = values[1] if len(values) > 1 else None
    body = held(combined(values[0], second, combination_of(node.combine)))
    batch, blocks, height, width, block = network.tensors[network.names[node.output]].storage
    shapes = [(batch * blocks * height * width * block,)] * len(values)
    planes = [network.graph.tensors[name].nchw[2:] for name in operands]
    if len(set(planes)) > 1:
        shapes = [(batch * blocks, prod(plane), block) for plane in planes]
    program = float_elementwise(shapes, body, name="int8_elementwise")
    tensors, constants = {"Y": network.names[node.output]}, {}
    for position, name in enumerate(operands):
        network.bind(f"X{position}", name, tensors, constants)
    network.add(
        node.name,
        type(node).__name__,
        node.members,
        program,
        lambda target: elementwise_cpu.schedule(target, program, parallel=True),
        tensors,
        constants,
        operations=network.graph.tensors[node.output].size,
    )


def _table(network: Int8Network, node: integer.Table) -> None:
    """A function of one tensor, zeros beyond the channels included: nothing reads what becomes of them."""
    size = prod(network.tensors[network.names[node.output]].storage)
    program = int8_table(size=size)
    _move(
        network,
        node,
        program,
        {"X": node.data},
        {"T": (node.table.astype(np.int16) + UNSIGNED_OFFSET).astype(np.uint8)},
    )


def _channels(network: Int8Network, node: integer.Channels) -> None:
    """Whole blocks where channels move as such, else one channel after the other."""
    tensors = [network.tensors[network.names[name]] for name in node.parts]
    out = network.tensors[network.names[node.output]]
    batch, channels, height, width = out.shape
    parts = [Part(blocks=t.storage[1], block=t.block) for t in tensors]
    counts = [t.shape[1] for t in tensors]
    data = {f"X{i}": name for i, name in enumerate(node.parts)}
    runs = whole_runs(node.sources, counts, [t.block for t in tensors], out.block)
    if runs is not None:
        _move(network, node, int8_blocks(batch=batch, plane=height * width, parts=parts, runs=runs), data, {})
        return
    places = channel_places(node.sources, len(parts))
    program = int8_channels(
        batch=batch,
        plane=height * width,
        parts=parts,
        counts=[table.shape[1] for table in places],
        channels=channels,
        block=out.block,
    )
    _move(network, node, program, data, {f"I{i}": table for i, table in enumerate(places)})


def _interleave(network: Int8Network, node: integer.Interleave) -> None:
    """Rows and columns of a transposed convolution's phases, side by side."""
    data = network.tensors[network.names[node.data]]
    out = network.tensors[network.names[node.output]]
    batch, channels, height, width = out.shape
    program = int8_interleave(
        batch=batch,
        data=Part(blocks=data.storage[1], block=data.block),
        plane=(data.shape[2], data.shape[3]),
        channels=channels,
        block=out.block,
        outputs=(height, width),
        factors=node.factors,
        before=node.before,
        stride=node.stride,
    )
    _move(network, node, program, {"X": node.data}, {})


def _move(
    network: Int8Network,
    node: integer.Table | integer.Channels | integer.Interleave,
    program: Program,
    data: Mapping[str, str],
    constants: Mapping[str, np.ndarray],
) -> None:
    """A kernel that computes nothing."""
    tensors, values = {"Y": network.names[node.output]}, dict(constants)
    for parameter, name in data.items():
        network.bind(parameter, name, tensors, values)
    network.add(
        node.name,
        type(node).__name__,
        node.members,
        program,
        lambda target: movement_cpu.schedule(target, program, parallel=True),
        tensors,
        values,
    )


def _depthwise_knobs(target: CpuTarget, program: Program, window: Window) -> depthwise_cpu.Knobs:
    """As many positions as have their sums in registers beside a vector of weights and one of data."""
    positions = target.vector_registers - 2
    rows = 2 if positions >= 6 else 1
    columns = max(1, min(7, positions // rows))
    return depthwise_cpu.with_copy(target, program, window, rows=rows, columns=columns)


def _window(
    kernel: tuple[int, ...],
    strides: integer.Pair,
    pads: integer.Pads,
    dilations: integer.Pair = (1, 1),
) -> Window:
    return Window(kernel=(kernel[0], kernel[1]), strides=strides, pads=pads, dilations=dilations)


def _joined_groups(channels: int, filters: int, groups: int, block_in: int, block_out: int) -> int:
    """How many groups to compute as one, so that whole blocks hold their channels and filters."""
    for joined in range(1, groups):
        part = groups // joined
        if groups % joined == 0 and not (channels // part % block_in or filters // part % block_out):
            return joined
    return groups

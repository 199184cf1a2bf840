"""Tensor expressions of the graph's operators, for all targets, in a table.

Each target also has a table of templates (`cpu.lower`, `gpu.lower`), and its own expressions of operators whose
expression contains threads or registers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from ..graph.graph import Graph, Node, Tensor
from ..graph.operators import (
    AveragePool,
    Computed,
    Concatenate,
    Convolution,
    CumulativeSum,
    Elementwise,
    Gather,
    GatherElements,
    LstmSteps,
    MaxPool,
    Normalization,
    Permute,
    RecurrentSteps,
    Reduction,
    Relayout,
    Remap,
    Resize,
    Softmax,
    WinogradOutputs,
    WinogradTiles,
)
from ..ir.expr import Expr, dtype_of
from ..ir.stmt import Program
from ..ir.types import DType
from ..te.blocks import Window
from ..te.merge import Shape
from ..te.ops.convolution import Convolution as Sizes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Expression:
    """An operator's tensor expression. Its parameters are the operator's inputs, then `arrays`, then its outputs.

    `arrays`: constants that are no tensors of the graph, by parameter. `statements`: names of the statements that store
    results. `inside`: a condition on indices; elements for which it is false are stored as zero (both are arguments of
    `te.fusion.with_result`).
    """

    program: Program
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    statements: tuple[str, ...] = ()
    inside: Callable[[tuple[Expr, ...]], Expr] | None = None


def expression_of(graph: Graph, node: Node, *, width: int = 1) -> Expression:
    """The tensor expression of a node's operator, without fused operators; rows are reduced in `width` partial results.

    Raises LookupError for sums of products (convolutions, dense layers): their templates define layout and expression.
    """
    operator = computed(graph, node)
    return _EXPRESSIONS[type(operator)](graph, node, operator, width)


def has_expression(operator: object) -> bool:
    """Whether the table has an expression for an operator."""
    return type(operator) in _EXPRESSIONS


def computed(graph: Graph, node: Node) -> Any:
    """The node's operator. A pool whose window is a whole, contiguous plane is returned as the equivalent reduction
    over rows.
    """
    operator = node.operator
    if not isinstance(operator, MaxPool | AveragePool) or graph.tensors[node.output].block > 1:
        return operator
    height, width = graph.data_shape(node)[2:]
    if operator.window != Window(kernel=(height, width)):
        return operator
    return Reduction(kind="max" if isinstance(operator, MaxPool) else "mean", axes=(2, 3))


def data_of(graph: Graph, node: Node) -> Tensor:
    """The first input of a node's operator, as a tensor named "data" in the output's layout."""
    return Tensor(name="data", shape=graph.data_shape(node), block=graph.tensors[node.output].block)


def convolution_of(graph: Graph, node: Node, operator: Convolution) -> Sizes:
    """The sizes of a convolution of the graph, transposed or not, in elements."""
    batch, channels, height, width = graph.tensors[node.inputs[0]].shape
    return Sizes(
        batch=batch,
        channels=channels,
        height=height,
        width=width,
        filters=graph.tensors[node.output].shape[1],
        window=operator.window,
        groups=operator.groups,
        transposed=operator.transposed,
        output_padding=operator.output_padding,
    )


def moved_type(graph: Graph, node: Node) -> DType:
    """The element type that a data movement (such as a transposition) reads; fused operators may store another type."""
    return graph.tensors[node.inputs[0]].dtype if node.data is None else dtype_of(node.data)


def channels_inside(data: Tensor) -> Callable[[tuple[Expr, ...]], Expr] | None:
    """A function from an element's indices in [batch * blocks, ..., block] to the condition that the element belongs to
    a channel and not to the padding of the last block; None if the last block is full.
    """
    channels, block = data.shape[1], data.block
    if channels % block == 0:
        return None
    blocks = -(-channels // block)
    return lambda at: at[0] % blocks * block + at[-1] < channels


def normalization_sizes(graph: Graph, node: Node, operator: Normalization) -> tuple[int, int, int]:
    """Sizes of a normalization: (images, channels, elements of a row) if each channel has its own scale and bias, else
    (rows, 1, elements of a row), with a scale and bias for each element.
    """
    shape = graph.data_shape(node)
    lead, size = shape[: operator.axis], prod(shape[operator.axis :])
    return (lead[0], lead[1], size) if operator.by_channel else (prod(lead), 1, size)


def _elementwise(graph: Graph, node: Node, operator: Elementwise, _: int) -> Expression:
    from ..te.ops.float_elementwise import float_elementwise

    out = graph.tensors[node.output]
    shapes = [storage_beside(graph.tensors[name], len(out.storage), out.block) for name in node.inputs]
    return Expression(program=float_elementwise(shapes, operator.body))


def _pool(graph: Graph, node: Node, operator: MaxPool | AveragePool, _: int) -> Expression:
    from ..te.ops.float_pool import float_pool

    data = data_of(graph, node)
    height, width = data.shape[2:]
    program = float_pool(
        (prod(data.storage) // (height * width * data.block), height, width, data.block),
        operator.window,
        "max" if isinstance(operator, MaxPool) else "average",
        dtype=graph.tensors[node.inputs[0]].dtype if node.data is None else DType.FLOAT32,
        counted=operator.counted if isinstance(operator, AveragePool) else (0, 0, 0, 0),
    )
    return Expression(program=program, inside=channels_inside(data))


def _softmax(graph: Graph, node: Node, operator: Softmax, width: int) -> Expression:
    from ..te.ops.softmax import softmax

    program = softmax(graph.data_shape(node), operator.axis, width=width, logarithm=operator.logarithm)
    return Expression(program=program, statements=("scale",))


def _normalization(graph: Graph, node: Node, operator: Normalization, width: int) -> Expression:
    from ..te.ops.normalization import Normalized, normalize

    outer, channels, size = normalization_sizes(graph, node, operator)
    sizes = Normalized(
        outer=outer,
        channels=channels,
        size=size,
        epsilon=operator.epsilon,
        by="channel" if operator.by_channel else "row",
        bias=len(node.own_inputs) == 3,
    )
    return Expression(program=normalize(sizes, width=width))


def _reduction(graph: Graph, node: Node, operator: Reduction, width: int) -> Expression:
    from ..te.ops.reduction import reduction

    beside = shapes_beside(graph, node, operator.axes)
    shape = graph.data_shape(node)
    return Expression(program=reduction(shape, operator.axes, operator.kind, width=width, beside=beside))


def _cumulative_sum(graph: Graph, node: Node, operator: CumulativeSum, _: int) -> Expression:
    from ..te.ops.folds import running_product

    program = running_product(
        graph.data_shape(node),
        operator.axis,
        exclusive=operator.exclusive,
        reverse=operator.reverse,
        product=False,
        name="cumulative_sum",
    )
    return Expression(program=program)


def _resize(graph: Graph, node: Node, operator: Resize, _: int) -> Expression:
    from ..te.ops.resize import axis_table, resize

    data = data_of(graph, node)
    sizes, outputs = data.shape[2:], graph.tensors[node.output].shape[2:]
    program = resize(
        outer=prod(data.storage) // (prod(sizes) * data.block),
        height=sizes[0],
        width=sizes[1],
        lanes=data.block,
        outputs=(outputs[0], outputs[1]),
        mode=operator.mode,
    )
    arrays: dict[str, np.ndarray] = {}
    for axis, size, count, scale in zip("RC", sizes, outputs, operator.scales, strict=True):
        table = axis_table(
            size,
            count,
            scale=scale,
            mode=operator.mode,
            coordinates=operator.coordinates,
            rounding=operator.rounding,
        )
        arrays[f"{axis}I"] = table.first
        if operator.mode == "linear":
            arrays[f"{axis}W"] = table.weight
    return Expression(program=program, arrays=arrays, inside=channels_inside(data))


def _gather(graph: Graph, node: Node, operator: Gather, _: int) -> Expression:
    from ..te.ops.movement import gather

    dtype = moved_type(graph, node)
    if operator.indices is None:
        count = graph.tensors[node.own_inputs[-1]].size
        return Expression(program=gather(graph.data_shape(node), operator.axis, count, dtype=dtype))
    program = gather(graph.data_shape(node), operator.axis, len(operator.indices), dtype=dtype)
    return Expression(program=program, arrays={"I": np.array(operator.indices, np.int64)})


def _gather_elements(graph: Graph, node: Node, operator: GatherElements, _: int) -> Expression:
    from ..te.ops.scattered import gather_elements

    data, indices = (graph.tensors[name] for name in node.own_inputs)
    return Expression(program=gather_elements(data.shape, indices.shape, operator.axis, dtype=data.dtype))


def _computed(_: Graph, __: Node, operator: Computed, ___: int) -> Expression:
    return Expression(program=operator.program)


def _relayout(graph: Graph, node: Node, operator: Relayout, _: int) -> Expression:
    from ..te.ops.relayout import relayout

    data, out = graph.tensors[node.inputs[0]], graph.tensors[node.output]
    batch, channels, *plane = data.shape
    program = relayout(
        batch=batch,
        channels=channels,
        plane=prod(plane),
        block_in=data.block,
        block_out=out.block,
        dtype=data.dtype,
    )
    return Expression(program=program)


def _winograd_tiles(graph: Graph, node: Node, operator: WinogradTiles, _: int) -> Expression:
    from ..te.ops.blocked_winograd import blocked_tiles

    data = graph.tensors[node.inputs[0]]
    batch, channels, height, width = data.shape
    sizes = Sizes(
        batch=batch, channels=channels, height=height, width=width, filters=1, window=operator.window
    )
    return Expression(program=blocked_tiles(sizes, operator.outputs, block=data.block))


def _winograd_outputs(graph: Graph, node: Node, operator: WinogradOutputs, _: int) -> Expression:
    from ..te.ops.blocked_winograd import blocked_outputs

    out = graph.tensors[node.output]
    batch, filters, height, width = out.shape
    program = blocked_outputs(
        batch=batch,
        filters=filters,
        outputs=(height, width),
        m=operator.outputs,
        block=out.block,
        epilogue=operator.epilogue,
    )
    inside = None if filters % out.block == 0 else lambda at: at[1] * out.block + at[4] < filters
    return Expression(program=program, inside=inside)


def _recurrent(graph: Graph, node: Node, operator: LstmSteps | RecurrentSteps, _: int) -> Expression:
    from ..te.ops.recurrent import recurrent_steps

    _, _, batch, hidden = graph.tensors[node.output].shape
    lstm = isinstance(operator, LstmSteps)
    program = recurrent_steps(
        cell="LSTM" if lstm else operator.cell,
        steps=operator.steps,
        batch=batch,
        hidden=hidden,
        directions=operator.directions,
        activations=() if lstm else operator.activations,
        name="lstm" if lstm else "recurrent",
    )
    return Expression(program=program)


def _permute(graph: Graph, node: Node, operator: Permute, _: int) -> Expression:
    from ..te.ops.movement import permute

    dtype = moved_type(graph, node)
    return Expression(program=permute(graph.data_shape(node), operator.axes, dtype=dtype))


def _concatenate(graph: Graph, node: Node, operator: Concatenate, _: int) -> Expression:
    from ..te.ops.movement import concat

    return Expression(
        program=concat(
            [graph.tensors[name].storage for name in node.own_inputs],
            operator.axis,
            dtype=moved_type(graph, node),
        )
    )


def _remap(graph: Graph, node: Node, operator: Remap, _: int) -> Expression:
    from ..te.ops.movement import remap

    dtype = moved_type(graph, node)
    return Expression(program=remap(graph.data_shape(node), operator.runs, fill=operator.fill, dtype=dtype))


_EXPRESSIONS: Mapping[type, Callable[[Graph, Node, Any, int], Expression]] = MappingProxyType(
    {
        Elementwise: _elementwise,
        MaxPool: _pool,
        AveragePool: _pool,
        Softmax: _softmax,
        Normalization: _normalization,
        Reduction: _reduction,
        CumulativeSum: _cumulative_sum,
        Resize: _resize,
        Gather: _gather,
        GatherElements: _gather_elements,
        Computed: _computed,
        Relayout: _relayout,
        LstmSteps: _recurrent,
        RecurrentSteps: _recurrent,
        WinogradTiles: _winograd_tiles,
        WinogradOutputs: _winograd_outputs,
        Permute: _permute,
        Concatenate: _concatenate,
        Remap: _remap,
    }
)


def storage_beside(tensor: Tensor, rank: int, block: int) -> Shape:
    """The shape in which `tensor` is stored, extended by dimensions of size 1 if necessary, so that it broadcasts
    against another tensor. The other tensor has `rank` stored dimensions and blocks of `block` channels (1: row-major).
    """
    if block == 1 or tensor.block > 1:
        return tensor.storage
    # Equal for all channels: one lane broadcasts to all.
    return (*(1,) * (rank - 1 - len(tensor.shape)), *tensor.shape, 1)


def shapes_beside(graph: Graph, node: Node, axes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Shapes, aligned to the rank of the node's input, of the additional tensors that fused operators read: first for
    the operators fused before the reduction over `axes`, then for those after it.
    """
    shapes = [graph.tensors[node.inputs[i]].shape for i in node.operands(node.data)]
    rank = len(graph.data_shape(node))
    kept = [axis for axis in range(rank) if axis not in axes]
    out = graph.tensors[node.output].shape
    for i in node.operands(node.result):
        shape = graph.tensors[node.inputs[i]].shape
        aligned = (1,) * (len(out) - len(shape)) + shape
        if len(out) < rank:
            sizes = dict(zip(kept, aligned, strict=True))
            aligned = tuple([sizes.get(axis, 1) for axis in range(rank)])
        shapes.append(aligned)
    return shapes

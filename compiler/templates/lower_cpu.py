"""From a node of the float graph to a kernel's program: which tensor expression, which schedule, which arrays."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Literal

import numpy as np

from ..graph.floating.assign_layouts import is_depthwise
from ..graph.floating.graph import FloatGraph, Node, Tensor
from ..graph.floating.operators import (
    AveragePool,
    Concatenate,
    Convolution,
    Dense,
    Elementwise,
    Gather,
    LstmSteps,
    MatrixProduct,
    MaxPool,
    Permute,
    Reduction,
    Relayout,
    Remap,
    Resize,
    Softmax,
)
from ..ir.stmt import Program
from ..schedule import Schedule
from ..target.cpu.machine import CpuTarget
from ..te.ops.float_elementwise import float_elementwise
from ..te.ops.float_pool import float_pool
from ..te.ops.lstm import lstm_steps
from ..te.ops.matmul import matmul
from ..te.ops.movement import concat, gather, permute, remap
from ..te.ops.reduction import reduction
from ..te.ops.relayout import relayout
from ..te.ops.resize import axis_table, resize
from ..te.ops.softmax import softmax
from . import (
    elementwise_cpu,
    lstm_cpu,
    matmul_cpu,
    movement_cpu,
    pool_cpu,
    reduction_cpu,
    relayout_cpu,
    resize_cpu,
    rows_cpu,
)
from .lower_sums_cpu import lower_convolution, lower_dense, lower_depthwise
from .lowered_node import LoweredNode, kernel_key


def lower_float_node(target: CpuTarget, graph: FloatGraph, node: Node) -> LoweredNode | None:
    """The kernel of a node; None where it is a view and computes nothing."""
    match node.operator:
        case Convolution():
            if is_depthwise(node.operator, graph.tensors[node.inputs[1]]):
                return lower_depthwise(graph, node, node.operator)
            return lower_convolution(graph, node, node.operator)
        case MatrixProduct():
            return _matrix_product(graph, node)
        case LstmSteps(steps=steps, directions=directions):
            _, _, batch, hidden = graph.tensors[node.output].shape
            program = lstm_steps(steps=steps, batch=batch, hidden=hidden, directions=directions)
            return _in_order(graph, node, program, lstm_cpu.schedule)
        case Permute(axes=axes):
            program = permute(graph.tensors[node.inputs[0]].shape, axes)
            return _in_order(graph, node, program, movement_cpu.schedule_permutation)
        case Concatenate(axis=axis):
            program = concat([graph.tensors[name].shape for name in node.inputs], axis)
            return _in_order(graph, node, program, movement_cpu.schedule)
        case Remap(runs=runs, fill=fill):
            program = remap(graph.tensors[node.inputs[0]].shape, runs, fill=fill)
            return _in_order(graph, node, program, movement_cpu.schedule)
        case Gather(axis=axis, indices=indices):
            program = gather(graph.tensors[node.inputs[0]].shape, axis, len(indices))
            return LoweredNode(
                node=node,
                key=kernel_key("gather", program),
                program=program,
                schedule=lambda target: movement_cpu.schedule(target, program, parallel=True),
                tensors={"X": node.inputs[0], "Y": node.output},
                constants={"I": np.array(indices, np.int64)},
            )
        case Dense():
            return lower_dense(graph, node, node.operator)
        case Elementwise():
            return _elementwise(graph, node, node.operator)
        case MaxPool() | AveragePool():
            return _pool(graph, node, node.operator)
        case Softmax(axis=axis, logarithm=logarithm):
            shape = graph.tensors[node.output].shape
            width = rows_cpu.row_partials(target)
            return _rows(node, "softmax", softmax(shape, axis, width=width, logarithm=logarithm))
        case Reduction(kind=kind, axes=axes):
            shape = graph.tensors[node.inputs[0]].shape
            width = rows_cpu.row_partials(target)
            return _rows(node, "reduction", reduction(shape, axes, kind, width=width))
        case Resize():
            return _resize(graph, node, node.operator)
        case Relayout():
            return _relayout(graph, node)
    return None


def _matrix_product(graph: FloatGraph, node: Node) -> LoweredNode:
    a, b = (graph.tensors[name].shape for name in node.inputs)
    program = matmul(batch_x=a[:-2], batch_w=b[:-2], rows=a[-2], depth=a[-1], columns=b[-1])
    return _in_order(graph, node, program, matmul_cpu.schedule)


def _in_order(
    graph: FloatGraph, node: Node, program: Program, template: Callable[..., Schedule]
) -> LoweredNode:
    """A program whose parameters are the node's inputs and its outputs, in their order."""
    names = [p.name for p in program.parameters]
    shapes = {p.name: p.shape for p in program.parameters}
    tensors = dict(zip(names, (*node.inputs, *node.outputs), strict=True))
    return LoweredNode(
        node=node,
        key=kernel_key(type(node.operator).__name__, program),
        program=program,
        schedule=lambda target: template(target, program, parallel=True),
        tensors={p: name for p, name in tensors.items() if name not in graph.constants},
        constants={
            p: graph.constants[name].reshape(shapes[p])
            for p, name in tensors.items()
            if name in graph.constants
        },
    )


def _elementwise(graph: FloatGraph, node: Node, operator: Elementwise) -> LoweredNode:
    out = graph.tensors[node.output]
    shapes = [_storage_beside(graph.tensors[name], out) for name in node.inputs]
    program = float_elementwise(shapes, operator.body)
    parameters = dict(zip([p.name for p in program.parameters], (*node.inputs, node.output), strict=True))
    merged = {p.name: p.shape for p in program.parameters}
    return LoweredNode(
        node=node,
        key=kernel_key("elementwise", program),
        program=program,
        schedule=lambda target: elementwise_cpu.schedule(target, program, parallel=True),
        tensors={p: name for p, name in parameters.items() if name not in graph.constants},
        constants={
            p: graph.constants[name].reshape(merged[p])
            for p, name in parameters.items()
            if name in graph.constants
        },
    )


def _pool(graph: FloatGraph, node: Node, operator: MaxPool | AveragePool) -> LoweredNode:
    data = graph.tensors[node.inputs[0]]
    _, _, height, width = data.shape
    window = operator.window
    program = float_pool(
        outer=prod(data.storage) // (height * width * data.block),
        height=height,
        width=width,
        lanes=data.block,
        window=window,
        kind="max" if isinstance(operator, MaxPool) else "average",
        counted=operator.counted if isinstance(operator, AveragePool) else (0, 0, 0, 0),
    )
    return LoweredNode(
        node=node,
        key=kernel_key("pool", program),
        program=program,
        schedule=lambda target: pool_cpu.schedule(target, program, window, parallel=True),
        tensors={"X": data.name, "Y": node.output},
    )


def _rows(node: Node, template: Literal["softmax", "reduction"], program: Program) -> LoweredNode:
    scheduled = rows_cpu.schedule if template == "softmax" else reduction_cpu.schedule
    return LoweredNode(
        node=node,
        key=kernel_key(template, program),
        program=program,
        schedule=lambda target: scheduled(target, program, parallel=True),
        tensors={"X": node.inputs[0], "Y": node.output},
    )


def _resize(graph: FloatGraph, node: Node, operator: Resize) -> LoweredNode:
    data, out = graph.tensors[node.inputs[0]], graph.tensors[node.output]
    _, _, height, width = data.shape
    outputs = (out.shape[2], out.shape[3])
    program = resize(
        outer=prod(data.storage) // (height * width * data.block),
        height=height,
        width=width,
        lanes=data.block,
        outputs=outputs,
        mode=operator.mode,
    )
    constants: dict[str, np.ndarray] = {}
    for axis, size, count, scale in zip("RC", (height, width), outputs, operator.scales, strict=True):
        table = axis_table(
            size,
            count,
            scale=scale,
            mode=operator.mode,
            coordinates=operator.coordinates,
            rounding=operator.rounding,
        )
        constants[f"{axis}I"] = table.first
        if operator.mode == "linear":
            constants[f"{axis}W"] = table.weight
    return LoweredNode(
        node=node,
        key=kernel_key("resize", program),
        program=program,
        schedule=lambda target: resize_cpu.schedule(target, program, parallel=True),
        tensors={"X": data.name, "Y": out.name},
        constants=constants,
    )


def _relayout(graph: FloatGraph, node: Node) -> LoweredNode:
    data, out = graph.tensors[node.inputs[0]], graph.tensors[node.output]
    batch, channels, *plane = data.shape
    program = relayout(
        batch=batch, channels=channels, plane=prod(plane), block_in=data.block, block_out=out.block
    )
    return LoweredNode(
        node=node,
        key=kernel_key("relayout", program),
        program=program,
        schedule=lambda target: relayout_cpu.schedule(target, program, parallel=True),
        tensors={"X": data.name, "Y": out.name},
    )


def _storage_beside(tensor: Tensor, out: Tensor) -> tuple[int, ...]:
    """How an input of an element-wise operator broadcasts against the output's storage."""
    if out.block == 1 or tensor.block > 1:
        return tensor.storage
    # The same for all channels: one lane serves all.
    return (*(1,) * (len(out.shape) - len(tensor.shape)), *tensor.shape, 1)

"""Convolutions and matrix products of real numbers as programs, with their weights and epilogues."""

from __future__ import annotations

from functools import partial

import numpy as np

from ...graph.graph import Graph, Node
from ...graph.operators import Convolution, Dense
from ...te.epilogue import Epilogue
from ...te.ops.conv_transpose import conv_transpose
from ...te.ops.convolution import Convolution as Shape
from ..lowered_node import LoweredNode, kernel_key
from . import conv2d_knobs as conv2d_cpu_knobs
from . import conv_transpose as conv_transpose_cpu
from .fused import Fused, fused
from .lowered import LoweredCpuNode, sketched
from .tasks import CPU
from .workload import Conv2dCpu, CpuWorkload, DenseCpu, DepthwiseCpu, Parts


def lower_convolution(graph: Graph, node: Node, operator: Convolution) -> LoweredCpuNode:
    """A convolution or transposed convolution, its weights in blocks of filters."""
    data, out = graph.tensors[node.inputs[0]], graph.tensors[node.output]
    batch, channels, height, width = data.shape
    filters = out.shape[1]
    window, groups = operator.window, operator.groups
    workload: CpuWorkload | None = None
    if operator.transposed:
        shape = Shape(
            batch=batch,
            channels=channels,
            height=height,
            width=width,
            filters=filters,
            window=window,
            groups=groups,
        )
        program = conv_transpose(
            shape,
            block_in=data.block,
            block_out=out.block,
            output_padding=operator.output_padding,
            epilogue=operator.epilogue,
        )
    else:
        height, width = conv2d_cpu_knobs.flattened(window, height, width)
        workload = Conv2dCpu(
            batch=batch,
            channels=channels,
            height=height,
            width=width,
            filters=filters,
            groups=groups,
            window=window,
            block_in=data.block,
            block_out=out.block,
            parts=Parts.of(operator.epilogue),
        )
        program = workload.program(operator.epilogue)
    shapes = {b.name: b.shape for b in program.parameters}
    weight = graph.constants[node.inputs[1]]
    arrays = {"W": _extended(weight.reshape(groups, filters // groups, *weight.shape[1:]), shapes["W"])}
    if operator.epilogue.bias:
        arrays["B"] = _extended(graph.constants[node.inputs[2]].reshape(groups, -1), shapes["B"])
    inside = filters // groups
    ends = fused(
        graph,
        node,
        program,
        inside=None if inside % out.block == 0 else lambda at: at[2] * out.block + at[5] < inside,
    )
    lowered = LoweredNode(
        node=node,
        key=kernel_key(program.name, ends.program),
        program=ends.program,
        schedule=(
            partial(CPU.schedule, workload=workload, program=ends.program)
            if workload is not None
            else lambda target: conv_transpose_cpu.schedule(target, ends.program, window, parallel=True)
        ),
        workload=workload,
        **_bound(graph, node, operator.epilogue, arrays, ends),
    )
    return sketched(lowered, "conv_transpose", window) if operator.transposed else lowered


def lower_depthwise(graph: Graph, node: Node, operator: Convolution) -> LoweredCpuNode:
    """A convolution of each channel by itself."""
    data = graph.tensors[node.inputs[0]]
    batch, channels, height, width = data.shape
    workload = DepthwiseCpu(
        batch=batch,
        channels=channels,
        height=height,
        width=width,
        window=operator.window,
        block=data.block,
        parts=Parts.of(operator.epilogue),
    )
    program = workload.program(operator.epilogue)
    shapes = {b.name: b.shape for b in program.parameters}
    weight = graph.constants[node.inputs[1]][:, 0].transpose(1, 2, 0)
    arrays = {"W": _extended(weight, shapes["W"])}
    if operator.epilogue.bias:
        arrays["B"] = _extended(graph.constants[node.inputs[2]], shapes["B"])
    block = data.block
    ends = fused(
        graph,
        node,
        program,
        inside=None if channels % block == 0 else lambda at: at[1] * block + at[4] < channels,
    )
    return LoweredNode(
        node=node,
        key=kernel_key("depthwise", ends.program),
        program=ends.program,
        schedule=partial(CPU.schedule, workload=workload, program=ends.program),
        workload=workload,
        **_bound(graph, node, operator.epilogue, arrays, ends),
    )


def lower_dense(graph: Graph, node: Node, operator: Dense) -> LoweredCpuNode:
    """A product by a constant matrix."""
    rows, depth = graph.tensors[node.inputs[0]].shape
    columns = graph.tensors[node.output].shape[1]
    workload = DenseCpu(rows=rows, depth=depth, columns=columns, parts=Parts.of(operator.epilogue))
    program = workload.program(operator.epilogue)
    arrays = {"W": graph.constants[node.inputs[1]]}
    if operator.epilogue.bias:
        arrays["B"] = graph.constants[node.inputs[2]]
    ends = fused(graph, node, program)
    return LoweredNode(
        node=node,
        key=kernel_key("dense", ends.program),
        program=ends.program,
        schedule=partial(CPU.schedule, workload=workload, program=ends.program),
        workload=workload,
        **_bound(graph, node, operator.epilogue, arrays, ends),
    )


def _bound(
    graph: Graph, node: Node, epilogue: Epilogue, constants: dict[str, np.ndarray], ends: Fused
) -> dict[str, dict]:
    """`tensors` and `constants` of a sum with an epilogue and what is fused; an operand may be either."""
    tensors = {"X": node.inputs[0], "Y": node.output, **ends.tensors}
    constants = {**constants, **ends.constants}
    if epilogue.operand:
        operand = node.inputs[2 + epilogue.bias]
        if operand in graph.constants:
            constants["R"] = graph.constants[operand]
        else:
            tensors["R"] = operand
    return {"tensors": tensors, "constants": constants}


def _extended(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The array with zeros behind it, along every axis."""
    return np.pad(array, [(0, size - old) for old, size in zip(array.shape, shape, strict=True)])

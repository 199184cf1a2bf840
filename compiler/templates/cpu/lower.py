"""From a node of the graph to a kernel's program: which tensor expression, which schedule, which arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Literal

import numpy as np

from ...graph.floating.assign_layouts import is_depthwise
from ...graph.graph import Graph, Node, Tensor
from ...graph.operators import (
    AveragePool,
    BatchNormalization,
    Concatenate,
    Convolution,
    Dense,
    Elementwise,
    Gather,
    Join,
    LstmSteps,
    MatrixProduct,
    MaxPool,
    Normalization,
    Permute,
    Reduction,
    Relayout,
    Remap,
    Reshape,
    Resize,
    Softmax,
)
from ...ir.expr import Expr
from ...ir.stmt import Program
from ...schedule import Schedule
from ...target.cpu.machine import CpuTarget
from ...te.blocks import Window
from ...te.ops.float_elementwise import float_elementwise
from ...te.ops.lstm import lstm_steps
from ...te.ops.movement import concat, gather, permute, remap
from ...te.ops.normalization import normalize
from ...te.ops.product import Matrices, product
from ...te.ops.reduction import Kind, reduction
from ...te.ops.relayout import relayout
from ...te.ops.resize import axis_table, resize
from ...te.ops.softmax import softmax
from ..lowered_node import LoweredNode, kernel_key
from . import elementwise as elementwise_cpu
from . import lstm as lstm_cpu
from . import matmul as matmul_cpu
from . import movement as movement_cpu
from . import reduction as reduction_cpu
from . import relayout as relayout_cpu
from . import resize as resize_cpu
from . import rows as rows_cpu
from .fused import fused, shapes_beside, storage_beside
from .lower_int8 import lower_int8_node
from .lower_sums import lower_convolution, lower_dense, lower_depthwise
from .lowered import LoweredCpuNode, sketched
from .tasks import CPU
from .workload import ElementwiseCpu, PoolCpu


def lower_node(target: CpuTarget, graph: Graph, node: Node) -> LoweredCpuNode | None:
    """The kernel of a node; None where it is a view and computes nothing.

    Those of templates that have a space, and for sums, softmax and normalization those of rules, have workloads
    (`tasks_cpu`). Neither is there for moves, which have nothing to choose but vectors, for resizing, whose indices are
    data, for the steps of an LSTM, which no rule can tile, and for integer operators.
    """
    match node.operator:
        case Reshape() | Join():
            return None
        case Convolution():
            if is_depthwise(node.operator, graph.tensors[node.inputs[1]]):
                return lower_depthwise(graph, node, node.operator)
            return lower_convolution(graph, node, node.operator)
        case MatrixProduct():
            return sketched(_matrix_product(graph, node), "matmul")
        case LstmSteps(steps=steps, directions=directions):
            _, _, batch, hidden = graph.tensors[node.output].shape
            program = lstm_steps(steps=steps, batch=batch, hidden=hidden, directions=directions)
            return _in_order(graph, node, program, lstm_cpu.schedule)
        case Permute(axes=axes):
            program = permute(graph.data_shape(node), axes, dtype=graph.tensors[node.output].dtype)
            return _in_order(graph, node, program, movement_cpu.schedule_permutation)
        case Concatenate(axis=axis):
            program = concat([graph.tensors[name].storage for name in node.own_inputs], axis)
            return _in_order(graph, node, program, movement_cpu.schedule)
        case Remap(runs=runs, fill=fill):
            program = remap(graph.data_shape(node), runs, fill=fill)
            return _in_order(graph, node, program, movement_cpu.schedule)
        case Gather(axis=axis, indices=indices):
            program = gather(graph.data_shape(node), axis, len(indices))
            return _moved(graph, node, program, {"I": np.array(indices, np.int64)})
        case Dense():
            return lower_dense(graph, node, node.operator)
        case Elementwise():
            return _elementwise(graph, node, node.operator)
        case MaxPool() | AveragePool():
            return _pool(target, graph, node, node.operator)
        case Softmax(axis=axis, logarithm=logarithm):
            width = rows_cpu.row_partials(target)
            program = softmax(graph.data_shape(node), axis, width=width, logarithm=logarithm)
            return sketched(_rows(graph, node, "softmax", program, statements=("scale",)), "softmax")
        case Normalization():
            return sketched(_normalization(target, graph, node, node.operator), "normalization")
        case Reduction(kind=kind, axes=axes):
            return sketched(_reduction(target, graph, node, kind, axes), "reduction")
        case Resize():
            return _resize(graph, node, node.operator)
        case Relayout():
            return _relayout(graph, node)
        case BatchNormalization():
            raise ValueError(f"{node.name}: the graph's passes leave no batch normalization")
        case operator:
            return lower_int8_node(graph, node, operator)


def _matrix_product(graph: Graph, node: Node) -> LoweredCpuNode:
    a, b = (graph.tensors[name].shape for name in node.own_inputs)
    beside = [graph.tensors[node.inputs[i]].shape[:-2] for i in node.operands(node.result)]
    # One batch at least, as the template has it.
    sizes = Matrices(batch_x=a[:-2] or (1,), batch_w=b[:-2], rows=a[-2], depth=a[-1], columns=b[-1])
    program = product(sizes, beside=beside, name="matmul")
    return _in_order(graph, node, program, matmul_cpu.schedule)


def _in_order(
    graph: Graph, node: Node, program: Program, template: Callable[..., Schedule]
) -> LoweredCpuNode:
    """A program whose parameters are the inputs of the node's operator and its outputs, in their order."""
    *inputs, _ = names = [p.name for p in program.parameters]
    if node.more_outputs:
        inputs = names[: -len(node.outputs)]
    ends = fused(graph, node, program)
    given = zip(inputs, node.own_inputs, strict=True) if node.data is None else ()
    bound = {**dict(given), **dict(zip(names[len(inputs) :], node.outputs, strict=True))}
    shapes = {p.name: p.shape for p in program.parameters}
    return LoweredNode(
        node=node,
        key=kernel_key(type(node.operator).__name__, ends.program),
        program=ends.program,
        schedule=lambda target: template(target, ends.program, parallel=True),
        tensors={p: name for p, name in bound.items() if name not in graph.constants} | ends.tensors,
        constants={
            p: graph.constants[name].reshape(shapes[p])
            for p, name in bound.items()
            if name in graph.constants
        }
        | ends.constants,
    )


def _moved(graph: Graph, node: Node, program: Program, constants: Mapping[str, np.ndarray]) -> LoweredCpuNode:
    """A move with constants of its own."""
    ends = fused(graph, node, program)
    data = {} if node.data is not None else {"X": node.inputs[0]}
    return LoweredNode(
        node=node,
        key=kernel_key(program.name, ends.program),
        program=ends.program,
        schedule=lambda target: movement_cpu.schedule(target, ends.program, parallel=True),
        tensors={**data, "Y": node.output, **ends.tensors},
        constants={**constants, **ends.constants},
    )


def _elementwise(graph: Graph, node: Node, operator: Elementwise) -> LoweredCpuNode:
    out = graph.tensors[node.output]
    rank = len(out.storage)
    shapes = [storage_beside(graph.tensors[name], rank, out.block) for name in node.inputs]
    program = float_elementwise(shapes, operator.body)
    try:
        workload = ElementwiseCpu.of(shapes, operator.body)
    except ValueError:
        # An expression too long to be written down: it has the defaults.
        workload = None
    parameters = dict(zip([p.name for p in program.parameters], (*node.inputs, node.output), strict=True))
    merged = {p.name: p.shape for p in program.parameters}
    return LoweredNode(
        node=node,
        key=kernel_key("elementwise", program),
        program=program,
        schedule=partial(CPU.schedule, workload=workload, program=program)
        if workload is not None
        else lambda target: elementwise_cpu.schedule(target, program, parallel=True),
        workload=workload,
        tensors={p: name for p, name in parameters.items() if name not in graph.constants},
        constants={
            p: graph.constants[name].reshape(merged[p])
            for p, name in parameters.items()
            if name in graph.constants
        },
    )


def _reduction(
    target: CpuTarget, graph: Graph, node: Node, kind: Kind, axes: tuple[int, ...]
) -> LoweredCpuNode:
    width = rows_cpu.row_partials(target)
    beside = shapes_beside(graph, node, axes)
    program = reduction(graph.data_shape(node), axes, kind, width=width, beside=beside)
    return _rows(graph, node, "reduction", program)


def _normalization(target: CpuTarget, graph: Graph, node: Node, operator: Normalization) -> LoweredCpuNode:
    shape = graph.data_shape(node)
    lead, size = shape[: operator.axis], prod(shape[operator.axis :])
    program = normalize(
        outer=lead[0] if operator.by_channel else prod(lead),
        channels=lead[1] if operator.by_channel else 1,
        size=size,
        epsilon=operator.epsilon,
        by="channel" if operator.by_channel else "row",
        bias=len(node.own_inputs) == 3,
        width=rows_cpu.row_partials(target),
    )
    return _in_order(graph, node, program, rows_cpu.schedule)


def _pool(
    target: CpuTarget,
    graph: Graph,
    node: Node,
    operator: MaxPool | AveragePool,
) -> LoweredCpuNode:
    out = graph.tensors[node.output]
    data = Tensor(name="data", shape=graph.data_shape(node), block=out.block)
    _, channels, height, width = data.shape
    window = operator.window
    if data.block == 1 and window == Window(kernel=(height, width)):
        # Rows of the input, which a pool's tiles of output positions would not read as such.
        kind = "max" if isinstance(operator, MaxPool) else "mean"
        return sketched(_reduction(target, graph, node, kind, (2, 3)), "reduction")
    workload = PoolCpu(
        outer=prod(data.storage) // (height * width * data.block),
        height=height,
        width=width,
        lanes=data.block,
        window=window,
        kind="max" if isinstance(operator, MaxPool) else "average",
        counted=operator.counted if isinstance(operator, AveragePool) else (0, 0, 0, 0),
    )
    program = workload.program()
    ends = fused(graph, node, program, inside=_channels_inside(channels, data.block))
    read = {} if node.data is not None else {"X": node.inputs[0]}
    return LoweredNode(
        node=node,
        key=kernel_key("pool", ends.program),
        program=ends.program,
        schedule=partial(CPU.schedule, workload=workload, program=ends.program),
        workload=workload,
        tensors={**read, "Y": node.output, **ends.tensors},
        constants=ends.constants,
    )


def _channels_inside(channels: int, block: int) -> Callable[[tuple[Expr, ...]], Expr] | None:
    """Which elements of [batch * blocks, ..., block] are channels; None where all are."""
    if channels % block == 0:
        return None
    blocks = -(-channels // block)
    return lambda at: at[0] % blocks * block + at[-1] < channels


def _rows(
    graph: Graph,
    node: Node,
    template: Literal["softmax", "reduction"],
    program: Program,
    statements: tuple[str, ...] = (),
) -> LoweredCpuNode:
    scheduled = rows_cpu.schedule if template == "softmax" else reduction_cpu.schedule
    ends = fused(graph, node, program, statements=statements)
    read = {} if node.data is not None else {"X": node.inputs[0]}
    return LoweredNode(
        node=node,
        key=kernel_key(template, ends.program),
        program=ends.program,
        schedule=lambda target: scheduled(target, ends.program, parallel=True),
        tensors={**read, "Y": node.output, **ends.tensors},
        constants=ends.constants,
    )


def _resize(graph: Graph, node: Node, operator: Resize) -> LoweredCpuNode:
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
    ends = fused(graph, node, program, inside=_channels_inside(data.shape[1], data.block))
    return LoweredNode(
        node=node,
        key=kernel_key("resize", ends.program),
        program=ends.program,
        schedule=lambda target: resize_cpu.schedule(target, ends.program, parallel=True),
        tensors={"X": data.name, "Y": out.name, **ends.tensors},
        constants={**constants, **ends.constants},
    )


def _relayout(graph: Graph, node: Node) -> LoweredCpuNode:
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

"""Runs a network node by node with the GPU kernels of its nodes, without a GPU: interpreted, emulated, or by a function
of the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import numpy as np

from vdla.compiler.codegen.cpu.kernel import build
from vdla.compiler.codegen.cpu.memory import aligned_copy
from vdla.compiler.codegen.cuda.emulate import emulate
from vdla.compiler.codegen.cuda.machine import GpuTarget, cuda_target
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.frontends.onnx.float_importer import import_float_model
from vdla.compiler.graph.graph import Graph
from vdla.compiler.graph.operators import Reshape
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.regions import write_regions
from vdla.compiler.ir.stmt import Program
from vdla.compiler.ir.verify import verify
from vdla.compiler.rewrites.floating.pipeline import graph_passes, run_graph_passes
from vdla.compiler.schedule.pack import pack_arrays
from vdla.compiler.te.functions import FUNCTIONS
from vdla.compiler.templates.gpu.lower import lower_cuda_node

Arrays = Mapping[str, np.ndarray]
Execute = Callable[[Program, Arrays], Arrays]
"""A function that runs a scheduled GPU program on its inputs and returns its outputs, by name."""


def interpreted(program: Program, arrays: Arrays) -> Arrays:
    """Runs a GPU program on `arrays` by the loop-IR interpreter: iterations in order, undefined memory poisoned.
    Returns its outputs by name.
    """
    verify(program)
    return interpret(program, dict(arrays), functions=FUNCTIONS, poison=True)


def emulated(program: Program, arrays: Arrays) -> Arrays:
    """Runs a GPU program on copies of `arrays` by emulation of blocks and threads, after all checks that precede code
    generation. Returns all its arrays by name.
    """
    prepared = prepare(program, cuda_target())
    outputs = {buffer.name for buffer in write_regions(program.body)}
    given = {
        p.name: aligned_copy(
            np.full(p.shape, 99, p.dtype.numpy) if p.name in outputs else arrays[p.name], p.shape
        )
        for p in program.parameters
    }
    build(emulate(prepared))(**given)
    return given


def gpu_graph(model: bytes, *, fusion: bool = True) -> Graph:
    """The float graph of a model for GPUs: tensors have ONNX's layouts, without channel blocks. `fusion`: whether the
    graph passes fuse operators.
    """
    return run_graph_passes(import_float_model(model), graph_passes(1, fusion=fusion))


def run_nodes(
    graph: Graph,
    feeds: Arrays,
    execute: Execute = interpreted,
    target: GpuTarget | None = None,
) -> dict[str, np.ndarray]:
    """The graph's outputs by name for the inputs `feeds` by name. `execute` runs the kernels of each node, scheduled
    for `target` (None: the default CUDA target).
    """
    target = target or cuda_target()
    values = {**graph.constants, **feeds}
    for node in graph.nodes:
        if isinstance(node.operator, Reshape):
            shape = graph.tensors[node.output].shape
            flat = values[node.inputs[0]].reshape(-1)[node.operator.offset :]
            values[node.output] = flat[: prod(shape)].reshape(shape)
            continue
        lowered = lower_cuda_node(target, graph, node)
        assert lowered is not None, node.operator
        schedule = lowered.schedule(target)
        shapes = {p.name: p.shape for p in lowered.program.parameters}
        outputs = {p: name for p, name in lowered.tensors.items() if name in node.outputs}
        arrays = {
            p: values[name].reshape(shapes[p]) for p, name in lowered.tensors.items() if p not in outputs
        }
        arrays |= pack_arrays(schedule.trace, lowered.constants)
        found = execute(schedule.program, arrays)
        for parameter, name in outputs.items():
            values[name] = found[parameter].reshape(graph.tensors[name].shape)
    return {output.name: values[output.tensor] for output in graph.outputs}

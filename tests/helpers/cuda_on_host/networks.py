"""Runs all kernels of a network as CUDA C++ in one program on the CPU, node after node; every tensor has its own
memory.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from vdla.compiler.codegen.cuda.machine import GpuTarget
from vdla.compiler.codegen.cuda.module import lower
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.graph.graph import Graph
from vdla.compiler.graph.operators import Reshape
from vdla.compiler.schedule.pack import pack_arrays
from vdla.compiler.templates.gpu.lower import lower_cuda_node

from .execute import run_jobs
from .jobs import HostLaunch, Job, Place, Tensor
from .modules import Arrays, job_of


def run_network(graph: Graph, feeds: Arrays, target: GpuTarget, *, orders: int = 2) -> dict[str, np.ndarray]:
    """The graph's outputs by name, computed by the nodes' default kernels on the CPU. Each kernel runs with `orders`
    different orders of its threads.
    """
    job = network_job(graph, feeds, target)
    result = run_jobs([job], orders=orders)[0]
    outputs = {output.name: graph.tensors[output.tensor] for output in graph.outputs}
    return {name: result[_root(graph, t.name)[0]].reshape(t.shape) for name, t in outputs.items()}


def network_job(graph: Graph, feeds: Arrays, target: GpuTarget) -> Job:
    """The job with all kernels of a network (each node's text in its own namespace) and all its tensors."""
    arrays: dict[str, np.ndarray] = {name: np.ascontiguousarray(array) for name, array in feeds.items()}
    texts: list[str] = []
    launches: list[HostLaunch] = []
    for number, node in enumerate(graph.nodes):
        if isinstance(node.operator, Reshape):
            continue
        node_of = lower_cuda_node(target, graph, node)
        assert node_of is not None, node.operator
        schedule = node_of.schedule(target)
        packed = pack_arrays(schedule.trace, node_of.constants)
        module = lower(prepare(schedule.program, target), target, name=f"kernel{number}")
        alone = job_of(module, packed)
        places: dict[str, Place] = {}
        for name, array in alone.arrays.items():
            assert isinstance(array, np.ndarray)
            if name in node_of.tensors:
                root, offset = _root(graph, node_of.tensors[name])
                tensor = graph.tensors[root]
                size = prod(tensor.shape)
                if root in graph.constants:
                    arrays.setdefault(root, graph.constants[root])
                arrays.setdefault(root, np.full(size, np.nan, np.float32).reshape(tensor.shape))
                places[name] = Place(array=root, offset=offset)
            else:
                places[name] = Place(array=f"{number}.{name}")
                arrays[f"{number}.{name}"] = array
        texts.append(f"namespace node_{number} {{\n{alone.source}\n}}")
        for launch in alone.launches:
            arguments = tuple([_moved(a, places) for a in launch.arguments])
            launches.append(
                HostLaunch(
                    function=f"node_{number}::{launch.function}",
                    grid=launch.grid,
                    block=launch.block,
                    shared_bytes=launch.shared_bytes,
                    arguments=arguments,
                )
            )
    return Job(source="\n".join(texts), launches=launches, arrays=arrays)


def _root(graph: Graph, name: str) -> tuple[str, int]:
    """The tensor whose memory a view uses, and the offset of the view in bytes; (`name`, 0) for other tensors."""
    for node in graph.nodes:
        if node.output == name and isinstance(node.operator, Reshape):
            root, offset = _root(graph, node.inputs[0])
            return root, offset + 4 * node.operator.offset
    return name, 0


Argument = str | Place | Tensor | int | float


def _moved(argument: Argument, places: dict[str, Place]) -> Argument:
    match argument:
        case Tensor(place=place):
            where = _moved(place, places)
            assert isinstance(where, Place)
            return replace(argument, place=where)
        case str():
            return places[argument]
        case Place(array=array, offset=offset):
            return Place(array=places[array].array, offset=places[array].offset + offset)
    return argument

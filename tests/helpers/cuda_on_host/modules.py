"""Lowers GPU programs from the loop IR to CUDA C++ and runs them on the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from vdla.compiler.codegen.cuda.bulk_copies import TensorMap
from vdla.compiler.codegen.cuda.machine import GpuTarget
from vdla.compiler.codegen.cuda.module import (
    Argument,
    CudaModule,
    IntegerArgument,
    ParameterArgument,
    TensorMapArgument,
    WorkspaceArgument,
    lower,
)
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.ir.stmt import Program

from .execute import run_jobs
from .jobs import HostLaunch, Job, Place, Tensor

Arrays = Mapping[str, np.ndarray]
_WORKSPACE = "(workspace)"


def run_modules(
    modules: Sequence[tuple[CudaModule, Arrays]], *, orders: int = 3, seconds: int = 60
) -> list[dict[str, np.ndarray]]:
    """The outputs of each module, by name. The arrays given for a module must include its inputs; missing arrays begin
    with all bytes 0xFF. `orders`, `seconds`: as for `run_jobs`.
    """
    results = run_jobs([job_of(m, arrays) for m, arrays in modules], orders=orders, seconds=seconds)
    return [
        {name: result[name] for name in module.outputs}
        for (module, _), result in zip(modules, results, strict=True)
    ]


def job_of(module: CudaModule, arrays: Arrays) -> Job:
    """The job that runs a module once: its text, launches and arrays."""
    given: dict[str, np.ndarray] = {}
    for parameter in module.parameters:
        dtype = parameter.dtype.numpy
        if parameter.name in arrays:
            array = np.asarray(arrays[parameter.name])
            assert array.dtype == dtype, (parameter, array.dtype)
        else:
            array = np.full(int(np.prod(parameter.shape)) * dtype.itemsize, 0xFF, np.uint8).view(dtype)
        given[parameter.name] = array.reshape(parameter.shape)
    given[_WORKSPACE] = np.full(module.workspace_bytes, 0xFF, np.uint8)
    launches = [
        HostLaunch(
            function=launch.function,
            grid=launch.grid,
            block=launch.block,
            shared_bytes=launch.shared_bytes,
            arguments=tuple(map(_argument, launch.arguments)),
        )
        for launch in module.launches
    ]
    return Job(source=module.source, launches=launches, arrays=given)


def _argument(argument: Argument) -> Place | Tensor | int:
    match argument:
        case IntegerArgument(value=value):
            return value
        case TensorMapArgument(array=array, tensor=tensor):
            return tensor_of(_place(array), tensor)
    return _place(argument)


def _place(array: ParameterArgument | WorkspaceArgument) -> Place:
    match array:
        case ParameterArgument(name=name):
            return Place(array=name)
        case WorkspaceArgument(offset=offset):
            return Place(array=_WORKSPACE, offset=offset)


def tensor_of(place: Place, tensor: TensorMap) -> Tensor:
    """The tensor map `tensor` at `place`, in the form of the CPU model."""
    return Tensor(
        place=place,
        element_bytes=tensor.element_bytes,
        shape=tensor.shape,
        box=tensor.box,
        swizzle=tensor.swizzle,
        rounds=tensor.rounds,
    )


def run_programs(
    programs: Sequence[tuple[Program, Arrays]], target: GpuTarget, *, orders: int = 3
) -> list[dict[str, np.ndarray]]:
    """The outputs of scheduled GPU programs, by name, after checks, code generation for `target` and a run on the CPU
    with `orders` different orders of threads.
    """
    modules = [(lower(prepare(program, target), target), arrays) for program, arrays in programs]
    return run_modules(modules, orders=orders)

"""Programs in kernel form, from the loop IR to what their CUDA C++ computes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import Program
from vdla.compiler.target.cuda.machine import CudaTarget
from vdla.compiler.target.cuda.module import (
    Argument,
    CudaModule,
    IntegerArgument,
    ParameterArgument,
    WorkspaceArgument,
    lower,
)

try:
    from vdla.compiler.target.cuda.prepare import prepare
except ImportError:
    prepare = None
from vdla.compiler.te.functions import FUNCTIONS

from .execute import HostLaunch, Place, run_source

_WORKSPACE = "(workspace)"


def run_module(
    module: CudaModule, arrays: Mapping[str, np.ndarray], *, orders: int = 3, seconds: int = 60
) -> dict[str, np.ndarray]:
    """The outputs of a module by name; `arrays` holds at least its inputs. Others begin as bytes 0xFF."""
    given: dict[str, np.ndarray] = {}
    for parameter in module.parameters:
        if parameter.name in arrays:
            array = np.asarray(arrays[parameter.name], parameter.dtype.numpy)
            given[parameter.name] = array.reshape(parameter.shape)
        else:
            size = int(np.prod(parameter.shape)) * parameter.dtype.bits // 8
            given[parameter.name] = (
                np.full(size, 0xFF, np.uint8).view(parameter.dtype.numpy).reshape(parameter.shape)
            )
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
    results = run_source(module.source, launches, given, orders=orders, seconds=seconds)
    return {name: results[name] for name in module.outputs}


def _argument(argument: Argument) -> str | Place | int:
    match argument:
        case ParameterArgument(name=name):
            return name
        case WorkspaceArgument(offset=offset):
            return Place(array=_WORKSPACE, offset=offset)
        case IntegerArgument(value=value):
            return value


def run_program(
    program: Program, target: CudaTarget, arrays: Mapping[str, np.ndarray], *, orders: int = 3
) -> dict[str, np.ndarray]:
    """The outputs of a program in kernel form, prepared, written as CUDA C++ and run on the CPU."""
    return run_module(lower(prepare(program, target), target, name="kernel"), arrays, orders=orders)


def interpreted(program: Program, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What the interpreter makes of it."""
    return interpret(program, dict(arrays), functions=FUNCTIONS)

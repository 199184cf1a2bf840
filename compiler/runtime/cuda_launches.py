"""Two forms of the launches of a network's kernels: device calls, whose arguments are addresses of device memory, and
JSON values in archives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from ..codegen.cuda.bulk_copies import TensorMap
from ..codegen.cuda.module import (
    Argument,
    CudaModule,
    IntegerArgument,
    KernelLaunch,
    ParameterArgument,
    TensorMapArgument,
    WorkspaceArgument,
)
from ..ir.expr import Buffer
from .archive_fields import Field
from .cuda_device import Argument as DeviceArgument
from .cuda_device import DeviceCall, TensorAt

_MOST_BLOCKS, _MOST_THREADS = 2**31 - 1, 1024
"""Largest number of blocks along one axis of a grid, and of threads along one axis of a block (CUDA C++ Programming
Guide, "Compute Capabilities").
"""
_MOST_SHARED_BYTES = 2**20
_MOST_AXES = 5
"""Largest number of axes of a tensor map (CUDA driver API, cuTensorMapEncodeTiled)."""


def kernel_calls(module: CudaModule, addresses: Mapping[str, int], workspace: int) -> Iterator[DeviceCall]:
    """The launches of a module in order. `addresses`: address of each parameter of the module, by name; `workspace`:
    address of the working memory.
    """

    def address(array: ParameterArgument | WorkspaceArgument) -> int:
        match array:
            case ParameterArgument(name=name):
                return addresses[name]
            case WorkspaceArgument(offset=offset):
                return workspace + offset

    def value(argument: Argument) -> DeviceArgument:
        match argument:
            case IntegerArgument(value=number):
                return np.int32(number)
            case TensorMapArgument(array=array, tensor=tensor):
                return TensorAt(address=address(array), tensor=tensor)
        return address(argument)

    for launch in module.launches:
        yield DeviceCall(launch=launch, arguments=tuple([value(argument) for argument in launch.arguments]))


def shared_bytes_of(module: CudaModule) -> dict[str, int]:
    """Maps the name of each kernel to the largest dynamic shared memory of its launches, in bytes."""
    most: dict[str, int] = {}
    for launch in module.launches:
        most[launch.function] = max(most.get(launch.function, 0), launch.shared_bytes)
    return most


def describe_kernel_launches(launches: Sequence[KernelLaunch]) -> list[dict[str, Any]]:
    """The launches as JSON values, from which `described_kernel_launches` makes them again."""
    return [asdict(launch) for launch in launches]


def described_kernel_launches(
    entry: Field, parameters: Sequence[Buffer], workspace_bytes: int
) -> tuple[KernelLaunch, ...]:
    """The launches that `describe_kernel_launches` described as the JSON list `entry`. `parameters` and
    `workspace_bytes` are those of the launches' module.

    Raises ArchiveError for an invalid list.
    """
    names = [parameter.name for parameter in parameters]
    return tuple(
        [
            KernelLaunch(
                function=launch.at("function").symbol(),
                grid=_three(launch.at("grid"), _MOST_BLOCKS),
                block=_three(launch.at("block"), _MOST_THREADS),
                shared_bytes=launch.at("shared_bytes").integer(0, _MOST_SHARED_BYTES),
                arguments=tuple(
                    [
                        _argument(argument, names, workspace_bytes)
                        for argument in launch.at("arguments").items()
                    ]
                ),
                overlaps=launch.at("overlaps").boolean(),
            )
            for launch in entry.items()
        ]
    )


def _three(entry: Field, most: int) -> tuple[int, int, int]:
    numbers = [number.integer(1, most) for number in entry.items()]
    if len(numbers) != 3:
        raise entry.fail(f"is {numbers}, but must be three numbers, along x, y and z")
    return numbers[0], numbers[1], numbers[2]


def _argument(entry: Field, names: Sequence[str], workspace_bytes: int) -> Argument:
    match entry.at("kind").one_of(("integer", "tensor_map", "parameter", "workspace")):
        case "integer":
            return IntegerArgument(value=entry.at("value").integer(-(2**31), 2**31 - 1))
        case "tensor_map":
            array = _array(entry.at("array"), names, workspace_bytes)
            return TensorMapArgument(array=array, tensor=_tensor_map(entry.at("tensor")))
    return _array(entry, names, workspace_bytes)


def _array(entry: Field, names: Sequence[str], workspace_bytes: int) -> ParameterArgument | WorkspaceArgument:
    if entry.at("kind").one_of(("parameter", "workspace")) == "parameter":
        return ParameterArgument(name=entry.at("name").one_of(names))
    return WorkspaceArgument(offset=entry.at("offset").integer(0, workspace_bytes))


def _tensor_map(entry: Field) -> TensorMap:
    shape, box = entry.at("shape").shape(), entry.at("box").shape()
    if not 1 <= len(shape) == len(box) <= _MOST_AXES:
        raise entry.fail(
            f"has a shape of {len(shape)} dimensions and a box of {len(box)}; they must have the same number, 1 to "
            f"{_MOST_AXES}"
        )
    return TensorMap(
        element_bytes=entry.at("element_bytes").integer(1, 8),
        shape=shape,
        box=box,
        swizzle=entry.at("swizzle").integer(0, 128),
        rounds=entry.at("rounds").boolean(),
    )

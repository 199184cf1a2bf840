"""Launches of kernels with the addresses of one network's memory, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..target.cuda.bulk_copies import TensorMap
from ..target.cuda.module import (
    Argument,
    CudaModule,
    IntegerArgument,
    KernelLaunch,
    ParameterArgument,
    TensorMapArgument,
    WorkspaceArgument,
)
from .cuda_device import Argument as DeviceArgument
from .cuda_device import TensorAt


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCall:
    """A `KernelLaunch` whose arguments are what the device takes."""

    function: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    arguments: tuple[DeviceArgument, ...]
    overlaps: bool


def kernel_calls(module: CudaModule, addresses: Mapping[str, int], workspace: int) -> Iterator[DeviceCall]:
    """The launches of a module in order; `addresses` of its parameters by name."""

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
        yield DeviceCall(
            function=launch.function,
            grid=launch.grid,
            block=launch.block,
            shared_bytes=launch.shared_bytes,
            arguments=tuple([value(argument) for argument in launch.arguments]),
            overlaps=launch.overlaps,
        )


def shared_bytes_of(module: CudaModule) -> dict[str, int]:
    """The most dynamic shared memory in bytes that a launch asks for, by the kernel's name."""
    most: dict[str, int] = {}
    for launch in module.launches:
        most[launch.function] = max(most.get(launch.function, 0), launch.shared_bytes)
    return most


def describe_kernel_launches(launches: Sequence[KernelLaunch]) -> list[dict[str, Any]]:
    """Launches for JSON."""
    return [asdict(launch) for launch in launches]


def described_kernel_launches(entries: Sequence[Mapping[str, Any]]) -> tuple[KernelLaunch, ...]:
    """The launches that `describe_kernel_launches` described."""
    return tuple(
        [
            KernelLaunch(
                function=entry["function"],
                grid=_three(entry["grid"]),
                block=_three(entry["block"]),
                shared_bytes=entry["shared_bytes"],
                arguments=tuple([_argument(argument) for argument in entry["arguments"]]),
                overlaps=entry["overlaps"],
            )
            for entry in entries
        ]
    )


def _three(numbers: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = numbers
    return x, y, z


def _argument(entry: Mapping[str, Any]) -> Argument:
    match entry["kind"]:
        case "integer":
            return IntegerArgument(**entry)
        case "tensor_map":
            tensor = entry["tensor"]
            lists = {name: tuple(tensor[name]) for name in ("shape", "box")}
            return TensorMapArgument(array=_array(entry["array"]), tensor=TensorMap(**{**tensor, **lists}))
    return _array(entry)


def _array(entry: Mapping[str, Any]) -> ParameterArgument | WorkspaceArgument:
    kinds = {"parameter": ParameterArgument, "workspace": WorkspaceArgument}
    return kinds[entry["kind"]](**entry)

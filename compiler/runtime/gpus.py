"""All kinds of GPUs by name. What drivers, the tuner and commands need to know of one is its `GpuKind`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..codegen.cuda.machine import CudaTarget
    from .cuda_archive import ArchiveKind
    from .cuda_device import Device, DeviceProperties


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """What one device is called, the member of archives that are for it, whether kernels can be emulated without one,
    and the module that holds its `KIND`."""

    device: str
    member: str
    emulated: bool
    module: str


GPUS: Mapping[str, Gpu] = MappingProxyType(
    {
        "cuda": Gpu(
            device="a GPU", member="kernels.cu", emulated=True, module="vdla.compiler.runtime.cuda_kind"
        ),
        "opencl": Gpu(
            device="an OpenCL device",
            member="kernels.cl",
            emulated=False,
            module="vdla.compiler.runtime.opencl_kind",
        ),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GpuKind:
    """How targets of a kind are read, opened, compiled and kept.

    `parse` reads a target as users write it, `on_device` the same on a device; both raise UserError. `target` is their
    type. `open` opens a device by its number. `compile` makes what a device loads of a module's text and its target
    (None: the text is what it loads); `check` says at once whether that is possible. `archive` says what files hold.
    """

    target: type[CudaTarget]
    parse: Callable[[str], CudaTarget]
    on_device: Callable[[str, DeviceProperties], CudaTarget]
    open: Callable[[int], Device]
    compile: Callable[[str, CudaTarget], bytes] | None
    check: Callable[[], object]
    archive: ArchiveKind


def gpu_kind(name: str) -> GpuKind:
    """The kind of this name, one of `GPUS`."""
    return import_module(GPUS[name].module).KIND


def kind_of(target: CudaTarget) -> GpuKind:
    """The kind that a target is of."""
    return gpu_kind(target.described["kind"])

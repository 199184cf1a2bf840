"""Registry of the kinds of GPUs (CUDA, OpenCL, WGSL, HIP) by name. Drivers, the tuner and commands use a kind through
its `GpuKind`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..codegen.cuda.machine import GpuTarget
    from .cuda_archive import ArchiveKind
    from .cuda_device import Device, DeviceProperties


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A kind of GPU. `device`: words for one device in messages. `member`: the archive member that marks archives of
    this kind. `emulated`: whether kernels can be emulated without a device. `module`: the module that holds its `KIND`.
    """

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
        "wgsl": Gpu(
            device="a device for WGSL",
            member="kernels.wgsl",
            emulated=False,
            module="vdla.compiler.runtime.wgsl_device",
        ),
        "hip": Gpu(
            device="an AMD GPU",
            member="kernels.hip",
            emulated=False,
            module="vdla.compiler.runtime.hip_kind",
        ),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GpuKind:
    """The functions and types of one kind of GPU.

    `parse` makes a target from the user's notation. `on_device` makes a target from the user's notation and the
    properties of a device. Both raise UserError for invalid notation. `target`: the class of targets. `open` opens a
    device by number. `compile` compiles a module's text for a target (None: devices compile the text themselves);
    `check` raises if the compiler is missing. `archive`: the format of archives.
    """

    target: type[GpuTarget]
    parse: Callable[[str], GpuTarget]
    on_device: Callable[[str, DeviceProperties], GpuTarget]
    open: Callable[[int], Device]
    archive: ArchiveKind
    compile: Callable[[str, GpuTarget], bytes] | None = None
    check: Callable[[], object] = lambda: None


def gpu_kind(name: str) -> GpuKind:
    """The kind of GPU with this name, one of `GPUS`."""
    return import_module(GPUS[name].module).KIND


def kind_of(target: GpuTarget) -> GpuKind:
    """The kind of GPU that runs code for `target`."""
    return gpu_kind(target.described["kind"])

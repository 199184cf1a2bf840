"""The backend of devices that run WGSL, by Vulkan, Metal or DirectX: the GPU kernels in WGSL, which wgpu compiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from vdla.util.errors import UserError

from ..codegen.cuda.machine import GpuTarget
from ..codegen.wgsl.machine import NAME
from ..runtime.cuda_network import check_device
from ..runtime.wgsl_device import KIND, ORDINAL
from .backend import CompileOptions
from .cuda import CudaBackend, CudaCompiler, CudaDevice
from .kernels import KernelNetwork


@dataclass(frozen=True)
class WgslCompiler(CudaCompiler):
    """The compiler of networks into files for the devices that the target `text` ("wgsl ...") names. See
    `kernels.KernelCompiler`.
    """

    archive = KIND.archive

    @cached_property
    def target(self) -> GpuTarget:
        """The description of the devices that `text` names."""
        return KIND.parse(self.text)

    def describe_target(self, target: GpuTarget) -> dict[str, Any]:
        """The limits for kernels: threads in a work-group and bytes of its memory."""
        return {"threads": target.threads_per_block, "local_bytes": target.shared_bytes_per_block}

    def archive_settings(self) -> Mapping[str, Any]:
        """The settings that determine an archive's bytes: the limits and estimates in the target's description."""
        return {"device": NAME, "target": asdict(self.target)}


@dataclass(frozen=True)
class WgslDevice(WgslCompiler, CudaDevice):
    """A device of this computer that runs WGSL. See `kernels.KernelDevice`."""

    @cached_property
    def target(self) -> GpuTarget:
        """The target `text`, completed by the device's limits where `text` sets none. Raises UserError if code for this
        target does not run on the device.
        """
        target = KIND.on_device(self.text, self.gpu.properties)
        check_device(self.gpu, target)
        return target

    def peaks(self, network: KernelNetwork) -> None:
        """None, because WebGPU does not report peak rates."""


@dataclass(frozen=True, slots=True)
class WgslBackend(CudaBackend):
    """The backend of devices that run WGSL, see `backend.Backend`."""

    name: str = NAME

    def compiler(self, options: CompileOptions) -> WgslCompiler:
        """The compiler of networks into archives, for any device that runs WGSL."""
        return WgslCompiler(options.target)

    def open(self, options: CompileOptions) -> WgslDevice:
        """A device of this computer. Raises UserError if there is none."""
        ordinal = options.device or "0"
        if not (ordinal.isdecimal() and ordinal.isascii()):
            raise UserError(f'device "{ordinal}": WGSL devices have numbers from 0 on')
        gpu = KIND.open(int(ordinal))
        return WgslDevice(text=options.target, gpu=gpu, device=f"{ORDINAL}{int(ordinal)}")


BACKEND = WgslBackend()

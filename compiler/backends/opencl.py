"""The backend of OpenCL devices of any maker: the GPU kernels in OpenCL C, which the device's own platform compiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from vdla.util.errors import UserError

from ..codegen.cuda.machine import GpuTarget
from ..codegen.opencl.machine import NAME
from ..runtime.cuda_network import check_device
from ..runtime.opencl_device import ORDINAL
from ..runtime.opencl_kind import KIND
from .backend import CompileOptions
from .cuda import CudaBackend, CudaCompiler, CudaDevice
from .kernels import KernelNetwork


@dataclass(frozen=True)
class OpenClCompiler(CudaCompiler):
    """The compiler of networks into files for the devices that the target `text` ("opencl ...") names. See
    `kernels.KernelCompiler`.
    """

    archive = KIND.archive

    @cached_property
    def target(self) -> GpuTarget:
        """The description of the devices that `text` names."""
        return KIND.parse(self.text)

    def describe_target(self, target: GpuTarget) -> dict[str, Any]:
        """The limits for kernels: threads in a group and bytes of local memory."""
        return {"threads": target.threads_per_block, "local_bytes": target.shared_bytes_per_block}

    def archive_settings(self) -> Mapping[str, Any]:
        """The settings that determine an archive's bytes: the limits and estimates in the target's description."""
        return {"device": NAME, "target": asdict(self.target)}


@dataclass(frozen=True)
class OpenClDevice(OpenClCompiler, CudaDevice):
    """An OpenCL device of this computer. See `kernels.KernelDevice`."""

    @cached_property
    def target(self) -> GpuTarget:
        """The target `text`, completed by the device's limits where `text` sets none. Raises UserError if code for this
        target does not run on the device.
        """
        target = KIND.on_device(self.text, self.gpu.properties)
        check_device(self.gpu, target)
        return target

    def peaks(self, network: KernelNetwork) -> None:
        """None, because OpenCL does not report peak rates."""


@dataclass(frozen=True, slots=True)
class OpenClBackend(CudaBackend):
    """The backend of OpenCL devices, see `backend.Backend`."""

    name: str = NAME

    def compiler(self, options: CompileOptions) -> OpenClCompiler:
        """The compiler of networks into archives, for any OpenCL device."""
        return OpenClCompiler(options.target)

    def open(self, options: CompileOptions) -> OpenClDevice:
        """A device of this computer. Raises UserError if there is none."""
        ordinal = options.device or "0"
        if not (ordinal.isdecimal() and ordinal.isascii()):
            raise UserError(f'device "{ordinal}": OpenCL devices have numbers from 0 on')
        gpu = KIND.open(int(ordinal))
        return OpenClDevice(text=options.target, gpu=gpu, device=f"{ORDINAL}{int(ordinal)}")


BACKEND = OpenClBackend()

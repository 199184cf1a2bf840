"""The backend of devices whose own platform compiles the text of kernels. These are OpenCL devices and WGSL devices of
any maker, and AMD GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from vdla.util.errors import UserError

from ..codegen.cuda.machine import GpuTarget
from ..runtime.cuda_archive import ArchiveKind
from ..runtime.cuda_network import check_device
from ..runtime.gpus import gpu_kind
from .backend import CompileOptions
from .cuda import CudaBackend, CudaCompiler, CudaDevice
from .kernels import KernelNetwork


@dataclass(frozen=True)
class WorkGroupCompiler(CudaCompiler):
    """The compiler of networks into files for the devices that the target `text` names. `kind`: the name of the kind of
    GPU, as in `runtime.gpus.GPUS`. See `kernels.KernelCompiler`.
    """

    kind: str

    @property
    def archive(self) -> ArchiveKind:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The kind of archive that `save` writes."""
        return gpu_kind(self.kind).archive

    @cached_property
    def target(self) -> GpuTarget:
        """The description of the devices that `text` names."""
        return gpu_kind(self.kind).parse(self.text)

    def describe_target(self, target: GpuTarget) -> dict[str, Any]:
        """The limits of a work-group: its largest number of threads, and its bytes of memory."""
        return {"threads": target.threads_per_block, "local_bytes": target.shared_bytes_per_block}

    def archive_settings(self) -> Mapping[str, Any]:
        """The settings that determine an archive's bytes: the kind of device, and the target's description."""
        return {"device": self.kind, "target": asdict(self.target)}


@dataclass(frozen=True)
class WorkGroupDevice(WorkGroupCompiler, CudaDevice):
    """A device of this computer that runs kernels in OpenCL C or WGSL. See `kernels.KernelDevice`."""

    @cached_property
    def target(self) -> GpuTarget:
        """The target that `text` names. Limits that `text` does not set are those of the device. Raises UserError if
        code for this target does not run on the device.
        """
        target = gpu_kind(self.kind).on_device(self.text, self.gpu.properties)
        check_device(self.gpu, target)
        return target

    def peaks(self, network: KernelNetwork) -> None:
        """None, because these platforms do not report peak rates."""


@dataclass(frozen=True, slots=True)
class WorkGroupBackend(CudaBackend):
    """The backend of one kind of devices, see `backend.Backend`. `called`: the name of the devices in messages, such as
    "AMD GPUs".
    """

    called: str = ""

    def compiler(self, options: CompileOptions) -> WorkGroupCompiler:
        """The compiler of networks into archives, for any device of this kind."""
        return WorkGroupCompiler(text=options.target, kind=self.name)

    def open(self, options: CompileOptions) -> WorkGroupDevice:
        """A device of this computer. Raises UserError if there is none."""
        ordinal = options.device or "0"
        if not (ordinal.isdecimal() and ordinal.isascii()):
            raise UserError(f'device "{ordinal}": the number of {self.called} must be 0 or more')
        number = int(ordinal)
        gpu = gpu_kind(self.name).open(number)
        return WorkGroupDevice(text=options.target, gpu=gpu, device=f"{self.name}:{number}", kind=self.name)

"""The functions and types of NVIDIA's GPUs (a `GpuKind`): NVRTC compiles kernels, cuda-core opens devices."""

from __future__ import annotations

from ..codegen.cuda.machine import GpuTarget
from ..codegen.cuda.nvrtc import compile_cubin, nvrtc_version
from ..codegen.cuda.options import parse_target
from . import cuda_core
from .cuda_archive import CUBINS
from .device_target import device_target
from .gpus import GpuKind

KIND = GpuKind(
    target=GpuTarget,
    parse=parse_target,
    on_device=device_target,
    open=lambda ordinal: cuda_core.open_device(ordinal),
    compile=lambda source, target: compile_cubin(source, target.compiled_for(source)),
    check=nvrtc_version,
    archive=CUBINS,
)

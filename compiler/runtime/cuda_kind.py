"""The functions and types of NVIDIA's GPUs (a `GpuKind`): NVRTC compiles kernels, cuda-core opens devices."""

from __future__ import annotations

from dataclasses import replace

from ..codegen.cuda.machine import GpuTarget, architecture_for
from ..codegen.cuda.nvrtc import compile_cubin, nvrtc_version
from ..codegen.cuda.options import ARCH, parse_target
from . import cuda_core
from .cuda_archive import CUBINS
from .cuda_device import DeviceProperties
from .gpus import GpuKind


def device_target(text: str, properties: DeviceProperties) -> GpuTarget:
    """The target that `text` ("cuda ...") names, with the properties of a device. If `text` has no -arch, the target
    has the newest architecture whose code runs on the device.

    Raises CudaTargetError for invalid text.
    """
    target = parse_target(text)
    if not any(word.partition("=")[0] == ARCH for word in text.split()):
        newest = architecture_for(properties.capability).name
        target = parse_target(f"{text} {ARCH}={newest}")
    return replace(
        target,
        card=properties.name,
        multiprocessors=properties.multiprocessors,
        shared_bytes_per_block=min(target.shared_bytes_per_block, properties.shared_bytes_per_block),
        clock=float(properties.clock_hz),
        memory_bandwidth=float(properties.memory_bandwidth or target.memory_bandwidth),
        cache_bytes=properties.cache_bytes,
    )


KIND = GpuKind(
    target=GpuTarget,
    parse=parse_target,
    on_device=device_target,
    open=lambda ordinal: cuda_core.open_device(ordinal),
    compile=lambda source, target: compile_cubin(source, target.compiled_for(source)),
    check=nvrtc_version,
    archive=CUBINS,
)

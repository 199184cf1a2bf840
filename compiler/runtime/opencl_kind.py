"""The functions and types of OpenCL devices (a `GpuKind`): their code is the kernels' text, which the device's platform
compiles.
"""

from __future__ import annotations

from ..codegen.opencl.machine import NAME, Limits, OpenClTarget, of_device, parse_target
from .cuda_archive import ArchiveKind, read_target
from .cuda_device import DeviceProperties
from .gpus import GpuKind
from .opencl_device import open_device

TEXTS = ArchiveKind(
    code="kernels.cl",
    text=None,
    target=lambda fields: read_target(
        fields, OpenClTarget, [NAME], work_items=fields.at("work_items").integer(1)
    ),
    description="network compiled for OpenCL devices",
)


def device_target(text: str, properties: DeviceProperties) -> OpenClTarget:
    """The target that `text` ("opencl ...") names, with the device's limits where `text` sets none."""
    return of_device(
        text=text,
        name=properties.name,
        units=properties.multiprocessors,
        own=Limits(threads=properties.threads_per_block, local_bytes=properties.shared_bytes_per_block),
        clock=float(properties.clock_hz),
    )


KIND = GpuKind(
    target=OpenClTarget,
    parse=parse_target,
    on_device=device_target,
    open=open_device,
    compile=None,
    check=lambda: None,
    archive=TEXTS,
)

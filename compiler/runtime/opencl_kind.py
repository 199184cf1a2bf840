"""The functions and types of OpenCL devices (a `GpuKind`). The code of a network is the kernels' text, which the
platform of the device compiles.
"""

from __future__ import annotations

from dataclasses import replace

from ..codegen.opencl.machine import NAME, OpenClTarget, opencl_target, parse_target
from ..codegen.opencl.work_groups import device_limits, parse_limits
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
    own = device_limits(properties.threads_per_block, properties.shared_bytes_per_block)
    target = opencl_target(parse_limits(text, NAME, own))
    clock, units = float(properties.clock_hz) or target.clock, properties.multiprocessors
    return replace(target, card=properties.name, multiprocessors=units, clock=clock)


KIND = GpuKind(
    target=OpenClTarget,
    parse=parse_target,
    on_device=device_target,
    open=open_device,
    archive=TEXTS,
)

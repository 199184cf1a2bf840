"""The backend of devices that run WGSL, by Vulkan, Metal or DirectX: the GPU kernels in WGSL, which wgpu compiles."""

from __future__ import annotations

from ..codegen.wgsl.machine import NAME
from .work_groups import WorkGroupBackend

BACKEND = WorkGroupBackend(name=NAME, called="WGSL devices")

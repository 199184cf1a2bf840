"""The backend of devices that run WGSL through Vulkan, Metal or DirectX. Kernels are written in WGSL, and wgpu compiles
them.
"""

from __future__ import annotations

from ..codegen.wgsl.machine import NAME
from .work_groups import WorkGroupBackend

BACKEND = WorkGroupBackend(name=NAME, called="WGSL devices")

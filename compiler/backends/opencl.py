"""The backend of OpenCL devices of any maker: the GPU kernels in OpenCL C, which the device's own platform compiles."""

from __future__ import annotations

from ..codegen.opencl.machine import NAME
from .work_groups import WorkGroupBackend

BACKEND = WorkGroupBackend(name=NAME, called="OpenCL devices")

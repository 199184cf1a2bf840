"""The backend of OpenCL devices of any maker. Kernels are written in OpenCL C, and the device's own platform compiles
them.
"""

from __future__ import annotations

from ..codegen.opencl.machine import NAME
from .work_groups import WorkGroupBackend

BACKEND = WorkGroupBackend(name=NAME, called="OpenCL devices")

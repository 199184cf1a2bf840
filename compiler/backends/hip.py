"""The backend of AMD GPUs: the kernels as text in HIP C++, which hipcc compiles elsewhere."""

from __future__ import annotations

from ..codegen.hip.machine import NAME
from .work_groups import WorkGroupBackend

BACKEND = WorkGroupBackend(name=NAME, called="AMD GPUs")

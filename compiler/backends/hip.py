"""The backend of AMD GPUs. It writes kernels as text in HIP C++; hipcc must compile the text on another computer."""

from __future__ import annotations

from ..codegen.hip.machine import NAME
from .work_groups import WorkGroupBackend

BACKEND = WorkGroupBackend(name=NAME, called="AMD GPUs")

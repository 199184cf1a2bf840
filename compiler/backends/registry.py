"""All backends, by the first word of their target strings; a backend's module is imported at its first use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType

from vdla.util.errors import UserError

from ..runtime.gpus import GPUS
from .backend import Backend, KernelBackend

BACKENDS: Mapping[str, str] = MappingProxyType(
    {
        "vdla": "vdla.compiler.backends.vdla",
        "llvm": "vdla.compiler.backends.llvm",
        "cuda": "vdla.compiler.backends.cuda",
        "opencl": "vdla.compiler.backends.opencl",
        "wgsl": "vdla.compiler.backends.wgsl",
        "hip": "vdla.compiler.backends.hip",
        "vdla,llvm": "vdla.compiler.backends.divided",
    }
)
"""Maps the first word of a target to the name of the module whose variable `BACKEND` is the target's backend."""


def gpu_of(path: Path) -> str | None:
    """The kind of GPU (a key of `GPUS`) that an archive is for; None for other files, and for unreadable ones."""
    from ..runtime.archive import first_member

    names = {gpu.member: name for name, gpu in GPUS.items()}
    member = first_member(path, names)
    return None if member is None else names[member]


def kernel_backend(target: str) -> KernelBackend:
    """The backend of a target that runs networks kernel by kernel. Raises UserError for other targets."""
    backend = backend_of(target)
    if not isinstance(backend, KernelBackend):
        raise UserError(
            f'target "{target}": this target runs whole programs, not single kernels; name a processor or a GPU'
        )
    return backend


def backend_of(target: str, device: str | None = None) -> Backend:
    """The backend of a target such as "llvm -mcpu=..." or "vdla,llvm".

    `device`: the device for the target's code, None for the first. Raises UserError for an unknown target, and for a
    `device` if the target is no GPU.
    """
    name = ",".join(part.split()[0] for part in re.split(r",(?=\s*(?:vdla|llvm)\b)", target) if part.split())
    if name not in BACKENDS:
        raise UserError(f'target "{target}" is unknown; choose one of {", ".join(BACKENDS)}')
    if device is not None and name not in GPUS:
        raise UserError(
            f"device {device}: is for GPUs; leave it out, or name the target of a GPU, such as cuda"
        )
    return import_module(BACKENDS[name]).BACKEND

"""The `GpuKind` of AMD GPUs. The code of its networks is HIP text, which the user compiles elsewhere with AMD's
compiler; no device can be opened here.
"""

from __future__ import annotations

from typing import NoReturn

from vdla.util.errors import UserError

from ..codegen.hip.machine import NAME, HipTarget, parse_target
from .cuda_archive import ArchiveKind, read_target
from .gpus import GpuKind

TEXTS = ArchiveKind(
    code="kernels.hip",
    text=None,
    target=lambda fields: read_target(
        fields, HipTarget, [NAME], work_items=fields.at("work_items").integer(1)
    ),
    description="network as HIP kernels",
)


def no_device(number: int) -> NoReturn:
    """Raises UserError, which says that no AMD GPU can be opened here and that only kernel texts can be written."""
    raise UserError(
        f'target "{NAME}": HIP kernels can be written but not run; write them with `vdla compile MODEL.onnx --target '
        f"{NAME} -o FILE.tar`, and compile its kernels.hip with hipcc"
    )


KIND = GpuKind(
    target=HipTarget,
    parse=parse_target,
    on_device=lambda text, _: parse_target(text),
    open=no_device,
    archive=TEXTS,
)

"""The table of templates for GPUs."""

from __future__ import annotations

from ...codegen.cuda.machine import GpuTarget
from ..registry import Registry
from ..template import table_of
from . import (
    conv2d,
    conv2d_direct,
    conv_transpose,
    depthwise,
    elementwise,
    gemm,
    gemm_mma,
    gemm_wgmma,
    gemv,
    generic,
    pool,
    rows_space,
    winograd,
)
from .workload import CudaWorkload, workload_from_dict

GPU: Registry[GpuTarget, CudaWorkload] = Registry(
    named=table_of(
        gemm.TUNED.template,
        gemv.TUNED.template,
        gemm_mma.TUNED.template,
        gemm_wgmma.TUNED.template,
        conv2d.TUNED.template,
        conv2d_direct.TUNED.template,
        winograd.TUNED.template,
        conv_transpose.TEMPLATE,
        depthwise.TUNED.template,
        pool.TUNED.template,
        elementwise.TUNED.template,
        generic.TUNED.template,
        rows_space.TUNED.template,
    ).__getitem__,
    read=workload_from_dict,
)
"""The templates of GPUs by name; their costs are in seconds."""

"""Matrix products on a GPU: tiles in shared memory; for few rows, each element of the matrix is read once, directly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ...codegen.cuda.machine import GpuTarget
from ...ir.stmt import Program
from ...schedule import Schedule
from . import gemm_mma, gemm_wgmma, gemm_wgmma_knobs, gemv
from .gemm_cost import choose_tile, problem_of
from .tensor_float import is_rounded
from .tile import Tile, schedule_tile
from .workload import CudaTemplate

Knobs: TypeAlias = Tile | gemv.Knobs | gemm_mma.Knobs | gemm_wgmma_knobs.Knobs
"""Knobs of the four kinds of product kernels: tiles on CUDA cores, few rows, mma, wgmma."""


def choose_knobs(target: GpuTarget, program: Program, constants: Sequence[str] = ()) -> Knobs:
    """Default knobs for any program with the stages of `te.ops.product`; `constants` as in `schedule`."""
    if gemm_wgmma.applies(target, program, constants):
        return gemm_wgmma.default_knobs(target, program, constants)
    if is_rounded(program) or (gemm_mma.is_half(program) and target.has("mma")):
        return gemm_mma.choose_knobs(target, gemm_mma.described(program))
    problem = problem_of(program)
    if problem.rows <= gemv.MOST_ROWS:
        return gemv.choose_knobs(target, problem)
    return choose_tile(target, problem)


def schedule(
    target: GpuTarget, program: Program, knobs: Knobs | None = None, *, constants: Sequence[str] = ()
) -> Schedule:
    """`te.ops.product` scheduled with `knobs` (default: `choose_knobs`).

    Factors rounded to tf32 (`tensor_float`), and factors of 16 bits, are multiplied on tensor cores. `constants`:
    parameters, X or W, that are packed ahead by `schedule.pack.pack_arrays`; X is packed for tiles only.
    """
    knobs = knobs or choose_knobs(target, program, constants)
    if isinstance(knobs, Tile):
        return schedule_tile(program, knobs, constants)
    if isinstance(knobs, gemm_wgmma_knobs.Knobs):
        return gemm_wgmma.schedule(target, program, knobs, constants=constants)
    if isinstance(knobs, gemm_mma.Knobs):
        return gemm_mma.schedule(target, program, knobs, constants=constants)
    return gemv.schedule_rows(program, knobs, [name for name in constants if name == "W"])


def template_of(target: GpuTarget, program: Program, constants: Sequence[str] = ()) -> CudaTemplate:
    """The template of the default knobs of a float32 product."""
    if is_rounded(program):
        return "gemm_wgmma_cuda" if gemm_wgmma.applies(target, program, constants) else "gemm_mma_cuda"
    return "gemv_cuda" if problem_of(program).rows <= gemv.MOST_ROWS else "gemm_cuda"

"""The space of convolutions as gathered products on a GPU: that of `gemm_space`, with what gathering takes."""

from __future__ import annotations

from dataclasses import replace

from ...ir.stmt import Program
from ...target.cuda.machine import CudaTarget
from ..space import Space, Values
from . import gemm_space
from .conv2d import choose_knobs, problem_of
from .tile import Tile


def space(target: CudaTarget, program: Program) -> Space:
    """The space of `te.ops.gemm_conv2d`, as `conv2d.schedule` takes it; costs are seconds."""
    return replace(gemm_space.space_of(target, problem_of(program)), template="conv2d_cuda")


def knobs_of(target: CudaTarget, program: Program, values: Values) -> Tile:
    """The tile of a point's values."""
    return gemm_space.tile_at(problem_of(program), values)


def default_values(target: CudaTarget, program: Program) -> dict[str, int]:
    """The point of `conv2d.choose_knobs`."""
    return gemm_space.values_of(choose_knobs(target, program))

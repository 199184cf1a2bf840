"""The space of Winograd's method on a GPU: that of its products, by `gemm_space`.

A program's tiles of outputs have their size already: each size is a way to compute a convolution, with a space of its
own.
"""

from __future__ import annotations

from dataclasses import replace
from math import isqrt

from ...ir.stmt import Program
from ...target.cuda.machine import CudaTarget
from ...te.ops.winograd import TAPS
from ..space import Space, Values
from . import gemm_space
from .gemm_account import choose_tile
from .winograd import Knobs, problem_of


def space(target: CudaTarget, program: Program) -> Space:
    """The space of the products of a `te.ops.winograd`, whose tiles have their size; costs are seconds.

    The estimate is that of the products: the transforms take as long at every point.
    """
    return replace(gemm_space.space_of(target, problem_of(program)), template="winograd_cuda")


def knobs_of(target: CudaTarget, program: Program, values: Values) -> Knobs:
    """The knobs of a point of `space`."""
    problem = problem_of(program)
    # A product for every element of a tile of inputs.
    return Knobs(m=isqrt(problem.batch) + 1 - TAPS, tile=gemm_space.tile_at(problem, values))


def default_values(target: CudaTarget, program: Program) -> dict[str, int]:
    """The point of `gemm_account.choose_tile`."""
    return gemm_space.values_of(choose_tile(target, problem_of(program)))

"""Convolutions on a GPU as products of two matrices: the weights, and a matrix whose tiles are gathered from the input
into shared memory.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from ...codegen.cuda.machine import GpuTarget
from ...ir.expr import Const
from ...ir.stmt import Copy, Program
from ...ir.visit import path_to
from ...schedule import Schedule
from . import gemm, gemm_cost
from .gemm_cost import GATHER_INSTRUCTIONS, SPREAD_GATHER_INSTRUCTIONS, Problem, choose_tile
from .tile import VECTOR, Tile, schedule_tile
from .workload import CudaTemplate

MOST_BLOCK = 32
"""Largest number of channels in a block of the summation order: the depth of the deepest tile (`gemm_cost.DEPTHS`)."""


def channel_block(channels: int) -> int:
    """Number of consecutive channels that are summed for one tap before the next tap (`te.ops.gathered_product.Depth`),
    for a convolution over `channels`.

    A tile whose depth divides this number gathers a single tap. The number divides `channels`, so that no product is
    padding.
    """
    return gcd(channels, MOST_BLOCK)


def choose_knobs(target: GpuTarget, program: Program) -> Tile:
    """The knobs that `schedule` uses by default for `program`, of any shape."""
    return choose_tile(target, problem_of(program))


def schedule(target: GpuTarget, program: Program, knobs: Tile | None = None) -> Schedule:
    """Schedules a program of `te.ops.gemm_convolution` with `knobs` (default: `choose_knobs`); W is packed ahead into
    tiles (`schedule.pack`).

    Factors rounded to tf32 (`tensor_float`), and factors of 16 bits, are multiplied on tensor cores, with the default
    knobs of `gemm`.
    """
    if knobs is None and gemm.on_tensor_cores(target, program):
        return gemm.schedule(target, program, constants=("W",))
    return schedule_tile(program, knobs or choose_knobs(target, program), constants=("W",))


def template_of(target: GpuTarget, program: Program) -> CudaTemplate:
    """The name of the template that `schedule` uses by default."""
    if gemm.on_tensor_cores(target, program):
        return gemm.template_of(target, program, ("W",))
    return "conv2d_cuda"


def problem_of(program: Program, tag: str = "") -> Problem:
    """The sizes of the matrix product in a program; `tag`: suffix of the names of the product's stages."""
    copy = path_to(program, f"b{tag}")[-1]
    assert isinstance(copy, Copy)
    if any(extent != Const(1) for extent in copy.destination.extents):
        return gemm_cost.problem_of(program, tag=tag)
    # X is [batch, groups, channels of a group, ...].
    return gemm_cost.problem_of(program, gather_instructions(copy.source.buffer.shape[2]), tag)


def gather_instructions(channels: int) -> float:
    """Instructions of a thread for each element that it gathers from an input of `channels` channels
    (`Problem.copy_instructions`).
    """
    return SPREAD_GATHER_INSTRUCTIONS if channel_block(channels) < VECTOR else GATHER_INSTRUCTIONS


def gathered_problem(*, filters: int, positions: int, channels: int, taps: int) -> Problem:
    """The sizes of a convolution with one group when computed as a matrix product on gathered inputs, for comparison
    with other methods. `positions`: output positions of all images; `taps`: elements of the window.
    """
    return Problem(
        rows=filters,
        columns=positions,
        depth=channels * taps,
        copy_instructions=gather_instructions(channels),
    )


TUNED = replace(gemm.TUNED, name="conv2d_cuda", sizes=lambda workload: problem_of(workload.expression))

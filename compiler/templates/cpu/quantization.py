"""Conversions between the host's tensors and quantized activations on a CPU, in vectors of contiguous elements."""

from __future__ import annotations

from ...codegen.cpu.machine import CpuTarget
from ...ir.stmt import Program
from ...ir.types import DType
from ...schedule import Schedule
from .loops import parallel_grains, peel_ragged, vectorize_loop


def schedule_store(target: CpuTarget, program: Program, *, parallel: bool = False) -> Schedule:
    """Schedules `te.ops.quantization.store_activation` in vectors of positions, or of channels if there are few
    positions.

    `parallel`: chunks run on the threads of the kernel's pool.
    """
    batch, blocks, plane, block = program.parameters[-1].shape
    lanes = target.lanes(DType.FLOAT32)
    s = Schedule(program)
    if plane < lanes:
        s.vectorize("j")
        around, work = [("n", batch), ("o", blocks), ("p", plane)], block
    else:
        outer, inner = s.split("p", lanes)
        s.reorder("n", "o", outer, "j", inner)
        s.unroll("j")
        s.vectorize(inner)
        peel_ragged(s, outer)
        around, work = [("n", batch), ("o", blocks), (outer, plane // lanes)], block * lanes
    if parallel:
        parallel_grains(s, around, work)
    return s


def schedule_load(target: CpuTarget, program: Program, *, parallel: bool = False) -> Schedule:
    """Schedules `te.ops.quantization.load_activation` in vectors of positions, or of channels if there is only one
    position.

    `parallel`: chunks run on the threads of the kernel's pool.
    """
    batch, channels, plane = program.parameters[-1].shape
    block = program.parameters[0].shape[-1]
    s = Schedule(program)
    if plane == 1:
        outer, lane = s.split("o", block)
        s.reorder("n", outer, "p", lane)
        s.vectorize(lane)
        peel_ragged(s, outer)
        return s
    vectorize_loop(s, target, "p", plane, 1)
    if parallel:
        parallel_grains(s, [("n", batch), ("o", channels)], plane)
    return s

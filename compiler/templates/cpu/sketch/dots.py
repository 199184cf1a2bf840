"""Sums of products of uint8 and int8 that the dot product instruction of a processor adds, four terms at a time."""

from __future__ import annotations

from ....codegen.cpu.intrinsics import DOT_DEPTH, DOT_LANES, dot_u8s8
from ....codegen.cpu.machine import CpuTarget
from ....ir.expr import Const
from ....ir.stmt import For
from ....ir.types import DType
from ....schedule import Schedule
from ..loops import parts_of
from .nests import lanes_of
from .stages import Axle, Sum


def dot_loop(target: CpuTarget, summed: Sum, lane: Axle) -> str:
    """The reduction loop of which the instruction adds `DOT_DEPTH` iterations at a time, for all iterations of `lane`
    at once; "" if the instruction does not fit the sum. One factor must be uint8 data, equal for all lanes, the other
    one int8 weights, and both contiguous along the loop.
    """
    long = [term for term in summed.terms if term.size > 1]
    if not target.dot_product or not long or lane.size > min(DOT_LANES, lanes_of(target, summed.bits)):
        return ""
    if sorted(read.dtype.value for read in summed.reads) != sorted((DType.UINT8.value, DType.INT8.value)):
        return ""
    name, whole = long[-1].name, long[-1].size % DOT_DEPTH == 0
    fits = [
        read.stride(name) == 1 and (lane.inner in read.loops()) == (read.dtype is DType.INT8)
        for read in summed.reads
    ]
    return name if whole and all(fits) else ""


def tensorize_dots(s: Schedule, lane: Axle) -> None:
    """Replaces the loops over lanes around `DOT_DEPTH` terms with the instruction."""
    for loop in parts_of(s, lane.inner):
        if isinstance(loop.body, For) and loop.body.extent == Const(DOT_DEPTH):
            s.tensorize(loop.name, dot_u8s8(lane.size))

"""prefetch: hints to load data that a loop reads later, so that its arithmetic does not wait for memory."""

from __future__ import annotations

from math import prod

from ..ir.bounds import loop_range, loop_ranges
from ..ir.expr import Buffer, Const
from ..ir.printer import format_region
from ..ir.regions import read_regions
from ..ir.stmt import For, Intrinsic, IntrinsicDeclaration, Program, Seq, seq
from ..ir.types import DType
from .errors import LegalityError
from .memory import check_inside
from .tree import locate_loop, rebuild

PREFIX, AHEAD = "prefetch_", "ahead"


def prefetch_declaration(dtype: DType, shape: tuple[int, ...], scope: str) -> IntrinsicDeclaration:
    """The intrinsic of a prefetch of a contiguous box of elements; it has no effect on values, only on run time."""
    data = Buffer(name="data", shape=shape, dtype=dtype, scope=scope)
    return IntrinsicDeclaration(
        name=f"{PREFIX}{dtype}_{prod(shape)}", parameters=(data,), body=Seq(statements=())
    )


def prefetch(program: Program, loop: str, buffer: str, ahead: int) -> Program:
    """In every iteration of a loop, prefetches the memory `ahead` bytes after the box (rectangle of elements) of
    `buffer` that the iteration reads.

    rewrite:
        for k in range(64):                  for k in range(64):
            body(k), which reads W[k, 0:16]  ->  prefetch_float32_16(W[k:k + 1, 0:16]) ahead=4096
                                                 body(k)
    The region is the box that the body reads; the prefetched addresses may be outside of the buffer, which is harmless.
    Legal if the loop is serial, unrolled or parallel, and not inside a vectorized loop. The buffer must be a parameter
    or be allocated outside of the loop. The body must read a box of constant size, inside the buffer and contiguous in
    memory.
    """
    path, old = locate_loop(program, loop)
    if old.kind not in ("serial", "unroll", "parallel") or any(
        isinstance(n, For) and n.kind == "vectorize" for n in path[:-1]
    ):
        raise LegalityError(f"cannot prefetch in {loop}: its iterations are lanes of a vector", program, loop)
    ranges = loop_ranges(n for n in path[:-1] if isinstance(n, For))
    ranges[old.name] = loop_range(old.extent)
    found = next(
        (r for b, r in read_regions(old.body, ranges=ranges, only=buffer).items() if b.name == buffer), None
    )
    if found is None:
        raise LegalityError(f"cannot prefetch {buffer}: {loop} does not read it", program, loop)
    if not all(isinstance(extent, Const) for extent in found.extents):
        reason = (
            f"cannot prefetch {format_region(found)}: its size is not constant (peel separates a ragged end)"
        )
        raise LegalityError(reason, program, loop)
    sizes = [int(extent.value) for extent in found.extents if isinstance(extent, Const)]
    first = next((d for d, size in enumerate(sizes) if size > 1), len(sizes))
    if sizes[first + 1 :] != list(found.buffer.shape[first + 1 :]):
        reason = f"cannot prefetch {format_region(found)}: it is not contiguous in memory"
        raise LegalityError(reason, program, loop)
    check_inside(program, found, ranges, loop, "prefetch")
    hint = Intrinsic(
        name=f"{loop}.{buffer}.prefetch",
        declaration=prefetch_declaration(
            found.buffer.dtype, tuple(sizes[first:]) or (1,), found.buffer.scope
        ),
        operands=(found,),
        attributes=((AHEAD, ahead),),
    )
    body = seq(hint, old.body)
    return rebuild(path, For(var=old.var, extent=old.extent, body=body, kind=old.kind))

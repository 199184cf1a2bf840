"""Loads and stores for vectorized loops whose lanes access elements at a small stride. The whole range of elements is
loaded or stored as contiguous vectors, and shuffles move elements between these vectors and the lanes.
"""

from __future__ import annotations

from ...ir.types import DType
from .text import Block, Value, memory_type
from .vector_memory import masked_load, masked_store, to_memory


def strided_load(
    block: Block,
    pointer: str,
    stride: int,
    dtype: DType,
    lanes: int,
    mask: Value | None,
) -> str:
    """Loads every `stride`th element from `pointer` on, one for each lane. Emits loads of whole vectors and shuffles
    that select elements, which are many times faster than a gather. Vector loads overlap where necessary, so that no
    load reads beyond the element of the last lane. `mask`: active lanes (None: all).
    """
    wide = memory_type(dtype, lanes)
    reach = (lanes - 1) * stride + 1
    result, taken = "poison", 0
    while taken < lanes:
        start = min(taken * stride, reach - lanes)
        at = block.assign(f"getelementptr inbounds {memory_type(dtype)}, ptr {pointer}, i64 {start}")
        spread = None
        if mask is not None:
            # Lane i of the piece is element start + i, used if it is the element of an active lane.
            sources = [divmod(start + i, stride) for i in range(lanes)]
            order = ", ".join(f"i32 {lanes if rest else lane}" for lane, rest in sources)
            spread = block.define(
                f"shufflevector {mask.typed}, {mask.type} zeroinitializer, <{lanes} x i32> <{order}>",
                DType.BOOL,
                lanes,
            )
        piece = masked_load(block, at, dtype, lanes, spread)
        end = min(lanes, (start + lanes - 1) // stride + 1)
        chosen = [i if i < taken else lanes + i * stride - start if i < end else -1 for i in range(lanes)]
        order = ", ".join("i32 poison" if i < 0 else f"i32 {i}" for i in chosen)
        result = block.assign(f"shufflevector {wide} {result}, {wide} {piece}, <{lanes} x i32> <{order}>")
        taken = end
    return result


def spread_store(block: Block, pointer: str, stride: int, value: Value) -> None:
    """Stores the lanes of `value` to every `stride`th element from `pointer` on. Emits one masked store over the whole
    range; the mask leaves out the elements in between.

    On processors with masked stores, a masked store is many times faster than a scatter. On other processors it is no
    slower than a scatter if the stride is a power of two, because LLVM then splits the range into whole registers.
    """
    lanes, dtype = value.lanes, value.dtype
    span = lanes * stride
    narrow = memory_type(dtype, lanes)
    order = ", ".join(f"i32 {'poison' if i % stride else i // stride}" for i in range(span))
    text = to_memory(block, value)
    spread = block.assign(f"shufflevector {narrow} {text}, {narrow} poison, <{span} x i32> <{order}>")
    ours = ", ".join(f"i1 {'false' if i % stride else 'true'}" for i in range(span))
    masked_store(block, pointer, spread, dtype, span, Value(f"<{ours}>", DType.BOOL, span))

"""Memory accesses of a vectorized loop: whole, masked, strided and scattered, one element for each lane.

A mask says which lanes are active (None: all); only their elements are accessed, and inactive lanes of a load are zero.
"""

from __future__ import annotations

from ...ir.types import DType
from .arithmetic import memory_suffix
from .text import Block, Value, constant, memory_type


def from_memory(block: Block, value: Value) -> Value:
    """A loaded value in register form; for bools, any byte except 0 is true."""
    if value.dtype is not DType.BOOL:
        return value
    zero = "0" if value.lanes == 1 else "zeroinitializer"
    memory = memory_type(DType.BOOL, value.lanes)
    return block.define(f"icmp ne {memory} {value.text}, {zero}", DType.BOOL, value.lanes)


def to_memory(block: Block, value: Value) -> str:
    """The text of a value as it is stored."""
    if value.dtype is not DType.BOOL:
        return value.text
    return block.assign(f"zext {value.typed} to {memory_type(DType.BOOL, value.lanes)}")


def masked_load(block: Block, pointer: str, dtype: DType, lanes: int, mask: Value | None) -> str:
    """Lanes from consecutive elements."""
    if mask is None:
        return block.load_at(pointer, dtype, lanes)
    wide = memory_type(dtype, lanes)
    return block.call(
        wide,
        f"llvm.masked.load.{memory_suffix(dtype, lanes)}.p0",
        ("ptr", f"align {dtype.bits // 8} {pointer}"),
        (mask.type, mask.text),
        (wide, "zeroinitializer"),
    )


def masked_store(
    block: Block,
    pointer: str,
    text: str,
    dtype: DType,
    lanes: int,
    mask: Value | None,
) -> None:
    """Consecutive elements from lanes."""
    if mask is None:
        block.store_at(text, pointer, dtype, lanes)
        return
    block.call(
        "void",
        f"llvm.masked.store.{memory_suffix(dtype, lanes)}.p0",
        (memory_type(dtype, lanes), text),
        ("ptr", f"align {dtype.bits // 8} {pointer}"),
        (mask.type, mask.text),
    )


def strided_load(
    block: Block,
    pointer: str,
    stride: int,
    dtype: DType,
    lanes: int,
    mask: Value | None,
) -> str:
    """Lanes from every `stride`th element, by whole loads and shuffles, many times faster than a gather.

    Pieces overlap so that none reaches beyond the last lane's element.
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
    """All lanes to every `stride`th element: one store of the whole range, masked to their elements.

    Many times faster than a scatter on processors with masked stores, and no slower on others if the stride is a power
    of two, so that LLVM splits the range into whole registers.
    """
    lanes, dtype = value.lanes, value.dtype
    span = lanes * stride
    narrow = memory_type(dtype, lanes)
    order = ", ".join(f"i32 {'poison' if i % stride else i // stride}" for i in range(span))
    text = to_memory(block, value)
    spread = block.assign(f"shufflevector {narrow} {text}, {narrow} poison, <{span} x i32> <{order}>")
    ours = ", ".join(f"i1 {'false' if i % stride else 'true'}" for i in range(span))
    masked_store(block, pointer, spread, dtype, span, Value(f"<{ours}>", DType.BOOL, span))


def gather(block: Block, pointers: str, dtype: DType, lanes: int, mask: Value | None) -> str:
    """Loads lanes from arbitrary addresses."""
    wide = memory_type(dtype, lanes)
    mask = mask or constant(True, DType.BOOL, lanes)
    return block.call(
        wide,
        f"llvm.masked.gather.{memory_suffix(dtype, lanes)}.v{lanes}p0",
        (f"<{lanes} x ptr>", f"align {dtype.bits // 8} {pointers}"),
        (mask.type, mask.text),
        (wide, "zeroinitializer"),
    )


def scatter(block: Block, pointers: str, value: Value, dtype: DType, mask: Value | None) -> None:
    """Stores the lanes of a value to arbitrary addresses."""
    lanes = value.lanes
    mask = mask or constant(True, DType.BOOL, lanes)
    block.call(
        "void",
        f"llvm.masked.scatter.{memory_suffix(dtype, lanes)}.v{lanes}p0",
        (memory_type(dtype, lanes), to_memory(block, value)),
        (f"<{lanes} x ptr>", f"align {dtype.bits // 8} {pointers}"),
        (mask.type, mask.text),
    )


def pointers(block: Block, pointer: str, stride: int, offsets: Value | None, dtype: DType, lanes: int) -> str:
    """One address a lane: `pointer`, plus `stride` elements a lane, plus `offsets` elements."""
    steps = Value("<" + ", ".join(f"i64 {stride * i}" for i in range(lanes)) + ">", DType.INT64, lanes)
    if offsets is not None:
        steps = block.binary("add nsw", steps, offsets)
    return block.assign(f"getelementptr {memory_type(dtype)}, ptr {pointer}, {steps.typed}")

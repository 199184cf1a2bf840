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
    """The text of a value in the form in which memory holds it; bools become bytes."""
    if value.dtype is not DType.BOOL:
        return value.text
    return block.assign(f"zext {value.typed} to {memory_type(DType.BOOL, value.lanes)}")


def masked_load(block: Block, pointer: str, dtype: DType, lanes: int, mask: Value | None) -> str:
    """Loads lanes from consecutive elements at `pointer`; `mask`: active lanes (None: all), the others become 0."""
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
    """Stores the lanes of value `text` to consecutive elements; `mask`: active lanes (None: all)."""
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


def gather(block: Block, pointers: str, dtype: DType, lanes: int, mask: Value | None) -> str:
    """Loads each lane from its own address in `pointers`; `mask`: active lanes (None: all), the others become 0."""
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
    """Stores each lane of a value to its own address in the vector `pointers`; `mask`: active lanes (None: all)."""
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
    """The address of each lane i: `pointer` plus `stride` * i elements, plus `offsets`[i] elements (None: none)."""
    steps = Value("<" + ", ".join(f"i64 {stride * i}" for i in range(lanes)) + ">", DType.INT64, lanes)
    if offsets is not None:
        steps = block.binary("add nsw", steps, offsets)
    return block.assign(f"getelementptr {memory_type(dtype)}, ptr {pointer}, {steps.typed}")

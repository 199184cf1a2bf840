"""LLVM IR as text: values, blocks, and the few forms of instructions that code generation needs.

`Slots` forward stores to loads of stack slots at constant places, during emission of straight-line code. Unrolled
bodies add to the same accumulators hundreds of times: without forwarding each sum would be stored and loaded again, and
LLVM would spend more time on removing these accesses than on the remaining code.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import lru_cache
from math import copysign

import numpy as np

from ...ir.quick_init import quick_init
from ...ir.types import DType

_SCALAR = {
    DType.INT8: "i8",
    DType.UINT8: "i8",
    DType.INT16: "i16",
    DType.UINT16: "i16",
    DType.INT32: "i32",
    DType.UINT32: "i32",
    DType.INT64: "i64",
    DType.UINT64: "i64",
    DType.FLOAT32: "float",
    DType.FLOAT64: "double",
    # Their bits: see `half_floats`.
    DType.FLOAT16: "i16",
    DType.BFLOAT16: "i16",
    DType.BOOL: "i1",
    **{dtype: "i8" for dtype in DType if dtype.is_code},
}


@quick_init
@dataclass(frozen=True, slots=True)
class Value:
    """An SSA value or constant: its text, element type and lanes (1: a scalar)."""

    text: str
    dtype: DType
    lanes: int = 1

    @property
    def type(self) -> str:
        """The value's LLVM type."""
        return type_text(self.dtype, self.lanes)

    @property
    def typed(self) -> str:
        """The value's LLVM type and text, in the form of an operand."""
        return f"{_types(self.dtype, self.lanes)[0]} {self.text}"


def type_text(dtype: DType, lanes: int = 1) -> str:
    """The LLVM type of a scalar or vector of `dtype` in registers."""
    return _types(dtype, lanes)[0]


def memory_type(dtype: DType, lanes: int = 1) -> str:
    """The LLVM type of values in memory: bools take a byte."""
    return _types(dtype, lanes)[1]


@lru_cache(maxsize=1024)
def _types(dtype: DType, lanes: int) -> tuple[str, str]:
    register, memory = _SCALAR[dtype], "i8" if dtype is DType.BOOL else _SCALAR[dtype]
    return (register, memory) if lanes == 1 else (f"<{lanes} x {register}>", f"<{lanes} x {memory}>")


def constant(value: int | float | bool, dtype: DType, lanes: int = 1) -> Value:
    """The literal of `value` as `dtype`, equal in every lane."""
    return _constant(value, dtype, lanes, copysign(1.0, value))


@lru_cache(maxsize=4096, typed=True)
def _constant(value: int | float | bool, dtype: DType, lanes: int, sign: float) -> Value:
    """A literal. `sign` and the value's type tell apart values that compare equal, such as 0.0, -0.0 and False."""
    if dtype is DType.FLOAT32:
        # LLVM writes a float as the bits of the double of equal value.
        rounded = float(np.float32(value))
        text = f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"
    elif dtype is DType.FLOAT64:
        text = f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    elif dtype is DType.BOOL:
        text = "true" if value else "false"
    elif dtype.is_float:
        text = str(int(np.asarray(value).astype(dtype.numpy).view(np.int16)))
    else:
        text = str(int(value))
    return Value(text if lanes == 1 else f"splat ({_SCALAR[dtype]} {text})", dtype, lanes)


def first_lanes(count: int, lanes: int) -> Value:
    """A mask of the first `count` of `lanes` lanes."""
    bits = ", ".join([f"i1 {'true' if i < count else 'false'}" for i in range(lanes)])
    return Value(f"<{bits}>", DType.BOOL, lanes)


Scope = dict[Hashable, str]
"""Names of results, by the text of their instructions or by another key that determines them."""
_IMPURE = ("load ", "call ", "tail call ", "phi ", "alloca ")
"""Prefixes of instructions whose result may differ although their text is equal."""


class Block:
    """A function body under construction: numbered values and labels, and the current block.

    An instruction is not written again while its earlier result is valid: unrolled bodies compute the same addresses
    many times, and LLVM would spend most of its time on removing the repetitions. The same is true for loads, as long
    as no store may have changed the buffer that they read. Values held by `slots` are stored at the end of a block.
    `declarations`: the declarations of called functions, for the whole module.
    """

    def __init__(self, declarations: set[str] | None = None) -> None:
        self.lines: list[str] = []
        self.declarations = set[str]() if declarations is None else declarations
        self.allocas: list[str] = []
        self.label = "entry"
        self._count = 0
        self._known: Scope = {}
        self._loaded: dict[str, dict[Hashable, str]] = {}
        self.slots = Slots(self)

    def name(self, prefix: str = "v") -> str:
        """A unique name that begins with `prefix`."""
        self._count += 1
        return f"{prefix}{self._count}"

    def define(self, instruction: str, dtype: DType, lanes: int = 1) -> Value:
        """Emits `instruction` and returns its result as a value."""
        return Value(self.assign(instruction), dtype, lanes)

    def assign(self, instruction: str) -> str:
        """Emits `instruction` and returns the name of its result, for results that are not a `Value` (pointers,
        aggregates).
        """
        name = self._known.get(instruction)
        if name is None:
            self._count += 1
            name = f"%v{self._count}"
            self.lines.append(f"  {name} = {instruction}")
            if not instruction.startswith(_IMPURE):
                self._known[instruction] = name
        return name

    def call(self, result: str, function: str, *arguments: tuple[str, str]) -> str:
        """Emits a call of the LLVM function `function`. `result`: the type of its result. `arguments`: (type, text) of
        each argument. Returns the name of the result; "" for a function that returns void.
        """
        self.declarations.add(f"declare {result} @{function}({', '.join([kind for kind, _ in arguments])})")
        text = f"call {result} @{function}({', '.join([f'{kind} {value}' for kind, value in arguments])})"
        if result == "void":
            self.do(text)
            return ""
        return self.assign(text)

    def noted(self, key: Hashable) -> str | None:
        """The name of the result recorded under `key`; None unless it is defined on every path to the current block."""
        return self._known.get(key)

    def note(self, key: Hashable, name: str) -> None:
        """Records that the result determined by the tuple `key` has the name `name`."""
        self._known[key] = name

    def load(self, origin: str, key: Hashable, emit: Callable[[], str]) -> str:
        """The name of a value loaded from the buffer with the pointer `origin`. `emit` emits the load; it is not called
        if an earlier load with an equal `key` is still valid.
        """
        loaded = self._loaded.setdefault(origin, {})
        name = loaded.get(key)
        if name is None:
            name = loaded[key] = emit()
        return name

    def written(self, origin: str | None = None) -> None:
        """Forgets the values loaded from the buffer with the pointer `origin` (None: from all buffers), because its
        memory was written.
        """
        self.slots.forget(origin)
        if origin is None:
            self._loaded = {}
        else:
            self._loaded.pop(origin, None)

    def element(self, pointer: str, dtype: DType, start: int) -> str:
        """The address of element `start` of an array of `dtype` at `pointer`."""
        if not start:
            return pointer
        return self.assign(f"getelementptr inbounds {memory_type(dtype)}, ptr {pointer}, i64 {start}")

    def load_at(self, pointer: str, dtype: DType, lanes: int = 1) -> str:
        """Loads a scalar or vector from the address `pointer`; returns the name of the result."""
        return self.assign(f"load {memory_type(dtype, lanes)}, ptr {pointer}, align {dtype.bits // 8}")

    def store_at(self, text: str, pointer: str, dtype: DType, lanes: int = 1) -> None:
        """Stores the scalar or vector `text` at the address `pointer`."""
        self.do(f"store {memory_type(dtype, lanes)} {text}, ptr {pointer}, align {dtype.bits // 8}")

    def scope(self) -> Scope:
        """The results defined so far in the function. Pass them to `begin` for blocks that this point dominates."""
        return dict(self._known)

    def do(self, instruction: str) -> None:
        """Emits an instruction without a result."""
        self.lines.append(f"  {instruction}")

    def begin(self, label: str, scope: Scope) -> None:
        """Starts the block `label` after a branch. `scope`: results of earlier instructions that the block may use."""
        self.lines.append(f"{label}:")
        self.label = label
        self._known = dict(scope)
        self._loaded = {}
        self.slots.forget()

    def end(self) -> None:
        """Ends the function: stores the pending values of stack slots, and returns."""
        self.slots.save()
        self.do("ret void")

    def jump(self, label: str) -> None:
        """Ends the current block with a jump to the block `label`."""
        self.slots.save()
        self.do(f"br label %{label}")

    def branch(self, condition: Value, then: str, otherwise: str) -> None:
        """Ends the current block with a branch to the block `then` if the condition is true, else to `otherwise`."""
        self.slots.save()
        self.do(f"br {condition.typed}, label %{then}, label %{otherwise}")

    def splat(self, value: Value, lanes: int) -> Value:
        """A scalar broadcast to `lanes` lanes; a vector unchanged."""
        if value.lanes == lanes:
            return value
        if not value.text.startswith("%"):
            return Value(f"splat ({value.type} {value.text})", value.dtype, lanes)
        wide = type_text(value.dtype, lanes)
        first = self.assign(f"insertelement {wide} poison, {value.typed}, i64 0")
        return self.define(
            f"shufflevector {wide} {first}, {wide} poison, <{lanes} x i32> zeroinitializer",
            value.dtype,
            lanes,
        )

    def binary(self, instruction: str, a: Value, b: Value, dtype: DType | None = None) -> Value:
        """The result of `instruction a, b` on values of one type; its type is `dtype` (None: the operands')."""
        lanes = a.lanes
        if lanes != b.lanes:
            lanes = max(lanes, b.lanes)
            a, b = self.splat(a, lanes), self.splat(b, lanes)
        return Value(self.assign(f"{instruction} {a.typed}, {b.text}"), dtype or a.dtype, lanes)

    def select(self, condition: Value, then: Value, otherwise: Value) -> Value:
        """`then` or `otherwise`, chosen lane by lane if the condition is a vector."""
        lanes = max(condition.lanes, then.lanes, otherwise.lanes)
        if condition.lanes > 1:
            condition = self.splat(condition, lanes)
        then, otherwise = self.splat(then, lanes), self.splat(otherwise, lanes)
        return self.define(f"select {condition.typed}, {then.typed}, {otherwise.typed}", then.dtype, lanes)

    def extremum(self, op: str, x: Value, y: Value, second_is_number: bool = False) -> Value:
        """The minimum (`op` "min") or maximum of x and y; NaN if x or y is NaN. `second_is_number`: whether y is known
        not to be NaN, which saves a comparison.
        """
        if not x.dtype.is_float:
            sign = "u" if x.dtype.is_unsigned else "s"
            condition = self.binary(f"icmp {sign}{'lt' if op == 'min' else 'gt'}", y, x, DType.BOOL)
            return self.select(condition, y, x)
        # y if y is beyond x, else x: one instruction on x86, which returns x if x is not a number.
        condition = self.binary(f"fcmp {'olt' if op == 'min' else 'ogt'}", y, x, DType.BOOL)
        result = self.select(condition, y, x)
        if second_is_number:
            return result
        unordered = self.binary("fcmp uno", y, y, DType.BOOL)
        return self.select(unordered, y, result)


@dataclass(slots=True)
class _Slot:
    """Known contents of one stack slot. A known value has `lanes` adjacent elements. `held`: the values' names, by the
    number of the first element. `unsaved`: the values that are not stored in memory yet.
    """

    dtype: DType
    lanes: int
    held: dict[int, str] = field(default_factory=dict)
    unsaved: dict[int, str] = field(default_factory=dict)


class Slots:
    """The known contents of one function's stack slots, by pointer, from the beginning of a block to its end.

    A value put into a slot is stored at the end of the block at the latest (`save`), unless the slot is dead before
    that (`forget`). Values are put and read as runs of `lanes` adjacent elements that begin at a multiple of `lanes`.
    So two runs with equal lanes are equal or disjoint; before an access with other lanes, pending values are stored.
    """

    def __init__(self, block: Block) -> None:
        self._block = block
        self._slots: dict[str, _Slot] = {}

    def get(self, pointer: str, dtype: DType, lanes: int, start: int) -> str:
        """The value of the `lanes` elements from element `start` of the slot `pointer`; it is loaded from memory if no
        value is known.
        """
        slot = self._slot(pointer, dtype, lanes)
        text = slot.held.get(start)
        if text is None:
            block = self._block
            text = slot.held[start] = block.load_at(block.element(pointer, dtype, start), dtype, lanes)
        return text

    def put(self, pointer: str, dtype: DType, lanes: int, start: int, text: str) -> None:
        """Sets `lanes` elements from `start` on of slot `pointer` to value `text`; the store to memory is pending."""
        slot = self._slot(pointer, dtype, lanes)
        slot.held[start] = slot.unsaved[start] = text

    def save(self, pointer: str | None = None) -> None:
        """Emits the pending stores of a slot (None: of all slots)."""
        for name in list(self._slots) if pointer is None else [pointer]:
            slot = self._slots.get(name)
            if slot is None:
                continue
            for start, text in slot.unsaved.items():
                at = self._block.element(name, slot.dtype, start)
                self._block.store_at(text, at, slot.dtype, slot.lanes)
            slot.unsaved.clear()

    def forget(self, pointer: str | None = None) -> None:
        """Drops the values of a slot (None: of all slots), because its memory was written by another access or will not
        be read again.
        """
        if pointer is None:
            self._slots.clear()
        else:
            self._slots.pop(pointer, None)

    def _slot(self, pointer: str, dtype: DType, lanes: int) -> _Slot:
        slot = self._slots.get(pointer)
        if slot is None or slot.lanes != lanes:
            self.save(pointer)
            slot = self._slots[pointer] = _Slot(dtype, lanes)
        return slot

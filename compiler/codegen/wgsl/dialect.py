"""WGSL as a dialect of GPU kernels (WebGPU Shading Language, W3C).

WGSL has no pointer arithmetic, so kernels index arrays that are declared outside functions. It has no elements of 8 and
64 bits either:

- int8, uint8 and bool are four to a word. A store to memory that threads share replaces one byte of the word by two
  atomic operations, so that threads may write to other bytes of the word at the same time.
- int64 is two words in device memory. Kernels compute with the low word only: values beyond 32 bits wrap.

A binding is the range of a buffer that a kernel sees. An array may begin inside its binding: some devices allow
bindings only at multiples of 256 bytes, while arrays of networks begin at multiples of 64 bytes. The pipeline's
constant `{name}_at_` is the number of the word in the binding at which the array begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import prod

from ...ir.expr import Buffer
from ...ir.types import DType
from ..cuda.dialect import Dialect, KernelParts, Parameter
from ..cuda.errors import LoweringError
from ..cuda.storage import Storage
from ..cuda.text import AND, BIT_AND, EQUALITY, OR, PRIMARY, RELATION, SUM, UNARY, Text, call, operation
from .functions import FUNCTIONS, MATH

MOST_ARRAY_BYTES = 2**27 - 256
"""Largest array that a binding of every device can hold, at any place in the binding (WebGPU, "limits":
maxStorageBufferBindingSize 128 MiB, minStorageBufferOffsetAlignment 256).
"""
_BYTES = (DType.INT8, DType.UINT8, DType.BOOL)
_ZERO = "0.0f"
_PLAIN = re.compile(r"[\w .*+/%-]+")
"""An index that is a sum of products, without parentheses."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WgslDialect(Dialect):
    """The dialect WGSL. `Dialect` describes the functions."""

    # Expressions

    def integer(self, value: int, *, wide: bool = False) -> Text:
        """An integer literal of 32 bits, also if `wide`. The least and greatest int64 become the least and greatest
        int32. Raises LoweringError for other values of more than 32 bits.
        """
        if abs(value) >= 2**63 - 1:
            value = 2**31 - 1 if value > 0 else -(2**31)
        if not -(2**31) <= value < 2**31:
            raise LoweringError(
                f"WGSL has no integers of 64 bits, which {value} needs; keep values in 32 bits"
            )
        if value == -(2**31):
            return Text("(-2147483647 - 1)")
        return Text(f"{value}", UNARY if value < 0 else PRIMARY)

    def converted(self, dtype: DType, value: Text) -> Text:
        """The text of a number or truth value converted to the element type `dtype`."""
        if dtype is DType.INT8:
            return Text(f"extractBits(i32({value.text}), 0u, 8u)")
        if dtype is DType.UINT8:
            return Text(f"i32({value.text}) & 255", BIT_AND)
        return call(self.type_of(dtype), value)

    def as_unsigned(self, value: Text, *, wide: bool) -> Text:
        """Returns `value` unchanged, because sums and products of signed integers wrap in WGSL."""
        return value

    def operated(self, op: str, precedence: int, a: Text, b: Text) -> Text:
        """The text `a op b`. WGSL requires parentheses around a comparison inside a comparison, || inside &&, and &&
        inside ||. For x + 0.0, 0.0 + x and 0.0 - x, the text is a call of `positive_zero`, because compilers may give a
        zero result the wrong sign. `precedence`: the precedence of `op`.
        """
        if precedence in (RELATION, EQUALITY):
            return Text(f"{a.within(SUM)} {op} {b.within(SUM)}", precedence)
        if _ZERO in (a.text, b.text) and op in ("+", "-"):
            # Compilers may take x + 0 for x and 0 - x for -x, which differ in the sign of zero.
            if a.text == _ZERO:
                return call("positive_zero", b if op == "+" else Text(f"-({b.text})"))
            if op == "+":
                return call("positive_zero", a)
        if precedence == OR:
            left = a.text if a.precedence == OR else a.within(AND + 1)
            return Text(f"{left} {op} {b.within(AND + 1)}", precedence)
        return operation(op, precedence, a, b)

    def compared(self, op: str, precedence: int, a: Text, b: Text, dtype: DType) -> Text:
        """The text of the comparison `a op b` of two values of type `dtype`; it is false if one of them is NaN (`!=`:
        true). `precedence`: the precedence of `op`.
        """
        if dtype is DType.BOOL and op in ("<", "<="):
            a, b = (self.converted(DType.INT32, side) for side in (a, b))
        if dtype.is_float and op == "!=":
            # The compilers' own != is false for NaN.
            return Text(f"!({self.operated('==', EQUALITY, a, b).text})", UNARY)
        return self.operated(op, precedence, a, b)

    def chosen(self, condition: Text, then: Text, otherwise: Text) -> Text:
        """The text of `then` if `condition` holds, else of `otherwise`. WGSL evaluates both sides; an index outside of
        an array reads some element of the array.
        """
        # A comparison in parentheses cannot be taken for the beginning of a list of types.
        return Text(f"select({otherwise.text}, {then.text}, {condition.within(UNARY)})")

    # Declarations and loops

    def declared(self, dtype: DType, name: str, elements: int | None = None) -> str:
        """The declaration of the variable `name` of one thread; of an array if `elements`, its size, is given."""
        if elements is None:
            return f"var {name}: {self.type_of(dtype)};"
        if dtype in (DType.INT8, DType.UINT8):
            return f"var {name}: array<u32, {_words(elements)}>;"
        return f"var {name}: array<{self.type_of(dtype)}, {elements}>;"

    def defined(self, dtype: DType, name: str, value: str) -> str:
        """The declaration of a constant `name` of type `dtype` with the text `value` as value."""
        return f"let {name}: {self.type_of(dtype)} = {value};"

    def counted(self, dtype: DType, name: str, end: str) -> str:
        """The head of a loop whose counter `name`, of type `dtype`, goes from 0 to below `end`."""
        return f"for (var {name}: {self.type_of(dtype)} = 0; {name} < {end}; {name}++)"

    # Memory

    def element(self, storage: Storage, at: str) -> Text:
        """The expression that reads the element with index `at` of a buffer."""
        dtype = storage.buffer.dtype
        if storage.scalar:
            return Text(storage.name)
        at = _inside(storage, at)
        if not _packed(storage):
            text = f"{storage.name}[{_at(storage, at)}]"
            return Text(f"{text}.x" if _long(storage) else text)
        name = "int8_at" if dtype is DType.INT8 else "uint8_at"
        text = Text(f"{name}({self.word(storage, at)}, {at})")
        return Text(f"{text.text} != 0", EQUALITY) if dtype is DType.BOOL else text

    def stored(self, storage: Storage, at: str, value: Text) -> str:
        """The statement that writes `value` to the element with index `at` of a buffer."""
        if storage.scalar:
            return f"{storage.name} = {value.text};"
        at = _inside(storage, at)
        if not _packed(storage):
            text = f"widened({value.text})" if _long(storage) else value.text
            return f"{storage.name}[{_at(storage, at)}] = {text};"
        place = f"{storage.name}[{_at(storage, at)}]"
        number = self.converted(DType.INT32, value).text if storage.buffer.dtype is DType.BOOL else value.text
        if storage.space == "register":
            return f"{place} = with_byte({place}, {at}, {number});"
        # The value may read the byte, so it comes first.
        value_first = f"let byte = as_byte({at}, {number});"
        return f"{{ {value_first} atomicAnd(&{place}, other_bytes({at})); atomicOr(&{place}, byte); }}"

    def word(self, storage: Storage, at: str) -> str:
        """The 32-bit word that contains the element with index `at` of a buffer of 8-bit elements."""
        place = f"{storage.name}[{_at(storage, at)}]"
        return f"atomicLoad(&{place})" if _atomic(storage) else place

    def shared_arrays(self, buffers: Iterable[tuple[Buffer, str]], alignment: int) -> list[str]:
        """The declarations of buffers in shared memory, each given with its name. `alignment` is not used: WGSL aligns
        arrays by their element types.
        """
        lines: list[str] = []
        for buffer, name in buffers:
            elements = prod(buffer.shape)
            kind = f"array<{self.type_of(buffer.dtype)}, {elements}>"
            if buffer.dtype in _BYTES:
                kind = f"array<atomic<u32>, {_words(elements)}>"
            lines.append(f"var<workgroup> {name}: {kind};")
        return lines

    # Kernels and sources

    def kernel_text(self, parts: KernelParts) -> str:
        """The text of a kernel. All bindings are in group 0: first the arrays of the kernel, then its integer
        parameters.
        """
        lines = [
            f"@group(0) @binding({n}) var<storage, read_write> {array.name}: array<{self._held(array)}>;"
            for n, array in enumerate(parts.arrays)
        ]
        lines += [f"override {_first(array.name)}: i32 = 0;" for array in parts.arrays]
        lines += [
            f"@group(0) @binding({n}) var<uniform> {name}: i32;"
            for n, name in enumerate(parts.numbers, len(parts.arrays))
        ]
        x, y, z = parts.block
        signature = self.kernel.format(function=parts.function, x=x, y=y, z=z)
        head = [f"    {line}" for line in parts.head]
        return "\n".join([*lines, *parts.shared, signature, *head, *parts.body, "}", ""])

    def own_names(self, parts: KernelParts) -> frozenset[str]:
        """The names of the kernel's arrays, numbers and shared memory, which are declared outside of functions."""
        shared = [line.split(":")[0].split()[-1] for line in parts.shared]
        return frozenset({*(array.name for array in parts.arrays), *parts.numbers, *shared})

    def definitions(self, used: AbstractSet[str], texts: Sequence[str]) -> list[str]:
        """The definitions of the functions that `texts` mention, and of the functions that these definitions call.
        `used` has no effect.
        """
        wanted: set[str] = set()
        unread = list(texts)
        while unread:
            found = {*re.findall(r"\w+", unread.pop())} & FUNCTIONS.keys() - wanted
            wanted |= found
            unread += [FUNCTIONS[name] for name in found]
        return [text for name, text in FUNCTIONS.items() if name in wanted]

    def _held(self, array: Parameter) -> str:
        """The type of an array's elements in device memory. Raises LoweringError above MOST_ARRAY_BYTES bytes."""
        size = array.elements * array.dtype.bits // 8
        if size > MOST_ARRAY_BYTES:
            raise LoweringError(
                f"array {array.name} has {size:,} bytes, but a WGSL array has at most {MOST_ARRAY_BYTES:,}; use a "
                "smaller batch"
            )
        if array.dtype in _BYTES:
            return "atomic<u32>" if array.changed else "u32"
        return "vec2<i32>" if array.dtype is DType.INT64 else self.type_of(array.dtype)


def _packed(storage: Storage) -> bool:
    """Whether the elements of a buffer are stored four to a 32-bit word."""
    dtype = storage.buffer.dtype
    return dtype in _BYTES and not (dtype is DType.BOOL and storage.space == "register")


def _atomic(storage: Storage) -> bool:
    return storage.space == "shared" or (storage.space == "global" and storage.changed)


def _long(storage: Storage) -> bool:
    """Whether each element of a buffer is stored in two words (int64 in device memory)."""
    return storage.buffer.dtype is DType.INT64 and storage.space == "global"


def _inside(storage: Storage, at: str) -> str:
    """The index `at`; "0" if `at` is a number outside of the buffer, because compilers refuse such a number even if the
    element is never read.
    """
    if re.fullmatch(r"-?\d+", at) and not 0 <= int(at) < storage.elements:
        return "0"
    return at


def _at(storage: Storage, at: str) -> str:
    """The index, in the array that stores a buffer, of the buffer's element `at`. If elements are packed into words,
    the index of the word that contains the element.
    """
    plain = at if _PLAIN.fullmatch(at) else f"({at})"
    if _packed(storage):
        plain = (
            str(int(at) // 4)
            if at.isdecimal()
            else f"({at} >> 2u)"
            if at.isidentifier()
            else f"(({at}) >> 2u)"
        )
    if storage.space != "global":
        return plain[1:-1] if plain == f"({at})" else plain
    first = _first(storage.name)
    return f"{f'({first} >> 1u)' if _long(storage) else first} + {plain}"


def _first(name: str) -> str:
    """The name of a constant: the number of the word at which the array `name` begins in its binding (bound buffer). No
    name of a program ends with "_at_", so the name of the constant is unique.
    """
    return f"{name}_at_"


def _words(elements: int) -> int:
    return -(-elements // 4)


_RESERVED = """
    alias break case const const_assert continue continuing default diagnostic discard else enable false fn for if let
    loop override requires return struct switch true var while NULL Self abstract active alignas alignof as asm
    asm_fragment async attribute auto await become cast catch class co_await co_return co_yield coherent column_major
    common compile compile_fragment concept const_cast consteval constexpr constinit crate debugger decltype delete
    demote demote_to_helper do dynamic_cast enum explicit export extends extern external fallthrough filter final
    finally friend from fxgroup get goto groupshared highp impl implements import inline instanceof interface layout
    lowp macro macro_rules match mediump meta mod module move mut mutable namespace new nil noexcept noinline
    nointerpolation non_coherent noncoherent noperspective null nullptr of operator package packoffset partial pass
    patch pixelfragment precise precision premerge priv protected pub public readonly ref regardless register
    reinterpret_cast require resource restrict self set shared sizeof smooth snorm static static_assert static_cast std
    subroutine super target template this thread_local throw trait try type typedef typeid typename typeof union unless
    unorm unsafe unsized use using varying virtual volatile wgsl where with writeonly yield
    bool f16 f32 f64 i32 i64 u32 u64 vec2 vec3 vec4 array atomic ptr sampler i8 u8 i16 u16
    bitcast all any select arrayLength abs acos acosh asin asinh atan atanh atan2 ceil clamp cos cosh
    countLeadingZeros countOneBits countTrailingZeros cross degrees determinant distance dot dot4U8Packed
    dot4I8Packed exp exp2 extractBits faceForward firstLeadingBit firstTrailingBit floor fma fract frexp insertBits
    inverseSqrt ldexp length log log2 max min mix modf normalize pow quantizeToF16 radians reflect refract reverseBits
    round saturate sign sin sinh smoothstep sqrt step tan tanh transpose trunc atomicLoad atomicStore atomicAdd
    atomicAnd atomicOr atomicXor atomicMax atomicMin workgroupBarrier storageBarrier workgroupUniformLoad
    thread block byte tx ty tz arc_sine_upward
"""
WGSL = WgslDialect(
    name="WGSL",
    types={
        DType.INT8: "i32",
        DType.UINT8: "i32",
        DType.INT32: "i32",
        DType.INT64: "i32",
        DType.FLOAT32: "f32",
        DType.BOOL: "bool",
    },
    unsigned="u32",
    unsigned_wide="u32",
    wide_suffix="",
    float_of_bits="float_of_bits",
    float_of_int="bitcast<f32>",
    math=MATH,
    fused="fma",
    dot="{total} + dot4I8Packed({a}, {b})",
    spaces={},
    restrict="",
    aligned="",
    thread="i32(thread.{axis})",
    block="i32(block.{axis})",
    # WebGPU, "limits": maxComputeWorkgroupsPerDimension.
    blocks_along_x=65535,
    kernel=(
        "@compute @workgroup_size({x}, {y}, {z})\n"
        "fn {function}(@builtin(local_invocation_id) thread: vec3<u32>, @builtin(workgroup_id) block: vec3<u32>) {{"
    ),
    barrier="workgroupBarrier();",
    device_barrier="storageBarrier(); workgroupBarrier();",
    unroll="",
    vector="",
    vector_definition="",
    compound="",
    zeros="",
    shared_array="",
    shared_block="",
    shared_dynamic="",
    overlays=False,
    long_integers=False,
    # Bytes are stored by two atomic operations, and neither `fma` nor the division need round once.
    exact_integers=False,
    functions=FUNCTIONS,
    names=frozenset({*_RESERVED.split(), *FUNCTIONS}),
)
"""The dialect WGSL, without floats of 16 bits, which are an extension."""

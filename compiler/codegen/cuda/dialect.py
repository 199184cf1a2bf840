"""Dialects of GPU languages: their types, qualifiers and names, and functions that print declarations, conversions,
choices, memory accesses and kernels.

All dialects share the modules that print loops and expressions (`statements`, `expressions`, `module`, ...). The
functions of `Dialect` print the C that CUDA C++ (`functions.CUDA`) and OpenCL C have in common. The dialect of a
language that differs from C overrides the functions. `GpuTarget.dialect` is the dialect of a target.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Literal

import numpy as np

from ...ir.expr import Buffer
from ...ir.types import DType
from .architectures import GRID_LIMITS
from .errors import LoweringError
from .text import CONDITIONAL, PRIMARY, UNARY, Text, operation

if TYPE_CHECKING:
    from .storage import Storage

Space = Literal["global", "shared", "register"]
"""A kind of memory: "global" (of the device), "shared" (of a block) or "register" (of a thread)."""
_AXES = ("x", "y", "z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of a kernel that is an array in device memory: its name in the text, the type and number of its
    elements.

    `changed`: the kernel writes to it. `restricted`: the array overlaps no other array while the kernel runs.
    """

    name: str
    dtype: DType
    elements: int
    changed: bool
    restricted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelParts:
    """The parts of a kernel's text.

    `function`: the kernel's name. `block`: numbers of threads of a block along x, y and z. The kernel has three groups
    of parameters, in this order: `arrays`; `others`, the declarations of tensor maps; `numbers`, the names of 32-bit
    integers. `shared`: the declarations of shared memory. `head`: the lines that begin the kernel's body, not indented
    yet. `body`: all further lines.
    """

    function: str
    block: tuple[int, int, int]
    arrays: Sequence[Parameter]
    others: Sequence[str]
    numbers: Sequence[str]
    shared: Sequence[str]
    head: Sequence[str]
    body: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dialect:
    """The text fragments of one language. Most are templates; names in braces are their placeholders.

    `types`: names of the element types in memory; kernels cannot use a type without an entry. `unsigned`: name of the
    unsigned integer type of 32 bits. `unsigned_wide`: name of the unsigned integer type of 64 bits. `wide_suffix`: end
    of a literal of 64 bits. `long_integers`: whether the language has integers of 64 bits; if not, kernels compute
    int64 in 32 bits. `exact_integers`: whether models that are quantized throughout are computed in integers. This
    requires that the language can store single bytes, and that its fused multiply-add and its division round once, as
    in `vdla.isa.arithmetic`.

    `float_of_bits`, `float_of_int`: functions that make a float from its bits, given as unsigned or as int. `math`: for
    each scalar function of the IR, its name in the language. `fused`: name of the fused multiply-add. `dot`: expression
    for {total} plus the products of four int8 in the 32-bit words {a} and {b}; "" if the language lacks it.

    `spaces`: qualifier of a pointer into each memory space. `restrict`: qualifier of a pointer to an array that
    overlaps no other. `aligned`: qualifier that declares 16 bytes of alignment. `thread`, `block`: the coordinate of a
    thread or block along {axis} ("x"), which is axis {number} (0). `blocks_along_x`: the greatest number of blocks of a
    launch along x. `kernel`: beginning of a kernel's declaration, with {function}, {threads} and the threads along each
    axis, {x}, {y} and {z}. `barrier`: statement that makes all threads of a block wait for each other, and makes shared
    memory consistent. `device_barrier`: a barrier that also makes device memory consistent; "" if `barrier` does so.
    `unroll`: the line before a loop that is to be unrolled; "" if the language has none.

    `vector`: the type of {count} adjacent elements of a {type}, a struct whose member `at` is the array of elements; ""
    if memory is accessed by single elements only. `vector_definition`: the definition of this type, or "" if the
    definition "Vector" in `functions` serves all vector types. `compound`: text before the braces of a vector's value.
    `zeros`: the braces of a vector of zeros.

    `shared_block`: declares shared memory of {bytes} bytes. `shared_dynamic`: declares shared memory whose size the
    launch gives. `shared_array`: declares a single buffer in shared memory ({type}, {name}, {elements}). `overlays`:
    whether buffers of shared memory with disjoint lifetimes may use the same bytes.

    `functions`: definitions by name, which the printers use on demand. `names`: reserved identifiers. `prelude`:
    beginning of every source.
    """

    name: str
    types: Mapping[DType, str]
    unsigned: str
    unsigned_wide: str
    wide_suffix: str
    long_integers: bool = True
    exact_integers: bool = True
    float_of_bits: str
    float_of_int: str
    math: Mapping[str, str]
    fused: str
    dot: str = ""
    spaces: Mapping[Space, str]
    restrict: str
    aligned: str
    thread: str
    block: str
    blocks_along_x: int = GRID_LIMITS["x"]
    kernel: str
    barrier: str
    device_barrier: str = ""
    unroll: str = "#pragma unroll"
    vector: str
    vector_definition: str
    compound: str
    zeros: str
    shared_array: str
    shared_block: str
    shared_dynamic: str
    overlays: bool = True
    functions: Mapping[str, str]
    names: frozenset[str]
    prelude: str = ""

    # Types

    def type_of(self, dtype: DType) -> str:
        """The name of an element type in this language. Raises LoweringError if the language has no such type."""
        if dtype not in self.types:
            raise LoweringError(f"{self.name} does not support the type {dtype}; compute in float32")
        return self.types[dtype]

    def pointer(self, type_text: str, space: Space, *, const: bool = False) -> str:
        """The type of a pointer to `type_text` in a memory space; `const`: nothing is written through the pointer."""
        return f"{self.spaces[space]}{'const ' if const else ''}{type_text}*"

    # Expressions

    def literal(self, value: int | float | bool, dtype: DType) -> Text:
        """The literal of `value` as `dtype`. A float of any type is written as a float32 literal, in enough digits that
        a compiler reads the same bits.
        """
        if dtype is DType.BOOL:
            return Text("true" if value else "false")
        if not dtype.is_float:
            # The least value of a type has no literal of its own.
            if dtype is DType.INT32 and value == -(2**31):
                return Text("(-2147483647 - 1)")
            return self.integer(int(value), wide=dtype is DType.INT64)
        number = float(np.float32(value))
        if not math.isfinite(number):
            bits = np.float32(number).view(np.uint32)
            return Text(f"{self.float_of_bits}(0x{bits:08x}u)")
        digits = str(np.float32(number))
        if not any(c in digits for c in ".e"):
            digits += ".0"
        return Text(f"{digits}f", UNARY if digits.startswith("-") else PRIMARY)

    def integer(self, value: int, *, wide: bool = False) -> Text:
        """An integer literal; of 64 bits if `wide` or if the value does not fit 32 bits."""
        if value == -(2**63):
            return Text(f"(-9223372036854775807{self.wide_suffix} - 1)")
        suffix = self.wide_suffix if wide or not -(2**31) < value < 2**31 else ""
        return Text(f"{value}{suffix}", UNARY if value < 0 else PRIMARY)

    def converted(self, dtype: DType, value: Text) -> Text:
        """The text of a number or truth value converted to the element type `dtype`."""
        return _conversion(self.type_of(dtype), value)

    def as_unsigned(self, value: Text, *, wide: bool) -> Text:
        """The text of an integer converted to an unsigned integer of 32 bits (`wide`: 64 bits). Sums and products of
        unsigned integers wrap.
        """
        return _conversion(self.unsigned_wide if wide else self.unsigned, value)

    def operated(self, op: str, precedence: int, a: Text, b: Text) -> Text:
        """The text `a op b` for a left-associative operator; `precedence`: the precedence of `op`."""
        return operation(op, precedence, a, b)

    def compared(self, op: str, precedence: int, a: Text, b: Text, dtype: DType) -> Text:
        """The text of the comparison `a op b` of two values of type `dtype`; it is false if one of them is NaN (`!=`:
        true). `precedence`: the precedence of `op`.
        """
        return operation(op, precedence, a, b)

    def chosen(self, condition: Text, then: Text, otherwise: Text) -> Text:
        """The text of `then` if `condition` holds, else of `otherwise`. The side that is not chosen may contain indices
        outside of an array.
        """
        head = f"{condition.within(CONDITIONAL + 1)} ? {then.within(CONDITIONAL)}"
        return Text(f"{head} : {otherwise.within(CONDITIONAL)}", CONDITIONAL)

    # Declarations and loops

    def declared(self, dtype: DType, name: str, elements: int | None = None) -> str:
        """The declaration of a variable `name` of one thread. If `elements` is given, the variable is an array of this
        size.
        """
        size = "" if elements is None else f"[{elements}]"
        return f"{self.type_of(dtype)} {name}{size};"

    def defined(self, dtype: DType, name: str, value: str) -> str:
        """The declaration of a constant `name` of type `dtype` with the text `value` as value."""
        return f"const {self.type_of(dtype)} {name} = {value};"

    def counted(self, dtype: DType, name: str, end: str) -> str:
        """The head of a loop whose counter `name`, of type `dtype`, goes from 0 to below `end`."""
        return f"for ({self.type_of(dtype)} {name} = 0; {name} < {end}; ++{name})"

    # Memory

    def element(self, storage: Storage, at: str) -> Text:
        """The expression that reads the element with index `at` of a buffer."""
        return Text(storage.name if storage.scalar else f"{storage.name}[{at}]")

    def stored(self, storage: Storage, at: str, value: Text) -> str:
        """The statement that writes `value` to the element with index `at` of a buffer."""
        return f"{self.element(storage, at).text} = {value.text};"

    def address(self, storage: Storage, at: str) -> str:
        """The address of the element with index `at` of a buffer."""
        return f"&{self.element(storage, at).text}"

    def word(self, storage: Storage, at: str) -> str:
        """The word of 32 bits that begins at the element with index `at` of a buffer of int8."""
        return f"*(const {self.type_of(DType.INT32)}*){self.address(storage, at)}"

    def shared_arrays(self, buffers: Iterable[tuple[Buffer, str]], alignment: int) -> list[str]:
        """The declarations of buffers in shared memory, one array for each buffer. `buffers`: the buffers and their
        names in the text. `alignment`: the alignment of each array in bytes.
        """
        return [
            self.shared_array.format(
                alignment=alignment,
                type=self.type_of(buffer.dtype),
                name=name,
                elements=prod(buffer.shape),
            )
            for buffer, name in buffers
        ]

    # Kernels and sources

    def coordinate(self, text: str, axis: str) -> str:
        """The text of a coordinate along `axis` ("x", "y" or "z"). `text`: `self.thread` or `self.block`."""
        return text.format(axis=axis, number=_AXES.index(axis))

    def kernel_text(self, parts: KernelParts) -> str:
        """The text of a kernel."""
        x, y, z = parts.block
        signature = self.kernel.format(function=parts.function, threads=x * y * z, x=x, y=y, z=z)
        int_text = self.type_of(DType.INT32)
        parameters = [*map(self._parameter, parts.arrays), *parts.others]
        parameters += [f"{int_text} {name}" for name in parts.numbers]
        head = [f"    {line}" for line in (*parts.shared, *parts.head)]
        return "\n".join([signature, f"    {', '.join(parameters)}) {{", *head, *parts.body, "}", ""])

    def own_names(self, parts: KernelParts) -> frozenset[str]:
        """The names in a kernel's text, besides the kernel's own name, that other kernels of the same source must not
        use. In C there are none.
        """
        return frozenset()

    def definitions(self, used: AbstractSet[str], texts: Sequence[str]) -> list[str]:
        """The definitions of the functions with the names `used`, which kernels with these `texts` call. Raises
        KeyError for unknown names.
        """
        if unknown := used - self.functions.keys():
            raise KeyError(sorted(unknown)[0])
        return [text for name, text in self.functions.items() if name in used]

    def _parameter(self, array: Parameter) -> str:
        pointer = self.pointer(self.type_of(array.dtype), "global", const=not array.changed)
        return f"{pointer} {f'{self.restrict} ' if array.restricted else ''}{array.name}"


def _conversion(type_text: str, value: Text) -> Text:
    return Text(f"({type_text}){value.within(UNARY)}", UNARY)

"""Dialects of C for GPUs: the differences between GPU languages in types, qualifiers, names and kernel declarations.

All dialects share the printers of loops and expressions (`statements`, `expressions`, `module`, ...). `functions.CUDA`
is CUDA C++; other targets return their dialect from `GpuTarget.dialect`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ...ir.types import DType
from .errors import LoweringError

Space = Literal["global", "shared", "register"]
"""The memory of the device, of a block, or of a thread."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dialect:
    """The words of one language.

    `types` of elements in memory; a type that is missing has no code. `wide` is a signed integer of 64 bits, whose
    literals end with `wide_suffix`. `float_of_bits` and `float_of_int` name functions that take the bits of a float as
    unsigned and as int. `math` names the scalar functions of the IR, and `fused` a fused multiply-add.

    `spaces` and `restrict` qualify pointers. `aligned` declares 16 bytes of alignment, `thread` and `block` a
    coordinate along an {axis} ("x") with its {number}. `kernel` begins a kernel's declaration, with {function},
    {threads} and the threads along each axis, {x}, {y} and {z}. `barrier` makes all threads of a block wait for each
    other.

    `vector` is the type of {count} neighbours of a {type}, with the array `at` as member; `vector_definition` is its
    definition, or "" if `functions` has one for all, called "Vector". A value is written as `compound` and braces;
    `zeros` stands in the braces for zeros.

    Shared memory of {bytes} bytes is declared by `shared_block`, or by `shared_dynamic` if launches give the size; a
    single buffer by `shared_array` ({type}, {name}, {elements}).

    `functions` are definitions by name, which printers may call; `names` are reserved identifiers. `prelude` is the
    beginning of every source.
    """

    name: str
    types: Mapping[DType, str]
    wide: str
    unsigned_wide: str
    wide_suffix: str
    float_of_bits: str
    float_of_int: str
    math: Mapping[str, str]
    fused: str
    spaces: Mapping[Space, str]
    restrict: str
    aligned: str
    thread: str
    block: str
    kernel: str
    barrier: str
    vector: str
    vector_definition: str
    compound: str
    zeros: str
    shared_array: str
    shared_block: str
    shared_dynamic: str
    functions: Mapping[str, str]
    names: frozenset[str]
    prelude: str = ""

    def type_of(self, dtype: DType) -> str:
        """The type of elements; raises LoweringError if the language has none."""
        if dtype not in self.types:
            raise LoweringError(f"{self.name} has no code for {dtype}; compute in float32")
        return self.types[dtype]

    def pointer(self, type_text: str, space: Space, *, const: bool = False) -> str:
        """The type of a pointer to `type_text` in a memory space."""
        return f"{self.spaces[space]}{'const ' if const else ''}{type_text}*"

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
"""A kind of memory: "global" (of the device), "shared" (of a block) or "register" (of a thread)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dialect:
    """The text fragments of one language. Most are templates; names in braces are their placeholders.

    `types`: names of the element types in memory; kernels cannot use a type without an entry. `wide`: a signed integer
    of 64 bits, whose literals end with `wide_suffix`. `float_of_bits`, `float_of_int`: functions that make a float from
    its bits, given as unsigned or as int. `math`: names of the scalar functions of the IR. `fused`: a fused
    multiply-add.

    `spaces`, `restrict`: qualifiers of pointers. `aligned`: declares 16 bytes of alignment. `thread`, `block`: a
    coordinate along an {axis} ("x") with its {number}. `kernel`: beginning of a kernel's declaration, with {function},
    {threads} and the threads along each axis, {x}, {y} and {z}. `barrier`: makes all threads of a block wait for each
    other.

    `vector`: the type of {count} adjacent elements of a {type}, a struct whose member `at` is the array of elements.
    `vector_definition`: the definition of this type, or "" if `functions` contains one definition for all, named
    "Vector". `compound`: text before the braces of a vector value. `zeros`: these braces for a vector of zeros.

    `shared_block`: declares shared memory of {bytes} bytes; `shared_dynamic` does so if launches give the size.
    `shared_array`: declares a single buffer in shared memory ({type}, {name}, {elements}).

    `functions`: definitions by name, which the printers use on demand. `names`: reserved identifiers. `prelude`:
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
        """The name of an element type in this language. Raises LoweringError if the language has no such type."""
        if dtype not in self.types:
            raise LoweringError(f"{self.name} has no code for {dtype}; compute in float32")
        return self.types[dtype]

    def pointer(self, type_text: str, space: Space, *, const: bool = False) -> str:
        """The type of a pointer to `type_text` in a memory space."""
        return f"{self.spaces[space]}{'const ' if const else ''}{type_text}*"

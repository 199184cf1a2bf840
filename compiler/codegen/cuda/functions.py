"""Device functions called by generated code, as text. A source begins with the functions that it uses.

No header is included, since NVRTC's package has none. Functions of the CUDA math library are built into NVRTC. The CUDA
C++ Programming Guide gives their errors in the table "Single-Precision Mathematical Standard Library Functions" (expf
1, tanhf 1, logf 1, erff 2 units in the last place; division and square root are correctly rounded).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...ir.types import DType
from ...te.scalars import DOUBLES
from . import bulk_copies, mma_functions, shuffles, wgmma_emit
from .dialect import Dialect
from .errors import LoweringError
from .text import PRODUCT, Text, call

if TYPE_CHECKING:
    from .expressions import ExpressionEmitter

_FLOAT16 = """\
struct float16 { unsigned short bits; };
__device__ __forceinline__ float to_float(float16 x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}
__device__ __forceinline__ float16 to_float16(float x) {
    float16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}
"""
_BFLOAT16 = """\
struct bfloat16 { unsigned short bits; };
__device__ __forceinline__ float to_float(bfloat16 x) { return __uint_as_float((unsigned)x.bits << 16); }
__device__ __forceinline__ bfloat16 to_bfloat16(float x) {
    bfloat16 y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}
"""
_VECTOR = """\
template <typename T, int N> struct alignas(sizeof(T) * N) Vector { T at[N]; };
"""
_COPY_ASYNC = """\
__device__ __forceinline__ void copy_async_{size}(void* to, const void* from, int bytes) {{
    asm volatile("cp.async.{cache}.shared.global [%0], [%1], {size}, %2;"
                 :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(bytes) : "memory");
}}
"""
_WAIT_ASYNC = """\
template <int PENDING> __device__ __forceinline__ void wait_async() {
    asm volatile("cp.async.wait_group %0;" :: "n"(PENDING) : "memory");
}
"""
_COMMIT_ASYNC = """\
__device__ __forceinline__ void commit_async() { asm volatile("cp.async.commit_group;" ::: "memory"); }
"""
_WAIT_FOR_KERNELS = """\
__device__ __forceinline__ void wait_for_kernels() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
"""
_MAXIMUM = """\
__device__ __forceinline__ float maximum(float a, float b) {
    float c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}
"""
_FLOOR_DIVIDE = """\
template <typename T> __device__ __forceinline__ T floor_divide(T a, T b) {
    return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}
"""
_FLOOR_MODULO = """\
template <typename T> __device__ __forceinline__ T floor_modulo(T a, T b) {
    const T rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
"""
_SIGMOID = """\
__device__ __forceinline__ float sigmoid(float x) {
    const float e = expf(-fabsf(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}
"""
_ROUND_TF32 = """\
__device__ __forceinline__ float round_tf32(float x) {
    unsigned y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
    return __uint_as_float(y);
}
"""

FUNCTIONS = {
    "float16": _FLOAT16,
    "bfloat16": _BFLOAT16,
    "Vector": _VECTOR,
    # PTX ISA, "cp.async": only copies of 16 bytes may bypass the first-level cache.
    "copy_async_4": _COPY_ASYNC.format(size=4, cache="ca"),
    "copy_async_8": _COPY_ASYNC.format(size=8, cache="ca"),
    "copy_async_16": _COPY_ASYNC.format(size=16, cache="cg"),
    "commit_async": _COMMIT_ASYNC,
    "wait_async": _WAIT_ASYNC,
    "wait_for_kernels": _WAIT_FOR_KERNELS,
    "maximum": _MAXIMUM,
    "minimum": _MAXIMUM.replace("maximum", "minimum").replace("max.NaN", "min.NaN"),
    "floor_divide": _FLOOR_DIVIDE,
    "floor_modulo": _FLOOR_MODULO,
    "sigmoid": _SIGMOID,
    "round_tf32": _ROUND_TF32,
    **shuffles.FUNCTIONS,
    **mma_functions.FUNCTIONS,
    **wgmma_emit.FUNCTIONS,
    **bulk_copies.FUNCTIONS,
}
"""Definitions of device functions by name, in the order of their output; `float16` and `bfloat16` include their
conversions.
"""

_NAMES = frozenset(
    {*FUNCTIONS, *wgmma_emit.NAMES, *bulk_copies.NAMES, "to_float", "to_float16", "to_bfloat16"}
)
"""All identifiers that FUNCTIONS and the texts of tensor core operations define."""
_MATH = {
    **{name: f"{name}f" for name in ("exp", "tanh", "log", "sqrt", "erf", *DOUBLES, "floor", "ceil")},
    "round_even": "rintf",
    "truncate": "truncf",
}
"""Maps names of scalar functions in the IR (te.scalars) to names of functions in CUDA's math library."""
_OURS = ("sigmoid", "round_tf32")
"""Functions of te.scalars that a dialect may define itself."""

CUDA = Dialect(
    name="CUDA C++",
    types={
        DType.INT8: "signed char",
        DType.UINT8: "unsigned char",
        DType.INT32: "int",
        DType.INT64: "long long",
        DType.FLOAT16: "float16",
        DType.BFLOAT16: "bfloat16",
        DType.FLOAT32: "float",
        DType.BOOL: "bool",
    },
    unsigned="unsigned",
    unsigned_wide="unsigned long long",
    wide_suffix="LL",
    float_of_bits="__uint_as_float",
    float_of_int="__int_as_float",
    math=_MATH,
    fused="fmaf",
    dot="__dp4a({a}, {b}, {total})",
    spaces={"global": "", "shared": "", "register": ""},
    restrict="__restrict__",
    aligned="alignas(16)",
    thread="threadIdx.{axis}",
    block="blockIdx.{axis}",
    kernel='extern "C" __global__ void __launch_bounds__({threads}) {function}(',
    barrier="__syncthreads();",
    vector="Vector<{type}, {count}>",
    vector_definition="",
    compound="{}",
    zeros="{}",
    shared_array="__shared__ alignas({alignment}) {type} {name}[{elements}];",
    # NVRTC accepts no alignas at this place of an extern array.
    shared_block="__shared__ __align__({alignment}) unsigned char shared[{bytes}];",
    shared_dynamic="extern __shared__ __align__({alignment}) unsigned char shared[];",
    functions=FUNCTIONS,
    names=_NAMES,
)
"""The dialect CUDA C++; its types float16 and bfloat16 are defined in `FUNCTIONS`."""


def call_function(values: ExpressionEmitter, name: str, arguments: Sequence[Text], dtype: DType) -> Text:
    """The text of a call of the scalar function `name` of the IR (`Call`) with a result of type `dtype`. Raises
    LoweringError for functions without code on this target.
    """
    if name == "divide" and len(arguments) == 2 and dtype is DType.FLOAT32:
        return values.dialect.operated("/", PRODUCT, *arguments)
    if name == "float32_from_bits" and len(arguments) == 1:
        return call(values.dialect.float_of_int, *arguments)
    math = values.dialect.math
    ours = [own for own in _OURS if own in values.dialect.functions]
    if name not in (*math, *ours) or len(arguments) != 1 or dtype is not DType.FLOAT32:
        known = ", ".join(("divide", "float32_from_bits", *math, *ours))
        raise LoweringError(f"function {name} is not supported on this target; supported are {known}")
    if name in ours:
        values.used.add(name)
    return call(math.get(name, name), *arguments)

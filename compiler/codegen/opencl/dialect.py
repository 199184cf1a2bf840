"""OpenCL C as a dialect of GPU kernels (The OpenCL C Specification, version 1.2).

Functions of the language have at least the accuracy of the specification's table 7.4. Division and square root are
correctly rounded on devices that support it, if `runtime.opencl_device` requests it.
"""

from __future__ import annotations

from ...ir.types import DType
from ...te.scalars import DOUBLES
from ..cuda.dialect import Dialect

# clang, on which all vendors' compilers are built, supports overloading by argument types.
_OVERLOADED = """\
static {type} __attribute__((overloadable)) {name}({type} a, {type} b) {{
    {body}
}}
"""


def _of_integers(name: str, body: str) -> str:
    return "".join(_OVERLOADED.format(name=name, type=t, body=body.replace("T", t)) for t in ("int", "long"))


def _extremum(name: str, op: str) -> str:
    """The definition of the function `name`, which returns the greater (`op` ">") or lesser ("<") of two floats; the
    result is NaN if either is NaN.
    """
    return f"""\
static float {name}(float a, float b) {{
    return a {op} b || a != a ? a : b;
}}
"""


FUNCTIONS = {
    "maximum": _extremum("maximum", ">"),
    "minimum": _extremum("minimum", "<"),
    "floor_divide": _of_integers("floor_divide", "return a / b - (a % b != 0 && (a % b < 0) != (b < 0));"),
    "floor_modulo": _of_integers(
        "floor_modulo",
        "const T rest = a % b;\n    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;",
    ),
    "sigmoid": """\
static float sigmoid(float x) {
    const float e = exp(-fabs(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}
""",
}
_VECTOR = """\
typedef struct {{ {type} at[{count}]; }} __attribute__((aligned(sizeof({type}) * {count}))) {vector};
"""
_KEYWORDS = """
    kernel global local constant generic read_only write_only read_write uniform pipe half uchar ushort uint ulong
    image1d_t image2d_t image3d_t sampler_t event_t restrict inline complex imaginary
    barrier fma fabs fmax fmin clamp mix step smoothstep sign radians degrees cross dot distance length normalize
    select shuffle shuffle2 bitselect rotate popcount clz hadd rhadd mad mad24 mul24 mad_sat mul_hi abs_diff add_sat
    sub_sat upsample floor ceil rint round trunc fract modf frexp ldexp ilogb logb nextafter pow pown powr rootn exp2
    exp10 expm1 log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh asinh acosh atanh sinpi cospi tanpi cbrt
    hypot rsqrt erfc tgamma lgamma maxmag minmag nan fdim fmod remainder remquo copysign isnan isinf isfinite isnormal
    isequal isless isgreater any all signbit printf prefetch as_float as_int as_uint
"""
OPENCL = Dialect(
    name="OpenCL C",
    types={
        DType.INT8: "char",
        DType.UINT8: "uchar",
        DType.INT32: "int",
        DType.INT64: "long",
        DType.FLOAT32: "float",
        # Kernels take no pointers to bool, whose size depends on the compiler.
        DType.BOOL: "uchar",
    },
    unsigned="unsigned",
    unsigned_wide="ulong",
    wide_suffix="L",
    float_of_bits="as_float",
    float_of_int="as_float",
    math={
        **{name: name for name in ("exp", "tanh", "log", "sqrt", "erf", *DOUBLES, "floor", "ceil")},
        "round_even": "rint",
        "truncate": "trunc",
    },
    fused="fma",
    spaces={"global": "global ", "shared": "local ", "register": ""},
    restrict="restrict",
    aligned="__attribute__((aligned(16)))",
    thread="get_local_id({number})",
    block="get_group_id({number})",
    kernel="kernel __attribute__((reqd_work_group_size({x}, {y}, {z}))) void {function}(",
    barrier="barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
    vector="{type}_x{count}",
    vector_definition=_VECTOR,
    compound="({})",
    zeros="{{0}}",
    shared_array="local {type} {name}[{elements}] __attribute__((aligned({alignment})));",
    shared_block="local uchar shared[{bytes}] __attribute__((aligned({alignment})));",
    shared_dynamic="local uchar shared[{bytes}] __attribute__((aligned({alignment})));",
    functions=FUNCTIONS,
    names=frozenset({*_KEYWORDS.split(), *FUNCTIONS}),
    prelude="#pragma OPENCL FP_CONTRACT OFF\n",
)
"""The dialect OpenCL C. It has no 16-bit floats, because their arithmetic is an extension of OpenCL C."""

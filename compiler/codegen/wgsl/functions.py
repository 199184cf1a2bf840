"""Functions of WGSL texts, by name. A source contains the functions that its kernels mention.

WGSL has no erf. Some of its other functions may have errors that are visible in networks' results. sin and cos may have
errors of 2**-11. acos may have the errors of a quotient and a square root. asin of the Mesa drivers is wrong by 4,000
units in the last place. So kernels compute these functions by polynomials of Cephes (S. Moshier,
https://www.netlib.org/cephes, single precision), and erf by a quotient of polynomials from Eigen. Comparisons of WGSL
may treat NaN as a number, so kernels recognize NaN by its bits.
"""

from __future__ import annotations

_IS_NAN = "fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }\n"
# A constant expression must not be infinite or NaN; the result of a function is not a constant expression.
_FLOAT_OF_BITS = "fn float_of_bits(bits: u32) -> f32 { return bitcast<f32>(bits); }\n"
_POSITIVE_ZERO = "fn positive_zero(x: f32) -> f32 { return select(x, 0.0f, x == 0.0f); }\n"
_EXTREMUM = """\
fn {name}(a: f32, b: f32) -> f32 {{ return select(select(b, a, a {op} b), a, is_nan(a)); }}
"""
_FLOOR_DIVIDE = """\
fn floor_divide(a: i32, b: i32) -> i32 {
    let rest = a % b;
    return a / b - i32(rest != 0 && ((rest ^ b) < 0));
}
"""
_FLOOR_MODULO = """\
fn floor_modulo(a: i32, b: i32) -> i32 {
    let rest = a % b;
    return select(rest, rest + b, rest != 0 && ((rest ^ b) < 0));
}
"""
# Elements of 8 bits are four to a word; `at` is an element's index.
_INT8_AT = """\
fn int8_at(word: u32, at: i32) -> i32 { return extractBits(bitcast<i32>(word), u32(at & 3) * 8u, 8u); }
"""
_UINT8_AT = """\
fn uint8_at(word: u32, at: i32) -> i32 { return i32(extractBits(word, u32(at & 3) * 8u, 8u)); }
"""
_WITH_BYTE = """\
fn with_byte(word: u32, at: i32, value: i32) -> u32 {
    return insertBits(word, bitcast<u32>(value), u32(at & 3) * 8u, 8u);
}
"""
# A store of 8 bits changes no other byte of the word, which another thread may write at the same time.
_OTHER_BYTES = "fn other_bytes(at: i32) -> u32 { return ~(255u << (u32(at & 3) * 8u)); }\n"
_AS_BYTE = """\
fn as_byte(at: i32, value: i32) -> u32 { return (bitcast<u32>(value) & 255u) << (u32(at & 3) * 8u); }
"""
_WIDENED = "fn widened(x: i32) -> vec2<i32> { return vec2<i32>(x, x >> 31u); }\n"

_EXP = """\
fn exponential(x: f32) -> f32 {
    let bounded = clamp(x, -104.0f, 89.0f);
    let power = round(bounded * 1.44269504f);
    let r = (bounded - power * 0.693359375f) - power * -2.12194440e-4f;
    var y = 1.9875691500e-4f * r + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = (y * r + 5.0000001201e-1f) * (r * r) + r + 1.0f;
    let first = i32(power) / 2;
    let second = i32(power) - first;
    y = y * bitcast<f32>((first + 127) << 23u) * bitcast<f32>((second + 127) << 23u);
    return select(y, x, is_nan(x));
}
"""
_SIGMOID = """\
fn sigmoid(x: f32) -> f32 {
    let e = exponential(-abs(x));
    return select(1.0f, e, x < 0.0f) / (1.0f + e);
}
"""
_TANH = """\
fn hyperbolic_tangent(x: f32) -> f32 {
    let z = x * x;
    var y = -5.70498872745e-3f * z + 2.06390887954e-2f;
    y = y * z - 5.37397155531e-2f;
    y = y * z + 1.33314422036e-1f;
    y = (y * z - 3.33332819422e-1f) * z * x + x;
    let far = 1.0f - 2.0f / (exponential(2.0f * abs(x)) + 1.0f);
    return select(y, select(far, -far, x < 0.0f), abs(x) > 0.625f);
}
"""
_ERF = """\
fn error_function(x: f32) -> f32 {
    let b = clamp(x, -4.0f, 4.0f);
    let z = b * b;
    var p = -2.72614225801306e-10f * z + 2.77068142495902e-08f;
    p = p * z - 2.10102402082508e-06f;
    p = p * z - 5.69250639462346e-05f;
    p = p * z - 7.34990630326855e-04f;
    p = p * z - 2.95459980854025e-03f;
    p = p * z - 1.60960333262415e-02f;
    var q = -1.45660718464996e-05f * z - 2.13374055278905e-04f;
    q = q * z - 1.68282697438203e-03f;
    q = q * z - 7.37332916720468e-03f;
    q = q * z - 1.42647390514189e-02f;
    return select(b * p / q, x, is_nan(x));
}
"""
_SINE = """\
fn sine_turned(x: f32, turn: i32) -> f32 {
    let quarters = round(x * 0.63661977f);
    let r = ((x - quarters * 1.5703125f) - quarters * 4.837512969970703e-4f) - quarters * 7.549789948768648e-8f;
    let z = r * r;
    var s = -1.9515295891e-4f * z + 8.3321608736e-3f;
    s = (s * z - 1.6666654611e-1f) * z * r + r;
    var c = 2.443315711809948e-5f * z - 1.388731625493765e-3f;
    c = (c * z + 4.166664568298827e-2f) * z * z - 0.5f * z + 1.0f;
    let quadrant = (i32(quarters - 4.0f * floor(0.25f * quarters)) + turn) & 3;
    let y = select(s, c, (quadrant & 1) == 1);
    return select(y, -y, quadrant > 1);
}
"""
_SIN = "fn sine(x: f32) -> f32 { return select(sine_turned(x, 0), x, x == 0.0f); }\n"
_COS = "fn cosine(x: f32) -> f32 { return sine_turned(x, 1); }\n"
_TAN = "fn tangent(x: f32) -> f32 { return select(sine(x) / cosine(x), x, x == 0.0f); }\n"
_ASIN = """\
fn arc_sine_upward(a: f32) -> f32 {
    let steep = a > 0.5f;
    let z = select(a * a, 0.5f * (1.0f - a), steep);
    let s = select(a, sqrt(z), steep);
    var y = 4.2163199048e-2f * z + 2.4181311049e-2f;
    y = y * z + 4.5470025998e-2f;
    y = y * z + 7.4953002686e-2f;
    y = (y * z + 1.6666752422e-1f) * z * s + s;
    return select(y, 1.5707963f - 2.0f * y, steep);
}
fn arc_sine(x: f32) -> f32 {
    let y = arc_sine_upward(abs(x));
    return select(select(y, -y, x < 0.0f), x, x == 0.0f);
}
"""
_ACOS = """\
fn arc_cosine(x: f32) -> f32 {
    let steep = 2.0f * arc_sine_upward(sqrt(0.5f * (1.0f - abs(x))));
    return select(1.5707963f - arc_sine(x), select(steep, 3.1415927f - steep, x < 0.0f), abs(x) > 0.5f);
}
"""
_ATAN = """\
fn arc_tangent(x: f32) -> f32 {
    let a = abs(x);
    let far = a > 2.41421356f;
    let middle = a > 0.41421356f;
    let r = select(select(a, (a - 1.0f) / (a + 1.0f), middle), -1.0f / a, far);
    let z = r * r;
    var y = 8.05374449538e-2f * z - 1.38776856032e-1f;
    y = y * z + 1.99777106478e-1f;
    y = (y * z - 3.33329491539e-1f) * z * r + r;
    y = y + select(select(0.0f, 0.78539816f, middle), 1.57079633f, far);
    return select(select(y, -y, x < 0.0f), x, x == 0.0f || is_nan(x));
}
"""
_SINH = """\
fn hyperbolic_sine(x: f32) -> f32 {
    let z = x * x;
    var y = 2.03721912945e-4f * z + 8.33028376239e-3f;
    y = (y * z + 1.66667160211e-1f) * z * x + x;
    let e = exponential(0.5f * abs(x));
    let far = 0.5f * e * e - 0.5f / (e * e);
    return select(y, select(far, -far, x < 0.0f), abs(x) > 1.0f);
}
"""
_COSH = """\
fn hyperbolic_cosine(x: f32) -> f32 {
    let e = exponential(0.5f * abs(x));
    return 0.5f * e * e + 0.5f / (e * e);
}
"""
_ASINH = """\
fn area_sine(x: f32) -> f32 {
    let a = abs(x);
    let z = a * a;
    var y = 2.0122003309e-2f * z - 4.2699340972e-2f;
    y = y * z + 7.4847586088e-2f;
    y = (y * z - 1.6666288134e-1f) * z * a + a;
    let far = select(log(a + sqrt(z + 1.0f)), log(a) + 0.69314718f, a > 1500.0f);
    y = select(y, far, a > 0.5f);
    return select(select(y, -y, x < 0.0f), x, x == 0.0f || is_nan(x));
}
"""
_ACOSH = """\
fn area_cosine(x: f32) -> f32 {
    let z = x - 1.0f;
    var y = 1.7596881071e-3f * z - 7.5272886713e-3f;
    y = y * z + 2.6454905019e-2f;
    y = y * z - 1.1784741703e-1f;
    y = (y * z + 1.4142135263f) * sqrt(z);
    let far = select(log(x + sqrt(z * (x + 1.0f))), log(x) + 0.69314718f, x > 1500.0f);
    y = select(y, far, z > 0.5f);
    return select(y, float_of_bits(0x7fc00000u), x < 1.0f || is_nan(x));
}
"""
_ATANH = """\
fn area_tangent(x: f32) -> f32 {
    let z = x * x;
    var y = 1.81740078349e-1f * z + 8.24370301058e-2f;
    y = y * z + 1.46691431730e-1f;
    y = y * z + 1.99782164500e-1f;
    y = (y * z + 3.33337300303e-1f) * z * x + x;
    let far = 0.5f * log((1.0f + x) / (1.0f - x));
    return select(select(y, far, abs(x) > 0.5f), float_of_bits(0x7fc00000u), abs(x) > 1.0f || is_nan(x));
}
"""

MATH = {
    "exp": "exponential",
    "tanh": "hyperbolic_tangent",
    "log": "log",
    "sqrt": "sqrt",
    "erf": "error_function",
    "sin": "sine",
    "cos": "cosine",
    "tan": "tangent",
    "asin": "arc_sine",
    "acos": "arc_cosine",
    "atan": "arc_tangent",
    "sinh": "hyperbolic_sine",
    "cosh": "hyperbolic_cosine",
    "asinh": "area_sine",
    "acosh": "area_cosine",
    "atanh": "area_tangent",
    "floor": "floor",
    "ceil": "ceil",
    "round_even": "round",
    "truncate": "trunc",
}
"""Maps each scalar function of the IR to the function that kernels call: WGSL's function if it is accurate, else one of
`FUNCTIONS`.
"""
FUNCTIONS = {
    "is_nan": _IS_NAN,
    "float_of_bits": _FLOAT_OF_BITS,
    "positive_zero": _POSITIVE_ZERO,
    "maximum": _EXTREMUM.format(name="maximum", op=">"),
    "minimum": _EXTREMUM.format(name="minimum", op="<"),
    "floor_divide": _FLOOR_DIVIDE,
    "floor_modulo": _FLOOR_MODULO,
    "int8_at": _INT8_AT,
    "uint8_at": _UINT8_AT,
    "with_byte": _WITH_BYTE,
    "other_bytes": _OTHER_BYTES,
    "as_byte": _AS_BYTE,
    "widened": _WIDENED,
    "exponential": _EXP,
    "sigmoid": _SIGMOID,
    "hyperbolic_tangent": _TANH,
    "error_function": _ERF,
    "sine_turned": _SINE,
    "sine": _SIN,
    "cosine": _COS,
    "tangent": _TAN,
    "arc_sine": _ASIN,
    "arc_cosine": _ACOS,
    "arc_tangent": _ATAN,
    "hyperbolic_sine": _SINH,
    "hyperbolic_cosine": _COSH,
    "area_sine": _ASINH,
    "area_cosine": _ACOSH,
    "area_tangent": _ATANH,
}
"""Definitions of functions by name. `arc_sine` includes `arc_sine_upward`, the arc sine of arguments from 0 on."""

"""Generated code of quantized arithmetic: every function equals `vdla.isa.arithmetic`, with and without fused
multiply-add.
"""

from __future__ import annotations

import numpy as np
import pytest

from vdla.compiler.codegen.cpu.errors import LoweringError, TargetError
from vdla.compiler.codegen.cpu.kernel import build
from vdla.compiler.codegen.cpu.machine import CpuTarget, host_target
from vdla.compiler.codegen.cpu.x86_levels import host_target_at
from vdla.compiler.ir.expr import Call, Const, Expr
from vdla.compiler.ir.types import DType
from vdla.compiler.te.functions import FUNCTIONS
from vdla.compiler.te.ops.float_elementwise import float_elementwise
from vdla.compiler.te.scalars import argument
from vdla.compiler.templates.cpu.lowered import scheduled

SIZE = 4099


def without_fused_multiply_add() -> CpuTarget:
    try:
        return host_target_at("sse")
    except TargetError:
        pytest.skip("this machine has no SSE")


def integers(*values: int) -> list[Expr]:
    return [Const(v, DType.INT8) for v in values]


def reals(*values: float) -> list[Expr]:
    return [Const(float(np.float32(v)), DType.FLOAT32) for v in values]


def bools(value: bool) -> list[Expr]:
    return [Const(value, DType.BOOL)]


A, B = argument(0, DType.INT8), argument(1, DType.INT8)
UNSIGNED, LIMITS = bools(True), integers(-128, 127)
CALLS: dict[str, tuple[str, list[Expr]]] = {
    "requantize": (
        "requantize",
        [argument(0, DType.INT32), argument(1, DType.FLOAT32), *integers(-7, -100, 127)],
    ),
    "rescale": ("rescale", [A, *integers(-128), *reals(0.7310), *integers(127, -128, 120)]),
    "add u8": ("combine_add", [A, B, *reals(0.5017, 1.25, -170.92694), *bools(True), *integers(-128, 127)]),
    "add s8": ("combine_add", [A, B, *reals(1 / 3, 1e-3, 0.5), *bools(False), *integers(-20, 127)]),
    # Eleven of the sums come out otherwise if products are rounded before they are added.
    "add fused": (
        "combine_add",
        [
            A,
            B,
            *reals(*map(float.fromhex, ("0x1.3ffff4p+0", "0x1.80001p-1", "0x1.28p+4"))),
            *UNSIGNED,
            *LIMITS,
        ],
    ),
    # 3 times the first ratio is 3.5 - 2**-23, between two float32 numbers: which is nearer, 3.5 or the one below, only
    # the offset says, which a sum in float64 loses.
    "add odd": (
        "combine_add",
        [A, B, *reals((7 * 2**22 - 1) / 3 / 2**23, 2**-64, -(2**-60)), *bools(True), *integers(-128, 127)],
    ),
    "add large": ("combine_add", [A, B, *reals(65535.9, 65521.3, -1e6), *bools(False), *integers(-128, 127)]),
    "multiply": (
        "combine_multiply",
        [A, B, *integers(3, -128), *reals(0.0123), *integers(-5), *bools(True), *integers(-128, 100)],
    ),
    "quantize": ("quantize", [argument(0, DType.FLOAT32), *reals(0.0173), *integers(-3)]),
}


def operands(name: str) -> list[np.ndarray]:
    rng = np.random.default_rng(len(name))
    match CALLS[name][0]:
        case "requantize":
            total = rng.integers(-(2**31), 2**31, SIZE).astype(np.int32)
            scale = np.exp(rng.uniform(-30, 5, SIZE)).astype(np.float32)
            # Halves, extremes, and a product that overflows.
            total[:8] = [1, 3, 5, -1, -3, 2**31 - 1, -(2**31), 2**31 - 1]
            scale[:8] = [0.5, 0.5, 0.5, 0.5, 0.5, 3e38, 3e38, 1e-38]
            return [total, scale]
        case "quantize":
            x = rng.normal(0, 2, SIZE).astype(np.float32)
            x[:4] = [np.inf, -np.inf, 0.0173 * 0.5, 3.4e38]
            return [x]
        case function:
            pairs = np.arange(65536)[:: 65536 // SIZE]
            both = [(pairs // 256 - 128).astype(np.int8), (pairs % 256 - 128).astype(np.int8)]
            return both[:1] if function == "rescale" else both


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "not fused"])
def test_functions_equal_the_arithmetic(fused: bool) -> None:
    target = host_target() if fused else without_fused_multiply_add()
    assert target.fused_multiply_add is fused
    for name, (function, arguments) in CALLS.items():
        arrays = operands(name)
        program = float_elementwise(
            [(len(arrays[0]),)] * len(arrays), Call(function, tuple(arguments), DType.INT8)
        )
        got = np.full(len(arrays[0]), 99, np.int8)
        given = {f"X{i}": array for i, array in enumerate(arrays)}
        build(scheduled(target, program).program, target)(**given, Y=got)
        if function == "requantize":
            # The wrapper of the interpreter takes one scale, the arithmetic any.
            limits = [e.value for e in arguments[2:] if isinstance(e, Const)]
            expected = FUNCTIONS[function](arrays[0], arrays[1], *limits)
        else:
            values = [e.value for e in arguments if isinstance(e, Const)]
            expected = FUNCTIONS[function](*arrays, *values)
        np.testing.assert_array_equal(got, expected, err_msg=name)


def test_limits_that_are_no_constants_have_no_code() -> None:
    arguments = (argument(0, DType.INT32), argument(1, DType.FLOAT32), *integers(0), A, *integers(127))
    program = float_elementwise([(4,), (4,)], Call("rescale", (A, *arguments[1:2], *arguments), DType.INT8))
    with pytest.raises(LoweringError, match="argument 1 of rescale must be a constant"):
        build(program)

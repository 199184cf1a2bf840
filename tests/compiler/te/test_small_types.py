"""Small float and integer types agree with ml_dtypes: the value of every code, and the rounding of numbers to codes."""

from __future__ import annotations

import numpy as np
import pytest

from vdla.compiler.codegen.cpu.kernel import build
from vdla.compiler.ir.expr import Buffer, Expr, Var, cast
from vdla.compiler.ir.stmt import Assign, Program, nest
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.verify import VerifyError, verify
from vdla.compiler.te.small_types import FLOATS, INTEGERS, decoded, encoded


def program(size: int, of: DType, to: DType, value) -> Program:
    x, y = Buffer(name="X", shape=(size,), dtype=of), Buffer(name="Y", shape=(size,), dtype=to)
    i = Var("i")
    body: Expr = value(x[i])
    assign = Assign(name="apply", buffer=y, indices=(i,), value=body)
    return Program(name="codes", parameters=(x, y), body=nest([(i, size)], assign))


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, DType.FLOAT8_E8M0])
def test_codes_are_decoded_and_encoded_as_ml_dtypes_does(dtype: DType) -> None:
    bits = INTEGERS.get(dtype, 4 if dtype is DType.FLOAT4_E2M1 else 8)
    codes = np.arange(1 << bits, dtype=np.uint8).view(dtype.numpy)
    to = DType.INT32 if dtype in INTEGERS else DType.FLOAT32
    numbers = np.empty(codes.shape, to.numpy)
    build(program(codes.size, dtype, to, decoded))(X=codes, Y=numbers)
    np.testing.assert_array_equal(numbers, codes.astype(to.numpy))
    back = np.empty_like(codes)
    code = program(codes.size, to, dtype, lambda x: encoded(x, dtype, saturate=False, rounding="down"))
    build(code)(X=numbers, Y=back)
    np.testing.assert_array_equal(
        back.view(np.uint8)[~np.isnan(numbers)], codes.view(np.uint8)[~np.isnan(numbers)]
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_rounding(dtype: DType) -> None:
    rng = np.random.default_rng(0)
    plain = rng.choice([-1, 1], 2000) * 2.0 ** rng.uniform(-22, 18, 2000)
    grid = np.arange(1 << 7, dtype=np.uint8).view(dtype.numpy).astype(np.float32)[:100]
    halfway = (grid[1:] + grid[:-1]) / 2
    ends = [0.0, -0.0, np.inf, -np.inf, np.nan]
    x = np.concatenate([plain, grid, halfway[np.isfinite(halfway)], ends]).astype(np.float32)
    got = np.empty(x.shape, dtype.numpy)
    build(program(x.size, DType.FLOAT32, dtype, lambda v: encoded(v, dtype, saturate=False)))(X=x, Y=got)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got.view(np.uint8), x.astype(dtype.numpy).view(np.uint8))


def test_arithmetic_on_codes_is_refused() -> None:
    with pytest.raises(VerifyError, match="for storage only"):
        verify(program(4, DType.INT4, DType.INT4, lambda x: x + x))
    with pytest.raises(VerifyError, match="for storage only"):
        verify(program(4, DType.INT4, DType.INT8, lambda x: cast(x, DType.INT8)))

"""Element types: their value ranges, and rounding of 16-bit floats after every operation."""

import ml_dtypes
import numpy as np
import pytest

from vdla.compiler.ir.expr import Buffer, Cast, Const, Var, cast, dtype_of
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.program_json import program_from_dict, program_to_dict
from vdla.compiler.ir.stmt import Assign, Program, nest
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.verify import verify
from vdla.compiler.te.functions import FUNCTIONS


@pytest.mark.parametrize("dtype", list(DType))
def test_numpy_types(dtype: DType) -> None:
    assert dtype.numpy.name == dtype.value
    assert dtype.numpy.itemsize * 8 == dtype.bits
    assert dtype.is_float + dtype.is_integer + (dtype is DType.BOOL) + dtype.is_code == 1
    if dtype.is_float or dtype.is_code:
        with pytest.raises(TypeError, match=f"{dtype} has no integer limits"):
            _ = dtype.limits


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16])
def test_half_floats_round_after_every_operation(dtype: DType) -> None:
    x = Buffer(name="X", shape=(64,), dtype=dtype)
    y = Buffer(name="Y", shape=(64,), dtype=dtype)
    z = Buffer(name="Z", shape=(64,), dtype=DType.FLOAT32)
    i = Var("i")
    value = x[i] * x[i] + x[i]
    assert dtype_of(value) is dtype
    program = Program(
        name="p",
        parameters=(x, y, z),
        body=nest(
            [(i, 64)],
            Assign(name="y", buffer=y, indices=(i,), value=value),
        ),
    )
    verify(program)
    data = np.random.default_rng(0).standard_normal(64).astype(dtype.numpy)
    got = interpret(program, {"X": data})["Y"]
    np.testing.assert_array_equal(got.astype(np.float32), (data * data + data).astype(np.float32))

    widened = Program(
        name="w",
        parameters=(x, z),
        body=nest([(i, 64)], Assign(name="z", buffer=z, indices=(i,), value=cast(x[i], DType.FLOAT32) * 3.0)),
    )
    verify(widened)
    got = interpret(widened, {"X": data})["Z"]
    np.testing.assert_array_equal(got, data.astype(np.float32) * np.float32(3))


def test_constants_are_values_of_their_type() -> None:
    third = Const(1 / 3, DType.FLOAT32)
    assert cast(Const(2), DType.BFLOAT16) == Const(2.0, DType.BFLOAT16)
    assert isinstance(cast(third, DType.FLOAT16), Cast)
    y = Buffer(name="Y", shape=(1,), dtype=DType.BFLOAT16)
    value = y[0] * (1 / 3)
    assert value.b == Const(float(ml_dtypes.bfloat16(1 / 3)), DType.BFLOAT16)  # type: ignore[union-attr]
    program = Program(
        name="p", parameters=(y,), body=Assign(name="y", buffer=y, indices=(Const(0),), value=value)
    )
    assert program_from_dict(program_to_dict(program)) == program


def test_tf32_rounds_to_ten_bits_ties_away() -> None:
    round_tf32 = FUNCTIONS["round_tf32"]
    ulp = 2.0**-10
    cases = {
        1.0: 1.0,
        1 + ulp / 2: 1 + ulp,
        -1 - ulp / 2: -1 - ulp,
        1 + ulp / 2 - 2.0**-23: 1.0,
        1 + 1.5 * ulp: 1 + 2 * ulp,
        float("inf"): float("inf"),
        2.0 - 2.0**-23: 2.0,
        0.0: 0.0,
        3e-45: 0.0,
        # The largest tf32, and what lies nearer to the next power of two.
        3.4011621342146535e38: 3.4011621342146535e38,
        3.4028234663852886e38: float("inf"),
    }
    for value, expected in cases.items():
        assert float(round_tf32(np.float32(value))) == expected
    assert np.isnan(round_tf32(np.float32("nan")))

"""The primitive skip_pads: iterations that read only pads are skipped, all others run; and programs that it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from vdla.compiler.ir.expr import Buffer, Const, Var
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import Alloc, Copy, Program, Reduce, nest, region, seq, whole
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.verify import verify
from vdla.compiler.schedule import Schedule, replay, trace_from_lists, trace_to_lists
from vdla.compiler.schedule.errors import LegalityError

ROW, J, K = Var("i"), Var("j"), Var("k")
OUTPUTS, TAPS, INSIDE = 6, 4, 2


def window(stride: int, dilation: int, size: int, before: int, fill: float = 0.0) -> Program:
    """A program of Y[i, j] += a[i * stride + k * dilation + j] * W[k], where `a` is a copy of X [size] that begins
    `before` elements before X; elements outside of X are `fill`.
    """
    x = Buffer(name="X", shape=(size,), dtype=DType.FLOAT32)
    w = Buffer(name="W", shape=(TAPS,), dtype=DType.FLOAT32)
    y = Buffer(name="Y", shape=(OUTPUTS, INSIDE), dtype=DType.FLOAT32)
    reach = (OUTPUTS - 1) * stride + (TAPS - 1) * dilation + INSIDE
    a = Buffer(name="a", shape=(reach,), dtype=DType.FLOAT32)
    copy = Copy(
        name="a",
        destination=whole(a),
        source=region(x, (-before, reach)),
        pad=Const(fill, DType.FLOAT32),
    )
    body = Reduce(
        name="sum",
        op="add",
        buffer=y,
        indices=(ROW, J),
        value=a[ROW * stride + K * dilation + J] * w[K],
    )
    loops = nest([(ROW, OUTPUTS), (K, TAPS), (J, INSIDE)], body)
    return Program(name="window", parameters=(x, w, y), body=Alloc(buffer=a, body=seq(copy, loops)))


@pytest.mark.parametrize("seed", range(12))
def test_products_with_the_source_are_all_computed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    stride, dilation, size, before = (int(n) for n in rng.integers((1, 1, 1, 0), (4, 7, 9, 13)))
    program = window(stride, dilation, size, before)
    s = Schedule(program)
    s.skip_pads("k")
    verify(s.program)
    assert replay(program, trace_from_lists(trace_to_lists(s.trace))).program == s.program
    arrays = {p.name: rng.integers(-4, 5, p.shape).astype(np.float32) for p in program.parameters}
    np.testing.assert_array_equal(interpret(s.program, arrays)["Y"], interpret(program, arrays)["Y"])
    # A weight is used just where it meets the input: elsewhere not even NaN shows.
    for k in range(TAPS):
        used = np.zeros(OUTPUTS, bool)
        for i in range(OUTPUTS):
            at = i * stride + k * dilation - before + np.arange(INSIDE)
            used[i] = bool(((at >= 0) & (at < size)).any())
        weights = np.zeros(TAPS, np.float32)
        weights[k] = np.nan
        given = {**arrays, "W": weights, "Y": np.zeros_like(arrays["Y"])}
        np.testing.assert_array_equal(np.isnan(interpret(s.program, given)["Y"]).any(1), used)


def test_nothing_changes_where_all_taps_may_read_the_source_or_pads_are_no_zeros() -> None:
    for program in (window(1, 1, 12, 1), window(1, 6, 4, 6, fill=1.0)):
        s = Schedule(program)
        s.skip_pads("k")
        assert s.program == program


def test_sums_that_start_inside_and_lanes_are_refused() -> None:
    program = window(1, 6, 4, 6)
    s = Schedule(program)
    s.vectorize("j")
    with pytest.raises(LegalityError, match="cannot skip pads in j: the loop is vectorize"):
        s.skip_pads("j")
    with pytest.raises(LegalityError, match="nowhere"):
        s.skip_pads("nowhere")
    s.skip_pads("k")
    with pytest.raises(LegalityError, match=r"the name k\.in is taken"):
        s.skip_pads("k")

"""Generated CPU code against the loop-IR interpreter: random expressions, loops of every kind, copies, and refused
programs.
"""

from __future__ import annotations

import numpy as np
import pytest
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from random_expressions import ROW, SIZE, TYPES, J, buffers, expressions

from vdla.compiler.codegen.cpu.errors import LoweringError
from vdla.compiler.codegen.cpu.kernel import build
from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.codegen.cpu.module import lower
from vdla.compiler.ir.expr import (
    Binary,
    Buffer,
    Const,
    Var,
    cast,
    equal,
    maximum,
    minimum,
    select,
)
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import (
    Alloc,
    Assign,
    Barrier,
    Commit,
    Copy,
    For,
    Program,
    Reduce,
    Region,
    nest,
    region,
    seq,
    whole,
)
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.verify import VerifyError
from vdla.compiler.schedule import Schedule

K = Var("k")


def arrays_of(program, seed=0):
    rng = np.random.default_rng(seed)
    arrays = {}
    for p in program.parameters:
        if p.dtype is DType.FLOAT32:
            arrays[p.name] = rng.standard_normal(p.shape).astype(np.float32) * 8
        elif p.dtype is DType.BOOL:
            arrays[p.name] = rng.integers(0, 2, p.shape).astype(bool)
        else:
            low, high = p.dtype.limits
            arrays[p.name] = rng.integers(max(low, -100000), min(high, 100000), p.shape).astype(p.dtype.numpy)
    return arrays


def agrees(program, tolerance=0.0, seed=0):
    """Asserts that interpreter and generated code change all arrays of the program equally: bit for bit, or within the
    tolerance if it is not 0.
    """
    arrays = arrays_of(program, seed)
    with np.errstate(all="ignore"):
        expected = interpret(program, arrays)
    build(program)(**arrays)
    for name, array in arrays.items():
        if tolerance:
            np.testing.assert_allclose(array, expected[name], rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(array, expected[name])


@settings(max_examples=examples(25), deadline=None)
@given(data=st.data())
def test_random_expressions(data):
    dtype = data.draw(st.sampled_from(TYPES), "dtype")
    value = data.draw(expressions(3)(dtype), "value")
    y = Buffer(name="Y", shape=(SIZE, 3), dtype=dtype)
    ins = buffers()
    body = nest([(ROW, SIZE), (J, 3)], Assign(name="put", buffer=y, indices=(ROW, J), value=value))
    program = Program(name="random", parameters=(*ins.values(), y), body=body)
    s = Schedule(program)
    s.reorder("j", "i")
    if (lanes := data.draw(st.sampled_from([0, 4, 16, 7]), "lanes")) > 0:
        _, inner = s.split("i", lanes)
        s.vectorize(inner)
        s.peel("i.0")
    if data.draw(st.booleans(), "unroll"):
        s.unroll("j")
    agrees(s.program)


@pytest.mark.parametrize("kind", ["serial", "unroll", "vectorize", "parallel"])
@pytest.mark.parametrize("op", ["add", "max"])
@pytest.mark.parametrize("dtype", [DType.INT32, DType.UINT8, DType.FLOAT32])
def test_sums(kind, op, dtype):
    a = Buffer(name="A", shape=(13, 11), dtype=dtype)
    c = Buffer(name="C", shape=(13,), dtype=dtype)
    total = Reduce(
        name="sum", op=op, buffer=c, indices=(ROW,), value=a[ROW, J] * a[ROW, 10 - J], first=equal(J, 0)
    )
    s = Schedule(Program(name="sums", parameters=(a, c), body=nest([(ROW, 13), (J, 11)], total)))
    s.reorder("j", "i")
    s.annotate("i", kind)
    agrees(s.program, 1e-5 if dtype is DType.FLOAT32 else 0)


def test_sum_that_continues_what_is_there():
    a, c = Buffer(name="A", shape=(8, 5), dtype=DType.INT32), Buffer(name="C", shape=(8,), dtype=DType.INT32)
    total = Reduce(name="sum", op="add", buffer=c, indices=(ROW,), value=a[ROW, J])
    agrees(Program(name="more", parameters=(a, c), body=nest([(J, 5)], nest([(ROW, 8)], total, "vectorize"))))


def test_scattered_stores_and_strided_loads():
    a = Buffer(name="A", shape=(16, 4), dtype=DType.INT8)
    b = Buffer(name="B", shape=(4, 16), dtype=DType.INT32)
    store = Assign(name="turn", buffer=b, indices=(J, 15 - ROW), value=cast(a[ROW, J], DType.INT32))
    for lanes in (16, 5, 3):
        s = Schedule(Program(name="turn", parameters=(a, b), body=nest([(J, 4), (ROW, 16)], store)))
        _, inner = s.split("i", lanes)
        s.vectorize(inner)
        s.peel("i.0")
        agrees(s.program)


@pytest.mark.parametrize("kind", ["serial", "vectorize", "unroll"])
def test_a_guarded_load_is_not_made_outside(kind):
    """The program reads A[i - 2] only if i is at least 2. Generated code, also with vectors, must not read elements
    before the array for smaller i.
    """
    a, b = Buffer(name="A", shape=(20,), dtype=DType.INT32), Buffer(name="B", shape=(24,), dtype=DType.INT32)
    guarded = select((Const(2) <= ROW) & (ROW < 22), a[ROW - 2], Const(-1, DType.INT32))
    put = Assign(name="put", buffer=b, indices=(ROW,), value=guarded)
    agrees(Program(name="guarded", parameters=(a, b), body=nest([(ROW, 24)], put, kind)))


def test_a_condition_on_data_guards_in_each_lane():
    a, b = Buffer(name="A", shape=(16,), dtype=DType.INT32), Buffer(name="B", shape=(16,), dtype=DType.INT32)
    value = select(a[ROW] < 0, a[15 - ROW] * 2, b[ROW] + 1)
    put = Assign(name="put", buffer=b, indices=(ROW,), value=value)
    agrees(Program(name="lanes", parameters=(a, b), body=nest([(ROW, 16)], put, "vectorize")))


def test_what_a_condition_loads_needs_no_mask():
    a, b = (
        Buffer(name="A", shape=(16,), dtype=DType.FLOAT32),
        Buffer(name="B", shape=(16,), dtype=DType.FLOAT32),
    )

    def text(condition):
        put = Assign(name="put", buffer=b, indices=(ROW,), value=select(condition, a[ROW] + 1.0, 0.0))
        program = Program(name="known", parameters=(a, b), body=nest([(ROW, 16)], put, "vectorize"))
        agrees(program)
        return lower(program, host_target()).text

    assert "masked.load" not in text(a[ROW] < 0.0)
    assert "masked.load" in text(a[15 - ROW] < 0.0)


@pytest.mark.parametrize("kind", ["serial", "vectorize", "unroll"])
def test_what_a_condition_loads_under_a_guard_stays_guarded(kind):
    a, b = (
        Buffer(name="A", shape=(20,), dtype=DType.FLOAT32),
        Buffer(name="B", shape=(24,), dtype=DType.FLOAT32),
    )
    condition = (ROW < 20) & (a[ROW] < 0.0)
    put = Assign(name="put", buffer=b, indices=(ROW,), value=select(condition, a[ROW], 1.0))
    agrees(Program(name="guarded", parameters=(a, b), body=nest([(ROW, 24)], put, kind)))


@pytest.mark.parametrize("scope", ["register", "local", "dram"])
@pytest.mark.parametrize("columns", [3, 16, 21])
def test_allocations(scope, columns):
    """Temporary buffers whose rows are no multiple of the vector length: storing a row must not change the next one."""
    a = Buffer(name="A", shape=(5, columns), dtype=DType.FLOAT32)
    t = Buffer(name="T", shape=(5, columns), dtype=DType.FLOAT32, scope=scope)
    b = Buffer(name="B", shape=(5, columns), dtype=DType.FLOAT32)
    down = Assign(name="down", buffer=t, indices=(4 - ROW, J), value=a[ROW, J] * 2.0)
    i, j = Var("p"), Var("q")
    again = Assign(name="up", buffer=b, indices=(i, j), value=t[i, j] + t[4 - i, j])
    body = seq(nest([(ROW, 5), (J, columns)], down), nest([(i, 5), (j, columns)], again))
    s = Schedule(Program(name="twice", parameters=(a, b), body=Alloc(buffer=t, body=body)))
    for loop in ("j", "q"):
        _, inner = s.split(loop, 16)
        s.vectorize(inner)
        if columns > 16:
            s.peel(f"{loop}.0")
    for loop in ("i", "p"):
        s.unroll(loop)
    agrees(s.program)


@settings(max_examples=examples(20), deadline=None)
@given(data=st.data())
def test_padded_copies(data):
    """Generated code of padded copies equals the interpreter: boxes extend beyond their source on any side, or lie
    wholly outside, and start at a position that depends on a loop variable.
    """
    dtype, wide = data.draw(
        st.sampled_from([(DType.INT8, DType.INT32), (DType.FLOAT32, DType.FLOAT32)]), "dtypes"
    )
    rows, columns = data.draw(st.integers(1, 6), "rows"), data.draw(st.integers(1, 40), "columns")
    height, width = data.draw(st.integers(1, 6), "height"), data.draw(st.integers(1, 40), "width")
    starts = data.draw(st.integers(-7, 7), "top"), data.draw(st.integers(-45, 45), "left")
    step = data.draw(st.integers(0, 2), "step")
    x = Buffer(name="X", shape=(rows, columns), dtype=dtype)
    y = Buffer(name="Y", shape=(3, height, width), dtype=wide)
    copy = Copy(
        name="copy",
        destination=region(y, (K, 1), (0, height), (0, width)),
        source=region(x, (K * step + starts[0], height), (starts[1], width)),
        pad=Const(5, dtype),
    )
    agrees(Program(name="copies", parameters=(x, y), body=nest([(K, 3)], copy)))


def test_copies_of_varying_size():
    x, y = (
        Buffer(name="X", shape=(4, 50), dtype=DType.INT8),
        Buffer(name="Y", shape=(4, 50), dtype=DType.INT8),
    )
    box = Region(buffer=y, starts=(ROW, Const(0)), extents=(Const(1), ROW * 13 + 1))
    source = Region(buffer=x, starts=(ROW, ROW * 2), extents=(Const(1), ROW * 13 + 1))
    copy = Copy(name="copy", destination=box, source=source)
    agrees(Program(name="rows", parameters=(x, y), body=nest([(ROW, 4)], copy)))


def test_minimum_and_maximum_keep_nan():
    a, b = (Buffer(name=n, shape=(6,), dtype=DType.FLOAT32) for n in "AB")
    low, high = (
        Buffer(name="L", shape=(6,), dtype=DType.FLOAT32),
        Buffer(name="H", shape=(6,), dtype=DType.FLOAT32),
    )
    body = seq(
        nest(
            [(ROW, 6)],
            Assign(name="low", buffer=low, indices=(ROW,), value=Binary("min", a[ROW], b[ROW])),
            "vectorize",
        ),
        nest([(J, 6)], Assign(name="high", buffer=high, indices=(J,), value=Binary("max", a[J], b[J]))),
    )
    nan = np.nan
    arrays = {
        "A": np.array([nan, 1, nan, np.inf, -np.inf, 2], np.float32),
        "B": np.array([1, nan, nan, 3, 3, -2], np.float32),
        "L": np.zeros(6, np.float32),
        "H": np.zeros(6, np.float32),
    }
    program = Program(name="nan", parameters=(a, b, low, high), body=body)
    expected = interpret(program, arrays)
    build(program)(**arrays)
    for name in "LH":
        np.testing.assert_array_equal(arrays[name], expected[name])
    assert np.isnan(arrays["L"][:3]).all() and np.isnan(arrays["H"][:3]).all()


def test_a_decision_on_a_loaded_value_has_no_branch():
    """A select on a loaded value must become no branch: GridSample reflects each coordinate by such selects, and with
    branches LLVM took ten seconds to compile it.
    """
    x = Buffer(name="X", shape=(4,), dtype=DType.FLOAT32)
    y = Buffer(name="Y", shape=(4,), dtype=DType.FLOAT32)
    put = Assign(name="put", buffer=y, indices=(ROW,), value=select(x[ROW] < 0.0, x[ROW] * -1.0, x[ROW]))
    program = Program(name="size", parameters=(x, y), body=nest([(ROW, 4)], put))
    text = lower(program, host_target()).text
    assert text.count(" select ") == 1 and text.count("br i1") == 1  # the loop's own
    agrees(program)


def test_the_text_is_the_same_every_time():
    a, b = (
        Buffer(name="A", shape=(40,), dtype=DType.FLOAT32),
        Buffer(name="B", shape=(40,), dtype=DType.FLOAT32),
    )
    put = Assign(name="put", buffer=b, indices=(ROW,), value=a[39 - ROW] * 2.0)
    program = Program(name="same", parameters=(a, b), body=nest([(ROW, 40)], put, "vectorize"))
    assert lower(program, host_target()).text == lower(program, host_target()).text


def put(buffer, value, *loops, kind="serial"):
    body = Assign(name="put", buffer=buffer, indices=(ROW,), value=value)
    return Program(name="bad", parameters=(buffer,), body=nest(list(loops), body, kind))


B = Buffer(name="B", shape=(300,), dtype=DType.INT32)


@pytest.mark.parametrize(
    ("program", "error", "message"),
    [
        (
            put(B, B[ROW] // B[0], (ROW, 300)),
            LoweringError,
            "integers can be divided by positive constants only",
        ),
        (put(B, B[ROW] % 0, (ROW, 300)), LoweringError, "integers can be divided by positive constants only"),
        (
            put(B, B[ROW], (ROW, 300), kind="vectorize"),
            LoweringError,
            "vectorized loop i has 300 iterations, more than",
        ),
        (put(B, B[ROW], (ROW, 300), kind="thread.x"), LoweringError, "is an axis of a GPU's grid"),
        (
            put(B, B[ROW], (ROW, 9), kind="virtual_thread"),
            LoweringError,
            "virtual threads are for accelerators",
        ),
        (put(B, B[ROW + 1], (ROW, 300)), VerifyError, "index i + 1 may reach 1 .. 300, outside 0 .. 299"),
        (put(B, B[cast(B[ROW], DType.INT64)], (ROW, 300)), VerifyError, "may reach"),
        (
            Program(name="bad", parameters=(B,), body=seq(Commit(), put(B, B[ROW], (ROW, 3)).body)),
            LoweringError,
            "no asynchronous copies",
        ),
        (
            Program(name="bad", parameters=(B,), body=seq(Barrier(), put(B, B[ROW], (ROW, 3)).body)),
            LoweringError,
            "for the threads of a GPU's block",
        ),
        (
            Program(
                name="bad",
                parameters=(B,),
                body=Copy(name="c", destination=region(B, (0, 4)), source=region(B, (2, 4))),
            ),
            LoweringError,
            "copies within one buffer",
        ),
        (
            Program(
                name="bad",
                parameters=(B,),
                body=For(
                    var=ROW,
                    extent=Const(8),
                    kind="vectorize",
                    body=For(
                        var=J, extent=ROW, body=Assign(name="p", buffer=B, indices=(ROW,), value=B[ROW])
                    ),
                ),
            ),
            LoweringError,
            "the extent of loop j differs between lanes",
        ),
        (
            Program(
                name="bad",
                parameters=(B,),
                body=For(
                    var=ROW,
                    extent=Const(8),
                    kind="vectorize",
                    body=Alloc(
                        buffer=Buffer(name="T", shape=(1,), dtype=DType.INT32),
                        body=Assign(name="p", buffer=B, indices=(ROW,), value=B[ROW]),
                    ),
                ),
            ),
            LoweringError,
            "cannot be inside a vectorized loop",
        ),
    ],
)
def test_programs_without_code_are_refused(program, error, message):
    with pytest.raises(error) as caught:
        lower(program, host_target())
    assert message in str(caught.value)


def test_whole_is_a_copy_without_padding():
    x, y = (
        Buffer(name="X", shape=(3, 19), dtype=DType.UINT8),
        Buffer(name="Y", shape=(3, 19), dtype=DType.INT64),
    )
    agrees(
        Program(name="widen", parameters=(x, y), body=Copy(name="c", destination=whole(y), source=whole(x)))
    )


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.INT8, DType.BOOL, DType.INT64])
@pytest.mark.parametrize("stride", [2, 3, 4, 5])
@pytest.mark.parametrize("count", [2, 5, 8, 16])
def test_strided_loads_stay_within_the_last_element(dtype, stride, count):
    # The last lane's element is the array's last; one lane more would leave it.
    x = Buffer(name="X", shape=(4, (count - 1) * stride + 1), dtype=dtype)
    y = Buffer(name="Y", shape=(4, count), dtype=dtype)
    read = x[ROW, J * stride]
    guarded = Assign(
        name="guarded", buffer=y, indices=(ROW, K), value=select(K < ROW, x[ROW, K * stride], Const(0, dtype))
    )
    plain = Assign(name="plain", buffer=y, indices=(ROW, J), value=read)
    body = seq(
        For(var=J, extent=Const(count), body=plain, kind="vectorize"),
        For(var=K, extent=Const(count), body=guarded, kind="vectorize"),
    )
    for rows in (body, For(var=J, extent=Const(count), body=plain, kind="vectorize")):
        program = Program(name="strided", parameters=(x, y), body=nest([(ROW, 4)], rows))
        arrays = arrays_of(program)
        expected = interpret(program, arrays)["Y"]
        build(program, host_target())(**arrays)
        np.testing.assert_array_equal(arrays["Y"], expected)


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.UINT8, DType.BOOL])
@pytest.mark.parametrize("stride", [2, 3, 4, 8])
def test_strided_stores_keep_what_lies_between(dtype, stride):
    x = Buffer(name="X", shape=(4, 16), dtype=dtype)
    y = Buffer(name="Y", shape=(4, 15 * stride + 1), dtype=dtype)
    put = Assign(name="put", buffer=y, indices=(ROW, J * stride), value=x[ROW, J])
    for count in (16, 11):
        rows = For(var=J, extent=Const(count), body=put, kind="vectorize")
        agrees(Program(name="strided", parameters=(x, y), body=nest([(ROW, 4)], rows)))


@pytest.mark.parametrize("lanes", [1, 3, 4, 16])
@pytest.mark.parametrize("dtype", [DType.UINT8, DType.FLOAT32])
def test_copies_of_whole_rows_of_blocks(dtype, lanes):
    """Machine code copies blocks of complete rows as the interpreter does. A row is contiguous in memory, with all its
    columns and lanes; there may be padding before and after it.
    """
    x = Buffer(name="X", shape=(3, 5, 13, lanes), dtype=dtype)
    for shape, source in (
        ((3, 8, 17, lanes), region(x, (0, 3), (-1, 8), (-2, 17), (0, lanes))),
        ((3, 5, 9, lanes), region(x, (0, 3), (0, 5), (4, 9), (0, lanes))),
        ((3, 5, 20, lanes), region(x, (0, 3), (0, 5), (-20, 20), (0, lanes))),
    ):
        y = Buffer(name="Y", shape=shape, dtype=dtype)
        copy = Copy(name="copy", destination=whole(y), source=source, pad=Const(7, dtype))
        agrees(Program(name="rows", parameters=(x, y), body=copy))


def test_a_loaded_index_with_a_select_chooses_a_row():
    x = Buffer(name="X", shape=(4, 8), dtype=DType.FLOAT32)
    order = Buffer(name="I", shape=(4,), dtype=DType.INT64)
    y = Buffer(name="Y", shape=(4, 8), dtype=DType.FLOAT32)
    row = select(order[ROW] < 0, order[ROW] + 4, order[ROW])
    move = Assign(name="move", buffer=y, indices=(ROW, J), value=x[minimum(maximum(row, 0), 3), J])
    rows = For(var=J, extent=Const(8), body=move, kind="vectorize")
    program = Program(name="rows", parameters=(x, order, y), body=nest([(ROW, 4)], rows))
    arrays = arrays_of(program) | {"I": np.array([-1, 0, 2, -3], np.int64)}
    expected = interpret(program, arrays)["Y"]
    build(program, host_target())(**arrays)
    np.testing.assert_array_equal(arrays["Y"], expected)


def test_a_scalar_select_inside_a_select_of_lanes():
    x = Buffer(name="X", shape=(4, 8), dtype=DType.FLOAT32)
    order = Buffer(name="I", shape=(4,), dtype=DType.INT64)
    y = Buffer(name="Y", shape=(4, 8), dtype=DType.FLOAT32)
    inner = select(order[ROW] < 0, x[ROW, 0], x[0, 0] * 2.0)
    move = Assign(name="move", buffer=y, indices=(ROW, J), value=select(J < ROW, inner, x[ROW, J]))
    rows = For(var=J, extent=Const(8), body=move, kind="vectorize")
    program = Program(name="rows", parameters=(x, order, y), body=nest([(ROW, 4)], rows))
    arrays = arrays_of(program) | {"I": np.array([-1, 0, 2, -3], np.int64)}
    expected = interpret(program, arrays)["Y"]
    build(program, host_target())(**arrays)
    np.testing.assert_array_equal(arrays["Y"], expected)

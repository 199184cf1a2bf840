"""Tests the GPU template that computes sums of products in tiles. Matrix products of any sizes are compared with numpy.
Other programs with the same stages, such as convolutions, can use the template, too.
"""

from __future__ import annotations

import numpy as np
import pytest
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduled_gpu import run_scheduled

from vdla.compiler.ir.expr import Buffer, Const, Var, equal
from vdla.compiler.ir.stmt import Alloc, Assign, Copy, For, Program, Reduce, nest, region, seq, whole
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.visit import walk
from vdla.compiler.te.ops.product import Matrices, product
from vdla.compiler.te.ops.sums import Epilogue
from vdla.compiler.templates.gpu.tile import Tile, schedule_tile

F32 = DType.FLOAT32
BATCHES = [((), ()), ((), ()), ((2,), (2,)), ((2, 1), (1, 2)), ((3,), ()), ((), (2,))]


@st.composite
def tiles(draw: st.DrawFn) -> Tile:
    own_rows, own_columns = draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([1, 2, 4]))
    return Tile(
        rows=own_rows * draw(st.sampled_from([1, 2, 4])),
        columns=4 * own_columns,
        depth=4,
        thread_rows=own_rows,
        thread_columns=own_columns,
        row_groups=draw(st.sampled_from([g for g in (1, 2) if own_rows % g == 0])),
        column_groups=draw(st.sampled_from([g for g in (1, 2) if own_columns % g == 0])),
        stages=draw(st.integers(1, 3)),
        splits=draw(st.integers(1, 3)),
        width=draw(st.sampled_from([1, 4])),
    )


@settings(max_examples=examples(16), deadline=None)
@given(
    tile=tiles(),
    batches=st.sampled_from(BATCHES),
    rows=st.integers(1, 9),
    depth=st.sampled_from([1, 3, 8, 13, 16]),
    columns=st.integers(1, 9),
    transposed=st.tuples(st.booleans(), st.booleans()),
    constants=st.sampled_from([(), ("W",), ("X", "W")]),
)
def test_products(tile, batches, rows, depth, columns, transposed, constants) -> None:
    program = product(
        Matrices(
            rows=rows,
            depth=depth,
            columns=columns,
            batch_x=batches[0],
            batch_w=batches[1],
            transposed_x=transposed[0],
            transposed_w=transposed[1],
        ),
        staged="by depth",
        epilogue=Epilogue(bias=True, operand=True, activation="relu"),
    )
    if transposed[1]:
        constants = [name for name in constants if name != "W"]
    rng = np.random.default_rng(rows)
    arrays = {p.name: rng.integers(-8, 9, p.shape).astype(np.float32) for p in program.parameters}
    shape = arrays.pop("Y").shape
    x, w = (
        arrays[name].swapaxes(-1, -2) if t else arrays[name] for name, t in zip("XW", transposed, strict=True)
    )
    expected = np.maximum((x @ w).reshape(shape) + arrays["B"] + arrays["R"], 0)
    result = run_scheduled(program, schedule_tile(program, tile, constants), arrays)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("splits", [1, 3])
def test_large_tiles_as_machine_code(splits) -> None:
    tile = Tile(
        rows=32,
        columns=64,
        depth=8,
        thread_rows=4,
        thread_columns=8,
        column_groups=2,
        stages=3,
        splits=splits,
    )
    program = product(Matrices(rows=70, depth=100, columns=66), staged="by depth")
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((70, 100)), rng.standard_normal((100, 66))
    result = run_scheduled(program, schedule_tile(program, tile, ("W",)), {"X": x, "W": w}, native=True)
    np.testing.assert_allclose(result, x.astype(np.float32) @ w.astype(np.float32), rtol=1e-5, atol=2e-5)


def convolution(batch: int, channels: int, size: int, filters: int, kernel: int) -> Program:
    """A convolution without pads, as a matrix product: its columns are the output's positions, its depth is the
    window's elements.
    """
    out = size - kernel + 1
    plane, window = out * out, kernel * kernel
    x = Buffer(name="X", shape=(batch, channels, size, size), dtype=F32)
    w = Buffer(name="W", shape=(channels * window, filters), dtype=F32)
    y = Buffer(name="Y", shape=(batch, filters, out, out), dtype=F32)
    a = Buffer(name="a", shape=w.shape, dtype=F32)
    b = Buffer(name="b", shape=(channels * window, batch * plane), dtype=F32)
    total = Buffer(name="sum", shape=(filters, batch * plane), dtype=F32)
    i, j, k = Var("gemm.i"), Var("gemm.j"), Var("gemm.k")
    bk, bj, pi, pj = Var("b.k"), Var("b.j"), Var("i"), Var("j")
    gather = Copy(
        name="b",
        destination=region(b, (bk, 1), (bj, 1)),
        source=region(
            x,
            (bj // plane, 1),
            (bk // window, 1),
            (bj % plane // out + bk % window // kernel, 1),
            (bj % out + bk % kernel, 1),
        ),
        pad=Const(0.0, F32),
    )
    add = Reduce(
        name="gemm", op="add", buffer=total, indices=(i, j), value=a[k, i] * b[k, j], first=equal(k, 0)
    )
    place = (pj // plane, pi, pj % plane // out, pj % out)
    body = seq(
        Copy(name="a", destination=whole(a), source=whole(w)),
        nest([(bk, channels * window), (bj, batch * plane)], gather),
        nest([(i, filters), (j, batch * plane), (k, channels * window)], add),
        nest(
            [(pi, filters), (pj, batch * plane)],
            Assign(name="post", buffer=y, indices=place, value=total[pi, pj]),
        ),
    )
    for buffer in (total, b, a):
        body = Alloc(buffer=buffer, body=body)
    return Program(name="convolution", parameters=(x, w, y), body=body)


@pytest.mark.parametrize("splits", [1, 2])
def test_a_convolution_is_a_product_of_gathered_columns(splits) -> None:
    batch, channels, size, filters, kernel = 2, 3, 6, 5, 3
    program = convolution(batch, channels, size, filters, kernel)
    tile = Tile(
        rows=8, columns=16, depth=4, thread_rows=4, thread_columns=4, column_groups=2, stages=2, splits=splits
    )
    rng = np.random.default_rng(5)
    x = rng.integers(-4, 5, (batch, channels, size, size)).astype(np.float32)
    w = rng.integers(-4, 5, (channels * kernel * kernel, filters)).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), axis=(2, 3))
    expected = np.einsum("nchwyx,cyxf->nfhw", windows, w.reshape(channels, kernel, kernel, filters))
    result = run_scheduled(program, schedule_tile(program, tile, ("W",)), {"X": x, "W": w})
    np.testing.assert_array_equal(result, expected)


def test_long_sides_lie_along_x() -> None:
    """Grid axes y and z have at most 65,535 blocks, so the longer side must be grid axis x."""
    program = product(Matrices(rows=70000, depth=4, columns=4, batch_x=(2,), batch_w=(2,)), staged="by depth")
    tile = Tile(rows=1, columns=4, depth=4, thread_rows=1, thread_columns=1, stages=1)
    kinds = {n.kind: n.extent for n in walk(schedule_tile(program, tile).program) if isinstance(n, For)}
    assert kinds["block.x"] == Const(70000) and kinds["block.z"] == Const(2)
    program = product(
        Matrices(rows=2, depth=4, columns=8, batch_x=(70000,), batch_w=(70000,)), staged="by depth"
    )
    kinds = {n.kind: n.extent for n in walk(schedule_tile(program, tile).program) if isinstance(n, For)}
    assert kinds["block.x"] == Const(70000 * 2 * 2) and "block.y" not in kinds


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"rows": 6}, "6 rows cannot be divided among threads of 4"),
        ({"column_groups": 3}, "of 4 columns in 3 groups"),
        ({"depth": 6}, "copies of 4 elements do not divide the depth"),
        ({"stages": 0}, "at least 1"),
    ],
)
def test_sizes_that_are_no_tile(changed, reason) -> None:
    sizes = {"rows": 8, "columns": 8, "depth": 8, "thread_rows": 4, "thread_columns": 4, **changed}
    with pytest.raises(ValueError, match=reason):
        schedule_tile(product(Matrices(rows=4, depth=4, columns=4), staged="by depth"), Tile(**sizes))

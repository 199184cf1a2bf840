"""Parallel loops on thread pools: every chunk runs exactly once, with any number of threads, in repeated runs."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pytest

from vdla.compiler.codegen.cpu.errors import TargetError
from vdla.compiler.codegen.cpu.kernel import build
from vdla.compiler.codegen.cpu.pool import Pool
from vdla.compiler.ir.expr import Buffer, Var, cast, equal
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import Alloc, Assign, Program, Reduce, nest, seq
from vdla.compiler.ir.types import DType
from vdla.compiler.schedule import Schedule

ROWS, COLUMNS = 23, 5000


@pytest.fixture(scope="module")
def pool():
    with Pool(3) as pool:
        yield pool


def sums(scope):
    """A program of a parallel loop over rows. Each iteration uses a private buffer in the memory `scope`, too large for
    the stack, which threads must not share.
    """
    a = Buffer(name="A", shape=(ROWS, COLUMNS), dtype=DType.INT32)
    t = Buffer(name="T", shape=(COLUMNS,), dtype=DType.INT32, scope=scope)
    y = Buffer(name="Y", shape=(ROWS,), dtype=DType.INT32)
    i, j, k = Var("i"), Var("j"), Var("k")
    fill = Assign(name="fill", buffer=t, indices=(j,), value=a[i, j] * a[i, COLUMNS - 1 - j])
    total = Reduce(name="sum", op="add", buffer=y, indices=(i,), value=t[k,], first=equal(k, 0))
    body = Alloc(buffer=t, body=seq(nest([(j, COLUMNS)], fill), nest([(k, COLUMNS)], total)))
    s = Schedule(Program(name="sums", parameters=(a, y), body=nest([(i, ROWS)], body)))
    s.parallel("i")
    return s.program


def test_chunks_run_once_on_any_pool(pool):
    kernel = build(sums("dram"))
    assert kernel.module.scratch_bytes >= COLUMNS * 4
    rng = np.random.default_rng(0)
    a = rng.integers(-9, 9, (ROWS, COLUMNS), dtype=np.int32)
    expected = (a * a[:, ::-1]).sum(1)
    with Pool(1) as single:
        for threads in (None, single, pool):
            y = np.zeros(ROWS, np.int32)
            bound = kernel.bind({"A": a, "Y": y}, threads)
            for _ in range(20):
                y[:] = 0
                bound()
                np.testing.assert_array_equal(y, expected)


def test_helper_threads_wake_after_a_pause(pool):
    kernel = build(sums("local"))
    a = np.ones((ROWS, COLUMNS), np.int32)
    y = np.zeros(ROWS, np.int32)
    bound = kernel.bind({"A": a, "Y": y}, pool)
    for pause in (0.0, 0.05, 0.05):
        time.sleep(pause)
        y[:] = 0
        bound()
        assert (y == COLUMNS).all()


def test_threads_take_turns(pool):
    kernel = build(sums("dram"))
    results = []

    def run(value):
        a = np.full((ROWS, COLUMNS), value, np.int32)
        y = np.zeros(ROWS, np.int32)
        bound = kernel.bind({"A": a, "Y": y}, pool)
        for _ in range(10):
            bound()
        results.append((y == value * value * COLUMNS).all())

    threads = [threading.Thread(target=run, args=(v,)) for v in (1, 2, 3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [True, True, True]


def test_parallel_loops_in_loops_see_what_is_around(pool):
    a, y = (
        Buffer(name="A", shape=(4, 6, 3), dtype=DType.INT32),
        Buffer(name="Y", shape=(4, 6, 3), dtype=DType.INT32),
    )
    i, j, k = Var("i"), Var("j"), Var("k")
    put = Assign(name="put", buffer=y, indices=(i, j, k), value=a[i, 5 - j, k] * 2 + a[3 - i, j, 0])
    s = Schedule(Program(name="inside", parameters=(a, y), body=nest([(i, 4), (j, 6), (k, 3)], put)))
    s.parallel("j")
    s.parallel("k")
    arrays = {"A": np.arange(72, dtype=np.int32).reshape(4, 6, 3), "Y": np.zeros((4, 6, 3), np.int32)}
    expected = interpret(s.program, arrays)["Y"]
    build(s.program).bind(arrays, pool)()
    np.testing.assert_array_equal(arrays["Y"], expected)


def test_parallel_loops_without_iterations(pool):
    y = Buffer(name="Y", shape=(5, 5), dtype=DType.INT32)
    i, j = Var("i"), Var("j")
    put = Assign(name="put", buffer=y, indices=(i, j), value=cast(i * 10 + j, DType.INT32))
    s = Schedule(Program(name="corner", parameters=(y,), body=nest([(i, 5), (j, i - 1)], put)))
    s.parallel("j")
    arrays = {"Y": np.full((5, 5), -1, np.int32)}
    expected = interpret(s.program, arrays)["Y"]
    build(s.program).bind(arrays, pool)()
    np.testing.assert_array_equal(arrays["Y"], expected)


def test_a_closed_pool_is_refused():
    pool = Pool(2)
    bound = build(sums("dram")).bind(
        {"A": np.ones((ROWS, COLUMNS), np.int32), "Y": np.zeros(ROWS, np.int32)}, pool
    )
    pool.close()
    pool.close()
    with pytest.raises(TargetError, match="this pool is closed"):
        bound()


def test_a_forked_process_needs_its_own(pool, monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(TargetError, match="make a new pool there"), pool.turn():
        pass


def test_a_pool_without_threads_is_refused():
    with pytest.raises(TargetError, match="at least one thread"):
        Pool(0)

"""Expressions, vectors and copies as CUDA C++, run on the CPU and compared with the interpreter, several programs in
one compilation.
"""

from __future__ import annotations

import numpy as np
from cuda_on_host.modules import run_modules
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from random_expressions import ROW, SIZE, TYPES, J, buffers, expressions

from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.codegen.cuda.module import lower
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.ir.expr import Buffer, Cast, Const, Var, equal
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import (
    Alloc,
    Assign,
    Commit,
    Copy,
    For,
    Program,
    Reduce,
    Stmt,
    Wait,
    nest,
    region,
    seq,
)
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.verify import verify
from vdla.compiler.te.functions import FUNCTIONS

TARGET = cuda_target("sm_80")
BATCH = 8
"""Number of programs that are compiled for the CPU together; compiling each alone would take a second."""
quickly = settings(max_examples=2, phases=[Phase.generate], deadline=None)


def kernel(body, block, threads, thread_kind="thread.x"):
    """`body` in a loop over threads inside a loop over blocks; `block` and `threads` are (variable, extent)."""
    inner = For(var=threads[0], extent=Const(threads[1]), body=body, kind=thread_kind)
    return For(var=block[0], extent=Const(block[1]), body=inner, kind="block.x")


def arrays_of(program: Program, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    arrays: dict[str, np.ndarray] = {}
    for p in program.parameters:
        if p.dtype.is_float:
            arrays[p.name] = (rng.standard_normal(p.shape) * 8).astype(np.float32).astype(p.dtype.numpy)
        elif p.dtype is DType.BOOL:
            arrays[p.name] = rng.integers(0, 2, p.shape).astype(bool)
        else:
            low, high = p.dtype.limits
            arrays[p.name] = rng.integers(max(low, -100000), min(high, 100000), p.shape).astype(p.dtype.numpy)
    return arrays


def agree(programs: list[Program], tolerance: float = 0.0) -> None:
    """Asserts that the CUDA C++ of every program computes the interpreter's results: bit for bit, or within the
    tolerance if it is not 0.
    """
    modules = []
    for number, program in enumerate(programs):
        verify(program)
        modules.append((lower(prepare(program, TARGET), TARGET), arrays_of(program, number)))
    for program, (module, arrays), result in zip(
        programs, modules, run_modules(modules, orders=1), strict=True
    ):
        with np.errstate(all="ignore"):
            expected = interpret(program, arrays, functions=FUNCTIONS)
        for name, values in result.items():
            np.testing.assert_allclose(
                values.astype(np.float64),
                expected[name].astype(np.float64),
                rtol=tolerance,
                atol=tolerance,
                err_msg=module.source,
            )


@quickly
@given(data=st.data())
def test_random_expressions(data):
    programs: list[Program] = []
    for number in range(BATCH):
        dtype = TYPES[number % len(TYPES)]
        value = data.draw(expressions(3)(dtype), "value")
        y = Buffer(name="Y", shape=(SIZE, 3), dtype=dtype)
        ins = buffers()
        put = Assign(name="put", buffer=y, indices=(ROW, J), value=value)
        body = kernel(put, (J, 3), (ROW, SIZE))
        programs.append(Program(name="random", parameters=(*ins.values(), y), body=body))
    agree(programs)


HALVES = [DType.FLOAT16, DType.BFLOAT16]


@quickly
@given(data=st.data())
def test_vectors(data):
    """CUDA C++ of vector loads and stores gives the interpreter's results: they become one wide access or one access
    for each lane, depending on offsets, strides and types.
    """
    programs: list[Program] = []
    b, t, v = Var("b"), Var("t"), Var("v")
    for number in range(BATCH):
        dtype = [DType.FLOAT32, DType.INT8, DType.INT32, DType.INT64, *HALVES][number % 6]
        lanes = data.draw(st.sampled_from([2, 4, 8, 3]), "lanes")
        size = 3 * 5 * lanes
        step = data.draw(st.sampled_from([1, 1, 1, 2]), "step")
        offset = data.draw(st.sampled_from([0, 0, lanes, 1]), "offset")
        x = Buffer(name="X", shape=(2, size * step + offset), dtype=dtype)
        z = Buffer(name="Z", shape=(size,), dtype=dtype)
        y = Buffer(name="Y", shape=(size + offset,), dtype=dtype)
        at = (b * 5 + t) * lanes + v
        value = x[1, at * step + offset] + z[data.draw(st.sampled_from([at, size - 1 - at]), "z")]
        target = at + data.draw(st.sampled_from([0, offset]), "target")
        put = Assign(name="put", buffer=y, indices=(target,), value=value)
        inner = For(var=v, extent=Const(lanes), body=put, kind="vectorize")
        programs.append(Program(name="vectors", parameters=(x, z, y), body=kernel(inner, (b, 3), (t, 5))))
    agree(programs)


@quickly
@given(data=st.data())
def test_padded_copies(data):
    """Generated CUDA C++ copies a box to shared memory as the interpreter does, also if the box extends beyond its
    source on any side or lies wholly outside. The elements outside the source are pads. Copies are synchronous or
    asynchronous.
    """
    programs: list[Program] = []
    b, t, u, p, q = Var("b"), Var("t"), Var("u"), Var("p"), Var("q")
    for number in range(BATCH):
        dtype = [DType.FLOAT32, DType.INT8, DType.FLOAT16, DType.INT32][number % 4]
        rows, columns = (
            data.draw(st.integers(1, 6), "rows"),
            data.draw(st.sampled_from([1, 5, 8, 16, 21, 32])),
        )
        height, width = (
            data.draw(st.integers(1, 3), "height"),
            data.draw(st.sampled_from([1, 2, 4, 8, 12, 16])),
        )
        top, left = data.draw(st.integers(-3, 3), "top"), data.draw(st.sampled_from([0, 0, 4, -4, 3, -5, 30]))
        step, stride = (
            data.draw(st.integers(0, 2), "step"),
            data.draw(st.sampled_from([0, 4, 3, width]), "stride"),
        )
        later = data.draw(st.booleans(), "asynchronous")
        x = Buffer(name="X", shape=(rows, columns), dtype=dtype)
        held = Buffer(name="held", shape=(4, height, width), dtype=dtype, scope="shared")
        y = Buffer(name="Y", shape=(2, 4, height, width), dtype=dtype)
        value = 0 if later else 5
        copy = Copy(
            name="copy",
            destination=region(held, (t, 1), (0, height), (0, width)),
            source=region(x, (t * step + top, height), (t * stride + b * 4 + left, width)),
            pad=Const(float(value) if dtype.is_float else value, dtype),
            asynchronous=later,
        )
        put = Assign(name="put", buffer=y, indices=(b, u, p, q), value=held[u, p, q])
        phases: list[Stmt] = [For(var=t, extent=Const(4), body=copy, kind="thread.x")]
        if later:
            phases += [Commit(), Wait(pending=0)]
        phases.append(For(var=u, extent=Const(4), body=nest([(p, height), (q, width)], put), kind="thread.x"))
        body = Alloc(buffer=held, body=seq(*phases))
        block = For(var=b, extent=Const(2), body=body, kind="block.x")
        programs.append(Program(name="copies", parameters=(x, y), body=block))
    agree(programs)


def test_sums():
    """CUDA C++ of sums over two loops, k outside, gives the interpreter's results. A sum begins anew in the very first
    iteration, or in each iteration with k = 0 or with k = 2, or never, so that it continues the old value. The loop of
    a last sum may have no iterations.
    """
    programs: list[Program] = []
    k, h = Var("k"), Var("h")
    firsts = (None, equal(k, 0) & equal(h, 0), equal(k, 0), equal(k, 2))
    for number, dtype in enumerate((DType.FLOAT32, DType.INT32, DType.UINT8, DType.INT64, *HALVES)):
        for op in ("add", "max"):
            for first in firsts[number % 2 :: 2] if dtype is not DType.FLOAT32 else firsts:
                x = Buffer(name="X", shape=(7, 5, 4), dtype=dtype)
                y = Buffer(name="Y", shape=(7, 5), dtype=dtype)
                total = Reduce(
                    name="sum",
                    op=op,
                    buffer=y,
                    indices=(ROW, J),
                    value=x[ROW, J, k] * Cast(x[ROW, J, h], dtype),
                    first=first,
                )
                body = kernel(nest([(k, 4), (h, 3)], total), (ROW, 7), (J, 5))
                programs.append(Program(name="sums", parameters=(x, y), body=body))
    # What may have no iteration at all leaves memory as it is.
    x, y = (
        Buffer(name="X", shape=(7, 7), dtype=DType.FLOAT32),
        Buffer(name="Y", shape=(7,), dtype=DType.FLOAT32),
    )
    total = Reduce(name="sum", op="add", buffer=y, indices=(ROW,), value=x[ROW, k], first=equal(k, 0))
    inner = For(var=k, extent=ROW, body=total)
    programs.append(Program(name="some", parameters=(x, y), body=kernel(inner, (J, 1), (ROW, 7))))
    agree(programs, 1e-5)

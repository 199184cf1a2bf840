"""GPU kernels emulated on the CPU: equal to the interpreter, and wrong wherever threads of a GPU would give wrong
results.
"""

from __future__ import annotations

import numpy as np
import pytest
from campaign import examples
from gpu_kernels import (
    F32,
    allocate,
    assign,
    barriers,
    blocks,
    buffer,
    emulated,
    interpreted,
    loop,
    moving_window,
    random_arrays,
    reverse,
    threads,
    tree_sum,
    without_barrier,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.codegen.cuda.races import RaceError, check_races
from vdla.compiler.codegen.cuda.shadows import poison
from vdla.compiler.ir.expr import FIRST, Buffer, Const, Var, cast, equal, minimum
from vdla.compiler.ir.stmt import (
    Barrier,
    Commit,
    Copy,
    For,
    Intrinsic,
    IntrinsicDeclaration,
    Program,
    Reduce,
    Wait,
    nest,
    region,
    seq,
    whole,
)
from vdla.compiler.ir.types import DType
from vdla.compiler.passes.insert_barriers import insert_barriers
from vdla.compiler.te.ops.product import Matrices
from vdla.compiler.te.ops.product import product as matrix_product
from vdla.compiler.te.ops.thread_rows import thread_softmax
from vdla.compiler.te.threads import Sharing
from vdla.compiler.templates.gpu import bind_by_name
from vdla.compiler.templates.gpu.tile import Tile, schedule_tile

TARGET = cuda_target()
HAND_MADE = {
    "exchange": reverse(),
    "tree": tree_sum(),
    "plain copies": moving_window(),
    "two slots": moving_window(stages=2),
    "three slots": moving_window(steps=6, stages=3),
    "fewer rows than slots": moving_window(steps=2, stages=4),
}


def assert_same(program: Program, tolerance: float = 0.0) -> None:
    arrays = random_arrays(program)
    got, wanted = emulated(program, arrays), interpreted(program, arrays)
    for name, array in wanted.items():
        assert np.isfinite(got[name].astype(np.float32)).all(), name
        scale = max(1.0, float(np.abs(array.astype(np.float64)).max()))
        difference = np.abs(got[name].astype(np.float64) - array.astype(np.float64)).max()
        assert difference <= tolerance * scale, name


@pytest.mark.parametrize("name", HAND_MADE)
def test_hand_made_kernels(name):
    assert_same(prepare(HAND_MADE[name], TARGET), 1e-6)


@pytest.mark.parametrize("name", ["exchange", "tree", "plain copies", "two slots", "three slots"])
def test_a_missing_barrier_gives_wrong_numbers(name):
    program = prepare(HAND_MADE[name], TARGET)
    arrays = random_arrays(program)
    wanted = interpreted(program, arrays)["Y"]
    for position in range(barriers(program)):
        got = emulated(without_barrier(program, position), arrays)["Y"]
        assert not np.allclose(got, wanted), position


def test_shuffles_wait_for_the_threads_of_a_warp_alone():
    """Softmax of rows of two warps, which exchange their sums through shared memory. Without one of the barriers the
    race check fails and the numbers are wrong, except for a barrier between two buffers at the same address.
    """
    program = thread_softmax((5, 100), -1, Sharing(group=2, lanes=64), shuffles=True)
    kernel = prepare(bind_by_name.schedule(TARGET, program).program, TARGET)
    assert_same(kernel, 1e-6)
    arrays = random_arrays(kernel)
    wanted, wrong = interpreted(kernel, arrays)["Y"], 0
    for position in range(barriers(kernel)):
        without = without_barrier(kernel, position)
        wrong += not np.allclose(emulated(without, arrays)["Y"], wanted)
        with pytest.raises(RaceError):
            check_races(without)
    assert wrong >= 2


@pytest.mark.parametrize(
    ("tile", "sizes"),
    [
        (Tile(rows=16, columns=32, depth=8, thread_rows=4, thread_columns=4, stages=1), (37, 50, 19)),
        (
            Tile(rows=16, columns=16, depth=4, thread_rows=2, thread_columns=4, stages=3, splits=2),
            (20, 33, 44),
        ),
    ],
)
def test_tiles_of_sums_of_products(tile, sizes):
    program = matrix_product(Matrices(rows=sizes[0], depth=sizes[2], columns=sizes[1]), staged="by depth")
    kernel = prepare(schedule_tile(program, tile).program, TARGET)
    arrays = random_arrays(kernel)
    got = emulated(kernel, arrays)["Y"]
    wanted = arrays["X"].astype(np.float64) @ arrays["W"].astype(np.float64)
    assert np.abs(got - wanted).max() <= 2e-6 * np.abs(wanted).max()


def test_kernels_in_a_loop_of_the_host():
    """Kernels in a loop of the host give the interpreter's results: each launch reads the results of the previous
    launch from a workspace in global memory.
    """
    x, y, state = buffer("X", 4, 40), buffer("Y", 40), buffer("state", 2, 40)
    i = Var("i")

    def kernel(name, count, body):
        return blocks(
            f"{name}.b",
            -(-count // 32),
            lambda b: threads(
                f"{name}.t",
                32,
                lambda t: loop(
                    Var(f"{name}.g"), minimum(1, count - b * 32 - t), body(b * 32 + t + Var(f"{name}.g"))
                ),
            ),
        )

    start = kernel("start", 40, lambda e: assign(state, (0, e), x[0, e]))
    step = kernel(
        "step", 40, lambda e: assign(state, ((i + 1) % 2, e), state[i % 2, 39 - e] * 0.5 + x[i + 1, e])
    )
    end = kernel("end", 40, lambda e: assign(y, e, state[1, e]))
    body = allocate(seq(start, loop(i, 3, step), end), state)
    program = Program(name="host", parameters=(x, y), body=body)
    assert_same(prepare(program, TARGET), 1e-6)


def test_loops_with_barriers_in_loops_and_in_a_row():
    """The emulation of two loops in sequence equals the interpreter. Each loop sums over rows through shared memory,
    rotated by one position in each iteration.
    """
    x, y, s = buffer("X", 6, 32), buffer("Y", 32), buffer("S", 32, scope="shared")
    total = buffer("total", 32, scope="register")
    r, k, m = Var("r"), Var("k"), Var("m")

    def exchange(name, value):
        fill = threads(f"{name}.t", 32, lambda t: assign(s, t, value(t)))
        use = threads(f"{name}.u", 32, lambda t: assign(total, t, total[t] * 0.5 + s[(t + 1) % 32]))
        return seq(fill, use)

    clear = threads("c", 32, lambda t: assign(total, t, 0.0))
    rounds = loop(r, 3, loop(k, 2, exchange("a", lambda t: x[r * 2 + k, t] + total[t])))
    more = loop(m, minimum(6, 4), exchange("b", lambda t: x[m, 31 - t]))
    store = threads("w", 32, lambda t: assign(y, t, total[t]))
    kernel = blocks("b", 1, lambda b: allocate(seq(clear, rounds, more, store), s, total))
    program = prepare(Program(name="rounds", parameters=(x, y), body=kernel), TARGET)
    assert barriers(program) == 4
    assert_same(program, 1e-6)


def test_undefined_memory_shows():
    """Emulated kernels read NaN from memory that was never written: shared memory, a thread's own memory, memory
    distributed over a block's threads, and the global workspace.
    """
    y = buffer("Y", 4, 32)
    s, r = buffer("S", 32, scope="shared"), buffer("R", 32, scope="register")
    own, space = buffer("own", 1, scope="register"), buffer("space", 32)

    def block(b):
        values = [s[Var("t")], r[Var("t")], own[0], space[Var("t")]]
        stores = seq(*(assign(y, (n, Var("t")), v) for n, v in enumerate(values)))
        return allocate(threads("t", 32, lambda t: allocate(stores, own)), s, r)

    program = Program(name="undefined", parameters=(y,), body=allocate(blocks("b", 1, block), space))
    assert np.isnan(emulated(program, {"Y": np.zeros((4, 32), np.float32)})["Y"]).all()


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT32, DType.FLOAT16, DType.BFLOAT16])
def test_undefined_memory_of_other_types(dtype):
    y, s = buffer("Y", 32, dtype=dtype), buffer("S", 32, dtype=dtype, scope="shared")
    kernel = blocks("b", 1, lambda b: allocate(threads("t", 32, lambda t: assign(y, t, s[t])), s))
    program = Program(name="undefined", parameters=(y,), body=kernel)
    got = emulated(program, {"Y": np.zeros(32, dtype.numpy)})["Y"]
    wanted = poison(dtype).value
    assert np.isnan(got.astype(np.float32)).all() if dtype.is_float else (got == wanted).all()


@pytest.mark.parametrize("wait", [True, False])
def test_own_copies_come_with_a_threads_own_wait(wait):
    """Every thread uses only data that it has copied itself, so no barrier is needed; but without the wait the data
    have not arrived.
    """
    x, y, s = buffer("X", 2, 48), buffer("Y", 48), buffer("S", 2, 48, scope="shared")

    def bring(n):
        return threads(
            f"t{n}",
            48,
            lambda t: Copy(
                name=f"bring{n}",
                destination=region(s, (n, 1), (t, 1)),
                source=region(x, (n, 1), (t, 1)),
                asynchronous=True,
            ),
        )

    first = threads("u", 48, lambda u: assign(y, u, s[0, u]))
    second = threads("w", 48, lambda u: assign(y, u, y[u] + s[1, u]))
    waits = [Wait(pending=1)] if wait else []
    body = seq(bring(0), Commit(), bring(1), Commit(), *waits, first, Wait(pending=0), second)
    program = Program(name="own", parameters=(x, y), body=blocks("b", 2, lambda b: allocate(body, s)))
    arrays = random_arrays(program)
    got = emulated(program, arrays)["Y"]
    if wait:
        assert np.array_equal(got, arrays["X"][0] + arrays["X"][1])
    else:
        assert np.isnan(got).all()


def test_a_copy_of_a_whole_block():
    """A bulk copy for all threads of a block, with padding and with columns beyond the source, needs one barrier and
    gives the interpreter's results.
    """
    x, y, s = buffer("X", 5, 12), buffer("Y", 8, 16), buffer("S", 8, 16, scope="shared")
    bring = Copy(
        name="bring",
        destination=whole(s),
        source=region(x, (-1, 8), (0, 16)),
        pad=Const(2.0, F32),
        asynchronous=True,
    )
    v = Var("v")
    use = threads("u", 16, lambda u: loop(v, 8, assign(y, (v, u), s[v, 15 - u])))
    body = seq(bring, Commit(), Wait(pending=0), use)
    program = Program(name="bulk", parameters=(x, y), body=blocks("b", 1, lambda b: allocate(body, s)))
    done = prepare(program, TARGET)
    assert barriers(done) == 1
    assert_same(done)


def product(dtype: DType = DType.FLOAT16) -> IntrinsicDeclaration:
    """Declaration of a small matrix product like the instruction of a warp: C[8, 4] (+)= A[8, 2] B[2, 4], accumulated
    in float32.
    """
    c = Buffer(name="C", shape=(8, 4), dtype=F32, scope="fragment.c")
    a = Buffer(name="A", shape=(8, 2), dtype=dtype, scope="shared")
    b = Buffer(name="B", shape=(2, 4), dtype=dtype, scope="shared")
    i, j, k = Var("i"), Var("j"), Var("k")
    reduce = Reduce(
        name="sum",
        op="add",
        buffer=c,
        indices=(i, j),
        value=cast(a[i, k], F32) * cast(b[k, j], F32),
        first=equal(k, 0) & FIRST,
    )
    return IntrinsicDeclaration(
        name="product", parameters=(c, a, b), body=nest([(i, 8), (j, 4), (k, 2)], reduce)
    )


def warps() -> Program:
    """A program for two warps, each with 8 x 4 sums over a depth of 6 in steps of 2; inputs are rounded to float16 on
    their way to shared memory.
    """
    declaration = product()
    x, w, y = buffer("X", 16, 6), buffer("W", 6, 4), buffer("Y", 16, 4)
    a = buffer("a", 16, 6, scope="shared", dtype=DType.FLOAT16)
    b = buffer("b", 6, 4, scope="shared", dtype=DType.FLOAT16)
    c = Buffer(name="c", shape=(2, 8, 4), dtype=F32, scope="fragment.c")
    out = buffer("out", 16, 4, scope="shared")
    fill = threads(
        "t",
        32,
        lambda t: nest(
            [(Var("m"), 3)],
            assign(
                a,
                ((t * 3 + Var("m")) // 6, (t * 3 + Var("m")) % 6),
                cast(x[(t * 3 + Var("m")) // 6, (t * 3 + Var("m")) % 6], DType.FLOAT16),
            ),
        ),
    )
    more = threads("u", 24, lambda u: assign(b, (u // 4, u % 4), cast(w[u // 4, u % 4], DType.FLOAT16)))
    warp, step, store = Var("warp"), Var("step"), Var("store")
    use = Intrinsic(
        name="mma",
        declaration=declaration,
        operands=(
            region(c, (warp, 1), (0, 8), (0, 4)),
            region(a, (warp * 8, 8), (step * 2, 2)),
            region(b, (step * 2, 2), (0, 4)),
        ),
        first=equal(step, 0),
    )
    multiply = For(var=warp, extent=loop(step, 2, use).extent, body=loop(step, 3, use), kind="thread.y")
    copy = Copy(
        name="keep",
        destination=region(out, (store * 8, 8), (0, 4)),
        source=region(c, (store, 1), (0, 8), (0, 4)),
    )
    keep = For(var=store, extent=multiply.extent, body=copy, kind="thread.y")
    write = threads(
        "s",
        32,
        lambda s: nest(
            [(Var("n"), 2)], assign(y, (s // 2, s % 2 * 2 + Var("n")), out[s // 2, s % 2 * 2 + Var("n")])
        ),
    )
    body = allocate(seq(fill, more, multiply, keep, write), a, b, c, out)
    return Program(name="warps", parameters=(x, w, y), body=blocks("block", 1, lambda _: body))


def test_instructions_of_warps():
    program = insert_barriers(warps())
    arrays = random_arrays(program)
    got = emulated(program, arrays)["Y"]
    assert np.allclose(got, interpreted(program, arrays)["Y"], rtol=0, atol=1e-6)
    halves = [arrays[n].astype(np.float16).astype(np.float64) for n in ("X", "W")]
    assert np.allclose(got, halves[0] @ halves[1], rtol=0, atol=1e-5)
    assert not np.allclose(got, arrays["X"] @ arrays["W"], rtol=0, atol=1e-5)


def test_blocks_of_one_thread():
    assert_same(prepare(moving_window(count=1, stages=2), TARGET), 1e-6)


def random_kernel(draw) -> Program:
    """A kernel of random phases in which 12 threads read and write 12 shared elements through different permutations,
    with or without barriers between phases.
    """
    count = 12
    x, y, s = buffer("X", 8, count), buffer("Y", count), buffer("S", 2, count, scope="shared")
    k = Var("k")

    def place(t):
        return (t * draw(st.sampled_from([1, 1, 5, 7, 11])) + draw(st.sampled_from([0, 0, 1, 6]))) % count

    def slot():
        return draw(st.sampled_from([Const(0), k % 2, (k + 1) % 2]))

    def phase(number):
        guard, extent = Var(f"g{number}"), draw(st.sampled_from([count, count, 5]))

        def body(t):
            value = x[k + number, t] * 0.5 if draw(st.booleans()) else s[slot(), place(t)] * 0.5 + x[k, t]
            return loop(
                guard, minimum(1, extent - t), assign(s, (slot(), place(t + guard)), value, f"phase{number}")
            )

        return threads(f"t{number}", count, body)

    inside = []
    for number in range(draw(st.integers(1, 3))):
        inside += [Barrier()] * draw(st.integers(0, 1)) + [phase(number)]
    start = threads("a", count, lambda t: seq(assign(s, (0, t), x[6, t]), assign(s, (1, t), x[7, t])))
    store = threads("z", count, lambda t: assign(y, t, s[0, place(t)] + s[1, place(t)]))
    body = seq(start, Barrier(), loop(k, 3, seq(*inside)), *[Barrier()] * draw(st.integers(0, 1)), store)
    kernel = blocks("b", 1, lambda b: allocate(body, s))
    return Program(name="random", parameters=(x, y), body=kernel)


@settings(max_examples=examples(20), deadline=None)
@given(data=st.data())
def test_what_has_no_race_has_the_right_numbers(data):
    """Kernels that pass the race check, also after the barrier pass has inserted barriers, give the same results for
    every order of threads.
    """
    program = random_kernel(data.draw)
    done = insert_barriers(program)
    try:
        check_races(done)
    except RaceError as race:
        # No barrier mends a phase that reads what it writes; all else must be in order now.
        assert "within one phase" in str(race)
        return
    arrays = random_arrays(program)
    wanted = interpreted(program, arrays)["Y"]
    assert np.allclose(emulated(done, arrays)["Y"], wanted, rtol=1e-5)
    try:
        check_races(program)
    except RaceError:
        return
    assert np.allclose(emulated(program, arrays)["Y"], wanted, rtol=1e-5)

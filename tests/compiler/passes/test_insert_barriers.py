"""The pass that inserts a barrier exactly where threads depend on each other; an independent race check agrees."""

from __future__ import annotations

import numpy as np
import pytest
from campaign import examples
from gpu_kernels import (
    allocate,
    assign,
    barriers,
    blocks,
    buffer,
    loop,
    moving_window,
    random_arrays,
    reverse,
    threads,
    tree_sum,
    without_barrier,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from vdla.compiler.codegen.cuda.races import RaceError, check_races
from vdla.compiler.ir.expr import Var
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.printer import format_node
from vdla.compiler.ir.stmt import Barrier, Program, seq
from vdla.compiler.passes.insert_barriers import insert_barriers
from vdla.compiler.schedule import LegalityError
from vdla.compiler.te.ops.product import Matrices, product
from vdla.compiler.templates.gpu.tile import Tile, schedule_tile


def assert_needed(program: Program, count: int) -> Program:
    """Asserts that the pass inserts `count` barriers, that the result has no race, and that each barrier is needed:
    without it there is a race. Returns the result.
    """
    done = insert_barriers(program)
    assert barriers(done) == count, format_node(done)
    check_races(done)
    for position in range(barriers(done)):
        with pytest.raises(RaceError):
            check_races(without_barrier(done, position))
    assert insert_barriers(done) is done or insert_barriers(done) == done
    return done


def lines(program: Program) -> list[str]:
    return [line.strip() for line in format_node(program).splitlines()]


def test_a_barrier_between_two_phases():
    done = assert_needed(reverse(), 1)
    text = lines(done)
    assert text[text.index("barrier") + 1].startswith("for u")


def test_every_step_of_a_tree_but_the_last():
    # The last sum is read by the thread that wrote it.
    assert_needed(tree_sum(32), 5)


def test_a_barrier_between_iterations_of_a_loop():
    done = assert_needed(moving_window(), 2)
    text = lines(done)
    assert text[text.index("for k in range(5):") + 1] == "barrier"
    # Over one iteration nothing comes around.
    assert_needed(moving_window(steps=1), 1)


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_asynchronous_copies(stages):
    done = assert_needed(moving_window(steps=7, stages=stages), 2)
    text = lines(done)
    # Before the loop none is needed: the first copies of the loop go into another slot than those ahead of it.
    assert text[text.index("for k in range(7):") + 1] == "barrier"
    assert text[text.index("barrier") - 2] != "barrier"
    assert text[text.index(f"wait {stages - 1}") + 1] == "barrier"


def test_meaning_is_kept():
    program = moving_window(stages=2)
    arrays = random_arrays(program)
    wanted = interpret(program, arrays)["Y"]
    assert np.array_equal(interpret(insert_barriers(program), arrays, poison=True)["Y"], wanted)


def one_block(body, *buffers, parameters):
    return Program(
        name="kernel", parameters=parameters, body=blocks("b", 1, lambda b: allocate(body, *buffers))
    )


def test_dependences_within_a_thread_need_none():
    x, y, s = buffer("X", 128), buffer("Y", 128), buffer("S", 8, 16, scope="shared")
    # The same thread by another expression: t // 4 * 16 + t % 4 * 4 + v is t * 4 + v.
    v, w = Var("v"), Var("w")
    fill = threads("t", 32, lambda t: loop(v, 4, assign(s, (t // 4, t % 4 * 4 + v), x[t * 4 + v])))
    use = threads(
        "u",
        32,
        lambda u: loop(w, 4, assign(y, u * 4 + w, s[u // 4, u % 4 * 4 + w] + s[u // 4, u % 4 * 4 + 3])),
    )
    assert_needed(one_block(seq(fill, use), s, parameters=(x, y)), 0)


def test_slots_that_differ_need_none():
    """Each iteration writes one slot of a double buffer and reads the other: it needs one barrier, not two."""
    x, y, s = buffer("X", 9, 32), buffer("Y", 8, 32), buffer("S", 2, 32, scope="shared")
    k = Var("k")
    first = threads("f", 32, lambda t: assign(s, (0, t), x[0, t], "first"))
    use = threads("u", 32, lambda t: assign(y, (k, t), s[k % 2, 31 - t], "use"))
    fill = threads("t", 32, lambda t: assign(s, ((k + 1) % 2, t), x[k + 1, t], "fill"))
    program = one_block(seq(first, loop(k, 8, seq(use, fill))), s, parameters=(x, y))
    done = assert_needed(program, 1)
    text = lines(done)
    assert text[text.index("for k in range(8):") + 1] == "barrier"


def test_barriers_that_are_there_count():
    x, y, s = buffer("X", 32), buffer("Y", 32), buffer("S", 32, scope="shared")
    fill = threads("t", 32, lambda t: assign(s, t, x[t]))
    use = threads("u", 32, lambda t: assign(y, t, s[31 - t]))
    program = one_block(seq(fill, Barrier(), use), s, parameters=(x, y))
    assert insert_barriers(program) == program
    check_races(program)


def test_global_memory_too():
    x, y = buffer("X", 2, 32), buffer("Y", 2, 32)

    def block(b):
        fill = threads("t", 32, lambda t: assign(x, (b, t), y[b, t]))
        use = threads("u", 32, lambda t: assign(y, (b, t), x[b, 31 - t]))
        return seq(fill, use)

    assert_needed(Program(name="kernel", parameters=(x, y), body=blocks("b", 2, block)), 1)


def test_one_barrier_before_a_loop_instead_of_one_in_each_iteration():
    x, y, s = buffer("X", 32), buffer("Y", 4, 32), buffer("S", 32, scope="shared")
    k = Var("k")
    fill = threads("t", 32, lambda t: assign(s, t, x[t]))
    use = threads("u", 32, lambda t: assign(y, (k, t), s[31 - t]))
    done = assert_needed(one_block(seq(fill, loop(k, 4, use)), s, parameters=(x, y)), 1)
    text = lines(done)
    assert text[text.index("barrier") + 1] == "for k in range(4):"


def test_memory_used_again_by_another_buffer():
    """Buffers whose lifetimes do not overlap may have the same address: there must be a barrier between their uses."""
    x, y = buffer("X", 32), buffer("Y", 2, 32)
    s, z = buffer("S", 32, scope="shared"), buffer("Z", 32, scope="shared")
    first = allocate(
        seq(
            threads("t", 32, lambda t: assign(s, t, x[t])),
            threads("u", 32, lambda t: assign(y, (0, t), s[31 - t])),
        ),
        s,
    )
    second = allocate(
        seq(
            threads("v", 32, lambda t: assign(z, t, x[t])),
            threads("w", 32, lambda t: assign(y, (1, t), z[31 - t])),
        ),
        z,
    )
    assert_needed(one_block(seq(first, second), parameters=(x, y)), 3)


def test_one_thread_needs_none():
    assert barriers(insert_barriers(reverse(count=1))) == 0


@settings(max_examples=examples(12), deadline=None)
@given(data=st.data())
def test_tiles_of_sums_of_products(data):
    """For random tiles, a product with all barriers has no race, and a product without any one of them has a race.

    The test needs more steps than stages: if the loop issues no copy, a barrier before it protects nothing, but the
    pass does not count iterations and cannot know.
    """
    draw = data.draw
    groups = [draw(st.sampled_from([1, 2])) for _ in range(2)]
    own = [g * draw(st.sampled_from([1, 2, 4])) for g in groups]
    count = [draw(st.sampled_from([1, 2, 4, 8])) for _ in range(2)]
    depth, stages, splits = draw(st.sampled_from([1, 4, 8])), draw(st.integers(1, 4)), draw(st.integers(1, 2))
    tile = Tile(
        rows=own[0] * count[0],
        columns=own[1] * count[1],
        depth=depth,
        thread_rows=own[0],
        thread_columns=own[1],
        row_groups=groups[0],
        column_groups=groups[1],
        stages=stages,
        splits=splits,
        width=draw(st.sampled_from([1, 4])),
    )
    assume(tile.obstacle() is None)
    steps = depth * splits
    program = product(
        Matrices(
            rows=draw(st.integers(1, 20)),
            depth=draw(st.integers(steps * (stages + 1), steps * (stages + 2))),
            columns=draw(st.integers(1, 20)),
            transposed_x=draw(st.booleans()),
            transposed_w=draw(st.booleans()),
        ),
        staged="by depth",
    )
    try:
        scheduled = schedule_tile(program, tile).program
    except LegalityError:
        assume(False)
        return
    done = insert_barriers(scheduled)
    check_races(done)
    for position in range(barriers(done)):
        with pytest.raises(RaceError):
            check_races(without_barrier(done, position))

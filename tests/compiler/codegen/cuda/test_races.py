"""Tests the race check. It must refuse kernels in which no barrier can prevent a race, in which asynchronous copies are
unordered, or in which two blocks access the same element. It must accept similar kernels without a race.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from gpu_kernels import allocate, assign, blocks, buffer, loop, moving_window, reverse, threads, tree_sum

from vdla.compiler.codegen.cuda.errors import LoweringError
from vdla.compiler.codegen.cuda.races import RaceError, check_races
from vdla.compiler.ir.expr import Binary, Const, Var, minimum
from vdla.compiler.ir.replace_buffers import replace_buffers
from vdla.compiler.ir.stmt import Alloc, Barrier, Commit, Copy, Program, Wait, region, seq
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.visit import map_all_expressions, map_expr
from vdla.compiler.passes.insert_barriers import insert_barriers

X, Y = buffer("X", 64), buffer("Y", 64)
S = buffer("S", 64, scope="shared")


def one_block(*body, buffers=(S,), parameters=(X, Y), number=1):
    kernel = blocks("b", number, lambda b: allocate(seq(*body), *buffers))
    return Program(name="kernel", parameters=parameters, body=kernel)


def refused(program: Program, *words: str) -> str:
    with pytest.raises(RaceError) as caught:
        check_races(program)
    for word in words:
        assert word in str(caught.value)
    return str(caught.value)


def test_a_race_is_named_with_both_statements_and_threads():
    message = refused(reverse(64), "b: threads race on S[", "(shared)", "S.set writes it in thread (x=")
    assert "Y.set reads it in thread (x=" in message
    assert message.endswith("with no barrier between them; insert_barriers puts it there")


def test_two_threads_write_one_element():
    fill = threads("t", 64, lambda t: assign(Y, t // 2, X[t]))
    refused(
        one_block(fill, buffers=()), "Y[0] (dram)", "within one phase", "give each thread elements of its own"
    )


def test_a_phase_that_reads_what_it_writes():
    shift = threads("t", 63, lambda t: assign(Y, t, Y[t + 1]))
    refused(one_block(shift, buffers=()), "within one phase")
    check_races(one_block(threads("t", 64, lambda t: assign(Y, t, Y[t] + 1.0)), buffers=()))


def test_two_blocks_write_one_element():
    def kernel(stride):
        x, y = buffer("X", 4, 32), buffer("Y", 128)
        body = blocks("b", 4, lambda b: threads("t", 32, lambda t: assign(y, b * stride + t, x[b, t])))
        return Program(name="kernel", parameters=(x, y), body=body)

    check_races(kernel(32))
    refused(kernel(24), "blocks race on Y[", "in block (b=", "split the kernel in two")


@pytest.mark.parametrize("pitch", [49, 98])
def test_indices_that_are_no_sums(pitch):
    """Threads store to at // pitch, at % 49 // 7, at % 7 of Y. With pitch 49 these are the quotients and remainders of
    one number, so that threads write different elements; with another pitch two threads race.
    """
    y = buffer("Y", 8, 7, 7)

    def block(b):
        def store(t):
            j, guard = b * 32 + t, Var("g")
            at = j + guard
            to = assign(y, (at // pitch, at % 49 // 7, at % 7), X[t])
            return loop(guard, minimum(1, 343 - j), to)

        return threads("t", 32, store)

    program = Program(name="kernel", parameters=(X, y), body=blocks("b", 11, block))
    if pitch == 49:
        check_races(program)
    else:
        refused(program, "race on Y[")


def test_what_edges_leave_out_does_not_race():
    """If the last block were full, threads 60 to 63 would write elements a second time; the bound of the last block
    excludes these threads.
    """
    y = buffer("Y", 60)

    def block(b):
        v = Var("v")
        return threads(
            "t", 32, lambda t: loop(v, minimum(1, 60 - b * 32 - t), assign(y, (b * 32 + t + v) % 60, X[t]))
        )

    check_races(Program(name="kernel", parameters=(X, y), body=blocks("b", 2, block)))


def copies(*, commit=True, wait=0, barrier=True, last=True):
    """A kernel in which each thread fetches one element by an asynchronous copy, waits, passes a barrier, and then uses
    an element that another thread fetched. With commit=False, wait=None or barrier=False, the kernel lacks that step
    and has a race; `wait` is the number of copies that may still be under way. `last`: whether a commit and a wait end
    the kernel.
    """
    bring = threads(
        "t",
        64,
        lambda t: Copy(
            name="bring", destination=region(S, (t, 1)), source=region(X, (t, 1)), asynchronous=True
        ),
    )
    use = threads("u", 64, lambda u: assign(Y, u, S[63 - u], "use"))
    body = [bring, *([Commit()] if commit else []), *([Wait(pending=wait)] if wait is not None else [])]
    body += [*([Barrier()] if barrier else []), use]
    return one_block(*body, *([Commit(), Wait(pending=0)] if last else []))


def test_asynchronous_copies():
    check_races(copies())
    refused(copies(barrier=False), "the asynchronous copy bring fills it", "with no barrier after the wait")
    refused(copies(wait=1), "before the wait that covers the copy")
    refused(copies(wait=None), "before the wait that covers the copy")
    refused(copies(commit=False), "before the wait that covers the copy")


def test_copies_that_never_end():
    bring = threads(
        "t",
        64,
        lambda t: Copy(
            name="bring", destination=region(S, (t, 1)), source=region(X, (t, 1)), asynchronous=True
        ),
    )
    refused(one_block(bring), "bring belongs to no group", "no commit follows")
    refused(one_block(bring, Commit()), "bring is still under way at the kernel's end", "wait 0")
    refused(one_block(bring, Commit(), Wait(pending=1)), "still under way")
    check_races(one_block(bring, Commit(), Wait(pending=0)))


def test_own_copies_need_no_barrier_but_a_wait():
    def program(*between):
        bring = threads(
            "t",
            64,
            lambda t: Copy(
                name="bring", destination=region(S, (t, 1)), source=region(X, (t, 1)), asynchronous=True
            ),
        )
        use = threads("u", 64, lambda u: assign(Y, u, S[u], "use"))
        return one_block(bring, Commit(), *between, use, Wait(pending=0))

    check_races(program(Wait(pending=0)))
    assert insert_barriers(program(Wait(pending=0))) == program(Wait(pending=0))
    refused(program(), "before the wait that covers the copy")
    refused(program(Barrier()), "before the wait that covers the copy")


def test_what_a_copy_reads_stays_until_its_wait():
    def program(*between):
        bring = threads(
            "t",
            64,
            lambda t: Copy(
                name="bring", destination=region(S, (t, 1)), source=region(X, (t, 1)), asynchronous=True
            ),
        )
        change = threads("c", 64, lambda t: assign(X, t, 0.0, "change"))
        return one_block(bring, Commit(), *between, change, Wait(pending=0))

    check_races(program(Wait(pending=0)))
    refused(program(), "bring reads it", "change writes it", "before the wait that covers the copy")


def test_a_slot_too_few():
    """The race check refuses a pipeline with two slots of shared memory for three rows in flight: two rows share a
    slot.
    """
    program = insert_barriers(moving_window(steps=9, stages=3))
    check_races(program)
    short = buffer("S", 2, 32, scope="shared")

    def slot(e):
        return replace(e, b=Const(2)) if isinstance(e, Binary) and e.op == "%" else e

    fewer = map_all_expressions(replace_buffers(program, {"S": short}), lambda e: map_expr(e, slot))
    refused(fewer, "race on S[", "before")


def test_what_depends_on_the_block():
    """The race check accepts loops that all threads of a block execute together but whose number of iterations depends
    on the block.
    """
    x, y, s = buffer("X", 3, 5, 32), buffer("Y", 3, 32), buffer("S", 2, 32, scope="shared")

    def kernel(wait):
        def block(b):
            k = Var("k")
            rows = minimum(5, 2 + b * 2)
            total = buffer("total", 32, scope="register")
            clear = threads("c", 32, lambda t: assign(total, t, 0.0))
            bring = threads(
                "t",
                32,
                lambda t: Copy(
                    name="bring",
                    destination=region(s, (k % 2, 1), (t, 1)),
                    source=region(x, (b, 1), (k, 1), (t, 1)),
                    asynchronous=True,
                ),
            )
            add = threads("a", 32, lambda t: assign(total, t, total[t] + s[k % 2, 31 - t], "add"))
            store = threads("w", 32, lambda t: assign(y, (b, t), total[t]))
            inside = loop(k, rows, seq(bring, Commit(), Wait(pending=wait), add))
            return allocate(seq(clear, inside, Wait(pending=0), store), s, total)

        return insert_barriers(Program(name="kernel", parameters=(x, y), body=blocks("b", 3, block)))

    check_races(kernel(0))
    refused(kernel(1), "before the wait that covers the copy")


def test_memory_used_again_by_another_buffer():
    other = buffer("Z", 64, scope="shared")
    first = Alloc(buffer=S, body=threads("t", 64, lambda t: assign(S, t, X[t])))
    second = Alloc(buffer=other, body=threads("u", 64, lambda t: assign(other, t, X[t])))
    refused(one_block(first, second, buffers=()), "may share the same bytes")
    check_races(one_block(first, Barrier(), second, buffers=()))


def test_a_tree_sum_without_barriers_is_a_race():
    check_races(insert_barriers(tree_sum(64)))
    refused(tree_sum(64), "threads race on S[")


def test_an_index_read_from_memory_cannot_be_told():
    places = buffer("P", 64, dtype=DType.INT64)
    scatter = threads("t", 64, lambda t: assign(Y, places[t] % 64, X[t]))
    with pytest.raises(LoweringError, match="read from memory"):
        check_races(one_block(scatter, buffers=(), parameters=(X, Y, places)))


def test_not_in_kernel_form():
    inside = threads("t", 64, lambda t: seq(assign(S, t, X[t]), Barrier()))
    with pytest.raises(LoweringError, match="is inside a loop over threads"):
        check_races(one_block(inside))
    bare = seq(assign(S, 0, X[0]), threads("t", 64, lambda t: assign(Y, t, X[t])))
    with pytest.raises(LoweringError, match="is not inside a loop over threads"):
        check_races(one_block(bare))
    with pytest.raises(LoweringError, match="is not inside a loop over blocks"):
        check_races(Program(name="kernel", parameters=(X, Y), body=assign(Y, 0, X[0])))
    with pytest.raises(LoweringError, match="bind it to an axis of blocks"):
        check_races(
            Program(name="kernel", parameters=(X, Y), body=threads("t", 64, lambda t: assign(Y, t, X[t])))
        )

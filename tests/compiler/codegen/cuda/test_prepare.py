"""Scheduled GPU programs that the checks before code generation refuse, each with one clear message."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gpu_kernels import allocate, assign, barriers, blocks, buffer, loop, reverse, threads

from vdla.compiler.codegen.cuda.errors import LoweringError
from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.codegen.cuda.prepare import prepare, shared_bytes
from vdla.compiler.ir.expr import Var
from vdla.compiler.ir.kernels import kernels
from vdla.compiler.ir.stmt import Alloc, Commit, Copy, For, Program, Wait, region, seq

TARGET = cuda_target()
X, Y = buffer("X", 64), buffer("Y", 64)


def refused(program: Program, *words: str, target=TARGET) -> None:
    with pytest.raises(LoweringError) as caught:
        prepare(program, target)
    for word in words:
        assert word in str(caught.value)


def test_barriers_and_dumps():
    dumped: dict[str, str] = {}
    done = prepare(reverse(), TARGET, dump=lambda name, text: dumped.__setitem__(name, text))
    assert barriers(done) == 1
    assert "barrier" in dumped["insert_barriers"]
    assert prepare(reverse(), TARGET, check=False) == done


def axes(**extents: int) -> Program:
    """A program of one store in nested grid loops, given as name=extent. A name that begins with "b" is a block axis,
    any other a thread axis; its last letter is x, y or z.
    """
    body = assign(Y, 0, 1.0)
    for axis, extent in reversed(extents.items()):
        where = "block" if axis.startswith("b") else "thread"
        body = For(
            var=Var(axis), extent=loop(Var("n"), extent, body).extent, body=body, kind=f"{where}.{axis[-1]}"
        )  # type: ignore[arg-type]
    return Program(name="axes", parameters=(Y,), body=body)


def test_limits_of_blocks_and_grids():
    refused(axes(bx=1, ty=33, tx=32), "1056 threads", "at most 1024", "split")
    refused(axes(bx=1, tx=2048), "2048 threads along x", "at most 1024")
    refused(axes(bx=1, tz=65), "65 threads along z", "at most 64")
    refused(axes(by=65536, bx=1, tx=1), "65536 blocks along y", "at most 65535", "block.x")
    refused(axes(bz=70000, tx=1), "70000 blocks along z")


def shared(*sizes: int, nested: bool = True) -> Program:
    """A program with shared-memory buffers of `sizes` float32 elements; if `nested`, all are live at once, else one
    after the other.
    """
    uses = []
    for n, size in enumerate(sizes):
        s = buffer(f"S{n}", size, scope="shared")
        uses.append((s, threads(f"t{n}", 32, lambda t, s=s: assign(s, t, X[t]))))
    if nested:
        again = [threads(f"e{n}", 32, lambda t, s=s: assign(s, t, X[t])) for n, (s, _) in enumerate(uses)]
        body = allocate(seq(*(use for _, use in uses), *again), *(s for s, _ in uses))
    else:
        body = seq(*(Alloc(buffer=s, body=use) for s, use in uses))
    return Program(name="shared", parameters=(X,), body=blocks("b", 1, lambda _: body))


def test_shared_memory():
    most = TARGET.shared_bytes_per_block // 4
    prepare(shared(most), TARGET)
    refused(shared(most + 1), "KiB of shared memory", "at most", "make the tiles smaller")
    refused(shared(most // 2, most // 2 + 32), "KiB of shared memory")
    # One after the other they may have the same bytes.
    prepare(shared(most // 2, most // 2 + 32, nested=False), TARGET)
    assert shared_bytes(kernels(shared(32, 33))[0], TARGET) == 128 + 256
    refused(shared(20 * 1024), "at most 64.0 KiB", target=replace(TARGET, shared_bytes_per_block=64 * 1024))


def test_registers_of_all_threads_are_not_reached_by_the_first_one_alone():
    held, t = buffer("held", 64, scope="register"), Var("t")
    fill = assign(held, t, X[t])

    def program(fill: For) -> Program:
        body = seq(fill, threads("u", 64, lambda u: assign(Y, u, held[u])))
        return Program(name="p", parameters=(X, Y), body=blocks("b", 1, lambda _: allocate(body, held)))

    prepare(program(loop(t, 64, fill, "thread.x")), TARGET)
    alone = loop(Var("y"), 1, loop(t, 64, fill), "thread.y")
    refused(
        program(alone), "dimension 0 of held", "in no loop over it, in t; bind every loop over it to thread.x"
    )


def test_asynchronous_copies_go_from_global_to_shared_memory():
    r = buffer("R", 64, scope="register")

    def bring(t):
        return Copy(name="bring", destination=region(r, (t, 1)), source=region(X, (t, 1)), asynchronous=True)

    body = allocate(seq(threads("t", 64, bring), Commit(), Wait(pending=0)), r)
    program = Program(name="bad", parameters=(X,), body=blocks("b", 1, lambda _: body))
    refused(program, "copies asynchronously from dram to register", "in shared")


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (axes(tx=4), "contains the kernels"),
        (axes(tx=4, bx=4), "contains the kernels"),
        (Program(name="p", parameters=(Y,), body=assign(Y, 0, 1.0)), "is not inside a loop over blocks"),
        (
            Program(
                name="p",
                parameters=(Y,),
                body=blocks(
                    "b",
                    2,
                    lambda b: loop(
                        Var("k"),
                        2,
                        For(
                            var=Var("c"),
                            extent=loop(Var("n"), 2, seq()).extent,
                            kind="block.y",
                            body=threads("t", 16, lambda t: assign(Y, t, 1.0)),
                        ),
                    ),
                ),
            ),
            "not nested directly in the other axes",
        ),
        (
            Program(
                name="p",
                parameters=(Y,),
                body=blocks(
                    "b",
                    1,
                    lambda b: loop(Var("k"), 2, threads("t", 2, lambda t: assign(Y, t, 1.0)), "parallel"),
                ),
            ),
            "loops there are serial or unrolled",
        ),
        (
            Program(
                name="p",
                parameters=(Y,),
                body=blocks(
                    "b",
                    1,
                    lambda b: threads(
                        "t", 2, lambda t: allocate(assign(Y, t, 1.0), buffer("S", 2, scope="shared"))
                    ),
                ),
            ),
            "allocated in a loop over threads",
        ),
        (
            Program(
                name="p",
                parameters=(Y,),
                body=blocks(
                    "b", 1, lambda b: allocate(threads("t", 2, lambda t: assign(Y, t, 1.0)), buffer("S", 2))
                ),
            ),
            "give it a scope that exists in each block",
        ),
    ],
)
def test_programs_that_are_not_in_kernel_form(program, words):
    refused(program, words)

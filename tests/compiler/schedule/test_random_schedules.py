"""Whatever sequence of primitives is legal leaves the result as it was, and its trace replays to the same program."""

from __future__ import annotations

import os

import numpy as np
import primitives
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.compiler.ir.expr import Buffer, Const, Var, all_of, equal, maximum
from vdla.compiler.ir.grid import AXES
from vdla.compiler.ir.hash import structural_hash
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.printer import format_node
from vdla.compiler.ir.stmt import (
    Alloc,
    Assign,
    Copy,
    For,
    NamedStmt,
    Program,
    Reduce,
    nest,
    region,
    seq,
    whole,
)
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.verify import verify
from vdla.compiler.ir.visit import walk
from vdla.compiler.schedule import (
    LegalityError,
    Schedule,
    format_trace,
    replay,
    trace_from_json,
    trace_to_json,
)
from vdla.compiler.schedule.pack import pack_arrays

I32 = DType.INT32
EXAMPLES = int(os.environ.get("VDLA_SCHEDULE_EXAMPLES", "0"))
"""So many random ones by hand, as VDLA_SCHEDULE_EXAMPLES=2000; else a few, always the same."""


def chains(draw) -> Program:
    """Padded or scaled input, a sum or greatest value over windows of it, and what is made of that."""
    rows, size, kernel = draw(st.integers(1, 6)), draw(st.integers(1, 9)), draw(st.integers(1, 3))
    stride = draw(st.integers(1, 2))
    before = draw(st.integers(0, 2))
    wide = max(size + before + draw(st.integers(0, 2)), kernel)
    out = (wide - kernel) // stride + 1
    x, t = Buffer(name="X", shape=(rows, size), dtype=I32), Buffer(name="T", shape=(rows, wide), dtype=I32)
    s, y = Buffer(name="S", shape=(rows, out), dtype=I32), Buffer(name="Y", shape=(rows, out), dtype=I32)
    names = [Var(name) for name in ("pr", "pw", "r", "o", "k", "er", "eo")]
    pr, pw, r, o, k, er, eo = names
    load = Copy(
        name="load", destination=whole(t), source=region(x, (0, rows), (-before, wide)), pad=Const(3, I32)
    )
    scale = None
    if draw(st.booleans()):
        u = Buffer(name="U", shape=(rows, wide), dtype=I32)
        scale = nest(
            [(pr, rows), (pw, wide)], Assign(name="scale", buffer=u, indices=(pr, pw), value=t[pr, pw] * 3)
        )
    source = t if scale is None else u
    op = draw(st.sampled_from(["add", "max"]))
    value = source[r, o * stride + k]
    first = all_of(equal(k, 0))
    total = Reduce(name="sum", op=op, buffer=s, indices=(r, o), value=value, first=first)
    loops = [(r, rows), (o, out), (k, kernel)]
    if draw(st.booleans()):
        loops = [loops[0], loops[2], loops[1]]
    finish = Assign(name="out", buffer=y, indices=(er, eo), value=maximum(s[er, eo] - 2, 0))
    body = seq(
        load, *([] if scale is None else [scale]), nest(loops, total), nest([(er, rows), (eo, out)], finish)
    )
    body = Alloc(buffer=s, body=body)
    if scale is not None:
        body = Alloc(buffer=u, body=body)
    return Program(name="chain", parameters=(x, y), body=Alloc(buffer=t, body=body))


def products(draw) -> Program:
    """A matrix product, its sums perhaps in a buffer of their own and added up once more."""
    m, n, d = (draw(st.integers(1, 6)) for _ in range(3))
    i, j, k, a, b = (Var(name) for name in ("i", "j", "k", "a", "b"))
    x, w = Buffer(name="X", shape=(m, d), dtype=I32), Buffer(name="W", shape=(d, n), dtype=I32)
    y = Buffer(name="Y", shape=(m, n), dtype=I32)
    last = draw(st.sampled_from(["none", "scale", "rows"]))
    s = y if last == "none" else Buffer(name="S", shape=(m, n), dtype=I32)
    total = Reduce(name="sum", op="add", buffer=s, indices=(i, j), value=x[i, k] * w[k, j], first=equal(k, 0))
    order = draw(st.permutations([(i, m), (j, n), (k, d)]))
    body = nest(order, total)
    if last == "none":
        return Program(name="product", parameters=(x, w, y), body=body)
    if last == "scale":
        end = Assign(name="out", buffer=y, indices=(a, b), value=s[a, b] * 2)
    else:
        y = Buffer(name="Y", shape=(m,), dtype=I32)
        end = Reduce(name="out", op="add", buffer=y, indices=(a,), value=s[a, b], first=equal(b, 0))
    body = Alloc(buffer=s, body=seq(body, nest([(a, m), (b, n)], end)))
    return Program(name="product", parameters=(x, w, y), body=body)


KINDS = ("unroll", "vectorize", "parallel", "virtual_thread", "serial", *AXES[:1], *AXES[3:5])


def attempt(draw, s: Schedule) -> None:
    """One primitive with arguments from the names in the program; most are refused."""
    loops = [n.name for n in walk(s.program) if isinstance(n, For)]
    leaves = sorted({n.name for n in walk(s.program) if isinstance(n, NamedStmt)})
    locals_ = [n.buffer.name for n in walk(s.program) if isinstance(n, Alloc)]
    buffers = sorted({*locals_, *(p.name for p in s.program.parameters)})
    if not loops:
        return
    loop, leaf, buffer = (draw(st.sampled_from(names)) for names in (loops, leaves, buffers))
    count = draw(st.integers(1, 4))
    match draw(st.integers(0, 17)):
        case 0 | 1:
            s.split(loop, count)
        case 2:
            inner = next(
                (
                    n.body.name
                    for n in walk(s.program)
                    if isinstance(n, For) and n.name == loop and isinstance(n.body, For)
                ),
                loop,
            )
            s.fuse(loop, inner)
        case 3 | 4:
            chain = [loop]
            node = next(n for n in walk(s.program) if isinstance(n, For) and n.name == loop)
            while isinstance(node.body, For):
                node = node.body
                chain.append(node.name)
            s.reorder(*draw(st.permutations(chain)))
        case 5:
            s.annotate(loop, draw(st.sampled_from(KINDS)))
        case 6:
            s.peel(loop, draw(st.sampled_from(["first", "last"])))
        case 7:
            if draw(st.booleans()):
                s.cache_read(buffer, loop, "local")
            s.pipeline(loop, 1 + count)
        case 8:
            s.expand_copy(leaf)
        case 9:
            s.decompose_reduction(leaf, loop)
        case 10:
            s.rfactor(leaf, loop)
        case 11 | 12:
            s.compute_at(leaf, loop)
        case 13 | 14:
            s.reverse_compute_at(leaf, loop)
        case 15:
            s.compute_inline(leaf)
        case 16:
            cache = draw(st.sampled_from([s.cache_read, s.cache_write]))
            cache(buffer, draw(st.sampled_from([loop, None])), draw(st.sampled_from(["local", "shared"])))
        case _:
            s.pack(buffer, ((0, count),), tuple(draw(st.permutations(range(3)))))


@settings(max_examples=EXAMPLES or 40, deadline=None, derandomize=not EXAMPLES)
@given(data=st.data())
def test_legal_sequences_compute_the_same_and_replay(data):
    program = data.draw(st.sampled_from([chains, products]), "program")(data.draw)
    s = Schedule(program)
    for _ in range(data.draw(st.integers(1, 14), "steps")):
        try:
            attempt(data.draw, s)
        except LegalityError:
            continue
    note = f"{format_node(program)}\n{format_trace(s.trace)}\n{format_node(s.program)}"
    try:
        verify(s.program)
        arrays = primitives.arrays(program)
        expected = interpret(program, arrays, poison=True)
        got = interpret(s.program, pack_arrays(s.trace, arrays), poison=True)
    except Exception as error:
        raise AssertionError(note) from error
    if got["Y"].shape == expected["Y"].shape:
        np.testing.assert_array_equal(got["Y"], expected["Y"], err_msg=note)
    again = replay(program, trace_from_json(trace_to_json(s.trace)))
    assert structural_hash(again.program) == structural_hash(s.program), note

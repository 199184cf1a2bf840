"""Stack slots in generated code: values are kept in registers, and stored to memory only where other code reads the
memory.
"""

from __future__ import annotations

import numpy as np

from vdla.compiler.codegen.cpu.constant_folding import folding_function, unfoldable
from vdla.compiler.codegen.cpu.kernel import build
from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.codegen.cpu.module import lower
from vdla.compiler.codegen.cpu.text import Block
from vdla.compiler.ir.expr import Buffer, Const, Load, Var, binary, select
from vdla.compiler.ir.stmt import Alloc, Assign, For, Program, Reduce, Seq
from vdla.compiler.ir.types import DType


def test_what_was_put_into_a_slot_is_stored_once_and_only_where_a_block_ends() -> None:
    block = Block()
    block.slots.put("%s", DType.FLOAT32, 4, 4, "%a")
    block.slots.put("%s", DType.FLOAT32, 4, 4, "%b")
    assert block.slots.get("%s", DType.FLOAT32, 4, 4) == "%b" and block.lines == []
    block.jump("next")
    assert [line for line in block.lines if "store" in line] == [
        "  store <4 x float> %b, ptr %v1, align 4",
    ]
    block.begin("next", {})
    assert block.slots.get("%s", DType.FLOAT32, 4, 4) not in ("%a", "%b")


def test_accesses_of_other_lanes_find_memory_up_to_date() -> None:
    block = Block()
    block.slots.put("%s", DType.FLOAT32, 4, 0, "%a")
    block.slots.get("%s", DType.FLOAT32, 1, 2)
    assert [line.split()[0] for line in block.lines if "load" not in line and "getel" not in line] == [
        "store"
    ]
    # What only a slot whose time is over holds is never stored.
    block.slots.put("%s", DType.FLOAT32, 1, 2, "%c")
    block.slots.forget("%s")
    block.jump("next")
    assert not any("%c" in line for line in block.lines)


def _sums(kind: str) -> Program:
    """A program that sums X [6, 8] over rows into the 8 elements of a register buffer, in a loop of the given `kind`.
    Then it adds element 7 - k to element k, for each k in order (indices known only at run time), and stores the buffer
    to Y.
    """
    x = Buffer(name="X", shape=(6, 8), dtype=DType.FLOAT32)
    y = Buffer(name="Y", shape=(8,), dtype=DType.FLOAT32)
    total = Buffer(name="total", shape=(8,), dtype=DType.FLOAT32, scope="register")
    i, j, k, z, o = Var("i"), Var("j"), Var("k"), Var("z"), Var("o")

    def lanes(body: Assign | Reduce, var: Var) -> For:
        return For(var=var, extent=Const(8), body=body, kind="vectorize")

    zero = lanes(Assign(name="zero", buffer=total, indices=(z,), value=Const(0.0, DType.FLOAT32)), z)
    add = lanes(Reduce(name="add", op="add", buffer=total, indices=(j,), value=x[i, j]), j)
    many = For(var=i, extent=Const(6), body=add, kind=kind)  # type: ignore[arg-type]
    # Scalar accesses at places that are not known: those before must have reached memory, those after read it again.
    one = Reduce(
        name="one", op="add", buffer=total, indices=(k,), value=Load(total, (binary("-", Const(7), k),))
    )
    mirror = For(var=k, extent=Const(8), body=one)
    out = lanes(Assign(name="out", buffer=y, indices=(o,), value=total[o]), o)
    body = Alloc(buffer=total, body=Seq(statements=(zero, many, mirror, out)))
    return Program(name="sums", parameters=(x, y), body=body)


def test_known_and_unknown_places_of_a_slot_follow_one_another() -> None:
    x = np.arange(48, dtype=np.float32).reshape(6, 8)
    expected = x.sum(0)
    for k in range(8):
        expected[k] += expected[7 - k]
    for kind in ("unroll", "serial"):
        y = np.zeros(8, np.float32)
        build(_sums(kind))(X=x, Y=y)
        np.testing.assert_array_equal(y, expected)


def test_unrolled_sums_touch_memory_once() -> None:
    text = lower(_sums("unroll"), host_target()).text
    assert text.count("store <8 x float>") == 2  # before the scalar loop, and the output


def test_a_decision_is_made_as_soon_as_what_is_known_suffices() -> None:
    x, y = Var("x"), Var("y")
    both = folding_function(binary("and", binary("<", x, 3), binary("<=", 2, y)))
    answers = [both(held) for held in ({"x": 1, "y": 2}, {"x": 5}, {"y": 1}, {"x": 1}, {"y": 9}, {})]
    assert answers == [True, False, False, None, None, None]
    assert both({"x": object(), "y": 1}) is False
    chosen = folding_function(select(binary("==", x, 0), y * 2, y % 3))
    answers = [chosen(held) for held in ({"x": 0, "y": 5}, {"x": 1, "y": 5}, {"y": 5}, {"x": 0})]
    assert answers == [10, 2, None, None]
    assert folding_function(binary("*", Const(2**62), x))({"x": 2}) == -(2**63)
    loaded = Load(Buffer(name="X", shape=(4,), dtype=DType.INT64), (x,))
    assert folding_function(loaded) is unfoldable and folding_function(binary("+", loaded, x)) is unfoldable
    assert folding_function(binary("+", Const(1.5, DType.FLOAT32), Const(1.0, DType.FLOAT32))) is unfoldable

"""The generator of LLVM code writes an instruction only once in a basic block and uses its result again. The tests
check where a result may be used again, and where it is no longer valid.
"""

from __future__ import annotations

from vdla.compiler.codegen.cpu.text import Block, Value, constant
from vdla.compiler.ir.types import DType


def test_an_instruction_that_was_written_is_not_written_again() -> None:
    block = Block()
    x, one = Value("%x", DType.INT64), constant(1, DType.INT64)
    first = block.binary("add nsw", x, one)
    assert block.binary("add nsw", x, one) == first and len(block.lines) == 1
    assert block.binary("sub nsw", x, one) != first
    # What has an effect, or depends on more than its text, is written each time.
    assert block.assign("load i64, ptr %p") != block.assign("load i64, ptr %p")
    assert block.assign("call i64 @f()") != block.assign("call i64 @f()")


def test_results_hold_in_blocks_that_their_own_leads_to_and_nowhere_else() -> None:
    block = Block()
    x, one, two = Value("%x", DType.INT64), constant(1, DType.INT64), constant(2, DType.INT64)
    before = block.binary("add", x, one)
    scope = block.scope()
    block.begin("left", scope)
    left = block.binary("add", x, two)
    assert block.binary("add", x, one) == before
    block.begin("right", scope)
    assert block.binary("add", x, two) != left


def test_loads_hold_until_their_memory_is_written_or_a_block_begins() -> None:
    block = Block()

    def load(origin: str) -> str:
        return block.load(origin, "element 0", lambda: block.assign(f"load i64, ptr {origin}"))

    a, b = load("%a"), load("%b")
    assert (load("%a"), load("%b")) == (a, b)
    block.written("%a")
    assert load("%a") != a and load("%b") == b
    block.written()
    assert load("%b") != b
    again = load("%a")
    block.begin("next", block.scope())
    assert load("%a") != again

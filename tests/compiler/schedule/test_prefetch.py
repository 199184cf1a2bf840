"""Tests the schedule primitive prefetch. It does not change results, the code for every processor contains prefetch
instructions, and some programs must be refused.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dense_schedules import convolution

from vdla.compiler.codegen.cpu.kernel import build
from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.codegen.cpu.module import lower
from vdla.compiler.codegen.cpu.one_object import emit_object
from vdla.compiler.codegen.cpu.options import parse_target
from vdla.compiler.ir.expr import Buffer, Var
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import Program, Reduce, nest
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.verify import verify
from vdla.compiler.schedule import Schedule, replay, trace_from_lists, trace_to_lists
from vdla.compiler.schedule.errors import LegalityError
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.ops.blocked_convolution import blocked_convolution
from vdla.compiler.te.ops.convolution import Convolution

ROW, J, K = Var("i"), Var("j"), Var("k")


def product(rows: int = 6, depth: int = 40, columns: int = 32) -> Program:
    """A program of Y[i, j] += X[i, k] W[k, j] in float32."""
    x = Buffer(name="X", shape=(rows, depth), dtype=DType.FLOAT32)
    w = Buffer(name="W", shape=(depth, columns), dtype=DType.FLOAT32)
    y = Buffer(name="Y", shape=(rows, columns), dtype=DType.FLOAT32)
    body = Reduce(name="sum", op="add", buffer=y, indices=(ROW, J), value=x[ROW, K] * w[K, J])
    return Program(
        name="product", parameters=(x, w, y), body=nest([(ROW, rows), (K, depth), (J, columns)], body)
    )


def scheduled() -> Schedule:
    s = Schedule(product())
    s.vectorize("j")
    s.prefetch("k", "W", 512)
    return s


def test_a_program_with_hints_means_the_same() -> None:
    program, s = product(), scheduled()
    verify(s.program)
    assert replay(program, trace_from_lists(trace_to_lists(s.trace))).program == s.program
    rng = np.random.default_rng(0)
    arrays = {p.name: rng.integers(-4, 5, p.shape).astype(np.float32) for p in program.parameters}
    expected = interpret(program, arrays)["Y"]
    np.testing.assert_array_equal(interpret(s.program, arrays)["Y"], expected)
    build(s.program)(**arrays)
    np.testing.assert_array_equal(arrays["Y"], expected)


def test_each_cache_line_is_asked_for_once() -> None:
    text = lower(scheduled().program, host_target()).text
    # 32 columns are two lines, at 512 and 576 bytes behind what is read.
    assert text.count("call void @llvm.prefetch") == 2
    assert "i64 512" in text and "i64 576" in text


@pytest.mark.parametrize(
    "processor",
    [
        "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a53",
        "llvm -mtriple=riscv64-linux-gnu",
        "llvm -mtriple=wasm32-unknown-unknown",
    ],
)
def test_every_processor_has_code_for_hints(processor: str) -> None:
    target = parse_target(processor)
    emit_object([lower(scheduled().program, target, function="hinted")], target, name="net")


def test_what_is_not_read_in_one_piece_is_refused() -> None:
    s = Schedule(product())
    s.vectorize("j")
    for loop, buffer, words in (
        ("j", "W", "its iterations are lanes"),
        ("k", "Z", "does not read it"),
        ("i", "X", None),
        ("nowhere", "W", "nowhere"),
    ):
        if words is None:
            s.prefetch(loop, buffer, 64)
            continue
        with pytest.raises(LegalityError, match=words):
            s.prefetch(loop, buffer, 64)
    s = Schedule(product())
    s.reorder("j", "i", "k")
    s.split("j", 8)
    with pytest.raises(LegalityError, match="not contiguous in memory"):
        s.prefetch("j.0", "W", 64)
    s = Schedule(product())
    s.split("k", 7)
    with pytest.raises(LegalityError, match="not constant"):
        s.prefetch("k.0", "W", 64)


def test_convolutions_prefetch_weights_that_the_first_level_cache_does_not_hold() -> None:
    target = replace(host_target(), cache_bytes=(48 * 1024, 2048 * 1024))
    window = Window(kernel=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1))

    def steps(size: int, channels: int, filters: int) -> set[str]:
        program = blocked_convolution(
            Convolution(batch=1, channels=channels, height=size, width=size, filters=filters, window=window),
            block_in=16,
            block_out=16,
        )
        return {step.primitive for step in convolution(target, program).trace}

    # A panel of 256 channels comes anew for each tile, one of 16 channels stays.
    assert "prefetch" in steps(28, 256, 64) and "prefetch" not in steps(28, 16, 64)
    # With enough filters, which few positions use, it comes from far away.
    assert "prefetch" in steps(3, 16, 3072)

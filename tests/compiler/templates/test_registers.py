"""Accumulators stay in registers: no innermost loop with multiplications accesses the stack, in the assembly for any
processor.
"""

from __future__ import annotations

import re

import pytest
from dense_schedules import convolution, dense

from vdla.benchmarks.harness.int8_products import dense_int8
from vdla.compiler.codegen.cpu.machine_code import optimise, target_machine
from vdla.compiler.codegen.cpu.module import lower
from vdla.compiler.codegen.cpu.options import parse_target
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.ops.blocked_convolution import blocked_convolution
from vdla.compiler.te.ops.convolution import Convolution
from vdla.compiler.te.ops.product import DOT_INT8, Matrices, product
from vdla.compiler.te.ops.recurrent import GATES, recurrent_steps
from vdla.compiler.templates.cpu import recurrent as recurrent_cpu

PROCESSORS = {
    "avx512": "-mtriple=x86_64-linux-gnu -mcpu=icelake-server",
    "avx2": "-mtriple=x86_64-linux-gnu -mcpu=haswell",
    "sse": "-mtriple=x86_64-linux-gnu -mcpu=nehalem",
    "neon": "-mtriple=aarch64-linux-gnu -mcpu=cortex-a72",
}
LABEL = re.compile(r"(\.?\w+):")
JUMP = re.compile(r"(?:j[a-z]+|b\.?[a-z]*|cbn?z\s+\w+,|tbn?z\s+\w+,\s*#\d+,)\s+(\.?\w+)$")
MULTIPLY = re.compile(r"v?f?n?(?:mul|madd|mla|pdp)\w*\s|f?mla\s")
STACK = re.compile(r"%rsp|\[sp\b")


def innermost(assembly):
    """Yields the instructions of each innermost loop: loops without jumps other than their own."""
    label, body = None, []
    for line in assembly.splitlines():
        text = line.split("#")[0].split("//")[0].strip()
        if found := LABEL.match(text):
            label, body = found[1], []
        elif found := JUMP.match(text):
            if found[1] == label:
                yield body
            label = None
        elif label and text and not text.startswith("."):
            body.append(text)


def check(s, target):
    """Compiles a schedule and asserts that no innermost loop with multiplications accesses the stack."""
    machine = target_machine(target, jit=False)
    assembly = machine.emit_assembly(optimise([lower(s.program, target)], machine))
    bodies = [body for body in innermost(assembly) if any(MULTIPLY.match(text) for text in body)]
    assert bodies
    for body in bodies:
        assert not [text for text in body if STACK.search(text)]


@pytest.fixture(params=PROCESSORS, scope="module")
def target(request):
    return parse_target(f"llvm {PROCESSORS[request.param]}")


@pytest.mark.parametrize(
    ("size", "filters", "stride"), [((28, 28), 96, 1), ((4, 7), 48, 2), ((3, 10), 32, 1)]
)
def test_conv2d(target, size, filters, stride):
    window = Window(kernel=(3, 3), strides=(stride, stride), pads=(1, 1, 1, 1))
    lanes = target.vector_bits // 32
    program = blocked_convolution(
        Convolution(
            batch=1,
            channels=64,
            height=stride * size[0],
            width=stride * size[1],
            filters=filters,
            window=window,
        ),
        block_in=lanes,
        block_out=lanes,
    )
    check(convolution(target, program), target)


def test_conv_transpose(target):
    window = Window(kernel=(2, 2), strides=(1, 1), pads=(1, 1, 1, 1))
    lanes = target.vector_bits // 32
    program = blocked_convolution(
        Convolution(batch=1, channels=lanes, height=17, width=17, filters=96, window=window, transposed=True),
        block_in=lanes,
        block_out=lanes,
    )
    check(convolution(target, program), target)


def test_products(target):
    program = product(Matrices(rows=30, depth=300, columns=100))
    check(dense(target, program), target)
    if target.dot_product:
        program = product(Matrices(rows=30, depth=40, columns=100), types=DOT_INT8)
        check(dense_int8(target, program), target)


def test_lstm(target):
    program = recurrent_steps(cell="LSTM", steps=3, batch=5, hidden=48)
    check(recurrent_cpu.schedule(target, program), target)


@pytest.mark.parametrize("cell", sorted(GATES.keys() - {"LSTM"}))
def test_recurrent(target, cell):
    program = recurrent_steps(cell=cell, steps=3, batch=5, hidden=48)
    check(recurrent_cpu.schedule(target, program), target)

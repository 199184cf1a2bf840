"""Checks a custom instruction: its semantics, its function for the simulator, its RTL and its loop IR must give equal
results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.ir.expr import Buffer, Expr, ExprLike, Var, dtype_of
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import Assign, Program, nest
from vdla.compiler.ir.types import DType
from vdla.compiler.te.functions import FUNCTIONS
from vdla.hw.compute.custom import component_of
from vdla.isa.arithmetic import wrap_int32
from vdla.isa.custom import AluInstruction
from vdla.isa.errors import ConfigError
from vdla.sim.custom import call_of

_EDGES = (0, 1, -1, 2, -2, 127, -128, 255, 32767, -32768, 65536, 2**31 - 1, -(2**31))
RANDOM_PAIRS = 400
"""Number of random operand pairs on which an instruction is checked, in addition to all pairs of edge values."""

Lanes = NDArray[np.int64]


@cache
def check_instruction(instruction: AluInstruction) -> None:
    """Runs all parts of a custom instruction (reference, simulator function, RTL, loop IR) on the same operands: every
    pair of edge values, and random pairs, half of them with a legal immediate.

    Raises ConfigError for a part that cannot run or has the wrong interface, and for the first operands on which a part
    and the semantics (`compute`) differ; the message names the part, the operands and both results.
    """
    left, right = _operands(instruction)
    expected = _computed(instruction, left, right)
    for part, results in _others(instruction, left, right):
        wrong = np.flatnonzero(results != expected)
        if wrong.size:
            k = wrong[0]
            raise ConfigError(
                f"instruction {instruction.name}: for left = {left[k]} and right = {right[k]}, `compute` gives "
                f"{expected[k]} and `{part}` gives {results[k]}; make them equal ({wrong.size} of {left.size} operand "
                "pairs differ)"
            )


def _operands(instruction: AluInstruction) -> tuple[Lanes, Lanes]:
    rng = np.random.default_rng(7)
    low, high = instruction.immediates
    left = rng.integers(-(2**31), 2**31, RANDOM_PAIRS)
    right = rng.integers(-(2**31), 2**31, RANDOM_PAIRS)
    # Operands of all sizes: a shift leaves from 1 to 32 bits.
    left >>= rng.integers(0, 32, RANDOM_PAIRS)
    right >>= rng.integers(0, 32, RANDOM_PAIRS)
    right[::2] = rng.integers(low, high + 1, (RANDOM_PAIRS + 1) // 2)
    pairs = list(product(_EDGES, repeat=2)) + list(zip(left.tolist(), right.tolist(), strict=True))
    both = np.array(pairs, np.int64).T
    return both[0], both[1]


def _computed(instruction: AluInstruction, left: Lanes, right: Lanes) -> Lanes:
    where = f"instruction {instruction.name}: compute"
    try:
        with np.errstate(all="ignore"):
            found = np.asarray(instruction.compute(left.copy(), right.copy()))
    except Exception as error:
        raise ConfigError(f"{where} raises {type(error).__name__}: {error}") from error
    if found.shape != left.shape or found.dtype.kind not in "iu":
        raise ConfigError(
            f"{where} returns {found.dtype}{list(found.shape)} for operands int64{list(left.shape)}; it must return "
            "integers of their shape"
        )
    return wrap_int32(found.astype(np.int64)).astype(np.int64)


def _others(instruction: AluInstruction, left: Lanes, right: Lanes) -> Iterator[tuple[str, Lanes]]:
    simulate = call_of(instruction)
    results = [simulate(a, b) for a, b in zip(left.tolist(), right.tolist(), strict=True)]
    yield "simulate", wrap_int32(np.array(results, np.int64)).astype(np.int64)
    yield "rtl", _run_rtl(instruction, left.tolist(), right.tolist())
    if instruction.expression is not None:
        yield "expression", _interpreted(instruction, left, right)


def _run_rtl(instruction: AluInstruction, left: Sequence[int], right: Sequence[int]) -> Lanes:
    """Simulates the RTL of a custom instruction. As in the ALU, a new operation begins every `instruction.cycles`
    cycles. Returns the result for each pair of operands (`left`, `right`).
    """
    from amaranth.hdl import Module, Signal
    from amaranth.sim import Simulator

    component = component_of(instruction)()
    top = Module()
    top.submodules.component = component
    top.d.sync += Signal().eq(1)  # a component without registers has no clock of its own
    found: list[int] = []

    async def run(context: object) -> None:
        for a, b in zip(left, right, strict=True):
            context.set(component.left, a)  # type: ignore[attr-defined]
            context.set(component.right, b)  # type: ignore[attr-defined]
            context.set(component.start, 1)  # type: ignore[attr-defined]
            for _ in range(instruction.cycles - 1):
                await context.tick()  # type: ignore[attr-defined]
                # The lane's operand is another one after the first cycle; only `right` stays.
                context.set(component.left, ~a)  # type: ignore[attr-defined]
                context.set(component.start, 0)  # type: ignore[attr-defined]
            found.append(context.get(component.result))  # type: ignore[attr-defined]
            await context.tick()  # type: ignore[attr-defined]

    simulator = Simulator(top)
    simulator.add_clock(1e-6)
    simulator.add_testbench(run)
    simulator.run()
    return np.array(found, np.int64)


def _interpreted(instruction: AluInstruction, left: Lanes, right: Lanes) -> Lanes:
    where = f"instruction {instruction.name}: expression"
    out, a, b = (Buffer(name=name, shape=left.shape, dtype=DType.INT32) for name in ("out", "left", "right"))
    i = Var("i")
    try:
        assert instruction.expression is not None
        value: ExprLike = instruction.expression(a[i], b[i])
        kind = dtype_of(value)  # pyright: ignore[reportArgumentType]
    except Exception as error:
        raise ConfigError(f"{where} raises {type(error).__name__}: {error}") from error
    if kind is not DType.INT32:
        raise ConfigError(
            f"{where} gives {kind} for two int32 operands; it must give int32 (`vdla.cast` converts)"
        )
    expr: Expr = value  # pyright: ignore[reportAssignmentType]
    body = nest([(i, left.size)], Assign(name="result", buffer=out, indices=(i,), value=expr))
    program = Program(name="expression", parameters=(a, b, out), body=body)
    arrays = {
        "left": left.astype(np.int32),
        "right": right.astype(np.int32),
        "out": np.zeros(left.shape, np.int32),
    }
    with np.errstate(all="ignore"):
        return interpret(program, arrays, functions=FUNCTIONS)["out"].astype(np.int64)

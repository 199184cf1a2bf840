"""Compiled kernels held against their tensor expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from vdla.compiler.codegen.cpu.errors import TargetError
from vdla.compiler.codegen.cpu.kernel import build
from vdla.compiler.codegen.cpu.machine import CpuTarget, host_target
from vdla.compiler.codegen.cpu.pool import Pool
from vdla.compiler.codegen.cpu.x86_levels import host_target_at
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import Program
from vdla.compiler.schedule import Schedule, replay, trace_from_lists, trace_to_lists
from vdla.compiler.schedule.pack import pack_arrays
from vdla.compiler.te.functions import FUNCTIONS


def targets() -> list[CpuTarget]:
    """The host, and the levels avx2 and sse as far as it has them."""
    found = [host_target()]
    for level in ("avx2", "sse"):
        try:
            found.append(host_target_at(level))
        except TargetError:
            continue
    return found


def evaluate(program: Program, arrays: Mapping[str, np.ndarray], output: str = "Y") -> np.ndarray:
    """What the interpreter makes of a program; arrays take the parameters' shapes."""
    return interpret(program, shaped(program, arrays), functions=FUNCTIONS)[output]


def shaped(program: Program, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays in the shapes that the program's parameters have for the same data."""
    shapes = {p.name: p.shape for p in program.parameters}
    return {name: np.ascontiguousarray(array).reshape(shapes[name]) for name, array in arrays.items()}


def run(
    program: Program,
    arrays: Mapping[str, np.ndarray],
    schedule: Callable[..., Schedule],
    target: CpuTarget,
    pool: Pool | None = None,
    outputs: tuple[str, ...] = ("Y",),
) -> list[np.ndarray]:
    """The outputs of the compiled schedule, whose trace is replayed first."""
    s = schedule(target, program, parallel=pool is not None)
    assert replay(program, trace_from_lists(trace_to_lists(s.trace))).program == s.program
    given = pack_arrays(s.trace, shaped(program, arrays))
    for parameter in program.parameters:
        if parameter.name in outputs:
            given[parameter.name] = np.full(parameter.shape, 99, parameter.dtype.numpy)
    build(s.program, target).bind(given, pool)()
    return [given[name] for name in outputs]

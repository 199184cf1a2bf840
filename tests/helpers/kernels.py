"""Compiles and runs CPU kernels for comparison with their tensor expressions."""

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
    """The host's target, and targets of the vector extensions avx2 and sse that the host supports."""
    found = [host_target()]
    for level in ("avx2", "sse"):
        try:
            found.append(host_target_at(level))
        except TargetError:
            continue
    return found


def evaluate(program: Program, arrays: Mapping[str, np.ndarray], output: str = "Y") -> np.ndarray:
    """The output of a program as the interpreter computes it; arrays may have any shape of the right size."""
    return interpret(program, shaped(program, arrays), functions=FUNCTIONS)[output]


def shaped(program: Program, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays, reshaped to the shapes of the program's parameters."""
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
    """The arrays named `outputs`, in this order, of a program that is scheduled by `schedule`, compiled for `target`
    and run on `arrays` with the threads of `pool` (None: on one). Asserts that the schedule's trace replays.
    """
    s = schedule(target, program, parallel=pool is not None)
    assert replay(program, trace_from_lists(trace_to_lists(s.trace))).program == s.program
    given = pack_arrays(s.trace, shaped(program, arrays))
    for parameter in program.parameters:
        if parameter.name in outputs:
            given[parameter.name] = np.full(parameter.shape, 99, parameter.dtype.numpy)
    build(s.program, target).bind(given, pool)()
    return [given[name] for name in outputs]

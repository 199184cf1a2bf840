"""Runs scheduled GPU programs for comparison with their results: the trace is replayed, checked, and then interpreted
or emulated.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vdla.compiler.codegen.cpu.kernel import build
from vdla.compiler.codegen.cuda.emulate import emulate
from vdla.compiler.codegen.cuda.machine import GpuTarget, cuda_target
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import Program
from vdla.compiler.schedule import Schedule, replay, trace_from_lists, trace_to_lists
from vdla.compiler.schedule.pack import pack_arrays
from vdla.compiler.te.functions import FUNCTIONS


def run_scheduled(
    program: Program,
    s: Schedule,
    arrays: Mapping[str, np.ndarray],
    *,
    native: bool = False,
    target: GpuTarget | None = None,
    output: str = "Y",
) -> np.ndarray:
    """The array `output` of the schedule `s` of `program`, prepared for `target` (None: the default CUDA target) and
    run on `arrays`. Asserts that the schedule's trace replays.

    The program is interpreted with undefined memory poisoned or, with `native`, emulated and run as machine code.
    """
    assert replay(program, trace_from_lists(trace_to_lists(s.trace))).program == s.program
    ready = prepare(s.program, target or cuda_target())
    shapes = {p.name: p.shape for p in program.parameters}
    given = {
        name: np.ascontiguousarray(array, np.float32).reshape(shapes[name]) for name, array in arrays.items()
    }
    packed = pack_arrays(s.trace, given)
    if not native:
        return interpret(ready, packed, functions=FUNCTIONS, poison=True)[output]
    packed[output] = np.full(shapes[output], np.nan, np.float32)
    build(emulate(ready))(**packed)
    return packed[output]

"""The peak rate of float32 operations of one core, measured with independent multiply-adds in registers."""

from __future__ import annotations

import ctypes
import time

import llvmlite.binding as llvm

from vdla.compiler.codegen.cpu.machine import CpuTarget
from vdla.compiler.codegen.cpu.machine_code import target_machine
from vdla.compiler.ir.types import DType

SUMS = 12
"""Number of independent sums. It is large enough to keep all multiply-add units of any core busy (the latency of a unit
times the number of units), and small enough for 16 registers.
"""
STEPS = 200_000
REPEATS = 15


def core_peak_gflops(target: CpuTarget) -> float:
    """Peak rate of one thread on this computer in GFLOP/s (two operations for each fused multiply-add): the largest of
    `REPEATS` measurements.

    No kernel of `target` can be faster, since all kernels use vectors of the same width.
    """
    machine = target_machine(target, jit=True)
    module = llvm.parse_assembly(_text(target.lanes(DType.FLOAT32)))
    module.triple, module.data_layout = target.triple, str(machine.target_data)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    run = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64)(engine.get_function_address("peak"))
    best = float("inf")
    for _ in range(REPEATS):
        began = time.thread_time()
        run(STEPS)
        best = min(best, time.thread_time() - began)
    return 2 * STEPS * SUMS * target.lanes(DType.FLOAT32) / best / 1e9


def _text(lanes: int) -> str:
    """LLVM IR of a loop with `SUMS` multiply-adds of `lanes` floats each. The function returns a value that depends on
    all sums, so that LLVM removes none of them.
    """
    vector = f"<{lanes} x float>"
    name = f"@llvm.fma.v{lanes}f32"
    constant = f"<{', '.join(['float 0.5'] * lanes)}>"
    phis = [f"%s{k} = phi {vector} [{constant}, %entry], [%t{k}, %loop]" for k in range(SUMS)]
    sums = [
        f"%t{k} = call {vector} {name}({vector} %s{k}, {vector} {constant}, {vector} {constant})"
        for k in range(SUMS)
    ]
    values = [f"%e{k} = extractelement {vector} %t{k}, i32 0" for k in range(SUMS)]
    total = [f"%f{k} = fadd float {'0.0' if k == 0 else f'%f{k - 1}'}, %e{k}" for k in range(SUMS)]
    return "\n".join(
        [
            f"declare {vector} {name}({vector}, {vector}, {vector})",
            "define float @peak(i64 %n) {",
            "entry:",
            "br label %loop",
            "loop:",
            "%i = phi i64 [0, %entry], [%next, %loop]",
            *phis,
            *sums,
            "%next = add i64 %i, 1",
            "%more = icmp slt i64 %next, %n",
            "br i1 %more, label %loop, label %end",
            "end:",
            *values,
            *total,
            f"ret float %f{SUMS - 1}",
            "}",
        ]
    )

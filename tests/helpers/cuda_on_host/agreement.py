"""Runs GPU programs as CUDA C++ on the CPU and compares the results with the interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from every_operator import outputs_of

from vdla.compiler.codegen.cpu.kernel import build
from vdla.compiler.codegen.cuda.machine import GpuTarget
from vdla.compiler.codegen.cuda.module import CudaModule, lower
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.ir.expr import Buffer
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import Program
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.verify import verify
from vdla.compiler.schedule import Schedule
from vdla.compiler.schedule.pack import pack_arrays
from vdla.compiler.te.functions import FUNCTIONS

from .modules import run_modules

TOLERANCES = {DType.FLOAT32: 1e-5, DType.FLOAT16: 1e-3, DType.BFLOAT16: 1e-2}
"""Tolerances by type, relative to each element of the result and to the largest element; other types must be equal in
all bits.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A program and its GPU schedule; without a schedule the program itself consists of kernels."""

    name: str
    program: Program
    schedule: Schedule | None = None

    def module(self, target: GpuTarget) -> CudaModule:
        program = self.program if self.schedule is None else self.schedule.program
        verify(program)
        return lower(prepare(program, target), target)

    def expected(self, arrays: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """The right outputs of `program` for the inputs `arrays`, by name: from the interpreter or, if the case has a
        schedule, from CPU code compiled from the unscheduled program.
        """
        if self.schedule is None:
            return interpret(self.program, arrays, functions=FUNCTIONS)
        outputs = outputs_of(self.program)
        found = {
            p.name: np.empty(p.shape, p.dtype.numpy) for p in self.program.parameters if p.name in outputs
        }
        build(self.program)(**arrays, **found)
        return found


def random_values(parameter: Buffer, rng: np.random.Generator) -> np.ndarray:
    """Random values of a parameter: integers from the whole range of their type (int64: up to 2^30, so that products do
    not overflow), normally distributed floats.
    """
    dtype = parameter.dtype
    if dtype.is_integer:
        low, high = dtype.limits if dtype is not DType.INT64 else (-(2**30), 2**30)
        return rng.integers(low, high, parameter.shape, dtype.numpy, endpoint=True)
    return rng.standard_normal(parameter.shape).astype(dtype.numpy)


def agree(cases: Sequence[Case], target: GpuTarget, *, orders: int = 3) -> None:
    """Asserts for every case that its CUDA C++ for `target`, run on the CPU, computes the outputs of `Case.expected`
    for random inputs, within TOLERANCES. Each kernel runs with `orders` different orders of its threads.
    """
    rng = np.random.default_rng(1)
    given, modules = [], []
    for case in cases:
        outputs = outputs_of(case.program)
        arrays = {p.name: random_values(p, rng) for p in case.program.parameters if p.name not in outputs}
        given.append(arrays)
        module = case.module(target)
        packed = arrays if case.schedule is None else pack_arrays(case.schedule.trace, arrays)
        shapes = {p.name: p.shape for p in module.parameters}
        modules.append((module, {name: array.reshape(shapes[name]) for name, array in packed.items()}))
    for case, arrays, result in zip(cases, given, run_modules(modules, orders=orders), strict=True):
        expected = case.expected(arrays)
        for parameter in case.program.parameters:
            if parameter.name in result:
                found = result[parameter.name].reshape(parameter.shape)
                _compare(case.name, parameter, found, expected[parameter.name])


def _compare(name: str, parameter: Buffer, found: np.ndarray, expected: np.ndarray) -> None:
    if (tolerance := TOLERANCES.get(parameter.dtype)) is None:
        np.testing.assert_array_equal(found, expected, err_msg=name)
        return
    wanted = expected.astype(np.float64)
    finite = np.abs(wanted[np.isfinite(wanted)])
    most = float(finite.max()) if finite.size else 0.0
    found = found.astype(np.float64)
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * most, err_msg=name)

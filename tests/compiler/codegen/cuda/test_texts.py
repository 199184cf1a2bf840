"""Generated CUDA C++: comparison with golden texts, and runs of these texts on the CPU compared with the
interpreter.
"""

from __future__ import annotations

import cuda_texts
import numpy as np
import pytest
from cuda_on_host.modules import run_modules

from vdla.compiler.codegen.cuda.text import WIDTH, wrapped
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import Program
from vdla.compiler.ir.verify import verify
from vdla.compiler.te.functions import FUNCTIONS


def arrays_of(program: Program, seed: int = 0) -> dict[str, np.ndarray]:
    """Seeded random arrays for all parameters of a program, by name."""
    rng = np.random.default_rng(seed)
    arrays: dict[str, np.ndarray] = {}
    for p in program.parameters:
        if p.dtype.is_float:
            arrays[p.name] = rng.standard_normal(p.shape).astype(np.float32).astype(p.dtype.numpy)
        else:
            low, high = p.dtype.limits
            arrays[p.name] = rng.integers(max(low, -100), min(high, 100), p.shape).astype(p.dtype.numpy)
    return arrays


@pytest.mark.parametrize("name", cuda_texts.CASES)
def test_golden(name: str):
    """Launches and CUDA C++ of each case equal its golden text.

    After an intended change, rewrite the golden texts with `python tests/helpers/cuda_texts.py`.
    """
    path = cuda_texts.GOLDEN / f"{name}.cu"
    assert cuda_texts.text(name) == path.read_text(encoding="utf-8")


def test_every_golden_is_still_made():
    assert {path.stem for path in cuda_texts.GOLDEN.glob("*.cu")} == set(cuda_texts.CASES)


def test_texts_compute_what_their_programs_do():
    programs = {name: make() for name, make in cuda_texts.CASES.items()}
    for program in programs.values():
        verify(program)
    arrays = {name: arrays_of(program) for name, program in programs.items()}
    results = run_modules([(cuda_texts.module(name), arrays[name]) for name in programs], orders=1)
    for (name, program), result in zip(programs.items(), results, strict=True):
        expected = interpret(program, arrays[name], functions=FUNCTIONS)
        for output, values in result.items():
            np.testing.assert_allclose(
                values.astype(np.float32),
                expected[output].astype(np.float32),
                rtol=1e-5,
                atol=1e-5,
                err_msg=name,
            )


def test_long_lines_are_divided_where_few_brackets_are_open():
    long = "        y[i] = " + " + ".join(f"f(x[{i}] * {i}, (a + b) * c)" for i in range(12)) + ";"
    lines = wrapped(long)
    assert all(len(line) <= WIDTH for line in lines) and len(lines) > 2
    assert all(line.startswith(16 * " " + "+ f(") for line in lines[1:])
    assert " ".join(line.strip() for line in lines) == long.strip()
    comment = wrapped("    const int bx = 0;  // " + "word " * 40)
    assert comment[0].startswith("    // word") and comment[-1] == "    const int bx = 0;"
    assert wrapped("#pragma " + "x, " * 90) == ["#pragma " + "x, " * 90]
    unbroken = "    " + "x" * 200
    assert wrapped(unbroken) == [unbroken]

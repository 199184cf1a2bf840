"""Convolutions and products with sums so long that they are computed in parts, which are then added."""

from __future__ import annotations

import numpy as np
import pytest
from campaign import representatives
from dense_schedules import convolution, dense
from kernels import evaluate, run

from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.ops.blocked_convolution import FloatSums, blocked_convolution
from vdla.compiler.te.ops.convolution import Convolution
from vdla.compiler.te.ops.product import Matrices, product
from vdla.compiler.te.ops.sums import Epilogue
from vdla.compiler.templates.cpu.sketch.default import default_values
from vdla.compiler.templates.cpu.sketch.sketch import find_sketches

CASES = [
    # channels, block, kernel, groups, how many blocks make a part
    (80, 16, (3, 3), 1, 1),
    (96, 16, (3, 2), 1, 2),
    (112, 16, (3, 2), 1, 2),
    pytest.param(1024, 16, (1, 1), 1, 16, marks=pytest.mark.campaign),
    (512, 16, (1, 1), 1, None),
    (560, 16, (1, 1), 1, 16),
    (61, 1, (3, 3), 1, 28),
    (192, 16, (2, 3), 2, 2),
]


@pytest.mark.parametrize(("channels", "block", "kernel", "groups", "part"), representatives(CASES, 4))
def test_parts_of_a_sum(channels, block, kernel, groups, part) -> None:
    window = Window(kernel=kernel, pads=(1, 0, 0, 1), strides=(1, 2))
    program = blocked_convolution(
        Convolution(
            batch=1, channels=channels, height=3, width=3, filters=groups * 17, window=window, groups=groups
        ),
        block_in=block,
        block_out=16 if groups == 1 else 1,
        sums=FloatSums(epilogue=Epilogue(bias=True, activation="relu")),
    )
    values = default_values(find_sketches(program, host_target(), constants=frozenset({"W"})))
    assert values["part"] == (part or 0)
    rng = np.random.default_rng(channels)
    arrays = {p.name: rng.integers(-4, 5, p.shape).astype(np.float32) for p in program.parameters[:-1]}
    if groups == 1:
        # The tensor expression takes zeros beyond the filters.
        arrays["W"][:, 17:] = 0
        arrays["B"][:, 17:] = 0

    (got,) = run(program, arrays, convolution, host_target())
    np.testing.assert_array_equal(got, evaluate(program, arrays))


@pytest.mark.parametrize("depth", [512, 513, 768, 1009])
def test_long_products(depth) -> None:
    program = product(Matrices(rows=11, depth=depth, columns=37), epilogue=Epilogue(bias=True))
    rng = np.random.default_rng(depth)
    arrays = {p.name: rng.integers(-4, 5, p.shape).astype(np.float32) for p in program.parameters[:-1]}
    (got,) = run(program, arrays, dense, host_target())
    np.testing.assert_array_equal(got, arrays["X"] @ arrays["W"] + arrays["B"])


def test_errors_of_long_sums_stay_small() -> None:
    """Sums of 4096 positive terms have a relative error below 5e-7; added one after the other, they would have more
    than 1e-6.
    """
    program = product(Matrices(rows=3, depth=4096, columns=16))
    rng = np.random.default_rng(1)
    arrays = {p.name: rng.random(p.shape, dtype=np.float32) for p in program.parameters[:-1]}
    (got,) = run(program, arrays, dense, host_target())
    exact = arrays["X"].astype(np.float64) @ arrays["W"]
    assert np.abs(got - exact).max() / exact.max() < 5e-7

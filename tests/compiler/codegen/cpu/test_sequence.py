"""A sequence of kernels becomes one function of an object file. The tests run such functions with arrays at given
places in memory, and check that wrong places are refused.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from campaign import representatives
from cross import run_elsewhere
from dense_schedules import dense

from vdla.compiler.codegen.cpu.module import Module, lower
from vdla.compiler.codegen.cpu.object_files import read_symbols
from vdla.compiler.codegen.cpu.one_object import emit_object
from vdla.compiler.codegen.cpu.options import parse_target
from vdla.compiler.codegen.cpu.sequence import Arena, Argument, Call, Constant, Place, sequence
from vdla.compiler.ir.expr import Buffer
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.types import DType
from vdla.compiler.schedule.pack import pack_arrays
from vdla.compiler.te.ops.product import Matrices, product
from vdla.compiler.te.ops.sums import Epilogue

ROWS = 24
FIRST = product(Matrices(rows=ROWS, depth=30, columns=40), epilogue=Epilogue(bias=True, activation="relu"))
SECOND = product(Matrices(rows=ROWS, depth=40, columns=30))
FINAL = Buffer(name="Y", shape=(ROWS, 30), dtype=DType.FLOAT32)
# A view of the first kernel's X.
INPUT = Buffer(name="X", shape=(2, ROWS // 2, 30), dtype=DType.FLOAT32)


def network(text: str, weights: dict[str, np.ndarray]) -> tuple[list[Module], Module]:
    """Compiles the kernels `first` and `second` for the target `text`. Returns (their modules, the module of a function
    that calls both kernels on X and then again on the result, with the same weights).
    """
    target = parse_target(text)
    modules, constants = [], {}
    for name, program in (("first", FIRST), ("second", SECOND)):
        s = dense(target, program, parallel=True)
        modules.append(lower(s.program, target, function=f"net_{name}"))
        packed = pack_arrays(s.trace, {"W": weights[name]})
        constants[f"{name}.W"] = packed["W"]
    constants["first.B"] = weights["B"]
    first, second = modules
    inside, halfway = Arena(0), Arena(ROWS * 40 * 4)

    def both(source: Place, result: Place) -> list[Call]:
        one: dict[str, Place] = {
            "X": source,
            "W": Constant("first.W"),
            "B": Constant("first.B"),
            "Y": inside,
        }
        two: dict[str, Place] = {"X": inside, "W": Constant("second.W"), "Y": result}
        return [Call(module=first, places=one), Call(module=second, places=two)]

    whole = sequence(
        [*both(Argument("X"), halfway), *both(halfway, Argument("Y"))],
        parameters=(INPUT, FINAL),
        arena_bytes=ROWS * 40 * 4 + ROWS * 30 * 4,
        constants=constants,
        target=target,
        function="net",
    )
    return modules, whole


AARCH64 = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a53"
RISCV64 = "llvm -mtriple=riscv64-linux-gnu"
ARMV7 = "llvm -mtriple=armv7-linux-gnueabihf -mcpu=cortex-a9"
WASM32 = "llvm -mtriple=wasm32"


@cache
def sample() -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Weights by name, an input X, and the interpreter's result for the function that `network` compiles."""
    rng = np.random.default_rng(0)
    weights = {
        "first": rng.integers(-3, 4, (30, 40)).astype(np.float32),
        "second": (rng.integers(-3, 4, (40, 30)) / 64).astype(np.float32),
        "B": rng.integers(-9, 10, 40).astype(np.float32),
    }
    x = value = rng.integers(-4, 5, (ROWS, 30)).astype(np.float32)
    for _ in range(2):
        middle = interpret(
            FIRST,
            {"X": value, "W": weights["first"], "B": weights["B"], "Y": np.zeros((ROWS, 40), np.float32)},
        )["Y"]
        value = interpret(
            SECOND, {"X": middle, "W": weights["second"], "Y": np.zeros((ROWS, 30), np.float32)}
        )["Y"]
    return weights, x, value


@pytest.mark.parametrize(
    ("text", "parallel"),
    representatives(
        [
            *[(text, parallel) for text in (AARCH64, RISCV64, ARMV7) for parallel in (False, True)],
            (WASM32, False),
        ],
        0,
        always=[(AARCH64, True), (RISCV64, False), (ARMV7, False), (WASM32, False)],
    ),
)
def test_a_network_in_an_object(text, parallel, tmp_path):
    weights, x, expected = sample()
    modules, whole = network(text, weights)
    assert whole.outputs == {"Y"}
    code = emit_object([*modules, whole], parse_target(text), name="library", exported=["net"])
    assert "net_first" not in code.header
    if text != WASM32:
        assert read_symbols(code.data).defined == {"net"}
    arrays = {"X": x, "Y": np.zeros((ROWS, 30), np.float32)}
    found = run_elsewhere(code, arrays, tmp_path, parallel=parallel)["Y"]
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


GOOD: dict[str, Place] = {"X": Argument("X"), "W": Constant("W"), "B": Constant("B"), "Y": Arena(0)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"X": Argument("Z")},
            r"kernel: X cannot be float32\[24, 30\] at byte 0 of the argument Z: it must",
        ),
        (
            {"X": Argument("Y")},
            r"kernel: X cannot be float32\[24, 30\] at byte 0 of the argument Y: it must",
        ),
        (
            {"W": Constant("B")},
            r"kernel: W must be float32\[.*\], but the constant B is missing or has another",
        ),
        (
            {"W": Constant("V")},
            r"kernel: W must be float32\[.*\], but the constant V is missing or has another",
        ),
        ({"Y": Constant("Y")}, "kernel: Y is written, but Y is a constant"),
        (
            {"Y": Arena(2)},
            "at byte 2 of the arena: it must begin at a multiple of 4 bytes and end inside the arena of 4000",
        ),
        (
            {"Y": Arena(164)},
            "at byte 164 of the arena: it must begin at a multiple of 4 bytes and end inside the arena of 4000",
        ),
        ({"Y": Arena(-4)}, "at byte -4 of the arena: it must begin at a multiple of 4"),
        ({"X": Arena(960)}, "kernel writes Y, whose memory location overlaps that of X"),
        (
            {"Z": Arena(0)},
            r"location for each parameter \(X, W, B, Y\); its call has locations for X, W, B, Y, Z",
        ),
    ],
)
def test_places_that_do_not_fit(changes, message):
    target = parse_target("llvm")
    s = dense(target, FIRST)
    module = lower(s.program, target, function="kernel")
    shapes = {p.name: p.shape for p in module.parameters}
    constants = {name: np.zeros(shapes[name], np.float32) for name in ("W", "B", "Y")}
    other = Buffer(name="Y", shape=(29, ROWS), dtype=DType.FLOAT32)

    def make(places: dict[str, Place]) -> Module:
        call = Call(module=module, places=places)
        return sequence(
            [call],
            parameters=(INPUT, other),
            arena_bytes=4000,
            constants=constants,
            target=target,
            function="net",
        )

    assert make(GOOD).workspace_bytes == 4032
    with pytest.raises(ValueError, match=message):
        make({**GOOD, **changes})


def test_only_functions_that_are_there_are_exported():
    modules, _ = network(
        "llvm",
        {
            "first": np.zeros((30, 40), np.float32),
            "second": np.zeros((40, 30), np.float32),
            "B": np.zeros(40, np.float32),
        },
    )
    with pytest.raises(
        ValueError, match="exported: there is no function 'net_third'; there are net_first, net_second"
    ):
        emit_object(modules, parse_target("llvm"), name="library", exported=["net_third"])

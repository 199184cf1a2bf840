"""The body of each intrinsic's declaration, run by the interpreter, equals the accelerator's arithmetic in numpy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vdla.compiler.codegen.vdla import intrinsics, window_intrinsics
from vdla.compiler.ir.expr import Const, Var, equal
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import Intrinsic, Program, nest, whole
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.verify import verify, verify_declaration
from vdla.compiler.te.blocks import Blocks
from vdla.compiler.te.combination import Combination
from vdla.compiler.te.functions import FUNCTIONS
from vdla.compiler.te.ops.patches import patch_declaration
from vdla.compiler.te.post import Post
from vdla.isa import arithmetic
from vdla.isa.array_modes import TAPS
from vdla.isa.config import load_config

CONFIGS = [load_config("tiny"), replace(load_config("tiny"), name="pairs", batch=2)]


def call(declaration, arrays, times=1, pad=None):
    """The `arrays` (operands by name) after `times` calls of the intrinsic `declaration`, with the attribute `pad`; the
    first call overwrites the sums, later calls accumulate.
    """
    verify_declaration(declaration)
    step = Var("step")
    use = Intrinsic(
        name="use",
        declaration=declaration,
        operands=tuple(whole(p) for p in declaration.parameters),
        first=equal(step, 0),
        pad=pad,
    )
    program = Program(name="use", parameters=declaration.parameters, body=nest([(step, times)], use))
    verify(program)
    return interpret(program, arrays, functions=FUNCTIONS)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
@pytest.mark.parametrize("times", [1, 3])
def test_gemm(config, times):
    rng = np.random.default_rng(1)
    inp = rng.integers(-128, 128, (config.batch, config.block_in), dtype=np.int8)
    wgt = rng.integers(-128, 128, (config.block_out, config.block_in), dtype=np.int8)
    acc = rng.integers(-(2**31), 2**31, (config.batch, config.block_out), dtype=np.int32)
    got = call(intrinsics.gemm(config), {"inp": inp, "wgt": wgt, "acc": acc}, times)["acc"]
    np.testing.assert_array_equal(got, times * (inp.astype(np.int32) @ wgt.astype(np.int32).T))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
def test_depthwise(config):
    rng = np.random.default_rng(2)
    inp = rng.integers(-128, 128, (config.batch, config.block_out), dtype=np.int8)
    wgt = rng.integers(-128, 128, config.block_out, dtype=np.int8)
    got = call(window_intrinsics.depthwise(config), {"inp": inp, "wgt": wgt}, 2)["acc"]
    np.testing.assert_array_equal(got, 2 * inp.astype(np.int32) * wgt.astype(np.int32))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
def test_taps(config):
    rng = np.random.default_rng(2)
    inp = rng.integers(-128, 128, (TAPS, config.batch, config.block_out), dtype=np.int8)
    wgt = rng.integers(-128, 128, (TAPS, config.block_out), dtype=np.int8)
    got = call(window_intrinsics.taps(config), {"inp": inp, "wgt": wgt}, 2)["acc"]
    np.testing.assert_array_equal(got, 2 * (inp.astype(np.int32) * wgt[:, None]).sum(axis=0))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
@pytest.mark.parametrize("window", [(1, 1), (2, 3), (1, 2)])
@pytest.mark.parametrize("pool", ["max", "add"])
@pytest.mark.parametrize("combined", [False, True])
def test_post(config, window, pool, combined):
    rng = np.random.default_rng(3)
    lanes = (config.batch, config.block_out)
    add = Combination(kind="add", ratio_self=0.5, ratio_operand=1.5, offset=-2.25, unsigned=True)
    constants = Post(zero_point=9, low=-90, combination=add if combined else None)
    shape = lanes if window == (1, 1) else (*window, *lanes)
    acc = rng.integers(-20000, 20000, shape, dtype=np.int32)
    bias = rng.integers(-1000, 1000, lanes[1], dtype=np.int32)
    scale = (rng.random(lanes[1]) * 1e-2).astype(np.float32)
    operand = rng.integers(-128, 128, lanes, dtype=np.int8)
    arrays = {"acc": acc, "par": np.stack([bias, scale.view(np.int32)])}
    if combined:
        arrays["operand"] = operand
    got = call(intrinsics.post(config, constants, window, pool), arrays)["out"]
    total = acc.reshape(-1, *lanes)
    total = (total.max(axis=0) if pool == "max" else total.sum(axis=0, dtype=np.int32)) + bias
    expected = arithmetic.requantize(total, scale, 9, -90, 127)
    if combined:
        constants = arithmetic.AddConstants(
            ratio_a=np.float32(0.5), ratio_b=np.float32(1.5), offset=np.float32(-2.25), unsigned=True
        )
        expected = arithmetic.combine_add(expected, operand, constants)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
def test_patch(config):
    rng = np.random.default_rng(4)
    image = rng.integers(-128, 128, (3, 7), dtype=np.int8)
    declaration = patch_declaration(Blocks.of(config), 3, 7)
    got = call(declaration, {"image": image}, pad=Const(0, DType.INT8))["out"]
    assert got.shape == (-(-21 // config.block_in), config.block_in)
    np.testing.assert_array_equal(got.reshape(-1)[:21], image.reshape(-1))
    assert not got.reshape(-1)[21:].any()


def test_scopes_are_the_accelerators_memories():
    scopes = {p.name: p.scope for p in intrinsics.post(CONFIGS[0], Post()).parameters}
    assert scopes == {"out": "dram", "acc": "acc", "par": "par"}

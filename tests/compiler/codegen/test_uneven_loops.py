"""Loops along which addresses do not move by constant steps, such as fused ones: no instruction counts them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vdla.compiler.codegen.vdla import intrinsics
from vdla.compiler.codegen.vdla.link_alone import link_alone
from vdla.compiler.graph.layout import pack_parameters
from vdla.compiler.ir.expr import Const, Var
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.named_nodes import rewrite_at
from vdla.compiler.ir.stmt import Alloc, Assign, Program, nest, seq
from vdla.compiler.ir.types import DType
from vdla.compiler.passes.pipeline import run_pipeline
from vdla.compiler.schedule import Schedule
from vdla.compiler.te.blocks import Blocks, Window
from vdla.compiler.te.functions import FUNCTIONS
from vdla.compiler.te.ops.conv2d import conv2d
from vdla.compiler.te.ops.convolution import Convolution
from vdla.compiler.te.post import Post
from vdla.compiler.templates.vdla.lower import pipeline
from vdla.isa.alu import AluOpcode
from vdla.isa.check import require_clean
from vdla.isa.config import Config, load_config
from vdla.sim import simulate

from .test_vectors import BLOCKS, ROWS, TINY, rows_combined
from .test_vectors import schedule as vectors

POST = Post(zero_point=0)


def check(config: Config, program: Program, s: Schedule, scale: float) -> None:
    """Asserts that the accelerator computes with schedule `s` what the interpreter computes with `program`, on random
    int8 inputs; `scale`: factor of the requantization.
    """
    rng = np.random.default_rng(3)
    arrays = {p.name: rng.integers(-128, 128, p.shape, dtype=np.int8) for p in program.parameters[:-2]}
    blocks = next(p for p in program.parameters if p.name == "P").shape[0]
    bias = np.arange(blocks * config.block_out, dtype=np.int32)
    arrays["P"] = pack_parameters(config, bias, np.array([scale], dtype=np.float32))
    expected = interpret(program, dict(arrays), functions=FUNCTIONS)["Y"]
    assert len(np.unique(expected)) > 20
    kernel = run_pipeline(s.program, pipeline(config, 2), check=True)
    alone = link_alone(config, kernel, {"X", "Z", "Y"} & {p.name for p in kernel.parameters})
    image = alone.image.copy()
    for name, array in arrays.items():
        data = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
        image[alone.addresses[name] : alone.addresses[name] + len(data)] = data
    require_clean(config, alone.instructions, image)
    at = alone.addresses["Y"]
    memory = simulate(config, alone.instructions, image).memory
    assert memory is not None
    got = memory[at : at + expected.size]
    np.testing.assert_array_equal(got.view(np.int8).reshape(expected.shape), expected)


@pytest.mark.parametrize("immediate", [None, -7])
@pytest.mark.parametrize(
    "fused",
    [
        [("v.y", "v.x")],
        [("v.o", "v.y")],
        [("v.o", "v.y"), ("v.o_v.y", "v.x")],
        [("o", "y")],
        [("o", "y"), ("o_y", "x")],
    ],
    ids=str,
)
def test_fused_loops_around_vectors_and_stores(fused: list[tuple[str, str]], immediate: int | None) -> None:
    program = rows_combined(TINY, AluOpcode.ADD, immediate, POST)
    s = vectors(TINY, program, AluOpcode.ADD, immediate, POST)
    for outer, inner in fused:
        s.fuse(outer, inner)
    check(TINY, program, s, 0.2)


@pytest.mark.parametrize("immediate", [None, -7])
def test_a_split_of_a_fused_loop(immediate: int | None) -> None:
    """Three loops are fused and the result is split by 6, so that addresses move by constant steps along neither of the
    two loops. `immediate`: constant operand; None: the operand is a tensor.
    """
    program = rows_combined(TINY, AluOpcode.ADD, immediate, POST)
    s = vectors(TINY, program, AluOpcode.ADD, immediate, POST)
    s.split(s.fuse(s.fuse("v.o", "v.y"), "v.x"), 6)
    check(TINY, program, s, 0.2)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("depth", [None, 2, 3, 4, 6])
def test_fused_loops_around_products(batch: int, depth: int | None) -> None:
    """The accelerator computes a convolution right if its loops over rows and columns are fused around GEMM. `depth`:
    factor by which the fused loop is split again; None: not split.
    """
    config = replace(load_config("tiny"), name=f"batch {batch}", batch=batch)
    window = Window(kernel=(2, 2), strides=(1, 1), pads=(0, 0, 0, 0))
    sizes = Convolution(batch=1, channels=6, height=5, width=4, filters=9, window=window)
    program = conv2d(blocks=Blocks.of(config), convolution=sizes, post=POST, pad_value=0)
    s = Schedule(program)
    s.reorder("n", "o", "y", "x", "b", "j")
    s.compute_at("conv", "n")
    s.set_scope("acc", "acc")
    inner = ("conv.ic", "conv.kh", "conv.kw", "conv.b", "conv.j", "conv.k")
    s.reorder("conv.n", "conv.o", "conv.y", "conv.x", *inner)
    s.compute_at("pad", "n")
    s.set_scope("padded", "inp")
    s.cache_read("W", "n", "wgt")
    s.cache_read("P", "n", "par")
    s.tensorize("conv.b", intrinsics.gemm(config))
    s.tensorize("b", intrinsics.post(config, POST), intrinsics.post_attributes(POST))
    fused = s.fuse("conv.y", "conv.x")
    if depth is not None:
        s.split(fused, depth)
    check(config, program, s, 2e-3)


def test_fused_loops_around_a_fill() -> None:
    """The accelerator computes what the program says when loops over rows and columns of a fill are fused. Only three
    columns of each row are filled, so rows are not contiguous.
    """
    program = rows_combined(TINY, AluOpcode.ADD, -7, POST)
    acc = program.body
    assert isinstance(acc, Alloc)
    loops = [Var(f"f.{v}") for v in "oyxbj"]
    value = Const(5, DType.INT32)
    fill = Assign(name="fill", buffer=acc.buffer, indices=(Const(0), *loops), value=value)
    extents = (BLOCKS, ROWS, 3, TINY.batch, TINY.block_out)
    filled = nest(list(zip(loops, extents, strict=True)), fill)
    program = rewrite_at(program, "load", lambda load: seq(load, filled))
    s = vectors(TINY, program, AluOpcode.ADD, -7, POST)
    s.fuse("f.y", "f.x")
    check(TINY, program, s, 0.2)

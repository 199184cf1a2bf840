"""Element-wise operations on accumulators: tensorized, emitted as ALU instructions, and run against the interpreter."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from vdla.compiler.codegen.vdla import alu_intrinsics, intrinsics
from vdla.compiler.codegen.vdla.errors import EmissionError
from vdla.compiler.codegen.vdla.link_alone import link_alone
from vdla.compiler.graph.layout import pack_parameters
from vdla.compiler.ir.expr import Const, Var
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.replace_buffers import replace_buffers
from vdla.compiler.ir.stmt import Alloc, Assign, Copy, Program, nest, region, seq
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.verify import verify_declaration
from vdla.compiler.passes.pipeline import run_pipeline
from vdla.compiler.schedule import LegalityError, Schedule
from vdla.compiler.te.blocks import Blocks
from vdla.compiler.te.functions import FUNCTIONS
from vdla.compiler.te.ops.common import Views, activation, post_point
from vdla.compiler.te.post import Post
from vdla.compiler.templates.vdla.lower import pipeline
from vdla.isa.alu import ALU_OPERATIONS, AluOpcode
from vdla.isa.assembler import instruction_text
from vdla.isa.check import require_clean
from vdla.isa.config import Config, load_config
from vdla.isa.errors import ConfigError
from vdla.isa.extensions import EXTENSIONS
from vdla.sim import simulate

UNFOLDED = tuple(name for name in EXTENSIONS if name != "fold")
TINY = dataclasses.replace(load_config("tiny"), name="all extensions", extensions=UNFOLDED)
OF_PAIRS = tuple(name for name in UNFOLDED if name != "rows")
MACHINES = [TINY, dataclasses.replace(TINY, name="pairs", batch=2, acc_banks=4, extensions=OF_PAIRS)]
BLOCKS, ROWS, COLUMNS, TILES = 2, 3, 5, 2


def rows_combined(
    config: Config, opcode: AluOpcode, immediate: int | None, post: Post, times: int = 1
) -> Program:
    """A program of Y = post(operation(X, Z)), tiled by rows; the operation is applied `times` times in sequence.

    Z, int8[1, CB, 1, W, B, co], is one row for all rows of X; with an `immediate` there is no Z. The statement "result"
    is in the loops v.o, v.y, v.x, v.b, v.j.
    """
    lanes = (config.batch, config.block_out)
    x_in = activation("X", (1, BLOCKS, TILES * ROWS, COLUMNS), lanes)
    z_in = activation("Z", (1, BLOCKS, 1, COLUMNS), lanes)
    out = activation("Y", (1, BLOCKS, TILES * ROWS, COLUMNS), lanes)
    parameters = dataclasses.replace(out, name="P", shape=(BLOCKS, 2, lanes[1]), dtype=DType.INT32)
    acc = activation("acc", (1, BLOCKS, ROWS, COLUMNS), lanes, DType.INT32)
    src = activation("src", (1, BLOCKS, 1, COLUMNS), lanes, DType.INT32)
    tile, k = Var("tile"), Var("times")
    o, y, x, b, j = (Var(f"v.{name}") for name in "oyxbj")
    p, r, c = Var("o"), Var("y"), Var("x")
    everything = ((0, 1), (0, BLOCKS), (0, COLUMNS), (0, lanes[0]), (0, lanes[1]))

    def rows(buffer, start, count):
        return region(buffer, *everything[:2], (start, count), *everything[2:])

    loads = [Copy(name="load", destination=rows(acc, 0, ROWS), source=rows(x_in, tile * ROWS, ROWS))]
    right = Const(immediate, DType.INT32) if immediate is not None else src[0, o, 0, x, b, j]
    if immediate is None:
        loads.append(Copy(name="load_row", destination=rows(src, 0, 1), source=rows(z_in, 0, 1)))
    value = alu_intrinsics.operator(opcode)(acc[0, o, y, x, b, j], right)
    result = Assign(name="result", buffer=acc, indices=(Const(0), o, y, x, b, j), value=value)
    extents = (times, BLOCKS, ROWS, COLUMNS, *lanes)
    combined = nest(list(zip((k, o, y, x, b, j), extents, strict=True)), result)
    views = Views(
        out=lambda b, j: out[0, p, tile * ROWS + r, c, b, j],
        accumulator=lambda _r, _c, b, j: acc[0, p, r, c, b, j],
        parameter=lambda row, j: parameters[p, row, j],
        operand=None,
    )
    finish = nest([(p, BLOCKS), (r, ROWS), (c, COLUMNS)], post_point(Blocks.of(config), views, post))
    body = nest([(tile, TILES)], seq(*loads, combined, finish))
    inner = Alloc(buffer=src, body=body) if immediate is None else body
    inputs = (x_in, z_in) if immediate is None else (x_in,)
    return Program(name="rows", parameters=(*inputs, parameters, out), body=Alloc(buffer=acc, body=inner))


def schedule(
    config: Config, program: Program, opcode: AluOpcode, immediate: int | None, post: Post
) -> Schedule:
    s = Schedule(program)
    s.set_scope("acc", "acc")
    if immediate is None:
        s.set_scope("src", "acc")
    s.cache_read("P", "tile", "par")
    s.tensorize(
        "v.b",
        alu_intrinsics.vector(config, opcode.name, immediate),
        alu_intrinsics.vector_attributes(immediate),
    )
    s.tensorize("b", intrinsics.post(config, post), intrinsics.post_attributes(post))
    return s


@pytest.mark.parametrize("config", MACHINES, ids=lambda config: config.name)
@pytest.mark.parametrize("immediate", [None, -7])
@pytest.mark.parametrize("opcode", sorted(alu_intrinsics.VECTORS.values()), ids=lambda opcode: opcode.name)
def test_the_emitted_program_computes_what_the_tensor_expression_says(
    config: Config, opcode: AluOpcode, immediate: int | None
) -> None:
    post = Post(zero_point=0)
    times = 1 if opcode is AluOpcode.MUL else 3
    program = rows_combined(config, opcode, immediate, post, times)
    scheduled = schedule(config, program, opcode, immediate, post).program
    kernel = run_pipeline(scheduled, pipeline(config, 2), check=True)
    rng = np.random.default_rng(int(opcode))
    arrays = {
        buffer.name: rng.integers(-128, 128, buffer.shape, dtype=np.int8)
        for buffer in program.parameters
        if buffer.name in "XZ"
    }
    scale = 0.01 if opcode is AluOpcode.MUL and immediate is None else 0.2
    arrays["P"] = pack_parameters(
        config, np.arange(BLOCKS * config.block_out, dtype=np.int32), np.array([scale], dtype=np.float32)
    )
    expected = interpret(program, dict(arrays), functions=FUNCTIONS)["Y"]
    np.testing.assert_array_equal(interpret(scheduled, dict(arrays), functions=FUNCTIONS)["Y"], expected)
    assert len(np.unique(expected)) > 20

    alone = link_alone(config, kernel, {"X", "Z", "Y"} & {buffer.name for buffer in kernel.parameters})
    image = alone.image.copy()
    for name, array in arrays.items():
        data = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
        image[alone.addresses[name] : alone.addresses[name] + len(data)] = data
    require_clean(config, alone.instructions, image)
    result = simulate(config, alone.instructions, image)
    at = alone.addresses["Y"]
    got = result.memory[at : at + expected.size].view(np.int8).reshape(expected.shape)
    np.testing.assert_array_equal(got, expected)
    text = [instruction_text(config, low, high) for low, high in alone.instructions.tolist()]
    used = [line for line in text if line.startswith("ALU")]
    # The rows and columns of a block are loops of one instruction.
    assert len(used) == TILES * times * BLOCKS
    assert all(("alu_opcode=" + opcode.name in line) or int(opcode) == 0 for line in used)


@pytest.mark.parametrize("config", MACHINES, ids=lambda config: config.name)
@pytest.mark.parametrize("opcode", sorted(alu_intrinsics.VECTORS.values()), ids=lambda opcode: opcode.name)
def test_bodies_are_the_operations_of_the_instruction_set(config: Config, opcode: AluOpcode) -> None:
    declaration = alu_intrinsics.vector(config, opcode.name)
    verify_declaration(declaration)
    rng = np.random.default_rng(4)
    shape = (config.batch, config.block_out)
    acc, src = (rng.integers(-(2**31), 2**31, shape, dtype=np.int64).astype(np.int32) for _ in range(2))
    program = Program(name="body", parameters=declaration.parameters, body=declaration.body)
    with np.errstate(over="ignore"):
        got = interpret(program, {"acc": acc.copy(), "src": src}, functions=FUNCTIONS)["acc"]
    expected = ALU_OPERATIONS[opcode].compute(acc.astype(np.int64), src.astype(np.int64))
    np.testing.assert_array_equal(got, (expected & 0xFFFFFFFF).astype(np.uint32).view(np.int32))


def test_accumulators_of_other_types_are_not_loaded() -> None:
    post = Post(zero_point=0)
    program = rows_combined(TINY, AluOpcode.ADD, -7, post)
    wide = {"X": dataclasses.replace(program.parameters[0], dtype=DType.INT16)}
    kernel = run_pipeline(
        schedule(TINY, replace_buffers(program, wide), AluOpcode.ADD, -7, post).program, pipeline(TINY, 2)
    )
    with pytest.raises(
        EmissionError,
        match="load copies X of type int16 to acc, where the accelerator loads int8 or int32 only",
    ):
        link_alone(TINY, kernel, {"X", "Y"})


def test_another_operation_does_not_match() -> None:
    post = Post(zero_point=0)
    program = rows_combined(TINY, AluOpcode.ADD, None, post)
    with pytest.raises(LegalityError, match=r"cannot tensorize v\.b with vector_max"):
        schedule(TINY, program, AluOpcode.MAX, None, post)


def test_an_operation_without_an_operator_is_refused() -> None:
    with pytest.raises(
        ConfigError, match="no intrinsic for the ALU operation 'SHR'; it has MIN, MAX, ADD, MUL"
    ):
        alu_intrinsics.vector(TINY, "SHR")
    with pytest.raises(ConfigError, match="40000 does not fit the 16 bits"):
        alu_intrinsics.vector_attributes(40000)

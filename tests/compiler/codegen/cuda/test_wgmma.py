"""Products of warpgroups (wgmma): fragments and descriptors against the text of the PTX ISA, C++ against the
declarations.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cuda_on_host import HostRunError
from cuda_on_host.modules import run_modules

from vdla.compiler.codegen.cuda.errors import LoweringError
from vdla.compiler.codegen.cuda.intrinsics import intrinsics, lanes_of
from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.codegen.cuda.mma_fragments import Fragment
from vdla.compiler.codegen.cuda.module import lower
from vdla.compiler.codegen.cuda.nvrtc import compile_cubin, compile_ptx
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.codegen.cuda.wgmma import COLUMNS, columns_of, descriptor, store, wgmma, zero
from vdla.compiler.ir.expr import Buffer, Expr, Var
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import (
    Alloc,
    Assign,
    For,
    Intrinsic,
    Program,
    Stmt,
    index,
    nest,
    region,
    seq,
    whole,
)
from vdla.compiler.ir.types import HALVES, DType
from vdla.compiler.ir.verify import verify
from vdla.compiler.te.functions import FUNCTIONS

TARGET = cuda_target("sm_90a")
F16, BF16, F32 = DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32
S8, U8 = DType.INT8, DType.UINT8


@pytest.mark.parametrize("columns", [8, 24, 256])
def test_sums_lie_as_the_isa_says(columns: int):
    """A warpgroup's sums lie in registers as the PTX ISA's figure says ("Register Fragments", fragment D of wgmma
    .m64nNk16): d0 and d1 are adjacent, d2 and d3 are 8 rows below.
    """
    fragment = Fragment.of(Buffer(name="c", shape=(2, 64, columns), dtype=F32, scope="fragment.d"))
    assert (fragment.registers, fragment.c_type) == (columns // 2, "float")
    seen = set()
    for thread in range(128):
        warp, lane = thread // 32, thread % 32
        for i in range(columns // 2):
            row = 16 * warp + (lane >> 2) + (8 if i % 4 in (2, 3) else 0)
            column = 8 * (i // 4) + (lane % 4) * 2 + i % 2
            assert fragment.position(thread // 4, thread % 4, i) == (row, column)
            seen.add((row, column))
    assert len(seen) == 64 * columns


def test_descriptors_have_the_fields_of_the_isa():
    """Descriptors have the fields of the PTX ISA's section "Matrix Descriptor Format": the start address in bits 13-0,
    the leading offset in 29-16, the stride in 45-32, the base offset in 51-49, the swizzle in 63-62.
    """
    found = descriptor(0x2F410, 144, 8 * 144)
    assert found & 0x3FFF == 0x2F41
    assert found >> 16 & 0x3FFF == 9
    assert found >> 32 & 0x3FFF == 72
    assert found >> 46 == 0 and found >> 14 & 3 == 0 and found >> 30 & 3 == 0
    # An address of shared memory has 18 bits; what is above is the window's.
    assert descriptor(0x7_0000_0000 + 0x40, 16, 16) & 0xFFFF == 4
    with pytest.raises(ValueError, match="must be multiples of 16 bytes"):
        descriptor(0x10, 24, 128)


def test_every_width_is_declared_for_128_lanes():
    known = intrinsics()
    for columns in range(8, 257, 8):
        for dtype in HALVES:
            assert lanes_of(known[wgmma(dtype, columns).name]) == 128
        assert lanes_of(known[wgmma(F32, columns, swizzled=True).name]) == 128
        for total in (F32, DType.INT32):
            for made in (zero(columns, total), store(columns, total=total), store(columns, "dram", total)):
                assert lanes_of(known[made.name]) == 128
    for a, b in ((S8, S8), (S8, U8), (U8, S8), (U8, U8)):
        made = known[wgmma(a, 96, right=b, swizzled=True).name]
        assert [p.dtype for p in made.parameters] == [DType.INT32, a, b]
        assert [p.shape for p in made.parameters] == [(64, 96), (64, 32), (96, 32)]
    assert len(COLUMNS) == 32
    # "wgmma.mma_async", .shape: of integers 8, 16, 24, 32, 48, 64 and so on.
    assert columns_of(S8)[:6] == (8, 16, 24, 32, 48, 64) and len(columns_of(S8)) == 18


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((F16, 264), "no wgmma instruction for float16 has 264 columns; use a multiple of 8 up to 256"),
        (
            (DType.INT32, 8),
            "no wgmma instruction multiplies int32 by int32; the types are float16, bfloat16, float32, int8, uint8",
        ),
        ((DType.INT8, 8), "factors of int8 must be stored in swizzled rows along the depth"),
        ((F32, 8, "rows", "rows"), "factors of float32 must be stored in swizzled rows along the depth"),
    ],
)
def test_products_that_no_instruction_has(arguments: tuple, message: str):
    with pytest.raises(ValueError, match=message):
        wgmma(*arguments)


def test_integers_have_fewer_widths():
    with pytest.raises(
        ValueError, match="no wgmma instruction for int8 has 40 columns; use a multiple of 16 up to 256"
    ):
        wgmma(S8, 40, swizzled=True)


def one_product(
    dtype: DType, columns: int, orders: tuple, *, room: int = 8, scope: str = "dram", steps: int = 2
) -> Program:
    """A program of Y = X @ W for one warpgroup. X has 16 * `steps` columns, and W has `columns` columns. `orders`: for
    X and for W, whether shared memory holds the "rows" or the "columns" of the matrix one after the other. `room`:
    lines of 8 elements that a core matrix (8 x 8) occupies there. `scope`: memory to which the sums are stored from
    registers, "dram" or "shared".
    """
    declaration = wgmma(dtype, columns, *orders)
    depth = 16 * steps
    x = Buffer(name="X", shape=(64, depth), dtype=dtype)
    w = Buffer(name="W", shape=(depth, columns), dtype=dtype)
    y = Buffer(name="Y", shape=(64, columns), dtype=F32)
    cores: list[Buffer] = []
    copies: list[Stmt] = []
    operands = []
    step = Var("step")
    for of, along in ((x, orders[0] == "rows"), (w, orders[1] == "rows")):
        lines, length = of.shape if along else of.shape[::-1]
        held = Buffer(
            name=f"{of.name}s", shape=(lines // 8, length // 8, room, 8), dtype=dtype, scope="shared"
        )
        lane, at = Var(f"{of.name}.lane"), Var(f"{of.name}.step")
        element = at * 128 + lane
        row, column = element // of.shape[1], element % of.shape[1]
        line, place = (row, column) if along else (column, row)
        move = Assign(
            name=of.name.lower(),
            buffer=held,
            indices=(line // 8, place // 8, line % 8, place % 8),
            value=of[row, column],
        )
        copies.append(
            For(
                var=lane,
                extent=index(128),
                body=nest([(at, lines * length // 128)], move),
                kind="thread.x",
            )
        )
        cores.append(held)
        # The depth is in lines or in elements of a line.
        deep = length // 8 if along == (of is x) else lines // 8
        first, second = (0, lines // 8), (0, length // 8)
        if along == (of is x):
            second = (step * 2, 2)
        else:
            first = (step * 2, 2)
        assert deep == 2 * steps
        operands.append(region(held, first, second, (0, 8), (0, 8)))
    fc = Buffer(name="fc", shape=(64, columns), dtype=F32, scope="fragment.d")
    out = y if scope == "dram" else Buffer(name="out", shape=y.shape, dtype=F32, scope="shared")

    def use(name, declared, *operands) -> Stmt:
        return Intrinsic(name=name, declaration=declared, operands=operands)

    def group(name: str, body: Stmt) -> Stmt:
        return For(var=Var(name), extent=index(1), body=body, kind="thread.y")

    product = For(
        var=step,
        extent=index(steps),
        body=use("product", declaration, whole(fc), *operands),
        kind="unroll",
    )
    if scope == "dram":
        # One phase, in which every product is waited for by itself.
        phases = [
            group(
                "group",
                seq(
                    use("zero", zero(columns), whole(fc)),
                    product,
                    use("store", store(columns, scope), whole(out), whole(fc)),
                ),
            )
        ]
    else:
        lane, at = Var("y.lane"), Var("y.step")
        element = at * 128 + lane
        where: tuple[Expr, ...] = (element // columns, element % columns)
        move = Assign(name="y", buffer=y, indices=where, value=out[where])
        phases = [
            group("g0", use("zero", zero(columns), whole(fc))),
            group("g1", product),
            group("g2", use("store", store(columns, scope), whole(out), whole(fc))),
            For(var=lane, extent=index(128), body=nest([(at, columns // 2)], move), kind="thread.x"),
        ]
    body = seq(*copies, *phases)
    for buffer in (fc, *cores, *([out] if out is not y else [])):
        body = Alloc(buffer=buffer, body=body)
    block = For(var=Var("block"), extent=index(1), body=body, kind="block.x")
    program = Program(name="one", parameters=(x, w, y), body=block)
    verify(program)
    return program


def arrays_of(program: Program, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Random inputs whose products and sums are exact in any order."""
    return {
        p.name: rng.integers(-15, 16, p.shape).astype(np.float32).astype(p.dtype.numpy)
        for p in program.parameters[:2]
    }


def test_emission_computes_what_is_declared():
    rng = np.random.default_rng(5)
    programs = [
        one_product(F16, 8, ("rows", "columns")),
        one_product(BF16, 24, ("columns", "rows"), room=9, scope="shared"),
        one_product(F16, 40, ("columns", "columns"), scope="shared"),
        one_product(F16, 16, ("rows", "rows"), room=9),
        # More shared memory than a static array may have.
        one_product(F16, 256, ("rows", "rows"), scope="shared", room=9),
    ]
    given = [arrays_of(program, rng) for program in programs]
    modules = [(lower(prepare(p, TARGET), TARGET), a) for p, a in zip(programs, given, strict=True)]
    assert modules[-1][0].launches[0].shared_bytes > 0
    for program, arrays, got in zip(programs, given, run_modules(modules, orders=2), strict=True):
        wanted = arrays["X"].astype(np.float32) @ arrays["W"].astype(np.float32)
        assert len(np.unique(wanted)) > 50
        np.testing.assert_array_equal(got["Y"], wanted)
        if program is programs[1]:
            np.testing.assert_array_equal(
                interpret(program, arrays, functions=FUNCTIONS, poison=True)["Y"], wanted
            )


def test_text_without_its_fences_is_found_out():
    program = one_product(F16, 8, ("rows", "columns"), scope="shared")
    arrays = arrays_of(program, np.random.default_rng(1))
    module = lower(prepare(program, TARGET), TARGET)
    assert module.source.count("begin_products();") == module.source.count("finish_products();") == 1
    # Each barrier behind what writes shared memory has a fence in front.
    assert module.source.count("show_to_products();\n    __syncthreads();") == module.source.count(
        "__syncthreads();"
    )
    for line, message in (
        ("    begin_products();\n", "without a wgmma.fence before it"),
        ("    finish_products();\n", "is not waited for"),
    ):
        broken = replace(module, source=module.source.replace(line, ""))
        assert broken.source != module.source
        with pytest.raises(HostRunError, match=message):
            run_modules([(broken, arrays)], orders=1)


def test_instructions_in_ptx():
    program = one_product(BF16, 256, ("columns", "rows"), scope="shared")
    source = lower(prepare(program, TARGET), TARGET).source
    ptx = compile_ptx(source, "sm_90a")
    assert ptx.count("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16") == 2
    assert ptx.count("wgmma.fence.sync.aligned") == ptx.count("wgmma.commit_group.sync.aligned") == 1
    assert ptx.count("wgmma.wait_group.sync.aligned 0") == 1
    assert ptx.count("fence.proxy.async.shared::cta") == ptx.count("bar.sync")
    assert compile_cubin(source, "sm_90a")[:4] == b"\x7fELF"


def test_what_the_hardware_has_not_is_refused():
    program = one_product(F16, 8, ("rows", "columns"))
    for arch in ("sm_80", "sm_100"):
        with pytest.raises(LoweringError, match=f"only sm_90a has the instruction wgmma, not {arch};"):
            prepare(program, cuda_target(arch))
    with pytest.raises(LoweringError, match="the last two dimensions in this scope must be 64x16"):
        Fragment.of(Buffer(name="f", shape=(64, 20), dtype=F32, scope="fragment.d"))
    with pytest.raises(LoweringError, match=r"tensor cores have no fragments of float16 @ fragment\.d"):
        Fragment.of(Buffer(name="f", shape=(64, 16), dtype=F16, scope="fragment.d"))

"""Instructions of tensor cores: their fragment layouts against the text of the PTX ISA, and their C++ against their
declarations.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from cuda_on_host.modules import run_modules

from vdla.compiler.codegen.cuda.errors import LoweringError
from vdla.compiler.codegen.cuda.intrinsics import emission_of, intrinsics, lanes_of
from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.codegen.cuda.mma import FACTORS, load_a, load_b, mma, store, sum_type, zero
from vdla.compiler.codegen.cuda.mma_fragments import Fragment, matrix_row, shape_of
from vdla.compiler.codegen.cuda.module import lower
from vdla.compiler.codegen.cuda.nvrtc import compile_ptx
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.ir.expr import Buffer, Var
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
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.verify import verify, verify_declaration
from vdla.compiler.te.functions import FUNCTIONS

TARGET = cuda_target("sm_90")
F16, F32, I8, I32 = DType.FLOAT16, DType.FLOAT32, DType.INT8, DType.INT32


def isa_position(matrix: str, dtype: DType, lane: int, i: int) -> tuple[int, int]:
    """Row and column of element i of a lane's fragment of `matrix` ("a", "b"; other texts: the sums), copied from the
    PTX ISA's sections on m16n8k16, k8 (tf32) and k32.
    """
    group, thread = lane >> 2, lane % 4
    match matrix, dtype.bits:
        case "a", 16:
            row = group if 0 <= i < 2 or 4 <= i < 6 else group + 8
            column = thread * 2 + (i & 1) if i < 4 else thread * 2 + (i & 1) + 8
        case "b", 16:
            row = thread * 2 + (i & 1) if i < 2 else thread * 2 + (i & 1) + 8
            column = group
        case "a", 32:
            row = group if i in (0, 2) else group + 8
            column = thread if i in (0, 1) else thread + 4
        case "b", 32:
            row = thread if i == 0 else thread + 4
            column = group
        case "a", 8:
            row = group if 0 <= i < 4 or 8 <= i < 12 else group + 8
            column = thread * 4 + (i & 3) if i < 8 else thread * 4 + (i & 3) + 16
        case "b", 8:
            row = thread * 4 + (i & 3) if i < 4 else thread * 4 + (i & 3) + 16
            column = group
        case _:
            row = group if i < 2 else group + 8
            column = thread * 2 + (i & 1)
    return row, column


@pytest.mark.parametrize(
    ("matrix", "dtype"),
    [*[(m, t) for m in "ab" for t in (F16, DType.BFLOAT16, F32, I8)], ("c", F32), ("c", I32)],
)
def test_fragments_lie_as_the_isa_says(matrix: str, dtype: DType):
    rows, columns = shape_of(f"fragment.{matrix}", dtype)
    fragment = Fragment(scope=f"fragment.{matrix}", dtype=dtype, rows=rows, columns=columns)
    seen = set()
    for lane in range(32):
        for i in range(fragment.registers * fragment.packed):
            at = fragment.position(lane // 4, lane % 4, i // fragment.packed, i % fragment.packed)
            wanted = isa_position(matrix if matrix != "c" else "sum", dtype, lane, i)
            assert at == wanted, (lane, i)
            seen.add(at)
    assert seen == {(r, c) for r in range(rows) for c in range(columns)}


def test_rows_of_matrices_are_named_by_eight_lanes_each():
    """The four registers of ldmatrix.x4 are matrices 0 to 3. For A's fragment these are the upper left, lower left,
    upper right and lower right matrix.
    """
    corners = [matrix_row(8 * q, columns_first=False) for q in range(4)]
    assert corners == [(0, 0), (8, 0), (0, 1), (8, 1)]
    assert [matrix_row(8 * q, columns_first=True) for q in range(4)] == [(0, 0), (0, 1), (8, 0), (8, 1)]
    for first in (False, True):
        assert {matrix_row(lane, columns_first=first) for lane in range(32)} == {
            (row, half) for row in range(16) for half in range(2)
        }


def test_every_operation_is_declared_once_and_emitted():
    known = intrinsics()
    for name, declaration in known.items():
        assert name == declaration.name
        verify_declaration(declaration)
        assert callable(emission_of(declaration))
        shuffled = int(name.rpartition("_")[2]) if name.startswith("warp_") else None
        expected = 1 if name.startswith("dot_") else 128 if "wgmma" in name else shuffled or 32
        assert lanes_of(declaration) == expected
    assert {mma(a, b).name for a, b in FACTORS} <= known.keys()


def one_product(a: DType, b: DType, ways: tuple[tuple, tuple], scope: str) -> Program:
    """A program of Y = X @ W for one warp. X has elements of type `a`, W of type `b`. `ways`: for X and for W, a pair
    of the storage order and whether `ldmatrix` loads the fragments. `scope`: memory to which the sums are stored. If
    the load of W returns two tiles, Y has twice the columns.
    """
    loads = load_a(a, ways[0][0], matrix=ways[0][1]), load_b(b, ways[1][0], matrix=ways[1][1])
    total = sum_type(a)
    fragments = [load.parameters[0] for load in loads]
    tiles = fragments[1].shape[0] if len(fragments[1].shape) == 3 else 1
    x, w = (
        Buffer(name=n, shape=load.parameters[1].shape, dtype=load.parameters[1].dtype)
        for n, load in zip("XW", loads, strict=True)
    )
    y = Buffer(name="Y", shape=(16, 8 * tiles), dtype=total)
    xs, ws = (Buffer(name=f"{p.name}s", shape=p.shape, dtype=p.dtype, scope="shared") for p in (x, w))
    out = y if scope == "dram" else Buffer(name="out", shape=y.shape, dtype=total, scope="shared")
    fa, fb = (
        Buffer(name=n, shape=f.shape, dtype=f.dtype, scope=f.scope)
        for n, f in zip(("fa", "fb"), fragments, strict=True)
    )
    fc = Buffer(name="fc", shape=(tiles, 16, 8), dtype=total, scope="fragment.c")

    def copied(name: str, to: Buffer, of: Buffer) -> Stmt:
        lane, step = Var(f"{name}.lane"), Var(f"{name}.step")
        rows, columns = of.shape
        at = (step * 32 + lane) // columns, (step * 32 + lane) % columns
        move = Assign(name=name, buffer=to, indices=at, value=of[at])
        steps = nest([(step, rows * columns // 32)], move)
        return For(var=lane, extent=index(32), body=steps, kind="thread.x")

    def use(name, declaration, *operands) -> Stmt:
        return Intrinsic(name=name, declaration=declaration, operands=operands)

    work: list[Stmt] = [
        use("load.a", loads[0], whole(fa), whole(xs)),
        use("load.b", loads[1], whole(fb), whole(ws)),
    ]
    for t in range(tiles):
        own = region(fc, (t, 1), (0, 16), (0, 8))
        of_b = region(fb, (t, 1), *[(0, n) for n in fb.shape[1:]]) if tiles > 1 else whole(fb)
        work += [
            use(f"zero{t}", zero(total), own),
            use(f"mma{t}", mma(a, b), own, whole(fa), of_b),
            use(f"store{t}", store(total, scope), region(out, (0, 16), (8 * t, 8)), own),
        ]
    body = seq(*work)
    for buffer in (fa, fb, fc):
        body = Alloc(buffer=buffer, body=body)
    phases: list[Stmt] = [
        copied("x", xs, x),
        copied("w", ws, w),
        For(var=Var("warp"), extent=index(1), body=body, kind="thread.y"),
    ]
    if out is not y:
        phases.append(copied("y", y, out))
    body = seq(*phases)
    for buffer in (xs, ws, *([out] if out is not y else [])):
        body = Alloc(buffer=buffer, body=body)
    block = For(var=Var("block"), extent=index(1), body=body, kind="block.x")
    return Program(name="one", parameters=(x, w, y), body=block)


def operands(program: Program, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Random inputs of a program. Products and sums are exact in any order after rounding to tf32; float32 values have
    bits that tf32 must round away.
    """
    found = {}
    for p in program.parameters[:2]:
        if p.dtype.is_integer:
            found[p.name] = rng.integers(*p.dtype.limits, p.shape, endpoint=True).astype(p.dtype.numpy)
        else:
            found[p.name] = rng.integers(-15, 16, p.shape).astype(np.float32)
            if p.dtype is F32:
                # Beyond tf32's 10 bits, to be rounded away.
                found[p.name] *= np.float32(1 + 2.0**-13)
            found[p.name] = found[p.name].astype(p.dtype.numpy)
    return found


def test_emission_computes_what_is_declared():
    """The generated code of every mma instruction and every load of fragments computes its declaration, on the CPU
    model of the hardware (`cuda_on_host`).
    """
    rng = np.random.default_rng(5)
    ways = [("rows", True), ("columns", True), ("rows", False), ("columns", False)]
    jobs = []
    for a, b in FACTORS:
        able_a = [w for w in ways if not (w == ("columns", True) and a.bits != 16)]
        able_b = [w for w in ways if not (w == ("rows", True) and b.bits != 16)]
        # Types of equal width move alike.
        for n in range(max(len(able_a), len(able_b)) if a is b and a in (F16, F32, I8) else 1):
            chosen = able_a[n % len(able_a)], able_b[n % len(able_b)]
            program = one_product(a, b, chosen, "shared" if n % 2 else "dram")
            verify(program)
            arrays = operands(program, rng)
            jobs.append((program, arrays))
    modules = [(lower(prepare(program, TARGET), TARGET), arrays) for program, arrays in jobs]
    for (program, arrays), got in zip(jobs, run_modules(modules, orders=2), strict=True):
        wanted = interpret(program, arrays, functions=FUNCTIONS, poison=True)["Y"]
        assert len(np.unique(wanted)) > 50
        np.testing.assert_array_equal(got["Y"], wanted)


def test_instructions_in_ptx():
    program = one_product(DType.BFLOAT16, DType.BFLOAT16, (("rows", True), ("rows", True)), "dram")
    ptx = compile_ptx(lower(prepare(program, TARGET), TARGET).source, "sm_80")
    assert ptx.count("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32") == 2
    assert ptx.count("ldmatrix.sync.aligned.m8n8.x4.shared.b16") == 1
    assert ptx.count("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16") == 1


def test_what_the_hardware_has_not_is_refused():
    with pytest.raises(ValueError, match="no mma instruction multiplies float16 by bfloat16"):
        mma(F16, DType.BFLOAT16)
    with pytest.raises(ValueError, match="ldmatrix transposes elements of 16 bits only, not int8"):
        load_b(I8, "rows")
    with pytest.raises(LoweringError, match="the last two dimensions in this scope must be 16x16"):
        Fragment.of(Buffer(name="f", shape=(4, 16, 8), dtype=F16, scope="fragment.a"))
    with pytest.raises(LoweringError, match=r"tensor cores have no fragments of float16 @ fragment\.c"):
        Fragment.of(Buffer(name="f", shape=(16, 8), dtype=F16, scope="fragment.c"))
    # Rows of 16 + 4 halves begin at multiples of 8 bytes only.
    program = one_product(F16, F16, (("rows", True), ("columns", True)), "dram")
    narrow = Buffer(name="Xs", shape=(16, 20), dtype=F16, scope="shared")
    skewed = widened(program, narrow)
    with pytest.raises(LoweringError, match="do not provably begin at multiples of 16 bytes"):
        lower(prepare(skewed, TARGET), TARGET)


def widened(program: Program, buffer: Buffer) -> Program:
    """The program in which `buffer` replaces the buffer of the same name."""
    from vdla.compiler.ir.replace_buffers import replace_buffers

    return replace_buffers(program, {buffer.name: buffer})


def test_numbers_of_16_bits_are_what_numpy_has():
    assert DType.BFLOAT16.numpy == np.dtype(ml_dtypes.bfloat16)

"""Products of tf32 and integers by warpgroups (wgmma): both factors must be contiguous along the depth, and are packed
or transposed otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pytest
from campaign import some
from cuda_on_host.modules import run_modules
from gpu_kernels import emulated

from vdla.compiler.codegen.cuda.intrinsics import intrinsics
from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.codegen.cuda.module import TensorMapArgument, lower
from vdla.compiler.codegen.cuda.nvrtc import compile_ptx
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.codegen.cuda.tolerances import worst_case
from vdla.compiler.ir.stmt import Program
from vdla.compiler.ir.types import DType
from vdla.compiler.schedule import LegalityError, replay, trace_from_json, trace_to_json
from vdla.compiler.schedule.pack import pack_arrays
from vdla.compiler.te.ops.product import Matrices, product, round_factors, tensor_product
from vdla.compiler.te.ops.sums import Epilogue
from vdla.compiler.templates.gpu import gemm, gemm_mma, gemm_wgmma
from vdla.compiler.templates.gpu.gemm_wgmma_knobs import Knobs

TARGET = cuda_target("sm_90a")
F16, F32, S8, U8 = DType.FLOAT16, DType.FLOAT32, DType.INT8, DType.UINT8
TF32 = Knobs(rows=64, columns=32, depth=16, group_rows=64, group_columns=32, stages=3, bulk=True)
BYTES = replace(TF32, depth=64)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A matrix product, its knobs, the names of its constants (which are packed in advance), and the number of
    kernels.
    """

    program: Program
    knobs: Knobs
    constants: tuple[str, ...] = ()
    kernels: int = 1


def rounded(epilogue: Epilogue | None = None, **sizes) -> Program:
    return round_factors(product(Matrices(**sizes), epilogue=epilogue, staged="by depth"))


# Ragged ends, all rows of swizzled bytes (32, 64, 128), every order of the factors.
CASES = [
    Case(
        program=tensor_product(Matrices(rows=72, depth=100, columns=40, transposed_w=True), F32),
        knobs=replace(TF32, depth=32, columns=48, group_columns=24),
    ),
    Case(
        program=tensor_product(Matrices(rows=136, depth=160, columns=48, transposed_w=True), S8),
        knobs=replace(BYTES, rows=128, depth=128),
    ),
    Case(
        program=tensor_product(
            Matrices(rows=72, depth=160, columns=48, batch_x=(2,), batch_w=(2,)), U8, weight_dtype=S8
        ),
        knobs=replace(BYTES, depth=32, stages=4),
        kernels=2,
    ),
    Case(program=rounded(rows=72, columns=42, depth=100), knobs=TF32, kernels=2),
    Case(
        program=rounded(rows=72, columns=42, depth=100, epilogue=Epilogue(bias=True, activation="relu")),
        knobs=TF32,
        constants=("W",),
    ),
    # Copied by elements; and a matrix for all of a batch.
    Case(
        program=rounded(rows=72, columns=42, depth=100, transposed_w=True, batch_x=(2,), batch_w=(1,)),
        knobs=replace(TF32, depth=8),
    ),
    Case(
        program=rounded(rows=72, columns=41, depth=100, transposed_x=True, batch_x=(2, 3), batch_w=(1, 3)),
        knobs=replace(TF32, splits=2),
        kernels=4,
    ),
]


def operands(program: Program) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    arrays: dict[str, np.ndarray] = {}
    for p in program.parameters[:-1]:
        if p.dtype.is_float:
            arrays[p.name] = rng.standard_normal(p.shape).astype(np.float32)
        else:
            low, high = p.dtype.limits
            arrays[p.name] = rng.integers(low, high + 1, p.shape).astype(p.dtype.numpy)
    return arrays


def to_even(array: np.ndarray) -> np.ndarray:
    """float32 values rounded to 10 bits of fraction, ties to even, as bulk copies round to tf32."""
    bits = array.view(np.uint32)
    return ((bits + np.uint32(0xFFF) + (bits >> 13 & 1)) & np.uint32(0xFFFFE000)).view(np.float32)


def exact(program: Program, arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The result in float64, and the allowed error of each element."""
    x, w = arrays["X"], arrays["W"]
    floats = x.dtype == np.float32
    x, w = (to_even(a).astype(np.float64) if floats else a.astype(np.float64) for a in (x, w))
    rows, columns = program.parameters[-1].shape[-2:]
    x = x if x.shape[-2] == rows else x.swapaxes(-1, -2)
    w = w if w.shape[-1] == columns else w.swapaxes(-1, -2)
    result = x @ w + arrays.get("B", 0.0)
    room = worst_case("tf32" if floats else "int8", x.shape[-1] + 1) * (abs(x) @ abs(w) + abs(result))
    return np.maximum(result, 0) if "B" in arrays else result, room


def test_generated_text_computes_the_products():
    jobs = []
    cases = some(CASES, 2)
    for case in cases:
        s = gemm_wgmma.schedule(TARGET, case.program, case.knobs, constants=case.constants)
        again = replay(case.program, trace_from_json(trace_to_json(s.trace)), intrinsics())
        assert again.program == s.program
        module = lower(prepare(s.program, TARGET), TARGET)
        assert len(module.launches) == case.kernels
        tensors = [a.tensor for x in module.launches for a in x.arguments if isinstance(a, TensorMapArgument)]
        floats = case.program.parameters[0].dtype is F32
        assert len(tensors) == 2 and all(t.rounds == floats and t.swizzle for t in tensors)
        jobs.append((module, pack_arrays(s.trace, operands(case.program))))
    for case, got in zip(cases, run_modules(jobs, orders=2), strict=True):
        wanted, allowed = exact(case.program, operands(case.program))
        assert (abs(got["Y"].astype(np.float64) - wanted) <= allowed).all(), case


def test_defaults_emulated():
    for case in (CASES[2], CASES[3]):
        s = gemm_wgmma.schedule(TARGET, case.program)
        arrays = operands(case.program)
        y = case.program.parameters[-1]
        kernel = prepare(s.program, TARGET)
        got = emulated(kernel, arrays | {"Y": np.zeros(y.shape, y.dtype.numpy)})["Y"]
        wanted, allowed = exact(case.program, arrays)
        assert (abs(got.astype(np.float64) - wanted) <= allowed).all()


def test_instructions():
    knobs = replace(TF32, rows=128, columns=256, depth=32, group_columns=256, stages=4)
    program = tensor_product(Matrices(rows=512, depth=512, columns=512, transposed_w=True), F32)
    ptx = compile_ptx(
        lower(prepare(gemm_wgmma.schedule(TARGET, program, knobs).program, TARGET), TARGET).source, "sm_90a"
    )
    assert ptx.count("wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32") == 4
    assert "cvt.rna.tf32" not in ptx and "ld.local" not in ptx
    program = tensor_product(
        Matrices(rows=512, depth=512, columns=512, transposed_w=True), S8, weight_dtype=U8
    )
    source = lower(
        prepare(gemm_wgmma.schedule(TARGET, program, replace(knobs, depth=128)).program, TARGET), TARGET
    ).source
    ptx = compile_ptx(source, "sm_90a")
    assert ptx.count("wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.u8") == 4
    assert "ld.local" not in ptx


def test_warpgroup_products_are_chosen_where_packing_pays():
    large = rounded(rows=1024, columns=1024, depth=1024)
    assert isinstance(gemm.choose_knobs(TARGET, large), Knobs)
    assert gemm.template_of(TARGET, large) == "gemm_wgmma_cuda"
    # A transposition costs a small product more than it gains; what is packed ahead costs nothing.
    small = rounded(rows=128, columns=128, depth=128)
    assert isinstance(gemm.choose_knobs(TARGET, small), gemm_mma.Knobs)
    assert gemm.template_of(TARGET, small) == "gemm_mma_cuda"
    assert isinstance(gemm.choose_knobs(TARGET, small, ("W",)), Knobs)
    integers = tensor_product(Matrices(rows=1024, depth=1024, columns=1024, transposed_w=True), S8)
    assert isinstance(gemm.choose_knobs(TARGET, integers), Knobs)
    # Rows of no multiple of 16 bytes; float32 that is not rounded; another architecture.
    assert isinstance(gemm.choose_knobs(TARGET, rounded(rows=1024, columns=1024, depth=1023)), gemm_mma.Knobs)
    plain = product(Matrices(rows=1024, depth=1024, columns=1024), staged="by depth")
    assert not gemm_wgmma.applies(TARGET, plain) and gemm.template_of(TARGET, plain) == "gemm_cuda"
    assert isinstance(gemm.choose_knobs(cuda_target("sm_80"), large), gemm_mma.Knobs)


@pytest.mark.parametrize(
    ("program", "knobs", "message"),
    [
        (
            CASES[0].program,
            {"bulk": False},
            "products of float32 need factors that are fetched by bulk copies ",
        ),
        (
            CASES[0].program,
            {"depth": 12},
            "the depth 12 is not a multiple of 8, the depth of a wgmma instruction for float32",
        ),
        (CASES[0].program, {"depth": 24}, "the depth is 24, but swizzled rows need one of 32, 16, 8"),
        (
            CASES[1].program,
            {"depth": 64, "columns": 40, "group_columns": 40},
            "not a multiple of 16 up to 256",
        ),
        (rounded(rows=64, columns=64, depth=62), {}, "bulk copies cannot fetch its factors"),
    ],
)
def test_unfit_programs_and_knobs_are_refused(program: Program, knobs: dict, message: str):
    with pytest.raises(LegalityError, match=message):
        gemm_wgmma.schedule(TARGET, program, replace(TF32, **knobs))

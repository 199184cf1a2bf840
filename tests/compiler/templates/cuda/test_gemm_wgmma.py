"""Matrix products on tensor cores by the instruction wgmma, which warpgroups execute. The generated CUDA C++ runs on a
CPU model of the hardware, the scheduled loops run in the emulator, and kernels compile to cubins.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from campaign import representatives, some
from cuda_on_host import HostRunError
from cuda_on_host.modules import run_modules
from gpu_kernels import emulated

from vdla.compiler.codegen.cuda.intrinsics import intrinsics
from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.codegen.cuda.module import TensorMapArgument, lower
from vdla.compiler.codegen.cuda.nvrtc import compile_cubin, compile_ptx
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.codegen.cuda.tolerances import OUTPUTS, worst_case
from vdla.compiler.ir.printer import format_node
from vdla.compiler.ir.stmt import Program
from vdla.compiler.ir.types import DType
from vdla.compiler.schedule import LegalityError, replay, trace_from_json, trace_to_json
from vdla.compiler.schedule.pack import pack_arrays
from vdla.compiler.te.ops.product import Matrices, tensor_product
from vdla.compiler.te.ops.sums import Epilogue
from vdla.compiler.templates.gpu import gemm, gemm_mma, gemm_wgmma
from vdla.compiler.templates.gpu.gemm_mma_knobs import Factors
from vdla.compiler.templates.gpu.gemm_wgmma_knobs import Knobs, choose_knobs, cycles, resident

TARGET = cuda_target("sm_90a")
F16, BF16, F32 = DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32
SMALL = Knobs(rows=64, columns=24, depth=32, group_rows=64, group_columns=24, stages=3)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A matrix product of factors X and W of type `dtype`, and its knobs; with `batch`, a batch of two.

    `sizes`: (rows, columns, depth); `output`: type of the result; `transposed`: whether X and W are stored transposed;
    `finished`: with bias, operand and ReLU; `constants`: names of the parameters that are constants.
    """

    dtype: DType
    sizes: tuple[int, int, int]
    knobs: Knobs
    output: DType = F32
    transposed: tuple[bool, bool] = (False, False)
    batch: bool = False
    finished: bool = False
    constants: tuple[str, ...] = ()

    def program(self) -> Program:
        rows, columns, depth = self.sizes
        return tensor_product(
            Matrices(
                rows=rows,
                depth=depth,
                columns=columns,
                batch_x=(2,) if self.batch else (),
                batch_w=(2,) if self.batch else (),
                transposed_x=self.transposed[0],
                transposed_w=self.transposed[1],
            ),
            self.dtype,
            output=self.output,
            epilogue=Epilogue(bias=True, operand=True, activation="relu") if self.finished else Epilogue(),
        )


# Sizes with ragged ends, of which rows of 16 bytes are made (40, 24, 88) or not (37, 23, 75).
CASES = [
    Case(
        dtype=F16,
        sizes=(200, 40, 88),
        output=F16,
        finished=True,
        knobs=replace(SMALL, rows=128, columns=48, group=2),
    ),
    Case(
        dtype=BF16,
        sizes=(72, 23, 75),
        transposed=(True, True),
        batch=True,
        knobs=replace(SMALL, group_columns=8, stages=2),
    ),
    Case(
        dtype=BF16,
        sizes=(150, 48, 200),
        output=BF16,
        transposed=(True, False),
        knobs=replace(SMALL, rows=128, group_rows=128, splits=2, depth=16),
    ),
    Case(
        dtype=F16,
        sizes=(60, 80, 100),
        transposed=(False, True),
        constants=("W",),
        knobs=replace(SMALL, columns=72, stages=1),
    ),
]

BULK = Knobs(rows=64, columns=32, depth=32, group_rows=64, group_columns=32, stages=3, bulk=True)
# Rows of 16 bytes, ragged ends, every order of the factors, rows of 128, 64 and 32 bytes.
BULK_CASES = [
    Case(
        dtype=F16,
        sizes=(200, 40, 120),
        output=F16,
        finished=True,
        knobs=replace(BULK, rows=128, columns=64, stages=4, group=2),
    ),
    Case(
        dtype=BF16,
        sizes=(72, 24, 200),
        transposed=(True, True),
        batch=True,
        knobs=replace(BULK, group_columns=16, depth=64, stages=4),
    ),
    Case(
        dtype=BF16,
        sizes=(136, 48, 200),
        output=BF16,
        transposed=(True, False),
        knobs=replace(BULK, rows=128, group_rows=128, columns=48, group_columns=48, splits=2, depth=16),
    ),
    Case(
        dtype=F16,
        sizes=(60, 200, 96),
        transposed=(False, True),
        constants=("W",),
        knobs=replace(BULK, columns=128, group_columns=128),
    ),
    # One slice.
    Case(dtype=F16, sizes=(60, 200, 40), knobs=replace(BULK, columns=128, group_columns=64, depth=64)),
]


def operands(program: Program, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {p.name: rng.standard_normal(p.shape).astype(p.dtype.numpy) for p in program.parameters[:-1]}


def exact(case: Case, arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The result in float64, and the allowed error of each element."""
    x, w = arrays["X"].astype(np.float64), arrays["W"].astype(np.float64)
    x = x.swapaxes(-1, -2) if case.transposed[0] else x
    w = w.swapaxes(-1, -2) if case.transposed[1] else w
    result = x @ w + arrays.get("B", 0.0) + arrays.get("R", 0.0)
    # Bias and operand are one sum each.
    room = worst_case("float16", case.sizes[2] + 2) * (abs(x) @ abs(w) + abs(result))
    if case.finished:
        result = np.maximum(result, 0)
    return result, room + abs(result) * OUTPUTS[case.output] * 1.001


def test_generated_text_computes_the_products():
    jobs = []
    plain, bulk = some(CASES, 2), some(BULK_CASES, 3)
    for case in (*plain, *bulk):
        program = case.program()
        s = gemm_wgmma.schedule(TARGET, program, case.knobs, constants=case.constants)
        again = replay(program, trace_from_json(trace_to_json(s.trace)), intrinsics())
        assert again.program == s.program
        arrays = pack_arrays(s.trace, operands(program))
        jobs.append((lower(prepare(s.program, TARGET), TARGET), arrays))
    overlapped = ["wait_products<1>();" in module.source for module, _ in jobs]
    assert overlapped == [False] * len(plain) + [True] * len(bulk)
    for case, got in zip((*plain, *bulk), run_modules(jobs, orders=2), strict=True):
        wanted, allowed = exact(case, operands(case.program()))
        assert (abs(got["Y"].astype(np.float64) - wanted) <= allowed).all(), case


def test_copies_are_shown_to_the_products():
    """Without fences of the asynchronous proxy the generated code computes the right numbers on the CPU, but may not on
    a GPU; the model must report the missing fence.
    """
    case = CASES[0]
    s = gemm_wgmma.schedule(TARGET, case.program(), SMALL)
    module = lower(prepare(s.program, TARGET), TARGET)
    broken = replace(module, source=module.source.replace("    show_to_products();\n", ""))
    assert broken.source != module.source
    with pytest.raises(HostRunError, match="did not fence for the asynchronous proxy"):
        run_modules([(broken, operands(case.program()))], orders=1)


# What is left out or wrong, and what the model of the hardware says.
OVERWRITTEN, STUCK = "overwritten before the wait", "threads that wait for one another"
BULK_FAULTS = {
    "products of a slice more under way": ("wait_products<1>();", "wait_products<2>();", OVERWRITTEN),
    "no barrier in front of copies": (
        ";\n        __syncthreads();\n        if (gemm",
        ";\n        if (gemm",
        STUCK,
    ),
    "a slice read before it has come": ("wait_bulk<2, 1>", "wait_bulk<2, 2>", STUCK),
    "the slot of a slice in use": (" + 2) & 3)", " + 3) & 3)", OVERWRITTEN),
    "bytes that do not come": ("groups.bytes += bytes;", "groups.bytes += bytes + 16;", STUCK),
    "phases that do not alternate": ("groups.phase ^=", "groups.phase |=", OVERWRITTEN),
}


@pytest.mark.parametrize("fault", representatives(BULK_FAULTS, 3))
def test_faults_of_bulk_copies_are_found_out(fault: str):
    program = tensor_product(Matrices(rows=128, depth=256, columns=64), F16)
    s = gemm_wgmma.schedule(TARGET, program, replace(BULK, rows=128, columns=64, stages=4))
    module = lower(prepare(s.program, TARGET), TARGET)
    right, wrong, message = BULK_FAULTS[fault]
    assert right in module.source
    broken = replace(module, source=module.source.replace(right, wrong))
    with pytest.raises(HostRunError, match=message):
        run_modules([(broken, operands(program))], orders=2)


def test_one_barrier_a_slice_stands_behind_the_wait():
    """With one barrier after the wait, products of the previous slice still run while threads meet, and copies start
    only after the data that they overwrite were read.
    """
    program = tensor_product(Matrices(rows=256, depth=512, columns=256), F16)
    s = gemm_wgmma.schedule(TARGET, program, replace(BULK, stages=4))
    lines = [line.strip() for line in format_node(prepare(s.program, TARGET)).splitlines()]
    at = lines.index("for gemm.k.0 in range(16):")
    assert lines[at + 1 : at + 4] == [
        "wait 1",
        "barrier",
        "for gemm.k.0.next in range(min(14 - gemm.k.0, 1)):",
    ]
    assert lines[at:].count("barrier") == 3


def test_instructions_of_bulk_copies():
    """One thread issues the bulk copies; a kernel waits for a slice's products only after starting the next slice's."""
    program = tensor_product(Matrices(rows=512, depth=512, columns=512), F16)
    knobs = Knobs(rows=128, columns=256, depth=64, group_rows=64, group_columns=256, stages=4, bulk=True)
    module = lower(prepare(gemm_wgmma.schedule(TARGET, program, knobs).program, TARGET), TARGET)
    (launch,) = module.launches
    assert launch.block == (128, 1, 2) and launch.shared_bytes == knobs.shared_bytes(F16)
    boxes = [a.tensor for a in launch.arguments if isinstance(a, TensorMapArgument)]
    assert [(t.box, t.swizzle, t.shape) for t in boxes] == [
        ((64, 64), 128, (512, 512)),
        ((128, 64), 128, (512, 512)),
    ]
    ptx = compile_ptx(module.source, "sm_90a")
    copy = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    # Before the loop, which may be unrolled, and in it: of B four boxes of 128 bytes, of A one.
    assert ptx.count(copy) in (10, 15) and "cp.async.cg" not in ptx
    assert ptx.count("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16") == 4
    assert ptx.count("wgmma.wait_group.sync.aligned 1") == ptx.count("wgmma.wait_group.sync.aligned 0") == 1
    assert "ld.local" not in ptx and "st.local" not in ptx
    assert ptx.count("fence.proxy.async") < ptx.count("bar.sync")
    assert compile_cubin(module.source, "sm_90a")[:4] == b"\x7fELF"


def test_defaults_emulated():
    case = BULK_CASES[0]
    program = case.program()
    assert gemm_wgmma.default_knobs(TARGET, program).bulk
    kernel = prepare(gemm_wgmma.schedule(TARGET, program).program, TARGET)
    arrays = operands(program, 3)
    y = program.parameters[-1]
    got = emulated(kernel, arrays | {"Y": np.zeros(y.shape, y.dtype.numpy)})["Y"]
    wanted, allowed = exact(case, arrays)
    assert (abs(got.astype(np.float64) - wanted) <= allowed).all()


def test_instructions():
    """The loop contains only copies of 16 bytes and wgmma products; the sums stay in registers."""
    program = tensor_product(Matrices(rows=512, depth=512, columns=512), F16)
    knobs = Knobs(rows=128, columns=256, depth=64, group_rows=64, group_columns=256, stages=3)
    s = gemm_wgmma.schedule(TARGET, program, knobs)
    module = lower(prepare(s.program, TARGET), TARGET)
    (launch,) = module.launches
    assert launch.block == (128, 1, 2)
    assert launch.shared_bytes == knobs.shared_bytes(F16)
    ptx = compile_ptx(module.source, "sm_90a")
    assert ptx.count("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16") == 4
    assert ptx.count("wgmma.wait_group.sync.aligned 0") == 1
    assert "cp.async.cg.shared.global" in ptx and "cp.async.ca" not in ptx
    assert "ld.local" not in ptx and "st.local" not in ptx
    assert compile_cubin(module.source, "sm_90a")[:4] == b"\x7fELF"


def test_copies_meet_no_bank_twice():
    """Copies to shared memory have no bank conflicts. Eight adjacent threads copy a row of 64 elements, 16 bytes each.
    Their pieces go to eight different core matrices (the 8x8 tiles that the tensor cores read), which are placed so
    that all pieces lie in different banks.
    """
    program = tensor_product(Matrices(rows=64, depth=64, columns=64), F16)
    s = gemm_wgmma.schedule(TARGET, program, replace(SMALL, columns=64, group_columns=64, depth=64))
    module = lower(prepare(s.program, TARGET), TARGET)
    apart = 9 * 16
    # Of A the depth is within a line, of B across lines.
    text = " ".join(module.source.split())  # long lines are broken
    assert f", {apart}, {8 * apart}), matrix_descriptor(" in text
    assert f", {8 * apart}, {apart}));" in text
    assert len({piece * apart // 4 % 32 + word for piece in range(8) for word in range(4)}) == 32


def test_only_one_architecture_has_them():
    program = tensor_product(Matrices(rows=256, depth=256, columns=256), BF16)
    ragged = tensor_product(Matrices(rows=256, depth=256, columns=255), BF16)
    assert gemm_wgmma.applies(TARGET, program) and not gemm_wgmma.applies(TARGET, ragged)
    assert isinstance(gemm.choose_knobs(TARGET, program), Knobs)
    assert isinstance(gemm.choose_knobs(TARGET, ragged), gemm_mma.Knobs)
    assert gemm_wgmma.applies(cuda_target("sm_90"), program)
    for arch in ("sm_80", "sm_100"):
        target = cuda_target(arch)
        assert not gemm_wgmma.applies(target, program)
        assert isinstance(gemm.choose_knobs(target, program), gemm_mma.Knobs)
        with pytest.raises(
            LegalityError, match=f"{arch} has no wgmma instructions; generate code for sm_90a"
        ):
            gemm_wgmma.schedule(target, program)
    source = lower(prepare(gemm.schedule(TARGET, program).program, TARGET), TARGET).source
    assert "wgmma.mma_async" in source


def test_defaults_fit_any_size():
    for rows, columns, depth in ((1, 1, 1), (64, 1000, 512), (512, 49, 4608), (1000, 3, 7), (4096,) * 3):
        factors = Factors(rows=rows, columns=columns, depth=depth, batch=1, dtype=F16)
        knobs = choose_knobs(TARGET, factors)
        assert knobs.obstacle(F16) is None and resident(TARGET, F16, knobs) >= 1
        assert np.isfinite(cycles(TARGET, factors, knobs))
    # Few tiles with deep sums fill the card only if several blocks share one.
    assert choose_knobs(TARGET, Factors(rows=512, columns=49, depth=4608, batch=1, dtype=F16)).splits > 1
    for rows, columns, depth in ((1, 1, 1), (64, 1000, 512), (1000, 8, 16), (784, 512, 256)):
        factors = Factors(rows=rows, columns=columns, depth=depth, batch=3, dtype=F16)
        knobs = choose_knobs(TARGET, factors, bulk=True)
        assert knobs.bulk and knobs.obstacle(F16) is None and resident(TARGET, F16, knobs) >= 1
    # What was fastest on an H100, of which cuBLAS is no more than a fiftieth faster.
    square = Factors(rows=4096, columns=4096, depth=4096, batch=1, dtype=F16)
    assert choose_knobs(TARGET, square, bulk=True) == Knobs(
        rows=128, columns=256, depth=64, group_rows=64, group_columns=256, stages=4, group=8, bulk=True
    )
    large = choose_knobs(TARGET, Factors(rows=4096, columns=4096, depth=4096, batch=1, dtype=F16))
    assert large.rows * large.columns >= 128 * 128 and large.splits == 1


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"group_rows": 32}, "32 rows of a warpgroup are not a multiple of 64"),
        ({"group_columns": 20}, "20 columns of a warpgroup are not a multiple of 8 up to 256"),
        ({"columns": 40}, "tiles of warpgroups do not divide the tile of a block, 64x40"),
        ({"depth": 24}, "the depth 24 is not a multiple of 16"),
        ({"rows": 64 * 9}, "1152 threads are more than a thread block may have"),
        ({"stages": 0}, "stages, group and splits must each be at least 1"),
        ({"bulk": True, "depth": 48}, "the depth is 48, but swizzled rows need one of 64, 32, 16"),
        (
            {"bulk": True},
            "24 columns of a warpgroup are not a multiple of 16, the elements of a swizzled row",
        ),
        (
            {"bulk": True, "columns": 288, "group_columns": 96},
            "tiles of 64x288 are larger than the box of a bulk copy",
        ),
        (
            {"bulk": True, "columns": 32, "group_columns": 32, "stages": 2},
            "2 stages are too few: products of 2 slices run at the same time",
        ),
    ],
)
def test_knobs_that_do_not_fit(knobs: dict[str, int], message: str):
    program = tensor_product(Matrices(rows=64, depth=64, columns=64), F16)
    with pytest.raises(LegalityError, match=message):
        gemm_wgmma.schedule(TARGET, program, replace(SMALL, **knobs))

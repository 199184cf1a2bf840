"""Matrix products on tensor cores by the instruction mma. The generated CUDA C++ runs on a CPU model of the hardware,
the scheduled loops run in the emulator, and kernels compile to cubins.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from cuda_on_host.modules import run_modules
from gpu_kernels import emulated

from vdla.compiler.codegen.cuda.intrinsics import intrinsics
from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.codegen.cuda.module import lower
from vdla.compiler.codegen.cuda.nvrtc import compile_cubin, compile_ptx
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.codegen.cuda.tolerances import OUTPUTS, tolerance, worst_case
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import Program
from vdla.compiler.ir.types import DType
from vdla.compiler.schedule import LegalityError, replay, trace_from_json, trace_to_json
from vdla.compiler.schedule.pack import pack_arrays
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.functions import FUNCTIONS
from vdla.compiler.te.ops.convolution import Convolution
from vdla.compiler.te.ops.gemm_convolution import gemm_convolution
from vdla.compiler.te.ops.product import Matrices, product, round_factors, tensor_product
from vdla.compiler.te.ops.sums import Epilogue
from vdla.compiler.templates.gpu import gemm_mma
from vdla.compiler.templates.gpu.gemm_mma_knobs import (
    Factors,
    Knobs,
    choose_knobs,
    legal,
    precision,
    resident,
    room,
)
from vdla.compiler.templates.gpu.workload import CudaWorkload

TARGET = cuda_target("sm_90")
F16, BF16, F32, I8, U8, I32 = (
    DType.FLOAT16,
    DType.BFLOAT16,
    DType.FLOAT32,
    DType.INT8,
    DType.UINT8,
    DType.INT32,
)


PLAIN = Epilogue()
FINISHED = Epilogue(bias=True, operand=True, activation="relu")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A matrix product of factors X and W of type `dtype` (W of `weight_dtype` if given); with `batch`, a batch of two.

    `sizes`: (rows, columns, depth); `output`: type of the result; `transposed`: whether X and W are stored transposed;
    `constants`: names of the parameters that are constants; `knobs`: the knobs that differ from those of `tile`.
    """

    dtype: DType
    sizes: tuple[int, int, int]
    output: DType = F32
    weight_dtype: DType | None = None
    transposed: tuple[bool, bool] = (False, False)
    batch: bool = False
    epilogue: Epilogue = PLAIN
    knobs: dict[str, int] | None = None
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
            weight_dtype=self.weight_dtype,
            output=self.output,
            epilogue=self.epilogue,
        )

    def tile(self) -> Knobs:
        small = Knobs(
            rows=32, columns=32, depth=2 * 256 // self.dtype.bits, warp_rows=16, warp_columns=16, stages=3
        )
        return replace(small, **(self.knobs or {}))


# Sizes with ragged ends, of which rows of 16 bytes are made (40, 24, 88) or not (37, 23, 75).
CASES = [
    Case(dtype=F16, sizes=(40, 24, 88), epilogue=FINISHED, output=F16, knobs={"group": 2}),
    Case(dtype=F16, sizes=(37, 23, 75), transposed=(True, True), batch=True),
    Case(dtype=F16, sizes=(20, 1, 40), output=F16, batch=True),
    Case(dtype=F16, sizes=(1, 1, 24)),
    Case(
        dtype=BF16,
        sizes=(20, 40, 150),
        output=BF16,
        transposed=(False, True),
        knobs={"splits": 2, "stages": 2},
    ),
    Case(dtype=F32, sizes=(40, 23, 44), transposed=(True, False), epilogue=FINISHED),
    Case(dtype=F32, sizes=(40, 23, 44), epilogue=FINISHED, constants=("W",)),
    Case(dtype=F32, sizes=(24, 40, 36), transposed=(False, True), constants=("X",), knobs={"splits": 2}),
    Case(dtype=U8, sizes=(40, 24, 80), weight_dtype=I8, output=I32, transposed=(False, True)),
]


def operands(program: Program, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    found = {}
    for p in program.parameters[:-1]:
        if p.dtype.is_integer:
            found[p.name] = rng.integers(*p.dtype.limits, p.shape, endpoint=True).astype(p.dtype.numpy)
        else:
            found[p.name] = rng.standard_normal(p.shape).astype(p.dtype.numpy)
    return found


def exact(case: Case, arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The result in float64 for factors rounded to the tensor cores' input type, and the allowed error of each
    element.
    """
    x, w = arrays["X"].astype(np.float64), arrays["W"].astype(np.float64)
    if case.dtype is F32:
        x, w = (FUNCTIONS["round_tf32"](v.astype(np.float32)).astype(np.float64) for v in (x, w))
    x = x.swapaxes(-1, -2) if case.transposed[0] else x
    w = w.swapaxes(-1, -2) if case.transposed[1] else w
    result = x @ w + arrays.get("B", 0.0) + arrays.get("R", 0.0)
    # Bias and operand are one sum each.
    room = worst_case(precision(case.dtype), case.sizes[2] + 2) * (abs(x) @ abs(w) + abs(result))
    if case.epilogue.activation == "relu":
        result = np.maximum(result, 0)
    return result, room + abs(result) * OUTPUTS[case.output] * 1.001


def test_generated_text_computes_the_products():
    jobs = []
    for case in CASES:
        program = case.program()
        s = gemm_mma.schedule(TARGET, program, case.tile(), constants=case.constants)
        again = replay(program, trace_from_json(trace_to_json(s.trace)), intrinsics())
        assert again.program == s.program
        jobs.append((lower(prepare(s.program, TARGET), TARGET), pack_arrays(s.trace, operands(program))))
    for case, got in zip(CASES, run_modules(jobs, orders=2), strict=True):
        wanted, allowed = exact(case, operands(case.program()))
        assert (abs(got["Y"].astype(np.float64) - wanted) <= allowed).all(), case


def test_constant_factors_are_rounded_when_they_are_packed():
    """A kernel rounds factors that are computed to tf32. Constant factors are rounded before, when they are packed."""
    case = Case(dtype=F32, sizes=(40, 24, 48))
    program, arrays = case.program(), operands(case.program())
    texts = []
    for constants in ((), ("W",), ("X",), ("X", "W")):
        s = gemm_mma.schedule(TARGET, program, case.tile(), constants=constants)
        texts.append(lower(prepare(s.program, TARGET), TARGET).source)
        packed = pack_arrays(s.trace, arrays)
        for name in ("X", "W"):
            wanted = FUNCTIONS["round_tf32"](arrays[name]) if name in constants else arrays[name]
            # Packing adds pads of zeros.
            np.testing.assert_array_equal(
                np.sort(packed[name][packed[name] != 0]), np.sort(wanted, axis=None)
            )
    rounded = [text.count("round_registers<4>(") + text.count("(round_tf32(") for text in texts]
    assert rounded[0] > max(rounded[1:3]) and min(rounded[1:3]) > rounded[3] == 0


@pytest.mark.parametrize(
    "case",
    [
        Case(dtype=F16, sizes=(200, 136, 264), epilogue=FINISHED),
        Case(dtype=F32, sizes=(16, 49, 1152)),
        Case(dtype=I8, sizes=(100, 64, 128), output=I32, transposed=(False, True)),
    ],
)
def test_defaults_emulated(case: Case):
    program = case.program()
    kernel = prepare(gemm_mma.schedule(TARGET, program).program, TARGET)
    arrays = operands(program, 3)
    y = program.parameters[-1]
    got = emulated(kernel, arrays | {"Y": np.zeros(y.shape, y.dtype.numpy)})["Y"]
    wanted, allowed = exact(case, arrays)
    assert (abs(got.astype(np.float64) - wanted) <= allowed).all()
    error = abs(got.astype(np.float64) - wanted).max() / abs(wanted).max()
    assert error <= tolerance(precision(case.dtype), case.sizes[2])


def test_convolutions_and_batches_of_products_on_tensor_cores():
    """Any program with the stages of a product can use the template of products, once its factors are rounded."""
    window = Window(kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1))
    convolution = round_factors(
        gemm_convolution(
            Convolution(batch=1, channels=8, height=5, width=5, filters=20, window=window, groups=2),
            block=4,
            epilogue=Epilogue(bias=True),
        )
    )
    batch = round_factors(
        product(
            Matrices(rows=20, depth=20, columns=24, batch_x=(2, 1), batch_w=(2,), transposed_w=True),
            staged="by depth",
        )
    )
    knobs = Knobs(rows=32, columns=32, depth=16, warp_rows=16, warp_columns=16, stages=2)
    for program, splits in ((convolution, 2), (batch, 1)):
        s = gemm_mma.schedule(TARGET, program, replace(knobs, splits=splits))
        arrays = operands(program)
        wanted = interpret(program, arrays, functions=FUNCTIONS)["Y"]
        zeros = {"Y": np.zeros(wanted.shape, np.float32)}
        got = emulated(prepare(s.program, TARGET), arrays | zeros)
        assert abs(got["Y"] - wanted).max() / abs(wanted).max() <= tolerance("tf32", 72)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_90a"])
def test_cubins(arch: str):
    target = cuda_target(arch)
    program = Case(dtype=F16, sizes=(256, 256, 256)).program()
    s = gemm_mma.schedule(target, program)
    assert compile_cubin(lower(prepare(s.program, target), target).source, arch)[:4] == b"\x7fELF"


def test_instructions():
    """A warp loads fragments only by ldmatrix, copies 16 bytes at a time, and executes as many mma instructions as its
    tile needs.
    """
    case = Case(dtype=F16, sizes=(256, 256, 256))
    knobs = Knobs(rows=128, columns=128, depth=32, warp_rows=64, warp_columns=64, stages=3)
    s = gemm_mma.schedule(TARGET, case.program(), knobs)
    module = lower(prepare(s.program, TARGET), TARGET)
    (launch,) = module.launches
    assert (launch.grid, launch.block) == ((2, 2, 1), (32, 2, 2))
    assert launch.shared_bytes == knobs.shared_bytes(gemm_mma.described(case.program()))
    ptx = compile_ptx(module.source, "sm_90")
    # Two steps of depth 16 in a slice, 4 x 8 products each; 4 fragments of A, 4 pairs of B.
    assert ptx.count("mma.sync.aligned.m16n8k16") == 2 * 4 * 8
    assert ptx.count("ldmatrix.sync.aligned.m8n8.x4.shared.b16") == 2 * 4
    assert ptx.count("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16") == 2 * 4
    assert "cp.async.cg.shared.global" in ptx and "cp.async.ca" not in ptx
    assert "ld.local" not in ptx and "st.local" not in ptx


def test_rows_of_tiles_meet_no_bank_twice():
    for dtype in (F16, F32, I8):
        for size in (16, 32, 64, 128, 256):
            words = room(size, dtype, matrix=True) * dtype.bits // 32
            if words * 32 // dtype.bits >= size and size * dtype.bits >= 128:
                # Eight rows of four words.
                assert len({(row * words + i) % 32 for row in range(8) for i in range(4)}) == 32
    for columns in (16, 32, 64, 128, 256):
        words = room(columns, I32, matrix=False)
        # Pairs of words of four rows, eight words each: half a warp's store of 8 bytes a lane.
        assert len({(row * words + i) % 32 for row in range(4) for i in range(8)}) == 32


def test_defaults_fit_any_size():
    for arch in ("sm_80", "sm_90"):
        target = cuda_target(arch)
        for dtype in (F16, F32, I8):
            for rows, columns, depth in (
                (1, 1, 1),
                (16, 1000, 512),
                (512, 49, 4608),
                (1000, 3, 7),
                (4096,) * 3,
            ):
                factors = Factors(rows=rows, columns=columns, depth=depth, batch=1, dtype=dtype)
                knobs = choose_knobs(target, factors)
                assert legal(target, factors, knobs)
    # Few tiles with deep sums fill the card only if several blocks share one.
    deep = choose_knobs(TARGET, Factors(rows=512, columns=49, depth=4608, batch=1, dtype=F16))
    assert deep.splits > 1
    large = Factors(rows=4096, columns=4096, depth=4096, batch=1, dtype=F16)
    knobs = choose_knobs(TARGET, large)
    assert knobs.warp_rows * knobs.warp_columns == 64 * 64 and knobs.splits == 1 and knobs.stages > 1
    assert resident(TARGET, large, knobs) >= 1


def test_points_of_the_space_are_kernels():
    """Random points are legal and free of races; the default is a point of the space; the space has more than 100,000
    different programs (estimated from random points).
    """
    program = Case(dtype=F16, sizes=(300, 200, 520), transposed=(False, True)).program()
    tuned, workload = gemm_mma.TUNED, CudaWorkload(template="gemm_mma_cuda", expression=program)
    found = tuned.space(TARGET, workload)
    default = found.point(tuned.default(TARGET, workload))
    assert found.legal(default[np.newaxis]).all()
    assert tuned.knobs_at(workload, found.values(default)) == gemm_mma.choose_knobs(
        TARGET, gemm_mma.described(program)
    )
    for point in found.sample(np.random.default_rng(2), 3):
        knobs = tuned.knobs_at(workload, found.values(point))
        prepare(gemm_mma.schedule(TARGET, program, knobs).program, TARGET)
    # Parts of sums of many blocks, of a single warp each.
    parts = Knobs(rows=16, columns=16, depth=32, warp_rows=16, warp_columns=16, stages=2, splits=2)
    prepare(gemm_mma.schedule(TARGET, program, parts).program, TARGET)
    numbers = np.random.default_rng(3).integers(0, found.size, 20_000)
    points = found.numbered(numbers)
    effective = found.cost(found.columns(points)).effective
    kept = found.legal(points)
    different = np.unique(np.stack([effective[axis.name][kept] for axis in found.axes], axis=1), axis=0)
    assert len(different) / len(points) * found.size > 100_000


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"warp_columns": 8}, "a warp's tile of 16x8 is not a multiple of 16x16"),
        ({"warp_rows": 24}, "a warp's tile of 24x16 is not a multiple of 16x16"),
        ({"columns": 40}, "tiles of warps do not divide the tile of a block, 32x40"),
        ({"depth": 24}, "the depth 24 is not a multiple of 16, the depth of an mma instruction for float16"),
        ({"rows": 512, "columns": 64}, "128 warps are more than a thread block may have"),
        ({"splits": 0}, "stages, group and splits must each be at least 1"),
    ],
)
def test_knobs_that_do_not_fit(knobs: dict[str, int], message: str):
    case = Case(dtype=F16, sizes=(64, 64, 64), knobs=knobs)
    with pytest.raises(LegalityError, match=message):
        gemm_mma.schedule(TARGET, case.program(), case.tile())


def test_programs_that_are_no_products():
    with pytest.raises(ValueError, match="a product of float16 and int8 is not supported"):
        tensor_product(Matrices(rows=1, depth=1, columns=1), F16, weight_dtype=I8)
    with pytest.raises(ValueError, match="an output of int32 is not supported for factors of float16"):
        tensor_product(Matrices(rows=1, depth=1, columns=1), F16, output=I32)


def test_more_tiles_side_by_side_than_blocks_along_an_axis():
    """Grouping rows of tiles is ignored here: it would put the 93,750 tiles of columns on grid axis y, which has at
    most 65,535 blocks.
    """
    program = tensor_product(Matrices(rows=512, depth=32, columns=6_000_000), F16)
    knobs = choose_knobs(TARGET, gemm_mma.described(program))
    knobs = replace(knobs, columns=64, warp_columns=32, group=2)
    (launch,) = lower(prepare(gemm_mma.schedule(TARGET, program, knobs).program, TARGET), TARGET).launches
    assert launch.grid == (93750, 4, 1)

"""One benchmark on GPUs: our kernel, on a device or emulated, its expected outputs, and its time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import onnx

from vdla.compiler.codegen.cuda.machine import GpuTarget
from vdla.compiler.gpu_stages import gpu_ahead, gpu_emulated
from vdla.compiler.ir.types import DType
from vdla.compiler.pipeline import compile_kernel, compile_kernels
from vdla.compiler.runtime.cuda_device import Device
from vdla.compiler.runtime.cuda_network import CudaNetwork
from vdla.compiler.runtime.cuda_timing import repeating_timer
from vdla.compiler.te.ops.product import Matrices, tensor_product
from vdla.compiler.templates.gpu import gemm_mma, gemm_wgmma

from .case import relative_error
from .float64 import float64_outputs
from .gpu_models import ModelCase, inputs_of

SAMPLED_ROWS = 64
"""Number of rows of a large matrix product that are compared with the float64 result."""

Arrays = Mapping[str, np.ndarray]
LOW_PRECISION = {"float16": DType.FLOAT16, "bfloat16": DType.BFLOAT16, "int8": DType.INT8}
NUMPY = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16), "int8": np.dtype(np.int8)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """The platform that runs our kernels: `device` with its `target` or, if `device` is None, an
    emulation of `target`.
    """

    target: GpuTarget
    device: Device | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The largest difference from the float64 result, relative to the largest value (`error`), and the largest allowed
    difference.
    """

    error: float
    allowed: float

    @property
    def good(self) -> bool:
        """Whether the error is at most the allowed difference; False for NaN."""
        return self.error <= self.allowed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ours:
    """Our kernel, compiled and bound to its inputs.

    `run` returns the outputs by name, `time` the milliseconds of a run on the device (RuntimeError if it is emulated);
    `close` releases the kernel. `operations`: number of arithmetic operations of a run, two for a multiply-add.
    `inputs`: arrays by name.
    """

    operations: int
    inputs: Arrays
    run: Callable[[], Arrays]
    time: Callable[[], float]
    close: Callable[[], None]


def model_on(platform: Platform, model: onnx.ModelProto, inputs: Arrays) -> Ours:
    """The kernels of `model`, compiled for `platform` and ready to run on `inputs` (arrays by name). Raises UserError
    if the model cannot be compiled.
    """
    data = model.SerializeToString()
    if platform.device is None:
        emulated = compile_kernels(data, gpu_emulated(platform.target))
        return Ours(
            operations=sum(launch.operations for launch in emulated.launches),
            inputs=inputs,
            run=lambda: emulated.run(inputs),
            time=_no_time,
            close=emulated.close,
        )
    code = compile_kernels(data, gpu_ahead(platform.target))
    return _on_device(CudaNetwork(code, platform.device), inputs)


def product_on(platform: Platform, precision: str, size: int) -> Ours:
    """A kernel for tensor cores that computes the product `X` `W` of two square matrices with `size` rows. `precision`
    is the type of their elements: "float16", "bfloat16" or "int8". The kernel is ready to run on `platform` on seeded
    inputs, and sums floats in float32.

    float16 and bfloat16 give results of the same type, int8 gives int32. An int8 `W` is stored column after column, the
    preferred layout of tensor cores and of cuBLAS, with which the product is compared. Raises UserError if the kernel
    cannot be compiled.
    """
    dtype, output = LOW_PRECISION[precision], output_type(precision)
    program = tensor_product(
        Matrices(rows=size, depth=size, columns=size, transposed_w=in_columns(precision)),
        dtype,
        output=output,
    )
    template = gemm_wgmma if gemm_wgmma.applies(platform.target, program) else gemm_mma
    schedule = template.schedule(platform.target, program)
    inputs = product_inputs(precision, size)
    operations = 2 * size**3
    if platform.device is None:
        emulated = compile_kernel(
            schedule.program, gpu_emulated(platform.target), operator="product", operations=operations
        )
        return Ours(
            operations=operations,
            inputs=inputs,
            run=lambda: emulated.run(inputs),
            time=_no_time,
            close=emulated.close,
        )
    code = compile_kernel(
        schedule.program, gpu_ahead(platform.target), operator="product", operations=operations
    )
    return _on_device(CudaNetwork(code, platform.device), inputs)


def output_type(precision: str) -> DType:
    """The type of the elements of a product whose factors have `precision`."""
    dtype = LOW_PRECISION.get(precision, DType.FLOAT32)
    return DType.INT32 if dtype is DType.INT8 else dtype


def in_columns(precision: str) -> bool:
    """Whether the second factor `W` of a matrix product in this precision is stored column after column: as [columns,
    depth].
    """
    return precision == "int8"


def product_inputs(precision: str, size: int) -> dict[str, np.ndarray]:
    """Seeded factors `X` and `W` of a product, by name, in the layout that they have in memory (`in_columns`)."""
    rng = np.random.default_rng(size)
    if precision == "int8":
        return {name: rng.integers(-128, 128, (size, size), dtype=np.int8) for name in ("X", "W")}
    # Sums stay near 1, far from the largest float16.
    scale = {"X": 1.0, "W": 1 / np.sqrt(size)}
    kind = NUMPY.get(precision, np.dtype(np.float32))
    return {
        name: (rng.standard_normal((size, size), dtype=np.float32) * np.float32(scale[name])).astype(kind)
        for name in ("X", "W")
    }


def _on_device(network: CudaNetwork, inputs: Arrays) -> Ours:
    with ExitStack() as undo:
        undo.callback(network.close)
        timer = repeating_timer(network, inputs)
        undo.callback(timer.close)
        closing = undo.pop_all()
    return Ours(
        operations=sum(launch.operations for launch in network.code.launches),
        inputs=inputs,
        run=lambda: network.run(inputs),
        time=timer.milliseconds,
        close=closing.close,
    )


def _no_time() -> float:
    raise RuntimeError("emulated kernels have no times of a GPU")


def check_model(platform: Platform, case: ModelCase, *, reduced: bool, tolerance: float) -> Checked:
    """Compiles and runs the model of `case` for `platform`, and compares its outputs with those computed in float64.
    Returns the largest relative error and `tolerance`, the largest allowed one. `reduced`: the model in small sizes.
    """
    model = case.make(reduced)
    inputs = inputs_of(model)
    ours = model_on(platform, model, inputs)
    try:
        return check_outputs(ours.run(), float64_outputs(model, inputs), tolerance)
    finally:
        ours.close()


def check_outputs(got: Arrays, expected: Arrays, tolerance: float) -> Checked:
    """Compares the arrays `got` with `expected`, both by name; returns the largest relative error and `tolerance`."""
    errors = [relative_error(got[name], values) for name, values in expected.items()]
    return Checked(error=float(np.max(errors)), allowed=tolerance)


def check_product(platform: Platform, precision: str, size: int, *, tolerance: float) -> Checked:
    """Compiles and runs on `platform` the product of two square matrices of `size` rows (`product_on`), and compares
    SAMPLED_ROWS rows of the result with a product in float64. Both products have the same factors, which are already
    rounded to `precision`. Returns the largest relative error and `tolerance`, the largest allowed one.
    """
    ours = product_on(platform, precision, size)
    try:
        got = ours.run()["Y"]
    finally:
        ours.close()
    rows = np.linspace(0, size - 1, min(size, SAMPLED_ROWS)).astype(int)
    x, w = (ours.inputs[name].astype(np.float64) for name in ("X", "W"))
    w = w.T if in_columns(precision) else w
    return Checked(error=relative_error(got[rows], x[rows] @ w), allowed=tolerance)

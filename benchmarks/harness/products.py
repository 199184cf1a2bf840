"""Benchmark cases (our computation and ONNX Runtime's) of matrix products with constant weights: float32, and uint8 x
int8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from onnx import TensorProto, helper

from vdla.benchmarks.harness.int8_products import dense_int8
from vdla.codesign.evaluate import kernels_saturate
from vdla.codesign.timing import Timed
from vdla.compiler.codegen.cpu.kernel import build
from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.codegen.cpu.pool import Pool
from vdla.compiler.ir.stmt import Program
from vdla.compiler.schedule import Schedule
from vdla.compiler.schedule.pack import pack_arrays
from vdla.compiler.te.ops.product import DOT_INT8, Matrices, product
from vdla.compiler.templates.cpu.lowered import scheduled

from .case import Case, relative_error
from .peer import model_of, session, value

OTHER_PRODUCTS = {
    f"{rows}x{depth}x{columns}": (rows, depth, columns)
    for rows, depth, columns in (
        (100, 1000, 1000),
        (1000, 27, 64),
        (1000, 27, 1000),
        (4096, 64, 64),
        (64, 4096, 64),
        (64, 64, 4096),
        (35, 650, 2600),
        (8, 1024, 1024),
        (128, 768, 3072),
        (128, 3072, 768),
        (300, 300, 300),
        (777, 333, 555),
        (2000, 128, 33),
    )
}
"""Sizes (rows, depth, columns) of further measured products, by the name of the product: products from networks, and
products with odd sizes.
"""


def bound_kernel(
    schedule: Schedule, arrays: Mapping[str, np.ndarray], threads: int
) -> tuple[Timed, np.ndarray, Callable[[], None]]:
    """The kernel of `schedule` with output array `Y`, compiled and bound to its inputs `arrays` (by name) and to
    `threads` threads. Returns a function that runs it, the array `Y`, and a function that ends its threads.
    """
    program: Program = schedule.program
    (output,) = [parameter for parameter in program.parameters if parameter.name == "Y"]
    result = np.zeros(output.shape, output.dtype.numpy)
    given = pack_arrays(schedule.trace, dict(arrays)) | {"Y": result}
    kernel = build(program, host_target())
    if threads == 1:
        return kernel.bind(given), result, lambda: None
    pool = Pool(threads)
    return kernel.bind(given, pool), result, pool.close


def product_case(name: str, rows: int, depth: int, columns: int, threads: int) -> Case:
    """The benchmark case `name` of a product of float32 [rows, depth] x [depth, columns] on `threads` threads: our
    kernel, and a MatMul of ONNX Runtime.
    """
    rng = np.random.default_rng(depth)
    shapes = {"X": (rows, depth), "W": (depth, columns)}
    arrays = {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}
    program = product(Matrices(rows=rows, depth=depth, columns=columns))
    schedule = scheduled(host_target(), program, frozenset({"W"}), parallel=threads > 1)
    ours, result, close = bound_kernel(schedule, arrays, threads)
    nodes = [helper.make_node("MatMul", ["X", "W"], ["Y"])]
    inputs, outputs = [value("X", (rows, depth))], [value("Y", (rows, columns))]
    peer = session(model_of(nodes, inputs, outputs, {"W": arrays["W"]}), threads)
    feed = {"X": arrays["X"]}
    ours()
    return Case(
        name=name,
        threads=threads,
        operations=2.0 * rows * depth * columns,
        error=relative_error(result, np.asarray(peer.run(None, feed)[0])),
        ours=(ours,),
        peer=(lambda: peer.run(None, feed),),
        close=close,
    )


def int8_product_case(size: int, threads: int) -> Case:
    """The benchmark case of a product of matrices of `size` x `size`, uint8 x int8 to int32, on `threads` threads: our
    kernel, and MatMulInteger or QLinearMatMul of ONNX Runtime, whichever is faster.
    """
    rng = np.random.default_rng(size)
    x = rng.integers(0, 256, (size, size)).astype(np.uint8)
    # Sums of two products stay below 2^15, because the peer adds them in 16 bits.
    most = 64 if kernels_saturate() else 128
    w = rng.integers(-most, most, (size, size)).astype(np.int8)
    program = product(Matrices(rows=size, depth=size, columns=size), types=DOT_INT8)
    schedule = dense_int8(host_target(), program, parallel=threads > 1)
    ours, result, close = bound_kernel(schedule, {"X": x, "W": w}, threads)
    square = (size, size)
    inputs = [value("X", square, TensorProto.UINT8)]
    integer = session(
        model_of(
            [helper.make_node("MatMulInteger", ["X", "W"], ["Y"])],
            inputs,
            [value("Y", square, TensorProto.INT32)],
            {"W": w},
        ),
        threads,
    )
    constants = {
        "W": w,
        "one": np.float32(0.01),
        "zero": np.uint8(0),
        "scale": np.float32(0.01),
        "point": np.int8(0),
        "out": np.float32(200.0),
        "middle": np.uint8(128),
    }
    names = ["X", "one", "zero", "W", "scale", "point", "out", "middle"]
    quantized = session(
        model_of(
            [helper.make_node("QLinearMatMul", names, ["Y"])],
            inputs,
            [value("Y", square, TensorProto.UINT8)],
            {name: np.asarray(constant) for name, constant in constants.items()},
        ),
        threads,
    )
    feed = {"X": x}
    ours()
    return Case(
        name=f"int8_{size}",
        threads=threads,
        operations=2.0 * size**3,
        error=relative_error(result, np.asarray(integer.run(None, feed)[0])),
        ours=(ours,),
        peer=(lambda: integer.run(None, feed), lambda: quantized.run(None, feed)),
        peer_time=min,
        close=close,
    )

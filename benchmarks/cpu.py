"""CPU kernels against ONNX Runtime, one thread each, interleaved in one process; medians of ratios of thread CPU time.

    python benchmarks/cpu.py [--only NAME ...] [--others] [--rounds N] [--json]

ratio = peer's time / ours. A matrix product's peer is one MatMul with constant weights; for int8, the faster of
MatMulInteger and QLinearMatMul on uint8 x int8 (ours gives the int32 sums). A convolution's peer time is
marginal, (time of 11 - time of 1) / 10, so that layout conversions at the ends do not count: 11 in a chain where the
output can be the input, else 11 with weights of their own on one input, added up (the peer fuses these additions into
the convolutions). Ours works on its own layout, as it would inside a network. `--others`: shapes beside those of the
papers, from other networks and with sizes that divide nothing.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from peer import session
from vdla.compiler.schedule.pack import pack_arrays
from vdla.compiler.target.cpu.kernel import build
from vdla.compiler.target.cpu.machine import host_target
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.ops.dense import dense, dense_int8
from vdla.compiler.te.ops.float_conv2d import float_conv2d, float_depthwise
from vdla.compiler.templates import conv2d_cpu, dense_cpu, dense_int8_cpu, depthwise_cpu

Timed = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row: what to time, the peer's time as a function of its runs' times, the largest relative difference."""

    name: str
    operations: float
    ours: Timed
    peer: tuple[Timed, ...]
    peer_time: Callable[[list[float]], float]
    error: float


def model(nodes: list, inputs: list, outputs: list, weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    """An ONNX model of these nodes."""
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "bench", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def info(name: str, shape: tuple[int, ...], kind: int = TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def relative(ours: np.ndarray, theirs: np.ndarray) -> float:
    return float(np.abs(ours.astype(np.float64) - theirs).max() / max(np.abs(theirs).max(), 1e-30))


def gemm_case(name: str, rows: int, depth: int, columns: int) -> Case:
    target = host_target()
    rng = np.random.default_rng(depth)
    shapes = {"X": (rows, depth), "W": (depth, columns)}
    arrays = {n: rng.standard_normal(shape, dtype=np.float32) for n, shape in shapes.items()}
    s = dense_cpu.schedule(target, dense(rows=rows, depth=depth, columns=columns))
    packed = pack_arrays(s.trace, arrays) | {"Y": np.zeros((rows, columns), np.float32)}
    ours = build(s.program, target).bind(packed)
    peer = session(
        model(
            [helper.make_node("MatMul", ["X", "W"], ["Y"])],
            [info("X", (rows, depth))],
            [info("Y", (rows, columns))],
            {"W": arrays["W"]},
        )
    )
    feed = {"X": arrays["X"]}
    ours()
    error = relative(packed["Y"], np.asarray(peer.run(None, feed)[0]))
    return Case(
        name=name,
        operations=2.0 * rows * depth * columns,
        ours=ours,
        peer=(lambda: peer.run(None, feed),),
        peer_time=lambda times: times[0],
        error=error,
    )


CONVOLUTIONS = {
    "C1": (224, 3, 64, 7, 2),
    "C2": (56, 64, 64, 3, 1),
    "C3": (56, 64, 64, 1, 1),
    "C4": (56, 64, 128, 3, 2),
    "C5": (56, 64, 128, 1, 2),
    "C6": (28, 128, 128, 3, 1),
    "C7": (28, 128, 256, 3, 2),
    "C8": (28, 128, 256, 1, 2),
    "C9": (14, 256, 256, 3, 1),
    "C10": (14, 256, 512, 3, 2),
    "C11": (14, 256, 512, 1, 2),
    "C12": (7, 512, 512, 3, 1),
}
"""Height and width, channels, filters, kernel, stride."""
OTHER_CONVOLUTIONS = {
    f"{size};{channels}->{filters};{kernel},{stride}": (size, channels, filters, kernel, stride)
    for size, channels, filters, kernel, stride in (
        (112, 16, 32, 1, 1),
        (112, 32, 64, 3, 2),
        (112, 64, 64, 3, 1),
        (56, 128, 128, 1, 1),
        (56, 64, 256, 1, 1),
        (56, 256, 64, 1, 1),
        (55, 48, 48, 3, 1),
        (35, 32, 48, 3, 1),
        (28, 512, 128, 1, 1),
        (28, 128, 512, 1, 1),
        (27, 96, 256, 5, 1),
        (20, 80, 96, 5, 2),
        (16, 512, 512, 3, 1),
        (14, 512, 512, 1, 1),
        (14, 1024, 256, 1, 1),
        (14, 512, 1024, 1, 2),
        (13, 192, 384, 3, 1),
        (9, 96, 96, 3, 1),
        (7, 1024, 1024, 1, 1),
        (7, 512, 2048, 1, 1),
        (7, 2048, 512, 1, 1),
    )
}
"""As `CONVOLUTIONS`."""
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
"""Rows, depth and columns."""
DEPTHWISE = {
    "D1": (112, 32, 1),
    "D2": (112, 64, 2),
    "D3": (56, 128, 1),
    "D4": (56, 128, 2),
    "D5": (28, 256, 1),
    "D6": (28, 256, 2),
    "D7": (14, 512, 1),
    "D8": (14, 512, 2),
    "D9": (7, 1024, 1),
}
"""Height and width, channels, stride; the kernel is 3."""
COPIES = 11


def same_window(size: int, kernel: int, stride: int) -> Window:
    """SAME padding, the larger pad behind."""
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    low, high = total // 2, total - total // 2
    return Window(kernel=(kernel, kernel), strides=(stride, stride), pads=(low, low, high, high))


def peer_convolutions(
    copies: int, x_shape: tuple[int, ...], weights: np.ndarray, window: Window, groups: int
) -> onnxruntime.InferenceSession:
    """`copies` convolutions in a chain or, where shapes differ, side by side and added up."""
    chained = window.strides == (1, 1) and weights.shape[0] == x_shape[1]
    attributes = {
        "kernel_shape": list(window.kernel),
        "strides": list(window.strides),
        "pads": list(window.pads),
        "group": groups,
    }
    nodes, tensors, last = [], {}, "X"
    for i in range(copies):
        source = last if chained else "X"
        tensors[f"W{i}"] = weights if i == 0 else np.roll(weights, i, axis=0)
        nodes.append(helper.make_node("Conv", [source, f"W{i}"], [f"c{i}"], **attributes))
        if chained or i == 0:
            last = f"c{i}"
        else:
            nodes.append(helper.make_node("Add", [f"c{i}", last], [f"s{i}"]))
            last = f"s{i}"
    nodes[-1].output[0] = "Y"
    oh, ow = window.outputs(x_shape[2], x_shape[3])
    out = info("Y", (x_shape[0], weights.shape[0], oh, ow))
    return session(model(nodes, [info("X", x_shape)], [out], tensors))


def marginal(times: list[float]) -> float:
    """One of COPIES: (time of all - time of one) / (COPIES - 1)."""
    return (times[1] - times[0]) / (COPIES - 1)


def convolution_case(name: str) -> Case:
    target = host_target()
    if shape := (CONVOLUTIONS | OTHER_CONVOLUTIONS).get(name):
        size, channels, filters, kernel, stride = shape
        groups = 1
    else:
        size, channels, stride = DEPTHWISE[name]
        filters, kernel, groups = channels, 3, channels
    window = same_window(size, kernel, stride)
    rng = np.random.default_rng(len(name))
    if groups == 1:
        height, width = conv2d_cpu.flattened(window, size, size)
        lanes = 16 if channels % 16 == 0 else 1
        program = float_conv2d(
            batch=1,
            channels=channels,
            height=height,
            width=width,
            filters=filters,
            window=window,
            block_in=lanes,
            block_out=16,
        )
        s = conv2d_cpu.schedule(target, program, window)
    else:
        program = float_depthwise(
            batch=1, channels=channels, height=size, width=size, window=window, block=16
        )
        s = depthwise_cpu.schedule(target, program, window)
    shapes = {b.name: b.shape for b in program.parameters}
    # Small weights keep the sums of a chain of layers within range.
    scale = np.float32(1 / np.sqrt(channels // groups * kernel * kernel))
    arrays = {n: rng.standard_normal(shapes[n], dtype=np.float32) for n in ("X", "W")}
    arrays["W"] *= scale
    packed = pack_arrays(s.trace, arrays) | {"Y": np.zeros(shapes["Y"], np.float32)}
    ours = build(s.program, target).bind(packed)
    lanes = shapes["X"][-1]
    x = arrays["X"].reshape(1, -1, size, size, lanes).transpose(0, 1, 4, 2, 3)
    x = np.ascontiguousarray(x.reshape(1, channels, size, size))
    if groups == 1:
        weights = arrays["W"][0]
    else:
        weights = np.ascontiguousarray(arrays["W"].transpose(2, 0, 1)[:, None])
    one, many = (peer_convolutions(n, x.shape, weights, window, groups) for n in (1, COPIES))
    ours()
    expected = np.asarray(one.run(None, {"X": x})[0])
    got = packed["Y"].reshape(1, -1, *window.outputs(size, size), 16).transpose(0, 1, 4, 2, 3)
    got = got.reshape(expected.shape)
    return Case(
        name=name,
        operations=2.0 * expected.size * channels // groups * kernel * kernel,
        ours=ours,
        peer=(lambda: one.run(None, {"X": x}), lambda: many.run(None, {"X": x})),
        peer_time=marginal,
        error=relative(got, expected),
    )


def int8_case(size: int) -> Case:
    target = host_target()
    rng = np.random.default_rng(size)
    x = rng.integers(0, 256, (size, size)).astype(np.uint8)
    w = rng.integers(-128, 128, (size, size)).astype(np.int8)
    s = dense_int8_cpu.schedule(target, dense_int8(rows=size, depth=size, columns=size))
    packed = pack_arrays(s.trace, {"X": x, "W": w}) | {"Y": np.zeros((size, size), np.int32)}
    ours = build(s.program, target).bind(packed)
    square = (size, size)
    integer = session(
        model(
            [helper.make_node("MatMulInteger", ["X", "W"], ["Y"])],
            [info("X", square, TensorProto.UINT8)],
            [info("Y", square, TensorProto.INT32)],
            {"W": w},
        )
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
        model(
            [helper.make_node("QLinearMatMul", names, ["Y"])],
            [info("X", square, TensorProto.UINT8)],
            [info("Y", square, TensorProto.UINT8)],
            {name: np.asarray(value) for name, value in constants.items()},
        )
    )
    feed = {"X": x}
    ours()
    error = relative(packed["Y"], np.asarray(integer.run(None, feed)[0]))
    return Case(
        name=f"int8_{size}",
        operations=2.0 * size**3,
        ours=ours,
        peer=(lambda: integer.run(None, feed), lambda: quantized.run(None, feed)),
        peer_time=min,
        error=error,
    )


def seconds(run: Timed, repeat: int) -> float:
    """Thread CPU time of one of `repeat` runs in a row."""
    start = time.thread_time()
    for _ in range(repeat):
        run()
    return (time.thread_time() - start) / repeat


def measure(case: Case, rounds: int) -> dict[str, object]:
    """Alternates ours and the peer's runs; each round gives one ratio."""
    case.ours()
    repeat = max(1, int(0.01 / max(seconds(case.ours, 1), 1e-7)))
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(rounds):
        ours.append(seconds(case.ours, repeat))
        theirs.append(
            case.peer_time(
                [
                    seconds(run, max(1, repeat // (COPIES if n and case.peer_time is marginal else 1)))
                    for n, run in enumerate(case.peer)
                ]
            )
        )
    ratio = statistics.median(p / o for p, o in zip(theirs, ours, strict=True))
    best = statistics.median(ours)
    return {
        "name": case.name,
        "ours_ms": round(best * 1e3, 4),
        "peer_ms": round(statistics.median(theirs) * 1e3, 4),
        "ratio": round(ratio, 3),
        "gflops": round(case.operations / best / 1e9, 1),
        "error": case.error,
        "threads": 1,
    }


CASES: dict[str, Callable[[], Case]] = {
    f"gemm{size}": (lambda size=size: gemm_case(f"gemm{size}", size, size, size))
    for size in (512, 1024, 2048)
}
CASES |= {"int8_1024": lambda: int8_case(1024)}
CASES |= {name: (lambda name=name: convolution_case(name)) for name in (*CONVOLUTIONS, *DEPTHWISE)}
OTHERS: dict[str, Callable[[], Case]] = {
    name: (lambda name=name, sizes=sizes: gemm_case(name, *sizes)) for name, sizes in OTHER_PRODUCTS.items()
}
OTHERS |= {name: (lambda name=name: convolution_case(name)) for name in OTHER_CONVOLUTIONS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=[*CASES, *OTHERS], metavar="NAME")
    parser.add_argument("--others", action="store_true")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = []
    for name in arguments.only or (OTHERS if arguments.others else CASES):
        row = measure((CASES | OTHERS)[name](), arguments.rounds)
        rows.append(row)
        if not arguments.json:
            print(
                f"{row['name']:17} ours {row['ours_ms']:>9} ms {row['gflops']:>7} GFLOP/s  peer {row['peer_ms']:>9} ms"
                f"  ratio {row['ratio']:>6}  error {row['error']:.1e}",
                flush=True,
            )
    if arguments.json:
        print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()

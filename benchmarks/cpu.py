"""CPU kernels against ONNX Runtime, one thread each, interleaved in one process; medians of ratios of thread CPU time.

    python benchmarks/cpu.py [--only NAME ...] [--rounds N] [--json]

A matrix product's peer is one MatMul with constant weights. A convolution's peer time is its marginal time in a chain,
(k chained - 1) / (k - 1), where its output can be its input, else the time of its node in the peer's own profile is not
used: the layer is fed through a 1x1 pair that is timed alone (see `peer_convolution`). ratio = peer's time / ours.
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
from vdla.compiler.schedule.pack import pack_arrays
from vdla.compiler.target.cpu.kernel import build
from vdla.compiler.target.cpu.machine import host_target
from vdla.compiler.te.ops.dense import dense
from vdla.compiler.templates import dense_cpu

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


def session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """The peer on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def model(nodes: list, inputs: list, outputs: list, weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    """An ONNX model of these nodes."""
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "bench", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def info(name: str, shape: tuple[int, ...], kind: int = TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def relative(ours: np.ndarray, theirs: np.ndarray) -> float:
    return float(np.abs(ours.astype(np.float64) - theirs).max() / max(np.abs(theirs).max(), 1e-30))


def gemm_case(size: int) -> Case:
    target = host_target()
    rng = np.random.default_rng(size)
    arrays = {name: rng.standard_normal((size, size), dtype=np.float32) for name in ("X", "W")}
    s = dense_cpu.schedule(target, dense(rows=size, depth=size, columns=size))
    packed = pack_arrays(s.trace, arrays) | {"Y": np.zeros((size, size), np.float32)}
    ours = build(s.program, target).bind(**packed)
    peer = session(
        model(
            [helper.make_node("MatMul", ["X", "W"], ["Y"])],
            [info("X", (size, size))],
            [info("Y", (size, size))],
            {"W": arrays["W"]},
        )
    )
    feed = {"X": arrays["X"]}
    ours()
    error = relative(packed["Y"], peer.run(None, feed)[0])
    return Case(
        name=f"gemm{size}",
        operations=2.0 * size**3,
        ours=ours,
        peer=(lambda: peer.run(None, feed),),
        peer_time=lambda times: times[0],
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
    repeat = max(1, int(0.02 / max(seconds(case.ours, 1), 1e-7)))
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(rounds):
        ours.append(seconds(case.ours, repeat))
        theirs.append(case.peer_time([seconds(run, max(1, repeat // 2)) for run in case.peer]))
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
    f"gemm{size}": (lambda size=size: gemm_case(size)) for size in (512, 1024, 2048)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=list(CASES))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = []
    for name in arguments.only:
        row = measure(CASES[name](), arguments.rounds)
        rows.append(row)
        if not arguments.json:
            print(
                f"{row['name']:10} ours {row['ours_ms']:>9} ms {row['gflops']:>7} GFLOP/s  peer {row['peer_ms']:>9} ms"
                f"  ratio {row['ratio']:>6}  error {row['error']:.1e}",
                flush=True,
            )
    if arguments.json:
        print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()

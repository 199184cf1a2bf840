"""Gains of fusion on the CPU: fused networks against unfused ones, interleaved in one process; medians of ratios.

    python benchmarks/fusion.py [--only NAME ...] [--rounds N] [--json] [--write]

Unfused, every operator of the ONNX model is a kernel of its own that reads and writes memory, batch normalization too.
`fusion` = the kernels' time without fusion / with fusion, above 1 where fusion pays. It is the thread CPU time of all
kernels on one thread. Layout changes do not count, because each of these short chains has layout changes at its ends,
while a whole network has them only once. `run` is the ratio of whole runs, including changes of layout and copies of
inputs and outputs. The first four rows are the workloads of the TVM paper's Figure 4 (OSDI 2018, which reports 1.2 to 2
on a Titan X), then chains whose tensors are larger than the second-level cache, then whole networks, which are bound by
computation rather than by memory.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from vdla.benchmarks.harness.command_line import ONLY, OUTPUT, ROUNDS, Given, run_script
from vdla.benchmarks.harness.output import finish, measure_all
from vdla.benchmarks.harness.peer import session
from vdla.codesign.models import build, sample_inputs
from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.pipeline import compile_kernels
from vdla.compiler.runtime.kernel_times import time_kernels
from vdla.compiler.runtime.launch import Launch

SECONDS = 0.6
"""Least total seconds of all rounds in which one network (fused or unfused) is timed for a row."""
LARGE = (1, 64, 224, 224)
"""Shape of a float32 tensor of 12.8 MB, several times a core's second-level cache."""
ROWS = (4096, 768)
"""Shape of a tensor of rows, as in a language model, with about as many elements as LARGE."""


@dataclass(slots=True)
class Chain:
    """An ONNX model under construction with seeded weights: a chain, in which the first input of each node is by
    default the output of the node before.
    """

    inputs: dict[str, tuple[int, ...]]
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    last: str = "x"

    def constant(self, value: object, dtype: type = np.float32) -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def random(self, *shape: int, deviation: float = 1.0) -> str:
        return self.constant(self.rng.standard_normal(shape) * deviation)

    def add(self, operator: str, *others: str, of: str | None = None, **attributes: Any) -> str:
        """Adds a node of the ONNX operator `operator` that reads the tensor named `of` (None: the last tensor) and then
        `others`; returns the name of its output.
        """
        output = f"t{len(self.nodes)}"
        inputs = [self.last if of is None else of, *others]
        self.nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        self.last = output
        return output

    def convolution(self, filters: int, channels: int, kernel: int, group: int = 1) -> str:
        deviation = (channels // group * kernel * kernel) ** -0.5
        weight = self.random(filters, channels // group, kernel, kernel, deviation=deviation)
        return self.add("Conv", weight, pads=[kernel // 2] * 4, group=group)

    def batch_normalization(self, channels: int) -> str:
        variance = self.constant(self.rng.uniform(0.5, 2, channels))
        scale, bias, mean = (self.random(channels) for _ in range(3))
        return self.add("BatchNormalization", scale, bias, mean, variance)

    def model(self, *more_outputs: str) -> onnx.ModelProto:
        def info(name: str, shape: tuple[int, ...] | None) -> onnx.ValueInfoProto:
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

        graph = helper.make_graph(
            self.nodes,
            "chain",
            [info(name, shape) for name, shape in self.inputs.items()],
            [info(name, None) for name in (self.last, *more_outputs)],
            self.weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model)


def conv_bn_relu() -> onnx.ModelProto:
    chain = Chain({"x": (1, 128, 28, 28)})
    chain.convolution(256, 128, 1)
    chain.batch_normalization(256)
    chain.add("Relu")
    return chain.model()


def depthwise_bn_relu() -> onnx.ModelProto:
    chain = Chain({"x": (1, 512, 14, 14)})
    chain.convolution(512, 512, 3, group=512)
    chain.batch_normalization(512)
    chain.add("Relu")
    return chain.model()


def rnn_cell(hidden: int = 128) -> onnx.ModelProto:
    """A model of an RNN cell: tanh(W x + U h + b), where x, h and b have `hidden` elements."""
    chain = Chain({"x": (1, hidden), "h": (1, hidden)})
    new = chain.add("MatMul", chain.random(hidden, hidden, deviation=0.1))
    chain.add("MatMul", chain.random(hidden, hidden, deviation=0.1), of="h")
    chain.add("Add", new)
    chain.add("Add", chain.random(hidden))
    chain.add("Tanh")
    return chain.model()


def lstm_cell(hidden: int = 128) -> onnx.ModelProto:
    """A model of an LSTM cell: gates i, f, g, o of W x + U h + b; c' = f c + i g, h' = o tanh(c'). All vectors x, h, c
    have `hidden` elements.
    """
    chain = Chain({"x": (1, hidden), "h": (1, hidden), "c": (1, hidden)})
    new = chain.add("MatMul", chain.random(hidden, 4 * hidden, deviation=0.1))
    chain.add("MatMul", chain.random(hidden, 4 * hidden, deviation=0.1), of="h")
    chain.add("Add", new)
    gates = chain.add("Add", chain.random(4 * hidden))
    parts: list[str] = []
    for number, function in enumerate(("Sigmoid", "Sigmoid", "Tanh", "Sigmoid")):
        bounds = [chain.constant([number * hidden + at], np.int64) for at in (0, hidden)]
        chain.add("Slice", *bounds, chain.constant([1], np.int64), of=gates)
        parts.append(chain.add(function))
    write, keep, candidate, read = parts
    kept = chain.add("Mul", "c", of=keep)
    chain.add("Mul", candidate, of=write)
    cell = chain.add("Add", kept)
    chain.add("Tanh")
    chain.add("Mul", read)
    return chain.model(cell)


def scale_shift_relu_add() -> onnx.ModelProto:
    channels = LARGE[1]
    chain = Chain({"x": LARGE})
    chain.add("Mul", chain.random(channels, 1, 1))
    chain.add("Add", chain.random(channels, 1, 1))
    chain.add("Relu")
    chain.add("Add", "x")
    return chain.model()


def swish() -> onnx.ModelProto:
    chain = Chain({"x": LARGE})
    chain.add("Sigmoid")
    chain.add("Mul", "x")
    return chain.model()


def gelu() -> onnx.ModelProto:
    chain = Chain({"x": ROWS})
    chain.add("Div", chain.constant(2**0.5))
    chain.add("Erf")
    chain.add("Add", chain.constant(1.0))
    chain.add("Mul", "x")
    chain.add("Mul", chain.constant(0.5))
    return chain.model()


def softmax_primitives() -> onnx.ModelProto:
    chain = Chain({"x": ROWS})
    greatest = chain.add("ReduceMax", axes=[-1])
    chain.add("Sub", greatest, of="x")
    weights = chain.add("Exp")
    total = chain.add("ReduceSum", chain.constant([-1], np.int64))
    chain.add("Div", total, of=weights)
    return chain.model()


def layer_norm_primitives() -> onnx.ModelProto:
    chain = Chain({"x": ROWS})
    mean = chain.add("ReduceMean", axes=[-1])
    distance = chain.add("Sub", mean, of="x")
    chain.add("Pow", chain.constant(2.0))
    chain.add("ReduceMean", axes=[-1])
    chain.add("Add", chain.constant(1e-5))
    deviation = chain.add("Sqrt")
    chain.add("Div", deviation, of=distance)
    chain.add("Mul", chain.random(ROWS[1]))
    chain.add("Add", chain.random(ROWS[1]))
    return chain.model()


def mean_of_squares() -> onnx.ModelProto:
    chain = Chain({"x": LARGE})
    chain.add("Sub", chain.random(LARGE[1], 1, 1))
    chain.add("Mul", chain.last)
    chain.add("ReduceMean", axes=[2, 3])
    return chain.model()


def transpose_scale() -> onnx.ModelProto:
    chain = Chain({"x": LARGE})
    chain.add("Relu")
    chain.add("Transpose", perm=[0, 2, 3, 1])
    chain.add("Mul", chain.constant(0.5))
    return chain.model()


def residual_block() -> onnx.ModelProto:
    chain = Chain({"x": (1, 64, 56, 56)})
    chain.convolution(64, 64, 1)
    chain.batch_normalization(64)
    chain.add("Relu")
    chain.add("Add", "x")
    return chain.model()


def depthwise_bn_relu6() -> onnx.ModelProto:
    chain = Chain({"x": (1, 128, 56, 56)})
    chain.convolution(128, 128, 3, group=128)
    chain.batch_normalization(128)
    chain.add("Clip", chain.constant(0.0), chain.constant(6.0))
    return chain.model()


CHAINS: dict[str, Callable[[], onnx.ModelProto]] = {
    "conv_bn_relu": conv_bn_relu,
    "depthwise_bn_relu": depthwise_bn_relu,
    "rnn_cell": rnn_cell,
    "lstm_cell": lstm_cell,
    "scale_shift_relu_add": scale_shift_relu_add,
    "swish": swish,
    "gelu": gelu,
    "softmax_primitives": softmax_primitives,
    "layer_norm_primitives": layer_norm_primitives,
    "mean_of_squares": mean_of_squares,
    "transpose_scale": transpose_scale,
    "conv_bn_relu_add": residual_block,
    "depthwise_bn_relu6": depthwise_bn_relu6,
}
NETWORKS = ("resnet18", "mobilenet", "dqn", "dcgan", "language_model")


def computes(launch: Launch) -> bool:
    """Whether the kernel that `launch` starts computes something, rather than only changing the layout."""
    return launch.operator != "Relayout"


def measure(name: str, rounds: int | None) -> dict[str, object]:
    if name in CHAINS:
        model = CHAINS[name]()
        rng = np.random.default_rng(1)
        feeds = {
            value.name: rng.standard_normal(
                [d.dim_value for d in value.type.tensor_type.shape.dim], dtype=np.float32
            )
            for value in model.graph.input
        }
    else:
        model = build(name, "float")
        feeds = {"input": sample_inputs(name, 1)}
    fused, unfused = (
        compile_kernels(model.SerializeToString(), cpu_now(), fusion=fusion) for fusion in (True, False)
    )
    peer = session(model)
    expected = dict(
        zip([o.name for o in model.graph.output], map(np.asarray, peer.run(None, feeds)), strict=True)
    )
    got, apart = fused.run(feeds), unfused.run(feeds)
    error = max(
        float(np.abs(net[out] - array).max() / np.abs(array).max())
        for net in (got, apart)
        for out, array in expected.items()
    )
    once = time_kernels(unfused, feeds)
    count = rounds or max(15, min(2000, int(SECONDS / max(once, 1e-6))))
    kernels: list[tuple[float, float]] = []
    runs: list[tuple[float, float]] = []
    for _ in range(count):
        pair = [
            time_kernels(net, feeds, clock=time.thread_time, counted=computes) for net in (fused, unfused)
        ]
        kernels.append((pair[0], pair[1]))
        pair = []
        for net in (fused, unfused):
            start = time.thread_time()
            net.run(feeds)
            pair.append(time.thread_time() - start)
        runs.append((pair[0], pair[1]))
    return {
        "name": name,
        "fused_ms": round(statistics.median(a for a, _ in kernels) * 1e3, 4),
        "unfused_ms": round(statistics.median(b for _, b in kernels) * 1e3, 4),
        "fusion": round(statistics.median(b / a for a, b in kernels), 3),
        "run": round(statistics.median(b / a for a, b in runs), 3),
        "threads": 1,
        "fused_kernels": sum(map(computes, fused.launches)),
        "unfused_kernels": sum(map(computes, unfused.launches)),
        "error": error,
    }


def line(row: Mapping[str, Any]) -> str:
    return (
        f"{row['name']:22} fused {row['fused_ms']:>9} ms in {row['fused_kernels']:>2} kernels  "
        f"unfused {row['unfused_ms']:>9} ms in {row['unfused_kernels']:>2}  fusion {row['fusion']:>6}x  "
        f"whole run {row['run']:>6}x  error {row['error']:.1e}"
    )


OPTIONS = (ONLY.but(default=[*CHAINS, *NETWORKS]), ROUNDS, *OUTPUT)


def main(options: Given) -> None:
    rows = measure_all(options.only, lambda name: measure(name, options.rounds), line, quiet=options.json)
    finish(options, "fusion", {"rows": rows})


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)

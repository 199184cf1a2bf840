"""Tables about processors for the project's pages: layers and networks against ONNX Runtime, and gains of fusion."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vdla.codesign.named_layers import CONVOLUTIONS, DEPTHWISE

from .page import Row, Table, Where, at
from .table_parts import geomean, mean_of

FLOATS = ("resnet18", "mobilenet", "language_model", "dqn", "dcgan")
INTEGERS = ("resnet18_int8", "mobilenet_int8", "dqn_int8")


def network_row(measure: str, key: str, names: Sequence[str], form: str = ".2f") -> Row:
    """A table row with the text `measure` and the figure `key` of each of the networks `names` (of cpu_networks.json),
    in the number format `form`.
    """
    return Row(
        measure,
        ", ".join(f"{{{k}:{form}}}" for k in range(len(names))),
        tuple(at("cpu_networks", "rows", Where("name", name), key) for name in names),
    )


def spread_row(measure: str, file: str, names: Iterable[str]) -> Row:
    """A table row with the text `measure`: geometric mean, least and largest `ratio` of the networks or layers `names`
    in the results file `file`.
    """
    held = tuple(names)
    return Row(
        measure,
        "geometric mean {0:.2f} ({1:.2f} to {2:.2f})",
        tuple(at(file, "rows", then=mean_of("ratio", held, pick)) for pick in (geomean, min, max)),
    )


PROCESSOR = Table(
    headings=("measure", "ours against ONNX Runtime"),
    rows=(
        spread_row(
            "convolutions C1 to C12, float32, marginal time in a chain: the peer's time over ours",
            "cpu_layers",
            CONVOLUTIONS,
        ),
        spread_row("depthwise convolutions D1 to D9, same", "cpu_layers", DEPTHWISE),
        Row(
            "matrix products 512, 1024, 2048; int8 1024, same",
            "{0:.2f}, {1:.2f}, {2:.2f}; {3:.2f}",
            tuple(
                at("cpu_layers", "rows", Where("name", name), "ratio")
                for name in ("gemm512", "gemm1024", "gemm2048", "int8_1024")
            ),
        ),
        spread_row(
            "models of one convolution, C1 to C12, plain NCHW in and out, same", "single_layers", CONVOLUTIONS
        ),
        spread_row("models of one depthwise convolution, D1 to D9, same", "single_layers", DEPTHWISE),
        network_row(
            "networks, our time over the peer's: ResNet-18, MobileNet, LSTM, DQN, DCGAN", "ratio", FLOATS
        ),
        network_row("ResNet-18, MobileNet, DQN in int8, same", "ratio", INTEGERS),
        Row(
            "largest error of a float32 network",
            "{0:.1e}",
            (at("cpu_networks", "rows", then=mean_of("error", FLOATS, max)),),
        ),
        Row(
            "compile ResNet-18, untuned",
            "{0:.1f} s of CPU",
            (at("cpu_networks", "rows", Where("name", "resnet18"), "compile_cpu_s"),),
        ),
        Row(
            "memory of its activations, with reuse and without",
            "{0:.1f} and {1:.1f} MB",
            tuple(
                at("cpu_networks", "rows", Where("name", "resnet18"), key, then=lambda size: size / 1e6)
                for key in ("bytes", "bytes_without_reuse")
            ),
        ),
        Row(
            "largest difference of an int8 network, relative",
            "{0:.1e}",
            (at("cpu_networks", "rows", then=mean_of("error", INTEGERS, max)),),
        ),
    ),
)

FOUR = ("conv_bn_relu", "depthwise_bn_relu", "rnn_cell", "lstm_cell")
MOVING = (
    "scale_shift_relu_add",
    "swish",
    "gelu",
    "softmax_primitives",
    "layer_norm_primitives",
    "mean_of_squares",
    "transpose_scale",
    "conv_bn_relu_add",
    "depthwise_bn_relu6",
)


def fusion_row(measure: str, key: str, names: Sequence[str]) -> Row:
    """A table row with the text `measure` and, for each operator chain of `names`, its figure `key` in fusion.json
    (`fusion` or `run`, the speedups by fusion).
    """
    return Row(
        measure,
        ", ".join(f"{{{k}:.2f}}" for k in range(len(names))),
        tuple(at("fusion", "rows", Where("name", name), key) for name in names),
    )


def fusion_range(measure: str, key: str, names: Sequence[str]) -> Row:
    """A table row with the text `measure`: least and largest figure `key` of fusion.json (`fusion` or `run`, the
    speedups by fusion) over the operator chains `names`.
    """
    return Row(
        measure,
        "{0:.2f} to {1:.2f}",
        tuple(at("fusion", "rows", then=mean_of(key, names, pick)) for pick in (min, max)),
    )


FUSION = Table(
    headings=("fusion on a processor", "time without over time with"),
    rows=(
        fusion_row(
            "the paper's Figure 4 (convolution, depthwise, RNN cell, LSTM cell), whole calls", "run", FOUR
        ),
        fusion_row("the same, kernels alone, changes of layout left out", "fusion", FOUR),
        fusion_range("chains that mostly move data, whole calls", "run", MOVING),
        fusion_range("the same, kernels alone", "fusion", MOVING),
        fusion_row("ResNet-18, MobileNet, whole calls", "run", ("resnet18", "mobilenet")),
    ),
)

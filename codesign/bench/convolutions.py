"""The convolutions of the TVM paper (its Table 2), C1-C12 of ResNet-18 and D1-D9 of MobileNet, and other ones.

A convolution's time is marginal on both sides, (time of 11 - time of 1) / 10, so that layout conversions at the ends
and the cost of a call do not count. Both sides run the same two models: 11 convolutions in a chain where the output
can be the input, else 11 on one input, added up (either side may fuse these additions). Each has weights of its own,
so they come from as deep in the caches as in a network.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import onnx
from onnx import helper
from vdla.compiler.cpu_driver import compile_cpu
from vdla.compiler.te.blocks import Window

from .case import Case, relative_error
from .peer import model_of, session, value

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
"""As `CONVOLUTIONS`, from other networks and of odd sizes."""
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


def even_window(kernel: int, stride: int) -> Window:
    """The window of a layer with as many outputs as `same_window` gives (of odd kernels), and equal pads all around.

    Libraries of GPUs have no unequal pads: their user pays for a kernel that pads.
    """
    pad = kernel // 2
    return Window(kernel=(kernel, kernel), strides=(stride, stride), pads=(pad, pad, pad, pad))


def marginal(times: Sequence[float]) -> float:
    """One of COPIES: (time of all - time of one) / (COPIES - 1)."""
    return (times[1] - times[0]) / (COPIES - 1)


def layers_model(
    copies: int, x_shape: tuple[int, ...], weights: np.ndarray, window: Window, groups: int
) -> onnx.ModelProto:
    """`copies` convolutions in a chain or, where shapes differ, side by side and added up; X to Y in NCHW."""
    chained = window.strides == (1, 1) and weights.shape[0] == x_shape[1]
    attributes = {
        "kernel_shape": list(window.kernel),
        "strides": list(window.strides),
        "pads": list(window.pads),
        "group": groups,
    }
    nodes, constants, last = [], {}, "X"
    for i in range(copies):
        source = last if chained else "X"
        constants[f"W{i}"] = weights if i == 0 else np.roll(weights, i, axis=0)
        nodes.append(helper.make_node("Conv", [source, f"W{i}"], [f"c{i}"], f"conv{i}", **attributes))
        if chained or i == 0:
            last = f"c{i}"
        else:
            nodes.append(helper.make_node("Add", [f"c{i}", last], [f"s{i}"], f"add{i}"))
            last = f"s{i}"
    nodes[-1].output[0] = "Y"
    out = (x_shape[0], weights.shape[0], *window.outputs(x_shape[2], x_shape[3]))
    return model_of(nodes, [value("X", x_shape)], [value("Y", out)], constants)


def convolution_case(name: str, threads: int) -> Case:
    """The layer `name` of CONVOLUTIONS, OTHER_CONVOLUTIONS or DEPTHWISE, batch 1; the error is that of all COPIES."""
    if shape := (CONVOLUTIONS | OTHER_CONVOLUTIONS).get(name):
        size, channels, filters, kernel, stride = shape
        groups = 1
    else:
        size, channels, stride = DEPTHWISE[name]
        filters, kernel, groups = channels, 3, channels
    window = same_window(size, kernel, stride)
    rng = np.random.default_rng(len(name))
    x = rng.standard_normal((1, channels, size, size), dtype=np.float32)
    depth = channels // groups * kernel * kernel
    # Small weights keep the sums of a chain of layers within range.
    weights = rng.standard_normal((filters, channels // groups, kernel, kernel), dtype=np.float32)
    weights *= np.float32(1 / np.sqrt(depth))
    models = [layers_model(copies, x.shape, weights, window, groups) for copies in (1, COPIES)]
    networks = [compile_cpu(model.SerializeToString()) for model in models]
    peers = [session(model, threads) for model in models]
    feeds = {"X": x}
    expected = np.asarray(peers[1].run(None, feeds)[0])

    def close() -> None:
        for network in networks:
            network.close()

    return Case(
        name=name,
        threads=threads,
        operations=2.0 * expected.size * depth,
        error=relative_error(networks[1].run(feeds, threads=threads)["Y"], expected),
        ours=tuple(partial(network.run, feeds, threads=threads) for network in networks),
        ours_time=marginal,
        peer=tuple(partial(peer.run, None, feeds) for peer in peers),
        peer_time=marginal,
        close=close,
    )

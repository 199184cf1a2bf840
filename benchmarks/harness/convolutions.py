"""The convolutions of the TVM paper (its Table 2), C1-C12 of ResNet-18 and D1-D9 of MobileNet, and further ones.

The time of a convolution is (time of 11 - time of 1) / 10, both ours and the peer's (ONNX Runtime's), so that layout
conversions at the ends and the cost of a call are not counted. Both run the same two models: 11 convolutions in a chain
if the output can be the next input. Otherwise, 11 convolutions read the same input, and their outputs are added (either
side may fuse these additions). Each convolution has its own weights, so that weights are in the same level of cache as
in a network.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import onnx
from onnx import helper

from vdla.codesign.named_layers import CONVOLUTIONS, DEPTHWISE, OTHER_CONVOLUTIONS, same_window
from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.pipeline import compile_kernels
from vdla.compiler.te.blocks import Window

from .case import Case, relative_error
from .peer import model_of, session, value

COPIES = 11


def marginal(times: Sequence[float]) -> float:
    """Seconds of one of COPIES convolutions: (time of all - time of one) / (COPIES - 1); `times`: (of one, of all)."""
    return (times[1] - times[0]) / (COPIES - 1)


def layers_model(
    copies: int, x_shape: tuple[int, ...], weights: np.ndarray, window: Window, groups: int
) -> onnx.ModelProto:
    """A model of `copies` convolutions from input "X" of `x_shape` to output "Y", both NCHW: in a chain or, if input
    and output shapes differ, side by side with their outputs added. `weights`: the weights of the first convolution;
    every other convolution has the same filters in another order.
    """
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
    """The benchmark case (our computation and ONNX Runtime's) of layer `name` of CONVOLUTIONS, OTHER_CONVOLUTIONS or
    DEPTHWISE, batch 1, on `threads` threads. Its error is the error of the model with COPIES convolutions.
    """
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
    networks = [compile_kernels(model.SerializeToString(), cpu_now()) for model in models]
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

"""Models of one convolution with plain NCHW input and output: the case of a user who tries a single layer.

Both sides get the same model, with weights and a bias, and the same array; both return a fresh array. The whole call is
timed, including the runtime's overhead and changes of layout at both ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from vdla.codesign.named_layers import CONVOLUTIONS, DEPTHWISE, same_window
from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.pipeline import compile_kernels
from vdla.compiler.te.blocks import Window

from .case import Case, relative_error
from .peer import model_of, session, value


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A convolution of batch 1 on square images; `groups` is 1 or `channels`."""

    size: int
    channels: int
    filters: int
    groups: int
    window: Window


def layers() -> dict[str, Layer]:
    """The convolutions C1-C12 of ResNet-18 and D1-D9 of MobileNet by name, with SAME padding."""
    found = {
        name: Layer(
            size=size, channels=channels, filters=filters, groups=1, window=same_window(size, kernel, stride)
        )
        for name, (size, channels, filters, kernel, stride) in CONVOLUTIONS.items()
    }
    for name, (size, channels, stride) in DEPTHWISE.items():
        window = same_window(size, 3, stride)
        found[name] = Layer(size=size, channels=channels, filters=channels, groups=channels, window=window)
    return found


def layer_model(layer: Layer, seed: int = 0) -> onnx.ModelProto:
    """An ONNX model of the convolution `layer`, from input "X" to output "Y", with random weights of `seed`."""
    rng = np.random.default_rng(seed)
    window, inside = layer.window, layer.channels // layer.groups
    weights = rng.standard_normal((layer.filters, inside, *window.kernel), dtype=np.float32)
    bias = rng.standard_normal(layer.filters, dtype=np.float32)
    node = helper.make_node(
        "Conv",
        ["X", "W", "B"],
        ["Y"],
        kernel_shape=list(window.kernel),
        strides=list(window.strides),
        pads=list(window.pads),
        dilations=list(window.dilations),
        group=layer.groups,
    )
    out = (1, layer.filters, *window.outputs(layer.size, layer.size))
    return model_of(
        [node],
        [value("X", (1, layer.channels, layer.size, layer.size))],
        [value("Y", out)],
        {"W": weights, "B": bias},
    )


def single_layer_case(name: str, threads: int = 1) -> Case:
    """The benchmark case (our computation and ONNX Runtime's) of a model that consists of layer `name` of `layers`, on
    `threads` threads.
    """
    layer = layers()[name]
    model = layer_model(layer)
    network = compile_kernels(model.SerializeToString(), cpu_now())
    peer = session(model, threads)
    shape = (1, layer.channels, layer.size, layer.size)
    feeds = {"X": np.random.default_rng(1).standard_normal(shape, dtype=np.float32)}
    expected = np.asarray(peer.run(None, feeds)[0])
    got = network.run(feeds, threads=threads)["Y"]
    taps = layer.window.kernel[0] * layer.window.kernel[1]
    return Case(
        name=name,
        threads=threads,
        operations=2.0 * expected.size * layer.channels // layer.groups * taps,
        error=relative_error(got, expected),
        ours=(lambda: network.run(feeds, threads=threads),),
        peer=(lambda: peer.run(None, feeds),),
        close=network.close,
    )

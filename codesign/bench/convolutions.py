"""The convolutions of the TVM paper (its Table 2), C1-C12 of ResNet-18 and D1-D9 of MobileNet, and other ones.

A convolution's peer time is marginal, (time of 11 - time of 1) / 10, so that layout conversions at the ends do not
count: 11 in a chain where the output can be the input, else 11 with weights of their own on one input, added up (the
peer fuses these additions into the convolutions). Ours works on its own layout, as it would inside a network.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from onnx import helper
from vdla.compiler.target.cpu.machine import host_target
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.ops.float_conv2d import float_conv2d, float_depthwise
from vdla.compiler.templates import conv2d_cpu, depthwise_cpu

from .case import Case, relative_error
from .peer import model_of, session, value
from .products import bound_kernel

if TYPE_CHECKING:
    import onnxruntime

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


def marginal(times: Sequence[float]) -> float:
    """One of COPIES: (time of all - time of one) / (COPIES - 1)."""
    return (times[1] - times[0]) / (COPIES - 1)


def _peer(
    copies: int, x_shape: tuple[int, ...], weights: np.ndarray, window: Window, groups: int, threads: int
) -> onnxruntime.InferenceSession:
    """`copies` convolutions in a chain or, where shapes differ, side by side and added up."""
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
        nodes.append(helper.make_node("Conv", [source, f"W{i}"], [f"c{i}"], **attributes))
        if chained or i == 0:
            last = f"c{i}"
        else:
            nodes.append(helper.make_node("Add", [f"c{i}", last], [f"s{i}"]))
            last = f"s{i}"
    nodes[-1].output[0] = "Y"
    out = (x_shape[0], weights.shape[0], *window.outputs(x_shape[2], x_shape[3]))
    return session(model_of(nodes, [value("X", x_shape)], [value("Y", out)], constants), threads)


def convolution_case(name: str, threads: int) -> Case:
    """The layer `name` of CONVOLUTIONS, OTHER_CONVOLUTIONS or DEPTHWISE, batch 1."""
    target = host_target()
    parallel = threads > 1
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
        program = float_conv2d(
            batch=1,
            channels=channels,
            height=height,
            width=width,
            filters=filters,
            window=window,
            block_in=16 if channels % 16 == 0 else 1,
            block_out=16,
        )
        schedule = conv2d_cpu.schedule(target, program, window, parallel=parallel)
    else:
        program = float_depthwise(
            batch=1, channels=channels, height=size, width=size, window=window, block=16
        )
        schedule = depthwise_cpu.schedule(target, program, window, parallel=parallel)
    shapes = {b.name: b.shape for b in program.parameters}
    arrays = {n: rng.standard_normal(shapes[n], dtype=np.float32) for n in ("X", "W")}
    # Small weights keep the sums of a chain of layers within range.
    arrays["W"] *= np.float32(1 / np.sqrt(channels // groups * kernel * kernel))
    ours, result, close = bound_kernel(schedule, arrays, threads)
    x = arrays["X"].reshape(1, -1, size, size, shapes["X"][-1]).transpose(0, 1, 4, 2, 3)
    x = np.ascontiguousarray(x.reshape(1, channels, size, size))
    if groups == 1:
        weights = arrays["W"][0]
    else:
        weights = np.ascontiguousarray(arrays["W"].transpose(2, 0, 1)[:, None])
    one, many = (_peer(n, x.shape, weights, window, groups, threads) for n in (1, COPIES))
    ours()
    expected = np.asarray(one.run(None, {"X": x})[0])
    got = result.reshape(1, -1, *window.outputs(size, size), 16).transpose(0, 1, 4, 2, 3)
    return Case(
        name=name,
        threads=threads,
        operations=2.0 * expected.size * channels // groups * kernel * kernel,
        error=relative_error(got.reshape(expected.shape), expected),
        ours=ours,
        peer=(lambda: one.run(None, {"X": x}), lambda: many.run(None, {"X": x})),
        peer_time=marginal,
        close=close,
    )

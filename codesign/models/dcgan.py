"""The generator of DCGAN, float32 only: it maps 100 numbers to a 3x64x64 image.

After Radford et al., "Unsupervised Representation Learning with Deep Convolutional Generative Adversarial Networks"
(2015), figure 1, with kernels of 4x4 as commonly shipped: a dense layer to 1024x4x4, then transposed convolutions
that double rows and columns and halve the channels.
"""

import numpy as np
import onnx

from vdla.compiler.frontends.onnx.model.builder import OnnxGraph

from .layers import INPUT
from .onnx_graph import OUTPUT, finish

CODE = 100
WIDTHS = (1024, 512, 256, 128)
SIDE = 4
KERNEL = 4
DEVIATION = 0.02
"""Standard deviation of the random weights, as for the paper's initial weights."""


def dcgan(seed: int, batch: int) -> onnx.ModelProto:
    """Return the model: ``input`` float32 [batch, 100], ``output`` float32 [batch, 3, 64, 64] within (-1, 1).

    Batch normalizations stay nodes of their own; their means and variances are approximately those for standard normal
    inputs, so that no layer dies or saturates.
    """
    rng = np.random.default_rng(seed)
    graph = OnnxGraph()
    weight = graph.constant(
        "project.weight", rng.standard_normal((CODE, WIDTHS[0] * SIDE * SIDE)) * DEVIATION, np.float32
    )
    data = graph.node("MatMul", "project", [INPUT, weight], "project")
    shape = graph.constant("project.shape", (batch, WIDTHS[0], SIDE, SIDE), np.int64)
    data = graph.node("Reshape", "project.reshape", [data, shape], "project.maps")
    variance = CODE * DEVIATION**2
    data = _normalized(rng, graph, "project", data, WIDTHS[0], variance)
    for stage, (channels, filters) in enumerate(zip(WIDTHS, (*WIDTHS[1:], 3), strict=True), start=1):
        name = f"deconv{stage}"
        values = rng.standard_normal((channels, filters, KERNEL, KERNEL)) * DEVIATION
        data = graph.node(
            "ConvTranspose",
            name,
            [data, graph.constant(f"{name}.weight", values, np.float32)],
            name,
            kernel_shape=[KERNEL] * 2,
            strides=[2, 2],
            pads=[1, 1, 1, 1],
        )
        if stage < len(WIDTHS):
            # A quarter of the kernel contributes to each output, and ReLU halves the mean square of its inputs.
            variance = channels * KERNEL**2 / 4 * DEVIATION**2 / 2
            data = _normalized(rng, graph, name, data, filters, variance)
    graph.node("Tanh", "tanh", [data], OUTPUT)
    side = SIDE * 2 ** len(WIDTHS)
    return finish(graph, "dcgan_float", input_shape=(batch, CODE), output_shape=(batch, 3, side, side))


def _normalized(
    rng: np.random.Generator, graph: OnnxGraph, name: str, data: str, channels: int, variance: float
) -> str:
    """Adds batch normalization of `data`, whose variance is about `variance`, then ReLU; returns the output's name."""
    values = {
        "scale": 1 + DEVIATION * rng.standard_normal(channels),
        "shift": 0.1 * rng.standard_normal(channels),
        "mean": 0.1 * np.sqrt(variance) * rng.standard_normal(channels),
        "variance": variance * rng.uniform(0.8, 1.25, channels),
    }
    constants = [graph.constant(f"{name}.{part}", array, np.float32) for part, array in values.items()]
    normalized = graph.node("BatchNormalization", f"{name}.bn", [data, *constants], f"{name}.normalized")
    return graph.node("Relu", f"{name}.relu", [normalized], f"{name}.relu")

"""Quantized networks with one spatial dimension, (N, C, L): completely on the accelerator, and with integers
on CPUs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from float_networks import FloatNetwork, relative, runtime
from mixed_networks import unoptimized

from vdla.benchmarks.harness.quantized import vta_with
from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.divided import compile_divided
from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.graph.abilities import PROCESSOR
from vdla.compiler.graph.host import load_outputs, store_inputs
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.pipeline import compile_kernels, compile_program
from vdla.compiler.runtime.accelerator import run
from vdla.isa.check import check

from .test_views import Viewed

MACHINE = vta_with()


def residual() -> Viewed:
    """A network as for audio: strides and dilations, a residual addition, groups, pools, a global average pool, a
    matrix product.
    """
    net = Viewed(2, 3, 50)
    x = net.product("Conv", (12, 3, 5), net.rounded(0.02), strides=[2], pads=[2, 2])
    net.product("Conv", (12, 12, 3), x, dilations=[2], pads=[2, 2])
    net.then("Add", x)
    net.then("Relu")
    net.then("MaxPool", kernel_shape=[3], strides=[2], pads=[1, 0], ceil_mode=1)
    net.product("Conv", (12, 1, 3), net.last, group=12, auto_pad="SAME_UPPER")
    net.then("AveragePool", kernel_shape=[2], strides=[1])
    net.product("Conv", (16, 6, 1), net.last, group=2)
    net.then("GlobalAveragePool")
    net.then("Flatten")
    net.product("MatMul", (16, 5), net.last)
    net.shape = (2, 5)
    return net


def decoder() -> Viewed:
    """A network that lengthens its sequence: a transposed convolution, a Resize, concatenated and sliced channels, a
    mean over positions.
    """
    net = Viewed(1, 8, 12)
    x = net.rounded(0.02)
    net.product("ConvTranspose", (8, 6, 4), x, strides=[2], pads=[1, 1])
    up = net.last
    sizes = net.constant(np.array([1, 8, 24]))
    net.add("Resize", inputs=[x, "", "", sizes], coordinate_transformation_mode="asymmetric")
    other = net.rounded(0.03, 120)
    net.then("Concat", inputs=[up, other], axis=1)
    net.cut(1, 3, 11)
    net.cut(2, 1, 23)
    net.product("Conv", (9, 8, 3), net.last, pads=[1, 1])
    net.then("ReduceMean", axes=[2], keepdims=0)
    net.shape = (1, 9)
    return net


def turned() -> Viewed:
    """A network that transposes rows to (N, C, L), convolves and normalizes them, and transposes back, as in a
    Conformer.
    """
    net = Viewed(1, 11, 16)
    before = net.rounded(0.02)
    net.rows(16, 16)
    net.moved(0, 2, 1)
    net.product("Conv", (16, 1, 3), net.last, group=16, pads=[1, 1])
    scale, bias, mean = (net.weights(16) for _ in range(3))
    variance = net.constant(net.rng.uniform(0.5, 2, 16).astype(np.float32))
    net.then("BatchNormalization", scale, bias, mean, variance)
    net.moved(0, 2, 1)
    net.then("Add", before)
    net.rows(16, 7)
    net.shape = (1, 11, 7)
    return net


CASES: dict[str, Callable[[], Viewed]] = {"audio": residual, "decoder": decoder, "Conformer": turned}


@pytest.mark.parametrize("build", CASES.values(), ids=CASES)
def test_lines_on_every_target(build: Callable[[], Viewed]) -> None:
    net = build()
    net.opset = 17
    model = net.model()
    x = {"x": net.rng.standard_normal(net.input_shape, dtype=np.float32)}
    graph = import_model(model, abilities=PROCESSOR)
    (wanted,) = load_outputs(graph, interpret(graph, store_inputs(graph, x))).values()
    (output,) = graph.outputs
    steps = np.abs(wanted - runtime(model, x)[net.last]) / float(output.quantization.scale)
    assert wanted.shape == net.shape and steps.max() <= 2.01
    with compile_kernels(model, cpu_now()) as network:
        np.testing.assert_array_equal(network.run(x)[output.name], wanted)
    made = compile_program(model, MACHINE, verify=True)
    assert check(MACHINE, made.program.instructions, made.program.image) == []
    (own,) = load_outputs(made.graph, interpret(made.graph, store_inputs(made.graph, x))).values()
    np.testing.assert_array_equal(run(made, x).outputs[output.name], own)
    assert np.abs(own - wanted).max() <= 2.01 * float(output.quantization.scale)
    with compile_divided(model, MACHINE).network as network:
        assert [region.accelerated for region in network.regions] == [True]


@pytest.mark.parametrize("attributes", [{}, {"axes": [2]}, {"axes": [-1]}], ids=str)
def test_float_lines_are_resized(attributes: dict[str, list[int]]) -> None:
    net = FloatNetwork(1, 3, 7, opset=19)
    scales = net.constant(np.array([2.0] if attributes else [1.0, 1.0, 2.0], np.float32))
    net.add("Resize", "", scales, mode="linear", **attributes)
    net.shape = (1, 3, 14)
    model, x = net.model(), {"x": net.rng.standard_normal(net.input_shape, dtype=np.float32)}
    with compile_kernels(model, cpu_now()) as network:
        assert relative(network.run(x)[net.last], unoptimized(model, x)[net.last]) <= 1e-6

"""Convolutions and pools with one spatial dimension on CPUs, compared with ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from campaign import examples
from float_networks import FloatNetwork, inferred_shape, relative, runtime
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.frontends.onnx.float_importer import import_float_model
from vdla.compiler.graph.errors import ModelError
from vdla.compiler.pipeline import compile_kernels


def agree(net: FloatNetwork) -> None:
    net.shape = inferred_shape(net)
    x = np.random.default_rng(1).standard_normal(net.input_shape, dtype=np.float32)
    expected = runtime(net.model(), {"x": x})[net.last]
    assert relative(compile_kernels(net.model(), cpu_now()).run({"x": x})[net.last], expected) <= 1e-5


@settings(max_examples=examples(8), deadline=None)
@given(
    channels=st.sampled_from([1, 4, 18]),
    filters=st.sampled_from([2, 16, 20]),
    kernel=st.integers(1, 5),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 2),
    pads=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    grouped=st.booleans(),
    automatic=st.booleans(),
)
def test_convolutions(channels, filters, kernel, stride, dilation, pads, grouped, automatic):
    group = 2 if grouped and channels % 2 == 0 else 1
    net = FloatNetwork(2, channels, 13)
    attributes = {"auto_pad": "SAME_UPPER"} if automatic and dilation == 1 else {"pads": list(pads)}
    net.add(
        "Conv",
        net.weights(filters, channels // group, kernel, deviation=0.3),
        net.weights(filters),
        strides=[stride],
        dilations=[dilation],
        group=group,
        **attributes,
    )
    net.add("Relu")
    agree(net)


def test_a_network_of_lines():
    net = FloatNetwork(1, 3, 33)
    net.add("Conv", net.weights(20, 3, 5, deviation=0.3), strides=[2], pads=[2, 2])
    net.batch_normalization(20)
    net.add("Relu")
    net.add("MaxPool", kernel_shape=[3], strides=[2], pads=[1, 1], ceil_mode=1)
    net.add("ConvTranspose", net.weights(20, 6, 4, deviation=0.2), strides=[2], output_padding=[1])
    net.add("AveragePool", kernel_shape=[2], strides=[1], pads=[0, 1], count_include_pad=1)
    net.add("GlobalAveragePool")
    agree(net)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"strides": [1, 1]}, "Attribute strides has incorrect size"),
        ({"pads": [1, 1, 1, 1]}, "Attribute pads has incorrect size"),
    ],
)
def test_attributes_of_other_dimensions_are_refused(attributes, message):
    net = FloatNetwork(1, 3, 9)
    net.add("Conv", net.weights(4, 3, 3), **attributes)
    net.shape = (1, 4, 7)
    with pytest.raises(ModelError, match=message):
        import_float_model(net.model())

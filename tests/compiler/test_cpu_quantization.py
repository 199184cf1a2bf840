"""QuantizeLinear and DequantizeLinear in float networks on CPUs: bit-equal to ONNX Runtime, and operators allowed
between the two.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from float_networks import FloatNetwork, runtime
from mixed_networks import MixedNetwork, unoptimized
from onnx.reference import ReferenceEvaluator

from vdla.compiler.codegen.cpu.errors import KernelArgumentError
from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.graph.errors import ModelError
from vdla.compiler.pipeline import compile_kernels

SHAPE = (2, 3, 37)
HARD = [
    np.inf,
    -np.inf,
    0.5,
    1.5,
    2.5,
    -0.5,
    -1.5,
    -2.5,
    1e30,
    -1e30,
    1e-40,
    -0.0,
    127.5,
    255.5,
    1e7,
    0.49999997,
]


def values(*shape: int, deviation: float = 100.0) -> np.ndarray:
    """Normally distributed float32 values, the first of which are values that are hard to round (HARD)."""
    x = np.random.default_rng(1).normal(0, deviation, shape).astype(np.float32)
    x.reshape(-1)[: len(HARD)] = HARD
    return x


@pytest.mark.parametrize(
    ("scale", "zero_point", "axis"),
    [
        (1.0, np.int8(0), 1),
        (0.3, np.uint8(200), 1),
        ([0.3, 0.1, 1.0], np.array([1, 200, 30], np.uint8), 1),
        ([0.3, 2.0], np.array([1, -100], np.int8), -3),
    ],
)
def test_bits_of_onnxruntime(scale, zero_point, axis: int) -> None:
    net = FloatNetwork(*SHAPE)
    grid = [net.constant(np.asarray(scale, np.float32)), net.constant(zero_point)]
    net.add("QuantizeLinear", *grid, axis=axis)
    net.add("DequantizeLinear", *grid, axis=axis)
    model, x = net.model(), {"x": values(*SHAPE)}
    with compile_kernels(model, cpu_now()) as network:
        np.testing.assert_array_equal(network.run(x)[net.last], runtime(model, x)[net.last])
        x["x"][0, 0, 5] = np.nan
        if np.ndim(scale) == 0:
            # Integers alone do this: what is no number has none, and kernels move channels into blocks and back.
            assert [launch.operator for launch in network.launches].count("Permute") == 2
            with pytest.raises(KernelArgumentError, match="contains NaN, which cannot be quantized"):
                network.run(x)
            return
        # One element-wise kernel does both; what is no number stays none.
        assert len(network.launches) == 1
        assert np.flatnonzero(np.isnan(network.run(x)[net.last])).tolist() == [5]


def test_integers_between_kernels_are_moved_and_compared() -> None:
    net = FloatNetwork(1, 4, 6, 6)
    grid = [net.constant(np.float32(0.7)), net.constant(np.uint8(100))]
    net.add("QuantizeLinear", *grid)
    net.add("Transpose", perm=[0, 2, 3, 1])
    net.add("Pad", net.constant(np.array([0, 0, 0, 1, 0, 0, 0, 1])), net.constant(np.uint8(9)))
    net.add("MaxPool", kernel_shape=[2, 2])
    net.add("Reshape", net.constant(np.array([5, -1])))
    net.add("DequantizeLinear", *grid)
    net.shape = (5, 30)
    model, x = net.model(), {"x": values(1, 4, 6, 6)}
    with compile_kernels(model, cpu_now()) as network:
        np.testing.assert_array_equal(network.run(x)[net.last], runtime(model, x)[net.last])


def test_quantized_layers_as_onnxruntime_rounds_them() -> None:
    net = MixedNetwork(1, 3, 7, 7)
    net.pair()
    net.quantized_convolution(8)
    net.quantized_convolution(5, strides=[2, 2])
    net.add("Relu")
    net.pair(0.03, 0)
    net.other("Flatten")
    net.add("Gemm", net.weight(6, 80), transB=1)
    net.shape = (1, 6)
    model, x = net.model(), {"x": np.random.default_rng(0).standard_normal((1, 3, 7, 7), dtype=np.float32)}
    with compile_kernels(model, cpu_now()) as network:
        ours, theirs = network.run(x)[net.last], unoptimized(model, x)[net.last]
    # Sums in another order may round to the next step here and there.
    assert np.abs(ours - theirs).max() <= 0.05


@pytest.mark.parametrize(
    ("operators", "words"),
    [
        (["blocks"], "its 2 scales and 2 zero points do not match axis 1 of its input of shape (2, 3, 37)"),
        (["negative"], "its scale is not a positive finite number"),
    ],
)
def test_what_cannot_be_quantized(operators: list[str], words: str) -> None:
    net = FloatNetwork(*SHAPE, opset=21)
    grid = [net.constant(np.float32(0.1)), net.constant(np.uint8(3))]
    for name in operators:
        match name:
            case "blocks":
                net.add(
                    "QuantizeLinear",
                    net.constant(np.ones(2, np.float32)),
                    net.constant(np.zeros(2, np.uint8)),
                )
            case "negative":
                net.add("QuantizeLinear", net.constant(np.float32(-1)), grid[1])
            case _:
                net.add(name, *grid)
    with pytest.raises(ModelError) as refused:
        compile_kernels(with_integers(net), cpu_now())
    assert words in str(refused.value)


def test_integers_are_outputs() -> None:
    net = FloatNetwork(*SHAPE)
    net.add("QuantizeLinear", net.constant(np.float32(0.1)), net.constant(np.uint8(3)))
    model, x = with_integers(net), {"x": values(*SHAPE)}
    with compile_kernels(model, cpu_now()) as network:
        np.testing.assert_array_equal(network.run(x)[net.last], runtime(model, x)[net.last])


def test_integers_are_added_without_their_scale() -> None:
    # ONNX Runtime has no Add of uint8, ONNX's reference has one, which wraps around.
    net = FloatNetwork(*SHAPE, opset=21)
    grid = [net.constant(np.float32(0.1)), net.constant(np.uint8(3))]
    net.add("QuantizeLinear", *grid)
    net.add("Add", net.last)
    net.add("DequantizeLinear", *grid)
    model, x = net.model(), {"x": np.random.default_rng(1).normal(0, 9, SHAPE).astype(np.float32)}
    (expected,) = ReferenceEvaluator(model).run(None, x)
    with compile_kernels(model, cpu_now()) as network:
        np.testing.assert_array_equal(network.run(x)[net.last], expected)


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize(
    "read", [lambda model: compile_kernels(model, cpu_now()), import_model], ids=["compile", "import"]
)
def test_zero_points_without_scales_of_their_own(read, count: int) -> None:
    net = FloatNetwork(*SHAPE)
    grid = [net.constant(np.float32(0.1)), net.constant(np.zeros(count, np.uint8))]
    net.add("QuantizeLinear", *grid)
    net.add("DequantizeLinear", *grid)
    with pytest.raises(ModelError, match=f"has {count} zero points for one scale; give one"):
        read(net.model())


def with_integers(net: FloatNetwork) -> bytes:
    """The bytes of the model, whose output has the type uint8."""
    proto = onnx.load_from_string(net.model())
    proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.UINT8
    return proto.SerializeToString()

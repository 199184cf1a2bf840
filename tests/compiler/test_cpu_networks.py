"""Float networks compiled for the CPU as a whole compute what ONNX Runtime and ONNX's reference compute."""

from __future__ import annotations

import numpy as np
import pytest
from campaign import examples
from float_networks import FloatNetwork, networks, reference, relative, runtime
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import targets
from shipped import shipped

from vdla.codesign.models import sample_inputs
from vdla.compiler.codegen.cpu.machine import CpuTarget
from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.pipeline import compile_kernels

TOLERANCE = 1e-5


def agree(
    model: bytes, x: np.ndarray, *, threads: int = 1, target: CpuTarget | None = None, **options
) -> None:
    expected = runtime(model, {"x": x})
    with compile_kernels(model, cpu_now(target), **options) as network:
        got = network.run({"x": x}, threads=threads)
    assert got.keys() == expected.keys()
    for name, array in expected.items():
        assert relative(got[name], array) <= TOLERANCE, name


@settings(max_examples=examples(30), deadline=None)
@given(case=networks(), seed=st.integers(0, 99), threads=st.integers(1, 2), fusion=st.booleans())
def test_random_networks_match_the_runtime(case, seed, threads, fusion) -> None:
    model, shape = case
    x = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    agree(model, x, threads=threads, fusion=fusion)


@pytest.mark.parametrize("target", targets(), ids=lambda t: str(t.vector_bits))
@settings(max_examples=examples(8), deadline=None)
@given(case=networks(), seed=st.integers(0, 99))
def test_random_networks_at_every_vector_width(target, case, seed) -> None:
    model, shape = case
    agree(model, np.random.default_rng(seed).standard_normal(shape, dtype=np.float32), target=target)


def test_a_residual_block_matches_the_reference() -> None:
    net = FloatNetwork(2, 19, 9, 7)
    net.convolution(19, (3, 3), pads=[1, 1, 1, 1], bias=False)
    net.batch_normalization(19)
    first = net.add("Relu")
    net.convolution(19, (3, 3), pads=[1, 1, 1, 1])
    net.add("Add", first)
    net.add("Relu")
    x = np.random.default_rng(1).standard_normal((2, 19, 9, 7), dtype=np.float32)
    network = compile_kernels(net.model(), cpu_now())
    # Both convolutions with all that follows them, a change of layout at either end.
    assert [launch.operator for launch in network.launches].count("Convolution") == 2
    assert len(network.launches) == 4
    got = network.run({"x": x})[net.last]
    assert relative(got, reference(net.model(), {"x": x})[net.last]) <= TOLERANCE


@pytest.mark.parametrize(
    "name",
    [
        "mlp",
        "small_cnn",
        "dqn",
        "language_model",
        # Their kernels are those of random networks, and of test_cpu_operators.py: transposed and depthwise ones.
        pytest.param("dcgan", marks=pytest.mark.campaign),
        pytest.param("mobilenet", marks=pytest.mark.campaign),
    ],
)
def test_shipped_networks_match_the_runtime(name) -> None:
    model = shipped(name, "float")
    x = sample_inputs(name, 1, seed=3)
    expected = runtime(model, {"input": x})["output"]
    with compile_kernels(model, cpu_now()) as network:
        assert relative(network.run({"input": x})["output"], expected) <= TOLERANCE
        assert relative(network.run({"input": x}, threads=2)["output"], expected) <= TOLERANCE


def test_resnet18_has_a_kernel_for_each_convolution_and_reuses_its_memory() -> None:
    model, x = shipped("resnet18", "float"), sample_inputs("resnet18", 1, seed=3)
    network = compile_kernels(model, cpu_now())
    expected = runtime(model, {"input": x})["output"]
    for threads in (1, 2):
        assert relative(network.run({"input": x}, threads=threads)["output"], expected) <= TOLERANCE
    operators = [launch.operator for launch in network.launches]
    assert operators.count("Convolution") == 20
    # Around the products of those that are computed by Winograd's method.
    around = {"WinogradOutputs", "WinogradTiles"}
    assert sorted({*operators} - around) == ["AveragePool", "Convolution", "Dense", "MaxPool"]
    assert len(network.kernels) < len(network.launches)
    assert network.plan.bytes < network.plan.bytes_without_reuse / 2


def test_infinities_and_nan_pass_through_odd_channels() -> None:
    """The unused lanes of the last channel block must not turn an infinity into NaN."""
    net = FloatNetwork(1, 5, 4, 4)
    net.add("Conv", net.constant(np.ones((19, 5, 1, 1), np.float32)))
    net.add("Relu")
    net.add("Conv", net.constant(np.ones((3, 19, 3, 3), np.float32)), pads=[1, 1, 1, 1])
    net.shape = (1, 3, 4, 4)
    x = np.ones((1, 5, 4, 4), np.float32)
    x[0, 2, 0, 0], x[0, 1, 3, 3] = np.inf, np.nan
    expected = runtime(net.model(), {"x": x})[net.last]
    got = compile_kernels(net.model(), cpu_now()).run({"x": x})[net.last]
    assert np.isinf(expected).any() and np.isnan(expected).any()
    np.testing.assert_array_equal(got, expected)

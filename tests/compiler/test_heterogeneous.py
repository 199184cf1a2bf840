"""Networks divided between a simulated accelerator and the CPU: outputs equal those of the regions run separately, and
ONNX Runtime's.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from float_networks import relative
from mixed_networks import MixedNetwork, unoptimized

from vdla.compiler import divided
from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.divided import Division, compile_divided
from vdla.compiler.graph.errors import ModelError
from vdla.compiler.graph.host import InputError
from vdla.compiler.pipeline import compile_kernels, compile_program
from vdla.compiler.runtime.accelerator import run as execute
from vdla.compiler.runtime.heterogeneous_network import RegionTime
from vdla.compiler.templates.vdla.lower import DoesNotFitError
from vdla.isa.config import Config, load_config
from vdla.util.errors import UserError

SHAPE = (1, 4, 6, 6)


def mixed() -> MixedNetwork:
    """A network with a residual: the result of a first convolution is added to its own Sigmoid; a second convolution,
    an average over all positions and a Softmax follow.
    """
    net = MixedNetwork(*SHAPE)
    net.pair()
    shortcut = net.quantized_convolution(4)
    net.add("Sigmoid")
    net.pair(0.004, 0)
    net.add("Add", shortcut)
    net.pair()
    net.quantized_convolution(8)
    net.other("GlobalAveragePool")
    net.pair()
    net.other("Flatten")
    net.add("Softmax", axis=1)
    return net


def split() -> MixedNetwork:
    """A network that splits the result of a Sigmoid along its rows; only the second of the two parts is convolved."""
    net = MixedNetwork(*SHAPE)
    net.pair()
    net.quantized_convolution(4)
    net.add("Sigmoid")
    net.pair(0.004, 0)
    net.add("Split", net.constant(np.array([2, 4])), axis=2)
    first, net.last = net.last, f"{net.last}.second"
    next(node for node in net.nodes if first in node.output).output.append(net.last)
    net.shape = (1, 4, 4, 6)
    net.quantized_convolution(4)
    return net


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config("tiny")


@pytest.fixture(scope="module")
def model() -> bytes:
    return mixed().model()


@pytest.fixture(scope="module")
def division(model: bytes, config: Config) -> Division:
    return compile_divided(model, config)


def feeds_of(division: Division, seed: int = 0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {
        port.name: generator.normal(0, 1.5, port.shape).astype(port.dtype) for port in division.network.inputs
    }


def test_outputs_are_those_of_the_pieces_and_of_onnxruntime(
    division: Division, model: bytes, config: Config
) -> None:
    network = division.network
    assert [region.accelerated for region in network.regions] == [True, False, True, False]
    for seed in range(3):
        feeds = feeds_of(division, seed)
        result = network.run(feeds)
        tensors = dict(feeds)
        for region in network.regions:
            given = {name: tensors[name] for name in region.inputs}
            if region.accelerated:
                tensors |= execute(compile_program(region.model, config), given).outputs
            else:
                with compile_kernels(region.model, cpu_now()) as piece:
                    tensors |= piece.run(given)
        expected = unoptimized(model, feeds)
        for name, array in result.outputs.items():
            np.testing.assert_array_equal(array, tensors[name])
            assert relative(array, expected[name]) <= 1e-5


def test_times_are_the_simulators_and_the_clocks(division: Division, config: Config) -> None:
    result = division.network.run(feeds_of(division), threads=2)
    times = division.network.time(result, repeat=3, threads=2)
    for region, spent in zip(division.network.regions, times, strict=True):
        assert spent.name == region.name and spent.seconds > 0 and spent.accelerated == region.accelerated
        if region.accelerated:
            program = compile_program(region.model, config)
            assert spent.cycles == result.cycles[region.name]
            assert spent.cycles == execute(program, {}, data=False).simulation.cycles
            assert spent.seconds == spent.cycles / config.clock_hertz
            assert spent.boundary_seconds > 0
        else:
            assert spent.cycles is None and spent.boundary_seconds == 0.0
    with pytest.raises(UserError, match="cannot time 0 runs"):
        division.network.time(result, repeat=0)
    division.network.close()


def test_integers_reach_the_cpu_and_leave_it(config: Config) -> None:
    net = MixedNetwork(*SHAPE)
    grid = [net.constant(np.float32(0.05)), net.constant(np.uint8(128))]
    # The accelerator pads dequantized tensors alone.
    integers = net.add("Pad", net.constant(np.zeros(8, np.int64)))
    net.add("DequantizeLinear", *grid)
    net.pair()
    net.add("Conv", net.weight(4, 4, 1, 1))
    convolved = net.add("QuantizeLinear", *grid)
    proto = onnx.load_from_string(net.model(**{integers: SHAPE, convolved: SHAPE}))
    for info in (*proto.graph.input, *proto.graph.output):
        info.type.tensor_type.elem_type = onnx.TensorProto.UINT8
    model = proto.SerializeToString()
    x = {"x": np.random.default_rng(0).integers(0, 256, SHAPE).astype(np.uint8)}
    with compile_divided(model, config).network as network:
        assert [region.accelerated for region in network.regions] == [False, True]
        outputs = network.run(x).outputs
    for name, expected in unoptimized(model, x).items():
        assert outputs[name].dtype == np.uint8
        np.testing.assert_array_equal(outputs[name], expected)


def test_a_layer_that_does_not_fit_goes_to_the_cpu(config: Config) -> None:
    small = replace(config, acc_buffer_bytes=256)
    net = MixedNetwork(1, 4, 44, 44)
    net.pair()
    net.quantized_convolution(4, 1)
    net.other("MaxPool", kernel_shape=[40, 40])
    net.pair()
    net.quantized_convolution(4, 1)
    model = net.model()
    with pytest.raises(DoesNotFitError, match="no tile is small enough"):
        compile_program(model, small)
    feeds = {"x": np.random.default_rng(0).normal(0, 1.5, net.input_shape).astype(np.float32)}
    with compile_divided(model, small).network as network:
        assert [(region.accelerated, "MaxPool" in region.operators) for region in network.regions] == [
            (True, False),
            (False, True),
            (True, False),
        ]
        np.testing.assert_array_equal(
            network.run(feeds).outputs[net.last], unoptimized(model, feeds)[net.last]
        )


def test_a_part_that_enters_the_accelerator_waits_for_what_is_split(config: Config) -> None:
    net = split()
    model, feeds = net.model(), {"x": np.random.default_rng(0).normal(0, 1.5, SHAPE).astype(np.float32)}
    with compile_divided(model, config).network as network:
        assert [region.accelerated for region in network.regions] == [True, False, True]
        np.testing.assert_array_equal(
            network.run(feeds).outputs[net.last], unoptimized(model, feeds)[net.last]
        )


@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool"])
def test_behind_a_pool_whose_last_window_lies_in_the_pad(config: Config, operator: str) -> None:
    """A pool whose last window lies completely in the padding, in a network divided between accelerator and processor.
    ONNX's shape inference counts this window, and the division must agree with the outputs of ONNX Runtime.
    """
    net = MixedNetwork(*SHAPE)
    net.pair()
    net.quantized_convolution(4)
    net.add(operator, kernel_shape=[2, 2], strides=[3, 3], ceil_mode=1)
    net.pair()
    net.add("Sigmoid")
    net.pair(0.004, 0)
    net.shape = (1, 4, 2, 2)
    net.quantized_convolution(4)
    model, feeds = net.model(), {"x": np.random.default_rng(0).normal(0, 1.5, SHAPE).astype(np.float32)}
    with compile_divided(model, config).network as network:
        assert [region.accelerated for region in network.regions] == [True, False, True]
        ours = network.run(feeds).outputs[net.last]
    np.testing.assert_allclose(ours, unoptimized(model, feeds)[net.last], atol=0.051)


def test_a_view_that_cannot_enter_the_accelerator_is_read_on_the_cpu(config: Config) -> None:
    net = MixedNetwork(*SHAPE)
    flat, plane = net.constant(np.array([1, 4, 6, 3, 2])), net.constant(np.array(SHAPE))
    net.pair()
    convolved = net.quantized_convolution(4)
    rows = net.add("Reshape", flat)
    net.last = convolved
    net.add("Sigmoid")
    net.pair(0.004, 0)
    net.add("Reshape", flat)
    net.add("Add", rows)
    net.add("Reshape", plane)
    net.pair()
    net.quantized_convolution(4)
    model = net.model()
    feeds = {"x": np.random.default_rng(0).normal(0, 1.5, SHAPE).astype(np.float32)}
    with compile_divided(model, config).network as network:
        assert [region.accelerated for region in network.regions] == [True, False, True]
        assert "Add" in network.regions[1].operators
        np.testing.assert_array_equal(
            network.run(feeds).outputs[net.last], unoptimized(model, feeds)[net.last]
        )


def test_each_region_runs_where_its_measured_time_is_least(
    model: bytes, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu_seconds = {1: 1e9, 2: 0.0}

    def time_region(region, tensors, **options):
        # The first region is dear on the CPU, the second one costs nothing there.
        second = "Add" in region.operators
        seconds = 1e-3 if region.accelerated else cpu_seconds[2 if second else 1]
        return RegionTime(name=region.name, accelerated=region.accelerated, seconds=seconds)

    monkeypatch.setattr(divided, "time_region", time_region)
    division = compile_divided(model, config, cost_threads=1)
    assert [region.accelerated for region in division.network.regions] == [True, False]
    assert [item.accelerated for item in division.comparisons] == [True, False]
    assert all(item.accelerator_seconds == 1e-3 and not item.remark for item in division.comparisons)


def test_every_region_dumps_its_passes(tmp_path: Path, config: Config) -> None:
    net = MixedNetwork(1, 4, 4, 4)
    net.pair()
    net.quantized_convolution(4, 1)
    net.add("Sigmoid")
    compile_divided(net.model(), config, dump_passes=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"00-accelerator", "01-cpu"}
    assert all(any(path.iterdir()) for path in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("feeds", "words"),
    [
        ({}, "input 'x' is missing; the model expects x float32 [1, 4, 6, 6]"),
        ({"y": np.zeros(SHAPE, np.float32)}, "has no input 'y'"),
        ({"x": np.zeros((2, 4, 6, 6), np.float32)}, "has shape (2, 4, 6, 6)"),
        ({"x": np.zeros(SHAPE)}, "has type float64; convert it to float32"),
        ({"x": [0.0]}, "must be a numpy array, not list"),
        ({"x": np.full(SHAPE, np.nan, np.float32)}, "region 0 (x): input 'x' contains NaN"),
    ],
)
def test_unfit_inputs(division: Division, feeds, words: str) -> None:
    with pytest.raises(InputError) as refused:
        division.network.run(feeds)
    assert words in str(refused.value)


def test_what_no_target_runs(config: Config) -> None:
    net = MixedNetwork(*SHAPE)
    net.pair()
    net.quantized_convolution(4)
    net.add("Det")
    net.shape = (1, 4)
    with pytest.raises(ModelError) as refused:
        compile_divided(net.model(), config)
    assert "node 'n6' (Det): neither target runs it" in str(refused.value)
    with pytest.raises(UserError, match="virtual threads = 0"):
        compile_divided(mixed().model(), config, virtual_threads=0)

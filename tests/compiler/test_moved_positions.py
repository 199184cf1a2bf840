"""Transposed convolutions, Resize and normalizations in quantized networks: equal on every target, bit for bit."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from campaign import representatives
from float_networks import reference, runtime

from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.graph.abilities import ACCELERATOR, PROCESSOR
from vdla.compiler.graph.host import load_outputs, store_inputs
from vdla.compiler.graph.int8_convolution import Int8Convolution, Interleave
from vdla.compiler.graph.int8_operators import Interpolation, Positions, Resample, Swap
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.position_boxes import boxes_of
from vdla.compiler.pipeline import compile_kernels, compile_program
from vdla.compiler.rewrites.fuse import fuse
from vdla.compiler.runtime.accelerator import run
from vdla.isa.check import check
from vdla.isa.config import load_config
from vdla.isa.decoding import format_names

from .random_networks import builder
from .right_programs import assert_right
from .test_cpu_partly_quantized import Rounded, transposed

TINY = load_config("tiny")
MACHINES = {
    "tiny": TINY,
    "batch 2, taps": replace(TINY, batch=2, extensions=(*TINY.extensions, "taps")),
    "8x4": replace(TINY, block_in=8, extensions=("post", "patch")),
    "4x8": replace(TINY, block_out=8, extensions=("post",), chain_buffer_bytes=256),
}


def resized(shape: tuple[int, ...], plane: tuple[int, int], mode: str, coordinates: str) -> Rounded:
    """A network of a 1x1 convolution, whose result has the given `shape`, and a Resize of the result to `plane`, with
    the interpolation `mode` and the coordinate transformation `coordinates`.
    """
    net = Rounded(shape[0], 3, *shape[2:])
    net.product("Conv", (shape[1], 3, 1, 1), net.rounded(0.02))
    sizes = net.constant(np.array([*shape[:2], *plane]))
    net.add(
        "Resize",
        inputs=[net.last, "", "", sizes],
        mode=mode,
        coordinate_transformation_mode=coordinates,
        nearest_mode="floor",
    )
    net.rounded(0.03, 120)
    net.shape = (*shape[:2], *plane)
    return net


def normalized(channels: int) -> Rounded:
    """A network of a BatchNormalization and a ReLU; one channel has the factor 0, another one the factor 1e-9."""
    net = Rounded(1, channels, 5, 6)
    net.rounded(0.02)
    scale, bias, mean = (net.rng.standard_normal(channels).astype(np.float32) for _ in range(3))
    scale[:2] = 0, 1e-9
    variance = net.rng.uniform(0.5, 2, channels).astype(np.float32)
    net.add("BatchNormalization", *[net.constant(part) for part in (scale, bias, mean, variance)])
    net.add("Relu")
    net.rounded(0.02, 10)
    return net


CASES = {
    "2x2 by 2": (lambda: transposed(16, 2, strides=[2, 2]), Interleave),
    "3x3 by 2, cut": (
        lambda: transposed(5, 3, strides=[2, 2], pads=[1] * 4, output_padding=[1, 1]),
        Interleave,
    ),
    "1x1 by 3": (lambda: transposed(3, 1, strides=[3, 3]), Interleave),
    "4x4 by 1": (lambda: transposed(9, 4, strides=[1, 1]), Interleave),
    "3x3 with gaps": (lambda: transposed(5, 3, strides=[2, 2], pads=[1] * 4, dilations=[2, 2]), Interleave),
    "twice, nearest": (lambda: resized((1, 5, 3, 4), (6, 8), "nearest", "asymmetric"), Positions),
    "odd, nearest": (lambda: resized((2, 5, 3, 5), (7, 3), "nearest", "half_pixel"), Positions),
    "one position": (lambda: resized((1, 5, 1, 1), (3, 2), "linear", "pytorch_half_pixel"), Positions),
    "eightfold": (lambda: resized((1, 5, 2, 3), (16, 24), "linear", "pytorch_half_pixel"), Interpolation),
    "by 5/3": (lambda: resized((1, 3, 6, 3), (10, 5), "linear", "half_pixel"), Interpolation),
    "smaller": (lambda: resized((1, 9, 7, 8), (3, 4), "linear", "align_corners"), Interpolation),
    "normalized": (lambda: normalized(7), Int8Convolution),
}


@pytest.mark.parametrize("case", CASES)
def test_every_target_computes_the_same(case: str) -> None:
    build, kind = CASES[case]
    net = build()
    net.opset = 19
    model = net.model()
    x = net.rng.standard_normal(net.input_shape, dtype=np.float32)
    graph = import_model(model, abilities=PROCESSOR)
    assert kind in {type(node.operator) for node in graph.nodes}
    (wanted,) = load_outputs(graph, interpret(graph, store_inputs(graph, {"x": x}))).values()
    (output,) = graph.outputs
    # ONNX Runtime resizes integers, and cuts off what is between them; the standard rounds.
    for peer in (runtime, reference):
        steps = np.abs(wanted - peer(model, {"x": x})[net.last]) / float(output.quantization.scale)
        assert steps.max() <= 1.01, peer
    with compile_kernels(model, cpu_now()) as network:
        assert network.quantized
        np.testing.assert_array_equal(network.run({"x": x})[output.name], wanted)
    if kind is Interpolation:
        # The accelerator rounds columns before it resizes rows.
        graph = import_model(model, abilities=ACCELERATOR)
        assert Resample in {type(node.operator) for node in graph.nodes}
        exact = wanted
        (wanted,) = load_outputs(graph, interpret(graph, store_inputs(graph, {"x": x}))).values()
        assert np.abs(wanted - exact).max() <= 1.01 * float(output.quantization.scale)
    machines = list(MACHINES.values())
    first = list(CASES).index(case) % 2
    for config in machines[first::2]:
        if config.batch == 1 or kind is not Positions or graph.tensors[output.tensor].shape[0] == 1:
            made = compile_program(fuse(graph), config, verify=True)
            assert check(config, made.program.instructions, made.program.image) == []
            np.testing.assert_array_equal(run(made, {"x": x}).outputs[output.name], wanted)


def gathered(seed: int) -> np.ndarray:
    """Source positions of a movement of data, [images, rows, columns]: for each position of the result, the number of
    the position in a (2, C, 6, 9) tensor from which it is copied, or -1 for a pad. `seed` (0 to 7) selects the kind of
    movement, for example padding, slicing or transposition.
    """
    plane = np.arange(2 * 6 * 9).reshape(2, 6, 9)
    padded = np.pad(plane, ((0, 0), (1, 2), (0, 3)), constant_values=-1)
    windows = plane.reshape(2, 2, 3, 3, 3).transpose(0, 1, 3, 2, 4).reshape(12, 9, 1)
    return [
        padded,
        np.roll(plane, (2, 4), (1, 2)),
        plane[:, 1::2, ::3],
        windows,
        plane.transpose(0, 2, 1),
        plane[::-1, ::-1],
        np.argsort(windows.reshape(-1)).reshape(2, 6, 9),
        np.random.default_rng(0).integers(-1, plane.size, (1, 4, 5)),
    ][seed]


@pytest.mark.parametrize(
    ("seed", "name"),
    representatives(
        itertools.product(range(8), ("tiny", "8x4")),
        0,
        # All positions, in turn on one of the machines; those in no order on both.
        always=[*((seed, ("tiny", "8x4")[seed % 2]) for seed in range(8)), (6, "8x4")],
    ),
)
def test_positions_in_any_order(seed: int, name: str) -> None:
    config = MACHINES[name]
    index = gathered(seed)
    if seed == 3:
        assert len(boxes_of(index[0] % 54, 108)) == 1
    b = builder(seed)
    x = b.convolution(b.input(2, 3, 6, 9), 9, (1, 1))
    fill = b.tensors[x].grid
    operator = Positions(index=index, fill=fill.stored_zero_point)
    shape = (len(index), 9, *index.shape[1:])
    y = b._append("positions", operator, (x,), shape, fill.zero_point)
    assert_right(compile_program(fuse(b.graph(b.convolution(y, 4, (1, 1)))), config, verify=True))


def test_a_window_in_a_row_is_one_box_and_one_copy() -> None:
    # A window of 3 x 4 in a plane of 6 x 9, one place after the other, behind and before positions of zeros.
    window = (np.arange(3)[:, None] * 9 + np.arange(4) + 11).reshape(-1)
    index = np.concatenate([[-1], window, [-1, -1]]).reshape(1, -1, 1)
    boxes = boxes_of(index[0], 108)
    copied = [box for box in boxes if box.source is not None]
    assert [(box.rows, box.columns, box.output.down, box.output.along) for box in copied] == [(3, 4, 4, 1)]
    b = builder(7)
    x = b.convolution(b.input(1, 3, 6, 9), 9, (1, 1))
    y = b._append("positions", Positions(index=index), (x,), (1, 9, 15, 1), 0)
    result = compile_program(fuse(b.graph(b.convolution(y, 4, (1, 1)))), TINY, verify=True)
    assert_right(result)


def test_parameters_that_are_there_are_not_loaded_again() -> None:
    index = np.random.default_rng(0).permutation(54).reshape(1, 6, 9)
    b = builder(8)
    x = b.input(1, 4, 6, 9)
    y = b._append("positions", Positions(index=index), (x,), (1, 4, 6, 9), 0)
    result = compile_program(b.graph(y), replace(TINY, par_buffer_bytes=256), verify=True)
    assert_right(result)
    names = format_names(result.program.instructions)
    # Each of many copies has the same parameters, in one of eight places.
    assert names.count("LOAD.PAR") == 8 < names.count("STORE.POST") // 2


def test_an_exchange_whose_positions_need_more_tiles_than_weights_have() -> None:
    """A transposition whose selection matrix has more tiles than the weight buffer holds, so that it is divided into
    several kernels, is right.
    """
    b = builder(9)
    x = b.input(2, 24, 20, 30)
    y = b._append("swapped", Swap(positions=600), (x,), (2, 600, 24, 1), 0)
    config = replace(TINY, wgt_buffer_bytes=32 * TINY.block_in * TINY.block_out)
    assert_right(compile_program(b.graph(y), config, verify=True))


@pytest.mark.parametrize(
    ("name", "groups"),
    representatives(
        itertools.product(MACHINES, (2, 4)),
        0,
        always=[(name, (2, 4)[i % 2]) for i, name in enumerate(MACHINES)],
    ),
)
def test_transposed_convolutions_in_groups(name: str, groups: int) -> None:
    config = MACHINES[name]
    net = transposed(3, 4, strides=[2, 2], pads=[1] * 4, group=groups)
    model, feeds = net.model(), {"x": np.random.default_rng(3).standard_normal((1, 4, 5, 6), np.float32)}
    made = compile_program(model, config, verify=True)
    assert check(config, made.program.instructions, made.program.image) == []
    (ours,) = run(made, feeds).outputs.values()
    (expected,) = runtime(model, feeds).values()
    assert ours.shape == net.shape
    np.testing.assert_allclose(ours, expected, atol=0.031)

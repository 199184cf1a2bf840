"""Transposed, sliced and concatenated tensors of three and four dimensions on the accelerator: views where possible,
otherwise moves of data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from float_networks import runtime

from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.graph.abilities import PROCESSOR
from vdla.compiler.graph.host import load_outputs, store_inputs
from vdla.compiler.graph.int8_operators import Channels, Positions, Swap
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.pipeline import compile_kernels, compile_program
from vdla.compiler.runtime.accelerator import run
from vdla.isa.check import check
from vdla.isa.config import load_config

from .test_cpu_partly_quantized import Rounded

TINY = load_config("tiny")
MACHINE = replace(TINY, extensions=(*TINY.extensions, "table", "broadcast"))
MOVES = (Channels, Positions, Swap)


class Viewed(Rounded):
    """A network in which the result of every node is quantized with one scale and zero point, as ONNX Runtime quantizes
    movement of data.
    """

    def then(self, operator: str, *others, inputs: list[str] | None = None, **attributes) -> str:
        self.add(
            operator,
            *[x if isinstance(x, str) else self.constant(x) for x in others],
            inputs=inputs,
            **attributes,
        )
        return self.rounded(0.03, 120)

    def moved(self, *axes: int) -> str:
        return self.then("Transpose", perm=list(axes))

    def reshaped(self, *shape: int) -> str:
        return self.then("Reshape", np.array(shape))

    def rows(self, depth: int, columns: int, *, bias: bool = True) -> str:
        """Adds a product of each row with weights [depth, columns] and, with `bias`, a bias as quantizers write it;
        returns the name of the result.
        """
        out = self.product("MatMul", (depth, columns), self.last)
        if bias:
            values = self.rng.integers(0, 256, columns).astype(np.uint8)
            grid = [self.constant(np.float32(0.01)), self.constant(np.uint8(128))]
            addend = self.add("DequantizeLinear", inputs=[self.constant(values), *grid])
            out = self.then("Add", inputs=[addend, out])
        return out

    def cut(self, axis: int, start: int, end: int) -> str:
        return self.then("Slice", *[np.array([v]) for v in (start, end, axis, 1)])


def channels_last() -> Viewed:
    """A block like ConvNeXt's: channels last, products at each position, a factor for each channel, an addition."""
    net = Viewed(1, 4, 3, 5)
    first = net.product("Conv", (9, 4, 1, 1), net.rounded(0.02))
    net.moved(0, 2, 3, 1)
    net.rows(9, 12)
    net.rows(12, 9)
    moved = net.moved(0, 3, 1, 2)
    scale = [
        net.constant(v) for v in (np.arange(9, dtype=np.uint8).reshape(9, 1, 1), np.float32(0.1), np.uint8(2))
    ]
    factor = net.add("DequantizeLinear", inputs=scale)
    scaled = net.then("Mul", inputs=[factor, moved])
    net.then("Add", inputs=[scaled, first])
    net.shape = (1, 9, 3, 5)
    return net


def patches() -> Viewed:
    """A network like ViT: patches become rows after a class token, then heads are separated and merged again, and the
    token's row is the output.
    """
    net = Viewed(2, 3, 4, 4)
    net.product("Conv", (8, 3, 2, 2), net.rounded(0.02), strides=[2, 2])
    net.reshaped(2, 8, 4)
    rows = net.moved(0, 2, 1)
    grid = [net.constant(np.float32(0.05)), net.constant(np.uint8(100))]
    token = net.constant(net.rng.integers(0, 256, (2, 1, 8)).astype(np.uint8))
    net.then("Concat", inputs=[net.add("DequantizeLinear", inputs=[token, *grid]), rows], axis=1)
    net.rows(8, 24)
    net.reshaped(2, 5, 3, 2, 4)
    net.moved(2, 0, 3, 1, 4)
    heads = net.then("Gather", np.array(2), axis=0)
    net.then("Transpose", inputs=[heads], perm=[0, 2, 1, 3])
    net.reshaped(2, 5, 8)
    net.rows(8, 6)
    net.then("Gather", np.array(0), axis=1)
    net.rows(6, 5, bias=False)
    net.shape = (2, 5)
    return net


def mixed() -> Viewed:
    """A block like MLP-Mixer's: products over rows, an addition of the input, a product over channels, the mean of
    rows.
    """
    net = Viewed(1, 7, 6)
    before = net.rounded(0.02)
    net.moved(0, 2, 1)
    net.rows(7, 10)
    net.add("Sigmoid")
    net.rounded(1 / 255, 0)
    net.rows(10, 7)
    after = net.moved(0, 2, 1)
    net.then("Add", inputs=[before, after])
    net.rows(6, 5)
    net.then("ReduceMean", axes=[1], keepdims=0)
    net.shape = (1, 5)
    return net


def windows() -> Viewed:
    """A network of the steps of Swin: pads, a cyclic shift, windows cut out and joined again, and positions merged into
    channels.
    """
    net = Viewed(1, 4, 3, 5)
    net.product("Conv", (6, 4, 1, 1), net.rounded(0.02))
    net.moved(0, 2, 3, 1)
    net.then("Pad", np.array([0, 0, 0, 0, 0, 1, 1, 0]))
    whole = net.last
    parts = [net.then("Slice", *[np.array([v]) for v in (a, b, 1, 1)], inputs=None) for a, b in ((1, 4),)]
    first = net.then("Slice", inputs=[whole, *[net.constant(np.array([v])) for v in (0, 1, 1, 1)]])
    net.then("Concat", inputs=[parts[0], first], axis=1)
    net.reshaped(1, 2, 2, 3, 2, 6)
    net.moved(0, 1, 3, 2, 4, 5)
    net.reshaped(6, 4, 6)
    net.rows(6, 6)
    net.reshaped(1, 2, 3, 2, 2, 6)
    net.moved(0, 1, 3, 2, 4, 5)
    net.reshaped(1, 4, 6, 6)
    source = net.last
    quarters = []
    for row in (0, 1):
        bounds = [net.constant(np.array(v)) for v in ([row, 0], [4, 6], [1, 2], [2, 2])]
        quarters.append(net.then("Slice", inputs=[source, *bounds]))
    net.then("Concat", inputs=quarters, axis=3)
    net.rows(12, 7)
    net.shape = (1, 2, 3, 7)
    return net


def padded() -> Viewed:
    """A network in which zero pads pass through a Sigmoid or a Clip, which change the zeros, before a product at each
    position.
    """
    net = Viewed(1, 4, 3, 5)
    net.product("Conv", (6, 4, 1, 1), net.rounded(0.02))
    net.moved(0, 2, 3, 1)
    net.then("Pad", np.array([0, 0, 0, 0, 0, 1, 1, 0]))
    net.add("Sigmoid")
    net.rounded(1 / 200, 10)
    net.rows(6, 6)
    net.then("Pad", np.array([0, 1, 0, 0, 0, 0, 0, 0]))
    net.add("Clip", *[net.constant(np.float32(v)) for v in (0.3, 2.0)])
    net.rounded(0.03, 120)
    net.reshaped(30, 6)
    net.rows(6, 4)
    net.shape = (30, 4)
    return net


def space() -> Viewed:
    """A super-resolution network: DepthToSpace and SpaceToDepth, and pads that reflect or repeat the border."""
    net = Viewed(2, 4, 3, 5)
    net.product("Conv", (16, 4, 1, 1), net.rounded(0.02))
    net.then("DepthToSpace", blocksize=2, mode="CRD")
    net.then("Pad", np.array([0, 0, 1, 2, 0, 0, 1, 0]), mode="reflect")
    net.product("Conv", (6, 4, 3, 3), net.last)
    net.then("Pad", np.array([0, 1, 0, 0, 0, 0, 2, 0]), mode="edge")
    net.then("SpaceToDepth", blocksize=2)
    net.product("Conv", (5, 28, 1, 1), net.last)
    net.shape = (2, 5, 4, 5)
    return net


def joined() -> Viewed:
    """An image whose rows and columns are exchanged is joined with the result of a convolution, channel by channel."""
    net = Viewed(1, 4, 2, 5)
    net.rounded(0.03, 120)
    net.product("Conv", (20, 4, 1, 1), net.last)
    turned = net.moved(0, 1, 3, 2)
    net.product("Conv", (7, 20, 1, 1), turned)
    net.then("Concat", inputs=[turned, net.last], axis=1)
    net.product("Conv", (5, 27, 1, 1), net.last)
    net.shape = (1, 5, 5, 2)
    return net


CASES: dict[str, tuple[Callable[[], Viewed], set[type]]] = {
    "ConvNeXt": (channels_last, set()),
    "ViT": (patches, {Positions, Channels}),
    "Mixer": (mixed, {Swap}),
    "Swin": (windows, {Positions, Channels}),
    "pads": (padded, {Positions}),
    "space": (space, {Positions, Channels}),
    "joined": (joined, {Positions, Channels}),
}


@pytest.mark.parametrize(("build", "moves"), CASES.values(), ids=CASES)
def test_views_and_moves_compute_what_the_model_does(build: Callable[[], Viewed], moves: set[type]) -> None:
    net = build()
    net.opset = 17
    model = net.model()
    x = net.rng.standard_normal(net.input_shape, dtype=np.float32)
    graph = import_model(model, abilities=PROCESSOR)
    assert {type(node.operator) for node in graph.nodes if isinstance(node.operator, MOVES)} == moves
    (wanted,) = load_outputs(graph, interpret(graph, store_inputs(graph, {"x": x}))).values()
    (output,) = graph.outputs
    steps = np.abs(wanted - runtime(model, {"x": x})[net.last]) / float(output.quantization.scale)
    # Roundings of several layers add up.
    assert wanted.shape == net.shape and steps.max() <= 2.01
    with compile_kernels(model, cpu_now()) as network:
        np.testing.assert_array_equal(network.run({"x": x})[output.name], wanted)
    made = compile_program(model, MACHINE, verify=True)
    assert check(MACHINE, made.program.instructions, made.program.image) == []
    (own,) = load_outputs(made.graph, interpret(made.graph, store_inputs(made.graph, {"x": x}))).values()
    np.testing.assert_array_equal(run(made, {"x": x}).outputs[output.name], own)
    assert np.abs(own - wanted).max() <= 1.01 * float(output.quantization.scale)

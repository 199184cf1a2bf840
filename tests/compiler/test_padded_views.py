"""Pads of tensors that are views, in integer graphs: the padding integers are the zero point of the right quantization,
and lie in the right places, also where the model reads the same integers with two quantizations.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from float_networks import reference

from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.graph.abilities import ACCELERATOR, PROCESSOR
from vdla.compiler.graph.host import load_outputs, store_inputs
from vdla.compiler.graph.interpret import interpret

from .test_cpu_partly_quantized import Rounded

STEP = 0.03


class Padded(Rounded):
    """A network of moves and pads, whose quantized tensors have the scale STEP."""

    def __init__(self, *shape: int) -> None:
        super().__init__(*shape, opset=19)

    def requantized(self, written: int, read: int) -> str:
        """Adds a QuantizeLinear with the zero point `written`, and a DequantizeLinear of the same integers with the
        zero point `read`; returns the name of the dequantized tensor.
        """
        scale = self.constant(np.float32(STEP))
        self.add("QuantizeLinear", scale, self.constant(np.uint8(written)))
        return self.add("DequantizeLinear", scale, self.constant(np.uint8(read)))

    def reversed(self, axis: int) -> str:
        limits = [self.constant(np.array([value])) for value in (-1, -(2**40), axis, -1)]
        return self.add("Slice", *limits)

    def padded(self, *pads: int, value: float = 0.0, source: str | None = None) -> str:
        operands = [self.constant(np.array(pads)), self.constant(np.float32(value))]
        return self.add("Pad", inputs=[source or self.last, *operands])


def written_with_another() -> Padded:
    """Reversed integers are padded after they were read with another zero point than they were written with."""
    net = Padded(1, 5, 4, 6)
    net.requantized(40, 200)
    net.reversed(3)
    net.padded(0, 0, 1, 0, 0, 0, 2, 1)
    net.requantized(200, 7)
    net.shape = (1, 5, 7, 7)
    return net


def read_with_another() -> Padded:
    """Reversed and padded integers are read with another zero point than they were written with."""
    net = Padded(2, 4, 5, 4)
    net.requantized(90, 90)
    net.reversed(2)
    net.padded(0, 1, 0, 0, 0, 0, 2, 0)
    net.requantized(90, 3)
    net.reversed(3)
    net.requantized(120, 120)
    net.shape = (2, 5, 7, 4)
    return net


def rows_read_with_another() -> Padded:
    """As `read_with_another`, of rows (N, L, C) that are transposed."""
    net = Padded(1, 6, 5)
    net.requantized(90, 90)
    net.add("Transpose", perm=[0, 2, 1])
    net.padded(0, 1, 0, 0, 2, 0)
    net.requantized(90, 3)
    net.shape = (1, 8, 6)
    return net


def column() -> Padded:
    """The pixels of an image with one channel are padded as tensors of one element each."""
    net = Padded(1, 1, 4, 5)
    net.requantized(90, 90)
    net.add("Gather", net.constant(np.array(3)), axis=2)
    net.add("Transpose", perm=[2, 0, 1])
    net.padded(0, 1, 0, 0, 2, 0)
    net.requantized(60, 60)
    net.shape = (5, 4, 1)
    return net


def maxima(value: float, *pads: int) -> Padded:
    """The maxima of an image's columns, a tensor of three dimensions, are padded with `value`."""
    net = Padded(1, 3, 4, 5)
    net.requantized(90, 90)
    net.add("ReduceMax", net.constant(np.array([2])), keepdims=0)
    net.padded(*pads, value=value)
    net.requantized(60, 60)
    before, after = np.reshape(pads, (2, 3))
    net.shape = tuple((np.array([1, 3, 5]) + before + after).tolist())
    return net


FORMS: dict[str, Callable[[], Padded]] = {
    "written with another": written_with_another,
    "read with another": read_with_another,
    "rows read with another": rows_read_with_another,
    "column": column,
    "maxima": lambda: maxima(0.5, 0, 0, 2, 0, 0, 1),
    "channels of maxima": lambda: maxima(-0.5, 0, 2, 0, 0, 1, 0),
}


@pytest.mark.parametrize("processor", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_pads_of_views_are_the_models(form: str, processor: bool) -> None:
    net = FORMS[form]()
    assert_near(net, net.model(), 1.01 * STEP, processor=processor)


@pytest.mark.parametrize("processor", [False, True])
def test_integers_that_are_read_twice_are_padded_twice(processor: bool) -> None:
    net = Padded(1, 4, 4, 5)
    first = net.requantized(90, 90)
    integers, scale, _ = net.nodes[-1].input
    second = net.add("DequantizeLinear", inputs=[integers, scale, net.constant(np.uint8(20))])
    shapes = {}
    for source in (first, second):
        net.padded(0, 0, 1, 1, 0, 0, 1, 0, source=source)
        net.add("MaxPool", kernel_shape=[2, 2])
        shapes[net.requantized(90, 90)] = (1, 4, 5, 5)
    assert_near(net, net.model(**shapes), 1.01 * STEP, processor=processor)


def assert_near(net: Padded, model: bytes, tolerance: float, *, processor: bool) -> None:
    """Asserts that the integer graph of `model`, imported for a processor or (`processor` False) for the accelerator,
    computes the outputs of ONNX's reference implementation up to the absolute `tolerance`. `net` makes the inputs.
    """
    feeds = {"x": net.rng.standard_normal(net.input_shape, dtype=np.float32)}
    graph = import_model(model, abilities=PROCESSOR if processor else ACCELERATOR)
    found = load_outputs(graph, interpret(graph, store_inputs(graph, feeds)))
    for name, expected in reference(model, feeds).items():
        np.testing.assert_allclose(found[name], expected, rtol=0, atol=tolerance)

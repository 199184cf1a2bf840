"""Rare operators of quantized networks on an accelerator, bit-equal to the interpreter and within a step of ONNX
Runtime; most of them in integers on processors, too.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from campaign import representatives
from float_networks import runtime

from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.graph.abilities import PROCESSOR, Abilities
from vdla.compiler.graph.errors import ModelError
from vdla.compiler.graph.host import load_outputs, store_inputs
from vdla.compiler.graph.int8_operators import Channels
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.pipeline import compile_kernels, compile_program
from vdla.compiler.runtime.accelerator import run
from vdla.isa.check import check

from .test_exported_forms import ended, image
from .test_masks_and_norms import MACHINE, right
from .test_views import Viewed


def right_everywhere(net: Viewed, kinds: dict[str, int]) -> None:
    """Asserts that a network is right on the accelerator, with `kinds` of nodes, and on a processor."""
    right(net, kinds)
    model = net.model()
    graph = import_model(model, abilities=PROCESSOR)
    x = net.rng.standard_normal(net.input_shape, dtype=np.float32)
    (own,) = load_outputs(graph, interpret(graph, store_inputs(graph, {"x": x}))).values()
    wanted, grid = runtime(model, {"x": x})[net.last], graph.outputs[0].quantization
    assert grid is not None and np.abs(own - wanted).max() <= 1.01 * float(grid.scale)
    with compile_kernels(model, cpu_now()) as network:
        assert np.array_equal(network.run({"x": x})[net.last], own)


def two(net: Viewed) -> tuple[str, str]:
    """Adds a convolution of the last tensor whose result has the same shape; returns the names of both tensors."""
    first = net.last
    return first, net.product("Conv", (8, 8, 1, 1), first)


@pytest.mark.parametrize("order", [1, -1])
def test_a_difference_of_tensors(order: int) -> None:
    net = image()
    net.add("Sub", inputs=list(two(net))[::order])
    right_everywhere(ended(net, 1, 8, 6, 5), {})


@pytest.mark.parametrize("shape", [(8, 1, 1), (1, 1, 6, 5), (1, 8, 6, 5)], ids=str)
@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("quantized", [False, True])
def test_a_difference_of_a_tensor_and_a_constant(shape: tuple[int, ...], order: int, quantized: bool) -> None:
    net = image()
    data, numbers = net.last, net.rng.standard_normal(shape).astype(np.float32)
    constant = net.constant(numbers)
    if quantized:
        grid = [net.constant(np.float32(0.02)), net.constant(np.uint8(120))]
        integers = net.constant(np.clip(np.rint(numbers / 0.02) + 120, 0, 255).astype(np.uint8))
        constant = net.add("DequantizeLinear", inputs=[integers, *grid])
    net.add("Sub", inputs=[data, constant][::order])
    right_everywhere(ended(net, 1, 8, 6, 5), {})


@pytest.mark.parametrize("operator", ["Max", "Min"])
@pytest.mark.parametrize(
    "others", ["tensor", "two tensors", "plane", "channels", "positions", "tensor of clamp"]
)
def test_extrema_of_tensors(operator: str, others: str) -> None:
    net = image()
    first, second = two(net)
    operands = {
        "tensor": [second],
        "two tensors": [second, net.product("Conv", (8, 8, 1, 1), first)],
        "plane": [net.add("GlobalAveragePool", inputs=[second])],
        "channels": [net.constant(np.linspace(-1, 2, 8).astype(np.float32).reshape(8, 1, 1))],
        "positions": [second, net.weights(6, 5)],
        "tensor of clamp": [second],
    }[others]
    if others == "plane":
        operands = [net.rounded(0.01, 90)]
    net.add(operator, inputs=[first, *operands])
    if others == "tensor of clamp":
        net.then("Clip", net.constant(np.float32(-0.4)), net.constant(np.float32(0.7)))
    right_everywhere(ended(net, 1, 8, 6, 5, scale=0.02, zero=70), {})


@pytest.mark.parametrize("operator", ["Max", "Min"])
def test_extrema_of_rows_and_of_parts(operator: str) -> None:
    """Max and Min are right for two tensors that are stored in different layouts, one of which is a part of a larger
    tensor.
    """
    net = Viewed(1, 5, 8)
    net.rounded(0.02)
    net.rows(8, 6)
    data = net.last
    net.rows(6, 6)
    net.then("Concat", inputs=[net.last, data], axis=2)
    net.cut(2, 3, 9)
    net.add(operator, inputs=[net.last, data])
    right_everywhere(ended(net, 1, 5, 6), {})


def test_extrema_of_which_none_has_the_shape_of_the_result_are_refused() -> None:
    net = image()
    data = net.last
    net.add("ReduceMax", axes=[2])
    rows = net.rounded(0.02, 128)
    net.add("ReduceMax", inputs=[data], axes=[3])
    columns = net.rounded(0.02, 128)
    net.add("Max", inputs=[rows, columns])
    with pytest.raises(ModelError, match=r"\(Max\).*operands of shapes .* do not match"):
        import_model(ended(net, 1, 8, 6, 5).model(), abilities=Abilities.of(MACHINE))


@pytest.mark.parametrize("operator", ["Add", "Mul", "Div"])
def test_a_float_constant_for_each_channel(operator: str) -> None:
    net = image()
    net.then("Relu")
    net.add(operator, net.constant(np.linspace(-1, 2, 8).astype(np.float32).reshape(8, 1, 1)))
    right_everywhere(ended(net, 1, 8, 6, 5), {"Elementwise": 0})


@pytest.mark.parametrize("operator", ["Add", "Mul"])
def test_a_float_constant_for_each_position(operator: str) -> None:
    net = image()
    net.add(operator, net.weights(6, 5))
    right_everywhere(ended(net, 1, 8, 6, 5), {})


def test_a_float_constant_for_each_channel_of_rows() -> None:
    net = Viewed(1, 5, 8)
    net.rounded(0.02)
    net.rows(8, 6, bias=False)
    net.add("Mul", net.weights(6))
    right_everywhere(ended(net, 1, 5, 6), {"Convolution": 2})


@pytest.mark.parametrize("shape", [(8, 1, 1), (1, 8, 1, 1)], ids=str)
def test_slopes_of_channels(shape: tuple[int, ...]) -> None:
    net = image()
    net.add("PRelu", net.constant(np.linspace(-0.5, 1.2, 8).astype(np.float32).reshape(shape)))
    right_everywhere(ended(net, 1, 8, 6, 5), {})


def test_slopes_of_channels_round_once() -> None:
    """A PRelu with a slope for each channel rounds its result once. Regression: negative elements were first rounded
    with a scale of their own, and then with the result's scale.
    """
    net = image()
    net.add("PRelu", net.constant(np.linspace(-0.9, -0.2, 8).astype(np.float32).reshape(8, 1, 1)))
    model = ended(net, 1, 8, 6, 5, scale=0.01).model()
    graph = import_model(model, abilities=PROCESSOR)
    x = net.rng.standard_normal(net.input_shape, dtype=np.float32)
    (own,) = load_outputs(graph, interpret(graph, store_inputs(graph, {"x": x}))).values()
    assert np.mean(own != runtime(model, {"x": x})[net.last]) <= 0.01


def test_slopes_of_positions_are_refused() -> None:
    net = image()
    net.add("PRelu", net.weights(8, 6, 5))
    with pytest.raises(ModelError, match=r"\(PRelu\).*constant of several elements"):
        import_model(ended(net, 1, 8, 6, 5).model(), abilities=Abilities.of(MACHINE))


def test_a_single_place_is_gathered() -> None:
    """GatherND with a single index tuple in place of a list of index tuples."""
    net = image()
    net.add("GatherND", net.constant(np.array([0, 3])))
    right_everywhere(ended(net, 6, 5), {})


REDUCED = {"ReduceMax": 0.03, "ReduceMin": 0.03, "ReduceSum": 0.3, "ReduceL1": 0.5}


@pytest.mark.parametrize("operator", REDUCED)
@pytest.mark.parametrize("axes", [(2, 3), (1,), (3,), (0, 1, 2, 3)], ids=str)
def test_reductions(operator: str, axes: tuple[int, ...]) -> None:
    net = image()
    if operator == "ReduceSum":
        net.add(operator, net.constant(np.array(axes)))
    else:
        net.add(operator, axes=list(axes))
    shape = [1 if axis in axes else size for axis, size in enumerate((1, 8, 6, 5))]
    right_everywhere(ended(net, *shape, scale=REDUCED[operator]), {})


def test_a_reduction_of_rows_without_their_axis() -> None:
    net = Viewed(2, 5, 8)
    net.rounded(0.02)
    net.rows(8, 6)
    net.add("ReduceMax", axes=[1], keepdims=0)
    right_everywhere(ended(net, 2, 6), {"MaxPool": 1})


def test_the_mean_of_a_mean_of_all_elements() -> None:
    """The mean of all elements may be averaged again. Regression: this single number has no axis of channels."""
    net = image()
    net.add("ReduceMean", keepdims=0)
    net.rounded(0.002)
    net.add("ReduceMean", keepdims=0)
    right_everywhere(ended(net, scale=0.002), {})


@pytest.mark.parametrize("axes", [(2, 3), (1,), (3,)], ids=str)
def test_lengths(axes: tuple[int, ...]) -> None:
    net = image()
    net.add("ReduceL2", axes=list(axes))
    shape = [1 if axis in axes else size for axis, size in enumerate((1, 8, 6, 5))]
    right(ended(net, *shape, scale=0.05, zero=0), {"Rows": 1, "Products": 1})


@pytest.mark.parametrize("axes", [(2, 3), (1,), (3,), (0, 1, 2, 3)], ids=str)
def test_sums_of_squares(axes: tuple[int, ...]) -> None:
    net = image()
    net.add("ReduceSumSquare", axes=list(axes))
    shape = [1 if axis in axes else size for axis, size in enumerate((1, 8, 6, 5))]
    right(ended(net, *shape, scale=0.2, zero=0), {"Rows": 0, "Products": 1})


def test_rows_divided_by_their_length_are_one_normalization() -> None:
    """The nodes to which `torch.nn.functional.normalize` is exported, a division of rows by their Euclidean length, are
    imported as one normalization of rows and need no product.
    """
    net = Viewed(1, 5, 8)
    net.rounded(0.02)
    net.rows(8, 8)
    data = net.last
    net.add("ReduceL2", axes=[-1])
    net.add("Clip", net.constant(np.float32(1e-12)))
    length = net.add("Expand", net.constant(np.array([1, 5, 8])))
    net.add("Div", inputs=[data, length])
    right(ended(net, 1, 5, 8, scale=1 / 127, zero=128), {"Rows": 1, "Products": 0})


@pytest.mark.parametrize("fill", [0.7, -2.0, float(np.finfo(np.float32).min), np.inf])
@pytest.mark.parametrize("pads", [(0, 0, 1, 2, 0, 0, 0, 1), (0, 3, 0, 0, 0, 1, 0, 0)], ids=str)
def test_pads_of_another_value(fill: float, pads: tuple[int, ...]) -> None:
    net = image()
    net.add("Pad", net.constant(np.array(pads)), net.constant(np.float32(fill)))
    shape = [size + pads[axis] + pads[axis + 4] for axis, size in enumerate((1, 8, 6, 5))]
    right_everywhere(ended(net, *shape), {"Convolution": 1})


def test_pads_of_channels_and_rows_at_once_are_refused() -> None:
    net = image()
    net.add("Pad", net.constant(np.array([0, 1, 1, 0, 0, 0, 0, 0])), net.constant(np.float32(1)))
    with pytest.raises(ModelError, match="pads both channels and positions with a value other than 0"):
        import_model(ended(net, 1, 9, 7, 5).model(), abilities=Abilities.of(MACHINE))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_integers_are_clamped(dtype: type) -> None:
    net = Viewed(1, 8, 6, 5)
    grid = [net.constant(np.float32(0.02)), net.constant(dtype(7))]
    net.add("QuantizeLinear", *grid)
    net.add("Clip", net.constant(dtype(3)), net.constant(dtype(60)))
    net.product("Conv", (8, 8, 1, 1), net.add("DequantizeLinear", *grid))
    right_everywhere(net, {})


@pytest.mark.parametrize(("zero", "low", "high"), [(250, 0.6, 1.4), (10, -1.4, -0.6)])
def test_clamps_beyond_the_range_of_the_data(zero: int, low: float, high: float) -> None:
    """No number of the quantized image is between the bounds of the Clip, so that all its results are one bound."""
    net = Viewed(1, 8, 6, 5)
    net.rounded(0.02, zero)
    net.add("Clip", net.constant(np.float32(low)), net.constant(np.float32(high)))
    net.add("MaxPool", kernel_shape=[2, 2])
    net.shape = (1, 8, 5, 4)
    graph = import_model(net.model(), abilities=Abilities.of(MACHINE))
    x = net.rng.standard_normal(net.input_shape, dtype=np.float32)
    (own,) = load_outputs(graph, interpret(graph, store_inputs(graph, {"x": x}))).values()
    np.testing.assert_allclose(own, low if low > 0 else high, rtol=1e-6)


def _finer(scale: float, operator: str | None) -> bytes:
    """A model whose result has the scale `scale`, and whose inputs, of the shape (1, 4, 4, 4), have the scales 1 and
    1/8. `operator` combines both; without it the first input is only rescaled.
    """
    net = Viewed(1, 4, 4, 4)
    first = net.rounded(1.0, 0)
    if operator is not None:
        net.add(operator, inputs=[first, net.rounded(0.125, 0)])
    net.rounded(scale, 0)
    return net.model()


@pytest.mark.parametrize("bits", [15, 16, 20, 24])
@pytest.mark.parametrize("operator", [None, "Mul"])
def test_results_that_all_saturate(bits: int, operator: str | None) -> None:
    """The ratio of the scales may be larger than the accelerator's constants: 0 is the only result that does not
    saturate, and every instruction passes the program check.
    """
    model = _finer(2.0**-bits, operator)
    compiled = compile_program(model, MACHINE)
    program = compiled.program
    assert not list(check(program.config, program.instructions, program.image))
    x = np.random.default_rng(bits).integers(0, 3, (1, 4, 4, 4)).astype(np.float32)
    (ours,) = run(compiled, {"x": x}).outputs.values()
    (expected,) = runtime(model, {"x": x}).values()
    np.testing.assert_array_equal(ours, expected)


def test_sums_whose_constants_the_accelerator_lacks_are_refused() -> None:
    compile_program(_finer(2.0**-16, "Add"), MACHINE)
    with pytest.raises(
        ModelError, match="the sum needs the constant 131072, and the accelerator has constants of"
    ):
        compile_program(_finer(2.0**-17, "Add"), MACHINE)
    with compile_kernels(_finer(2.0**-17, "Add"), cpu_now()) as network:
        (ours,) = network.run({"x": np.zeros((1, 4, 4, 4), np.float32)}).values()
    assert not ours.any()


WIDE: dict[str, Callable[[Viewed, list[str]], tuple[int, ...]]] = {}


def wide(function: Callable[[Viewed, list[str]], tuple[int, ...]]) -> Callable[..., tuple[int, ...]]:
    WIDE[function.__name__] = function
    return function


def weights(net: Viewed, grid: list[str], *shape: int) -> str:
    integers = net.constant(net.rng.integers(0, 256, shape).astype(np.uint8))
    return net.add("DequantizeLinear", inputs=[integers, *grid])


@wide
def convolution(net: Viewed, grid: list[str]) -> tuple[int, ...]:
    data = net.last
    net.add("Conv", inputs=[data, weights(net, grid, 6, 8, 3, 3)], pads=[1] * 4)
    return (1, 6, 6, 5)


@wide
def depthwise(net: Viewed, grid: list[str]) -> tuple[int, ...]:
    data = net.last
    net.add("Conv", inputs=[data, weights(net, grid, 8, 1, 3, 3)], pads=[1] * 4, group=8)
    return (1, 8, 6, 5)


@wide
def grouped(net: Viewed, grid: list[str]) -> tuple[int, ...]:
    data = net.last
    net.add("Conv", inputs=[data, weights(net, grid, 4, 4, 1, 1)], group=2)
    return (1, 4, 6, 5)


@wide
def transposed(net: Viewed, grid: list[str]) -> tuple[int, ...]:
    data = net.last
    net.add("ConvTranspose", inputs=[data, weights(net, grid, 8, 3, 2, 2)], strides=[2, 2])
    return (1, 3, 12, 10)


@wide
def dense(net: Viewed, grid: list[str]) -> tuple[int, ...]:
    net.moved(0, 2, 3, 1)
    data = net.last
    net.add("MatMul", inputs=[data, weights(net, grid, 8, 7)])
    return (1, 6, 5, 7)


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize("zero", [0, 97, 128, 255])
def test_uint8_weights(name: str, zero: int) -> None:
    net = image()
    grid = [net.constant(np.float32(0.002)), net.constant(np.uint8(zero))]
    net.shape = WIDE[name](net, grid)
    right_everywhere(ended(net, *net.shape), {})


def test_only_input_channels_with_weights_out_of_range_are_repeated() -> None:
    net = image()
    data, integers = net.last, np.full((4, 8, 1, 1), 120, np.uint8)
    integers[2, 5] = 255
    grid = [net.constant(np.float32(0.002)), net.constant(np.uint8(100))]
    weight = net.add("DequantizeLinear", inputs=[net.constant(integers), *grid])
    net.add("Conv", inputs=[data, weight])
    graph = import_model(ended(net, 1, 4, 6, 5).model())
    (taken,) = [node.operator for node in graph.nodes if isinstance(node.operator, Channels)]
    assert taken.sources == (*((0, channel) for channel in range(8)), (0, 5))


def volume(*shape: int, filters: int = 4) -> Viewed:
    net = Viewed(*shape)
    net.rounded(0.02)
    net.product("Conv", (filters, shape[1], 3, 2, 3), net.last, pads=[1, 0, 1, 1, 1, 1])
    net.shape = (shape[0], filters, *shape[2:])
    return net


@pytest.mark.parametrize("shape", [(1, 3, 4, 5, 6), (2, 2, 3, 4, 4)], ids=str)
def test_a_convolution_over_a_volume(shape: tuple[int, ...]) -> None:
    right_everywhere(volume(*shape), {"Convolution": 1})


def test_a_strided_and_grouped_convolution_over_a_volume() -> None:
    net = volume(1, 3, 5, 5, 6)
    net.then("Relu")
    net.product(
        "Conv",
        (6, 2, 2, 1, 1),
        net.last,
        strides=[2, 1, 2],
        dilations=[2, 1, 1],
        group=2,
        pads=[1, 0, 0, 0, 0, 0],
    )
    net.shape = (1, 6, 2, 5, 3)
    right_everywhere(net, {"Convolution": 2})


@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("pads", [[0] * 6, [1, 1, 0, 1, 0, 1]], ids=str)
def test_a_pool_over_a_volume(operator: str, pads: list[int]) -> None:
    net = volume(1, 3, 4, 5, 6)
    counted = {"count_include_pad": 1} if operator == "AveragePool" else {}
    net.add(operator, kernel_shape=[2, 3, 2], strides=[2, 1, 2], pads=pads, **counted)
    sizes = [
        (size + pads[d] + pads[d + 3] - kernel) // stride + 1
        for d, (size, kernel, stride) in enumerate(((4, 2, 2), (5, 3, 1), (6, 2, 2)))
    ]
    right_everywhere(ended(net, 1, 4, *sizes), {operator: 1})


@pytest.mark.parametrize("operator", ["GlobalMaxPool", "GlobalAveragePool", "ReduceMean"])
def test_a_whole_volume_is_pooled(operator: str) -> None:
    net = volume(1, 3, 4, 5, 6)
    net.add(operator, **({"axes": [2, 3, 4]} if operator == "ReduceMean" else {}))
    net.rounded(0.03, 120)
    net.reshaped(1, 4)
    net.shape = (1, 4)
    right_everywhere(net, {})


def test_channels_of_a_volume_are_scaled() -> None:
    net = volume(1, 3, 4, 5, 6)
    net.batch_normalization(4)
    right_everywhere(ended(net, 1, 4, 4, 5, 6), {"Convolution": 2})


TRANSPOSED: dict[str, dict[str, list[int]]] = {
    "plain": {},
    "strided": {"strides": [2, 2, 1], "pads": [1, 0, 1, 0, 1, 0]},
    "of the stride's size": {"strides": [3, 2, 3], "output_padding": [1, 0, 2]},
    "dilated": {"strides": [2, 1, 2], "dilations": [2, 2, 1], "pads": [1, 1, 0, 1, 0, 0]},
    "strides beyond the kernel": {"strides": [4, 3, 1], "output_padding": [3, 0, 0]},
}


@pytest.mark.parametrize(
    ("batch", "attributes"),
    representatives(product([1, 2], TRANSPOSED), 0, always=[*product([1], TRANSPOSED), (2, "strided")]),
)
def test_a_transposed_convolution_of_a_volume(attributes: str, batch: int) -> None:
    given, kernel, sizes = TRANSPOSED[attributes], (3, 2, 3), (3, 4, 3)
    net = volume(batch, 3, *sizes)
    net.product("ConvTranspose", (4, 5, *kernel), net.last, **given)
    strides, dilations, extra = (
        given.get(name, [one] * 3) for name, one in (("strides", 1), ("dilations", 1), ("output_padding", 0))
    )
    pads = given.get("pads", [0] * 6)
    outputs = [
        (size - 1) * strides[d] + (kernel[d] - 1) * dilations[d] + 1 + extra[d] - pads[d] - pads[d + 3]
        for d, size in enumerate(sizes)
    ]
    net.shape = (batch, 5, *outputs)
    right_everywhere(net, {})


def test_a_grouped_transposed_convolution_of_a_volume() -> None:
    net = volume(1, 3, 3, 4, 3)
    net.product("ConvTranspose", (4, 3, 2, 2, 2), net.last, strides=[2, 2, 2], group=2)
    net.shape = (1, 6, 6, 8, 6)
    right(net, {})


def test_other_windows_over_a_volume_are_refused() -> None:
    net = volume(1, 3, 4, 5, 6)
    net.add("AveragePool", kernel_shape=[2, 1, 1], pads=[1, 0, 0, 0, 0, 0])
    with pytest.raises(ModelError, match="averages that do not count pads along depth"):
        import_model(ended(net, 1, 4, 4, 5, 6).model(), abilities=Abilities.of(MACHINE))
    net = volume(1, 3, 4, 5, 6)
    net.add("ConvTranspose", net.weights(4, 2, 1, 1, 1))
    with pytest.raises(ModelError, match=r"\(ConvTranspose\).*its weights are float"):
        import_model(ended(net, 1, 2, 4, 5, 6).model(), abilities=Abilities.of(MACHINE))


def test_a_float_recurrent_layer_names_the_quantizer_that_writes_its_steps() -> None:
    net = Viewed(6, 1, 8)
    net.rounded(0.02)
    net.add("LSTM", net.weights(1, 16, 8), net.weights(1, 16, 4), hidden_size=4)
    net.shape = (6, 1, 1, 4)
    with pytest.raises(
        ModelError, match=r"\(LSTM\): is a recurrent layer in float32; .*vdla quantize --whole"
    ):
        import_model(net.model(), abilities=Abilities.of(MACHINE))

"""Operators of quantized networks in the forms that PyTorch's exporter and ONNX Runtime's quantizer write, on an
accelerator: bit-equal to the interpreter, and within a step of ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from float_networks import runtime

from vdla.compiler.divided import compile_divided
from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.frontends.onnx.submodel import prepare_model
from vdla.compiler.frontends.onnx.survey import survey_model
from vdla.compiler.graph.abilities import PROCESSOR, Abilities
from vdla.compiler.graph.errors import ModelError

from .test_masks_and_norms import MACHINE, right
from .test_views import Viewed

LEAST = float(np.finfo(np.float32).min)


def image(*shape: int) -> Viewed:
    """A network with a quantized input image and a 1x1 convolution with 8 filters. `shape` is the shape of the image;
    without it, the image has the shape (1, 8, 6, 5).
    """
    net = Viewed(*(shape or (1, 8, 6, 5)))
    net.product("Conv", (8, net.shape[1], 1, 1), net.rounded(0.02))
    net.shape = (net.shape[0], 8, *net.shape[2:])
    return net


def ended(net: Viewed, *shape: int, scale: float = 0.03, zero: int = 120) -> Viewed:
    net.rounded(scale, zero)
    net.shape = shape
    return net


def test_a_mask_that_was_quantized_with_the_scores_is_added() -> None:
    """A causal mask hides keys, although the quantization alone would lose the scores: quantizers give the sum of
    scores and mask, which reaches -3.4e38, one scale, and a step of this scale exceeds all scores.
    """
    net = Viewed(1, 2, 8, 8)
    scores = net.rounded(0.02)
    scale, zero = np.float32(-LEAST / 255), np.uint8(255)
    mask = np.where(np.tri(8, dtype=np.bool_), 255, 0).astype(np.uint8)[None, None]
    grid = [net.constant(scale), net.constant(zero)]
    hidden = net.add("DequantizeLinear", inputs=[net.constant(mask), *grid])
    net.add("Add", inputs=[scores, hidden])
    net.rounded(float(scale), 255)
    net.add("Softmax", axis=-1)
    own = right(ended(net, 1, 2, 8, 8, scale=1 / 255, zero=0), {"Rows": 1, "Elementwise": 1})
    assert (own[0, 0][np.triu_indices(8, 1)] == 0).all()


@pytest.mark.parametrize("outputs", [(3, 2), (6, 5), (7, 9)], ids=str)
def test_an_adaptive_average_gathers_windows_and_averages_them(outputs: tuple[int, int]) -> None:
    """Adaptive average pools (`adaptive_avg_pool2d`) whose windows differ in size or overlap run on the accelerator:
    they are exported as GatherND, Transpose and ReduceMean.
    """
    net = image()
    rows, columns = (
        np.stack([i * size // count + np.arange(-(-size // count)) for i in range(count)]).clip(max=size - 1)
        for size, count in zip((6, 5), outputs, strict=True)
    )
    places = np.empty((*rows.shape, *columns.shape, 2), np.int64)
    places[..., 0], places[..., 1] = rows[..., None, None], columns
    net.moved(2, 3, 0, 1)
    net.add("GatherND", net.constant(places))
    net.add("Transpose", perm=[4, 5, 0, 1, 2, 3])
    net.add("ReduceMean", axes=[-3, -1], keepdims=0)
    right(ended(net, 1, 8, *outputs), {"Convolution": 1})


@pytest.mark.parametrize("batch", [0, 2])
def test_elements_at_constant_indices(batch: int) -> None:
    net = image()
    if batch:
        places = np.stack([np.arange(8) % 6, np.arange(8) % 5], -1)[None] - 1
        net.add("GatherND", net.constant(places), batch_dims=batch)
        right(ended(net, 1, 8), {})
        return
    net.add("GatherElements", net.constant(np.arange(6 * 8).reshape(1, 8, 6, 1) % 5 - 2), axis=-1)
    right(ended(net, 1, 8, 6, 1), {})


def test_indices_outside_of_the_data_are_refused() -> None:
    net = image()
    net.add("GatherND", net.constant(np.array([[0, 8]])))
    with pytest.raises(ModelError, match="outside of its data of shape"):
        import_model(ended(net, 1, 6, 5).model(), abilities=Abilities.of(MACHINE))


@pytest.mark.parametrize("axes", [(1,), (1, 2, 3), (1, 3), (0, 2), (2,), (0, 1, 2, 3)], ids=str)
def test_a_mean_over_any_axes(axes: Sequence[int]) -> None:
    net = image()
    net.add("ReduceMean", axes=list(axes))
    shape = [1 if axis in axes else size for axis, size in enumerate((1, 8, 6, 5))]
    right(ended(net, *shape, scale=0.01), {"AveragePool": 1})


@pytest.mark.parametrize("axis", [1, 2, 3])
@pytest.mark.parametrize("shape", [(1, 8, 6, 5), (2, 8, 6, 5)], ids=str)
def test_a_softmax_along_any_axis_of_an_image(axis: int, shape: tuple[int, ...]) -> None:
    net = image(*shape)
    net.add("Softmax", axis=axis)
    right(ended(net, *shape, scale=1 / 255, zero=0), {"Rows": 1})


@pytest.mark.parametrize("axis", [1, 2])
def test_a_softmax_along_any_axis_of_rows(axis: int) -> None:
    net = Viewed(2, 5, 8)
    net.rounded(0.02)
    net.rows(8, 6)
    net.add("Softmax", axis=axis)
    right(ended(net, 2, 5, 6, scale=1 / 255, zero=0), {"Rows": 1})


def test_a_normalization_over_several_axes() -> None:
    net = image()
    net.add("LayerNormalization", net.weights(8, 6, 5), net.weights(8, 6, 5), axis=1)
    right(ended(net, 1, 8, 6, 5, scale=0.04), {"Rows": 1})


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("shape", [(1, 8, 6, 5), (2, 3, 4, 4)], ids=str)
def test_instances_are_normalized(alike: bool, shape: tuple[int, ...]) -> None:
    net = image(*shape)
    factor = np.full(8, 1.5) if alike else np.array([0.3, -0.5, 1, 2, 1, 0.7, 0, 1.3])
    addend = np.full(8, 0.2) if alike else np.linspace(-1, 1, 8)
    net.add("InstanceNormalization", *(net.constant(part.astype(np.float32)) for part in (factor, addend)))
    right(ended(net, shape[0], 8, *shape[2:]), {})


def test_lines_are_normalized_and_so_are_groups() -> None:
    net = Viewed(1, 4, 12)
    net.product("Conv", (8, 4, 1), net.rounded(0.02))
    net.add("InstanceNormalization", net.weights(8), net.weights(8))
    right(ended(net, 1, 8, 12), {})
    net = image()
    net.reshaped(1, 2, 120)
    ones, zeros = net.constant(np.ones(2, np.float32)), net.constant(np.zeros(2, np.float32))
    net.then("InstanceNormalization", ones, zeros)
    net.reshaped(1, 8, 6, 5)
    net.shape = (1, 8, 6, 5)
    right(net, {"Rows": 1, "Convolution": 1})


def test_a_float_input_is_transposed_behind_an_axis_of_size_1() -> None:
    net = Viewed(1, 7, 5)
    net.add("Unsqueeze", net.constant(np.array([1])))
    net.add("Transpose", perm=[0, 1, 3, 2])
    net.product("Conv", (8, 1, 1, 1), net.rounded(0.02))
    net.shape = (1, 8, 5, 7)
    right(net, {"Convolution": 1, "Positions": 0})


def test_a_reshaped_input_of_a_convolution_over_lines_is_not_moved() -> None:
    net = Viewed(1, 20)
    net.add("Unsqueeze", net.constant(np.array([1])))
    net.product("Conv", (8, 1, 3), net.rounded(0.02))
    net.shape = (1, 8, 18)
    right(net, {"Convolution": 1, "Channels": 0})


OPEN: dict[str, Callable[[Viewed], tuple[int, ...]]] = {}
"""Functions, by name, that add operators to a network and return the shape of the result. The result stays a float
tensor: no QuantizeLinear follows that would round it.
"""


def unrounded(function: Callable[[Viewed], tuple[int, ...]]) -> Callable[[Viewed], tuple[int, ...]]:
    OPEN[function.__name__] = function
    return function


@unrounded
def average(net: Viewed) -> tuple[int, ...]:
    net.add("ReduceMean", axes=[2, 3])
    net.add("Reshape", net.constant(np.array([1, 8])))
    return (1, 8)


@unrounded
def table(net: Viewed) -> tuple[int, ...]:
    net.add("Tanh")
    return (1, 8, 6, 5)


@unrounded
def shares(net: Viewed) -> tuple[int, ...]:
    net.add("Softmax", axis=1)
    return (1, 8, 6, 5)


@unrounded
def sums(net: Viewed) -> tuple[int, ...]:
    net.add("Add", inputs=[net.last, net.last])
    return (1, 8, 6, 5)


@unrounded
def six(net: Viewed) -> tuple[int, ...]:
    net.add("Clip", net.constant(np.float32(-0.5)), net.constant(np.float32(1)))
    return (1, 8, 6, 5)


@unrounded
def joined(net: Viewed) -> tuple[int, ...]:
    first, other = net.last, net.product("Conv", (3, 8, 1, 1), net.last)
    net.add("Concat", inputs=[first, other], axis=1)
    return (1, 11, 6, 5)


@pytest.mark.parametrize("name", OPEN)
def test_an_output_that_is_never_quantized_has_a_grid_of_its_own(name: str) -> None:
    net = image()
    net.shape = OPEN[name](net)
    right(net, {})


def test_a_float_result_that_an_average_reads_has_a_grid_of_its_own() -> None:
    net = image()
    net.add("PRelu", net.constant(np.full((1, 1, 1), 0.25, np.float32)))
    net.add("ReduceMean", axes=[2, 3])
    right(ended(net, 1, 8, 1, 1, scale=0.01), {"AveragePool": 1})


def test_only_a_whole_network_gets_grids_of_its_own() -> None:
    """A float output keeps its precision on a processor and in a network divided between processor and accelerator;
    only a network that runs on the accelerator as a whole may round it to a scale of its own.
    """
    net = image()
    net.shape = OPEN["table"](net)
    with pytest.raises(ModelError, match="is float and never quantized"):
        import_model(net.model(), abilities=PROCESSOR)
    survey = survey_model(
        "net", prepare_model(net.model(), least_opset=11)[1], abilities=Abilities.of(MACHINE)
    )
    assert survey.nodes[-1].kind == "pending"


def test_a_product_without_a_quantizer_is_refused() -> None:
    net = image()
    weights = [net.constant(v) for v in (np.ones((4, 8, 1, 1), np.int8), np.float32(0.1), np.int8(0))]
    net.add("Conv", inputs=[net.last, net.add("DequantizeLinear", inputs=weights)])
    net.shape = (1, 4, 6, 5)
    with pytest.raises(ModelError, match="is float and never quantized"):
        import_model(net.model(), abilities=Abilities.of(MACHINE))


def test_two_tensors_of_a_function_are_one_cause() -> None:
    net = image()
    first, other = net.last, net.product("Conv", (8, 8, 1, 1), net.last)
    net.add("Atan", inputs=[first])
    net.add("Pow", inputs=[first, other])
    with pytest.raises(ModelError, match="combines several tensors, which only processors and GPUs do"):
        import_model(ended(net, 1, 8, 6, 5).model(), abilities=Abilities.of(MACHINE))


@pytest.mark.parametrize("dtype", [np.int16, np.uint16])
def test_tensors_of_16_bits_are_the_processors_part_of_a_divided_network(dtype: type) -> None:
    net = Viewed(1, 8, 6, 5, opset=21)
    zero = net.constant(dtype(np.iinfo(dtype).min // 2 + np.iinfo(dtype).max // 2))
    for pair in range(2):
        for operator in ("QuantizeLinear", "DequantizeLinear"):
            net.add(operator, net.constant(np.float32(2e-4)), zero)
        if not pair:
            weights = [net.constant(net.rng.integers(-127, 128, (8, 8, 1, 1)).astype(np.int8))]
            weights += [net.constant(np.float32(0.003)), net.constant(np.int8(0))]
            data = net.last
            net.add("Conv", inputs=[data, net.add("DequantizeLinear", inputs=weights)])
    net.product("Conv", (4, 8, 1, 1), net.rounded(0.02))
    net.shape = (1, 4, 6, 5)
    model, x = net.model(), net.rng.standard_normal(net.input_shape, dtype=np.float32)
    with pytest.raises(ModelError, match=r"quantized to u?int16 are not supported"):
        import_model(model, abilities=Abilities.of(MACHINE))
    division = compile_divided(model, MACHINE)
    assert [region.side for region in division.network.regions] == ["cpu", "accelerator"]
    got = division.network.run({"x": x}).outputs[net.last]
    assert np.abs(got - runtime(model, {"x": x})[net.last]).max() <= 1.01 * 0.03

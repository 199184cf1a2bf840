"""Each operator of float networks on CPUs, after a convolution, compared with ONNX Runtime."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from campaign import examples, representatives
from float_networks import FloatNetwork, inferred_shape, relative, runtime
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.graph.errors import ModelError
from vdla.compiler.pipeline import compile_kernels

UNARY = {
    "Abs": {},
    "Celu": {"alpha": 0.6},
    "Elu": {"alpha": 0.7},
    "Erf": {},
    "Exp": {},
    "HardSigmoid": {"alpha": 0.3},
    "HardSwish": {},
    "LeakyRelu": {"alpha": 0.2},
    "Mish": {},
    "Neg": {},
    "Selu": {"alpha": 1.2, "gamma": 0.8},
    "Sigmoid": {},
    "Softplus": {},
    "Softsign": {},
    "Tanh": {},
}


def agree(net: FloatNetwork, *, tolerance: float = 1e-5, seed: int = 0) -> None:
    net.shape = inferred_shape(net)
    x = np.random.default_rng(seed).standard_normal(net.input_shape, dtype=np.float32)
    expected = runtime(net.model(), {"x": x})[net.last]
    assert relative(compile_kernels(net.model(), cpu_now()).run({"x": x})[net.last], expected) <= tolerance


def behind_convolution(channels: int = 19, opset: int = 17) -> FloatNetwork:
    """A network of one 1x1 convolution to `channels` channels, by default 19: no multiple of a block's channels."""
    net = FloatNetwork(2, 5, 6, 7, opset=opset)
    net.convolution(channels, (1, 1))
    return net


PLACES = ("convolution", "pool", "input")


@pytest.mark.parametrize(
    ("behind", "name"),
    representatives(
        itertools.product(PLACES, UNARY),
        0,
        # Every function in one place, some in all.
        always=[
            *((PLACES[i % len(PLACES)], name) for i, name in enumerate(UNARY)),
            *((place, name) for place in PLACES for name in ("LeakyRelu", "Tanh")),
        ],
    ),
)
def test_functions_of_one_tensor(behind, name) -> None:
    opset = 18 if name == "Mish" else 17
    net = FloatNetwork(2, 5, 6, 7, opset=opset) if behind == "input" else behind_convolution(opset=opset)
    if behind == "pool":
        net.add("MaxPool", kernel_shape=[2, 2])
    net.add(name, **UNARY[name])
    agree(net)


@pytest.mark.parametrize("name", ["Log", "Sqrt", "Reciprocal"])
def test_functions_of_positive_numbers(name) -> None:
    net = behind_convolution()
    net.add("Abs")
    net.add("Add", net.constant(np.float32(0.5)))
    net.add(name)
    net.convolution(3, (2, 2))
    agree(net)


BINARY = ("PRelu", "Add", "Sub", "Mul", "Div", "Max", "Min")
SHAPES = ((19, 1, 1), (7,), (), (2, 1, 6, 7), (2, 19, 6, 7))


@pytest.mark.parametrize(
    ("shape", "name"),
    representatives(
        [(shape, name) for shape in SHAPES for name in BINARY if name != "PRelu" or len(shape) in (0, 1, 3)],
        0,
        # Every function with two shapes, PRelu and Add with all that they take.
        always=[
            *((shape, "PRelu") for shape in SHAPES[:3]),
            *((shape, "Add") for shape in SHAPES),
            *((SHAPES[(2 * i + j) % len(SHAPES)], name) for i, name in enumerate(BINARY[2:]) for j in (0, 1)),
        ],
    ),
)
def test_functions_of_two_tensors(shape, name) -> None:
    net = behind_convolution()
    net.add("MaxPool", kernel_shape=[1, 1])
    other = (np.abs(net.rng.standard_normal(shape)) + 0.5).astype(np.float32)
    net.add(name, net.constant(other))
    agree(net)


@pytest.mark.parametrize("exponent", [2.0, 0.5, -1.0, 3.0])
def test_powers(exponent) -> None:
    net = behind_convolution()
    net.add("Abs")
    net.add("Add", net.constant(np.float32(1)))
    net.add("Pow", net.constant(np.float32(exponent)))
    agree(net)


def test_softplus_far_from_zero() -> None:
    net = FloatNetwork(7)
    net.add("Softplus")
    x = np.array([-np.inf, -100, -20, -1e-3, 20, 100, np.inf], np.float32)
    got = compile_kernels(net.model(), cpu_now()).run({"x": x})[net.last]
    np.testing.assert_allclose(got, np.logaddexp(0, x.astype(np.float64)).astype(np.float32), rtol=3e-7)


@pytest.mark.parametrize(
    ("factors", "attributes"),
    [
        (("x", (6, 4)), {"transA": 1, "alpha": 0.5, "beta": 2.0}),
        (("positive", "x"), {"transB": 1, "alpha": 0.5, "beta": 2.0}),
        (("x", "positive"), {"transA": 1}),
        (((4, 6), "x"), {}),
        (((6, 4), "x"), {"transA": 1, "beta": 0.25}),
        (("x", (6, 9)), {"transB": 1}),
    ],
)
@pytest.mark.parametrize("addend", [None, "known", "computed"])
def test_gemm_of_any_matrices(factors: tuple, attributes: dict, addend: str | None) -> None:
    net = FloatNetwork(6, 9)
    net.add("Relu")
    names = [net.last if f == "positive" else f if f == "x" else net.weights(*f) for f in factors]
    if addend == "known":
        names.append(net.weights(1))
    elif addend == "computed":
        net.add("ReduceMax", inputs=["x"], keepdims=1)
        names.append(net.last)
    net.add("Gemm", inputs=names, **attributes)
    agree(net)


@pytest.mark.parametrize(
    ("shape", "other", "first"),
    [
        ((7,), (7, 5), True),
        ((2, 3, 7), (7,), True),
        ((7,), (2, 7, 5), True),
        ((7, 5), (7,), False),
        ((7,), (7,), True),
    ],
)
def test_products_of_vectors(shape: tuple, other: tuple, first: bool) -> None:
    for constant in (True, False):
        net = FloatNetwork(*shape)
        if constant:
            name = net.weights(*other)
        elif shape == other:
            name = net.add("Relu")
        else:
            continue
        net.add("MatMul", inputs=["x", name] if first else [name, "x"])
        agree(net)


@pytest.mark.parametrize("perm", [[0, 2, 3, 1], [3, 2, 1, 0], [1, 0, 2, 3]])
def test_transpose(perm) -> None:
    net = behind_convolution()
    net.add("Transpose", perm=perm)
    agree(net)


@pytest.mark.parametrize(
    ("name", "attributes"),
    [("DepthToSpace", {}), ("DepthToSpace", {"mode": "CRD"}), ("SpaceToDepth", {})],
)
def test_depth_and_space(name: str, attributes: dict) -> None:
    net = FloatNetwork(2, 5, 6, 4)
    net.convolution(12, (1, 1))
    net.add(name, blocksize=2, **attributes)
    net.add("Relu")
    agree(net)


def test_depth_that_blocks_do_not_divide() -> None:
    net = FloatNetwork(1, 6, 4, 4)
    net.add("DepthToSpace", blocksize=2)
    net.shape = (1, 1, 8, 8)
    with pytest.raises(
        ModelError,
        match=r"\(1, 6, 4, 4\) cannot be divided into blocks of 2 x 2 elements; use a blocksize that divides",
    ):
        compile_kernels(net.model(), cpu_now())


@pytest.mark.parametrize("axis", [1, -1])
def test_concat_of_branches(axis) -> None:
    net = behind_convolution()
    first = net.last
    second = net.add("Relu")
    net.add("Concat", inputs=[first, second, net.weights(2, 19, 6, 7)], axis=axis)
    agree(net)


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps"),
    [([1], [3], [1], [1]), ([0, -1], [6, -100], [2, 3], [2, -1]), ([-3, 1], [2**40, 2], [3, 0], [1, 1])],
)
def test_slice(starts, ends, axes, steps) -> None:
    net = behind_convolution()
    net.add("Slice", *[net.constant(np.array(a, np.int64)) for a in (starts, ends, axes, steps)])
    agree(net)


@settings(max_examples=examples(25), deadline=None)
@given(
    given_sizes=st.booleans(),
    sizes=st.tuples(st.integers(1, 13), st.integers(1, 15)),
    scales=st.tuples(*[st.sampled_from([0.5, 1.0, 1.5, 2.0, 2.7, 3.0])] * 2),
    mode=st.sampled_from(["nearest", "linear"]),
    coordinates=st.sampled_from(["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]),
    rounding=st.sampled_from(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]),
    plain=st.booleans(),
)
def test_resize(given_sizes, sizes, scales, mode, coordinates, rounding, plain) -> None:
    whole = all((size * scale).is_integer() for size, scale in zip((6, 7), scales, strict=True))
    # What other scales mean with aligned corners, ONNX and ONNX Runtime disagree about: they are refused.
    given_sizes = given_sizes or (coordinates == "align_corners" and not whole)
    net = FloatNetwork(2, 5, 6, 7) if plain else behind_convolution()
    channels = 5 if plain else 19
    if given_sizes:
        others = ["", "", net.constant(np.array([2, channels, *sizes], np.int64))]
    else:
        others = ["", net.constant(np.array([1, 1, *scales], np.float32))]
    attributes = {"nearest_mode": rounding} if mode == "nearest" else {}
    net.add("Resize", *others, mode=mode, coordinate_transformation_mode=coordinates, **attributes)
    net.shape = inferred_shape(net)
    net.convolution(3, (1, 1))
    agree(net)


@pytest.mark.parametrize(
    ("attributes", "scales"),
    [
        ({"mode": "cubic"}, (1, 1, 2, 2)),
        ({"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"}, (1, 1, 2, 2)),
        ({"mode": "linear", "antialias": 1}, (1, 1, 0.5, 0.5)),
        ({"mode": "nearest"}, (1, 2, 1, 1)),
    ],
)
def test_other_ways_to_resize(attributes, scales) -> None:
    net = FloatNetwork(2, 5, 6, 8, opset=19)
    net.add("Resize", "", net.constant(np.array(scales, np.float32)), **attributes)
    net.shape = inferred_shape(net)
    agree(net)


@settings(max_examples=examples(12), deadline=None)
@given(
    axis=st.integers(-4, 3),
    shape=st.sampled_from([(), (1,), (5,), (2, 3), (40,)]),
    kind=st.sampled_from([np.int32, np.int64]),
    seed=st.integers(0, 9),
)
def test_gather(axis, shape, kind, seed) -> None:
    net = behind_convolution()
    size = (2, 19, 6, 7)[axis]
    net.add("Gather", net.constant(np.random.default_rng(seed).integers(-size, size, shape, kind)), axis=axis)
    net.add("Neg")
    agree(net)


@pytest.mark.parametrize(
    ("opset", "axis", "parts", "attributes"),
    [
        (17, 1, [3, 16], {}),
        (17, -1, [2, 4, 1], {}),
        (17, 2, None, {}),
        (11, 3, None, {"split": [5, 2]}),
        (18, 1, None, {"num_outputs": 3}),
    ],
)
def test_split(opset, axis, parts, attributes) -> None:
    """Split equals ONNX Runtime, along any axis and in every form of its sizes. The parts are concatenated in reversed
    order, so that a part in the wrong place changes the result.
    """
    net = behind_convolution(opset=opset)
    count = len(parts or attributes.get("split", ())) or attributes.get("num_outputs", 3)
    lengths = [] if parts is None else [net.constant(np.array(parts, np.int64))]
    net.add("Split", *lengths, axis=axis, **attributes)
    names = [f"part{i}" for i in range(count)]
    net.nodes[-1].ClearField("output")
    net.nodes[-1].output.extend(names)
    net.add("Concat", inputs=names[::-1], axis=axis)
    agree(net)


@pytest.mark.parametrize(
    ("operator", "constant", "attributes", "problem"),
    [
        ("Gather", np.array([7]), {"axis": 3}, "indices lie outside of axis 3, which has 7"),
        ("Gather", np.array([-8]), {"axis": 3}, "indices lie outside of axis 3, which has 7"),
    ],
)
def test_parts_that_are_not_there_are_refused(operator, constant, attributes, problem) -> None:
    net = FloatNetwork(2, 5, 6, 7)
    net.add(operator, net.constant(constant), **attributes)
    net.shape = (2, 5, 6, 1)
    with pytest.raises(ModelError, match=problem):
        compile_kernels(net.model(), cpu_now())


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_pad(mode) -> None:
    net = behind_convolution()
    pads = net.constant(np.array([0, 0, 1, 2, 0, 0, 3, 0], np.int64))
    net.add("Pad", pads, *([net.constant(np.float32(1.5))] if mode == "constant" else []), mode=mode)
    agree(net)


@pytest.mark.parametrize("shapes", [((2, 3, 4), (2, 4, 5)), ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 6))])
def test_products_of_tensors(shapes) -> None:
    a, b = shapes
    net = FloatNetwork(*a)
    left = net.add("Tanh")
    weights = net.weights(*b)
    zero = net.add("ReduceSum", net.constant(np.arange(len(a), dtype=np.int64)), keepdims=0)
    right = net.add("Add", inputs=[weights, zero])
    net.add("MatMul", inputs=[left, right])
    agree(net)


def test_products_by_a_matrix_and_by_constant_batches() -> None:
    for shape in ((7, 9), (3, 7, 9)):
        net = FloatNetwork(3, 5, 7)
        net.add("MatMul", net.weights(*shape))
        net.add("Add", net.weights(9))
        net.add("Relu")
        agree(net)


@settings(max_examples=examples(15), deadline=None)
@given(
    channels=st.sampled_from([3, 16, 19, 32]),
    share=st.sampled_from([1, 3, 16, 19, 32]),
    kernel=st.integers(1, 4),
    stride=st.integers(1, 3),
    pad=st.integers(0, 1),
    activation=st.sampled_from(["Relu", "Tanh", "Sigmoid"]),
    groups=st.booleans(),
)
def test_transposed_convolutions(channels, share, kernel, stride, pad, activation, groups) -> None:
    group = 2 if groups and channels % 2 == 0 else 1
    net = FloatNetwork(1, channels, 4, 5)
    pad = min(pad, kernel - 1)
    extra = stride - 1
    net.add(
        "ConvTranspose",
        net.weights(channels, share, kernel, kernel, deviation=0.2),
        net.weights(share * group),
        strides=[stride] * 2,
        pads=[pad] * 4,
        output_padding=[extra] * 2,
        group=group,
    )
    net.shape = inferred_shape(net)
    net.batch_normalization(share * group)
    net.add(activation)
    net.convolution(5, (2, 2))
    agree(net)


@pytest.mark.parametrize(("axis", "bias"), [(-1, True), (1, False)])
def test_layer_normalization(axis, bias) -> None:
    net = FloatNetwork(2, 3, 5, 7)
    shape = net.input_shape[axis:]
    net.add("Sigmoid")
    net.add("LayerNormalization", *(net.weights(*shape) for _ in range(1 + bias)), axis=axis, epsilon=1e-3)
    net.add("Relu")
    agree(net)


def test_instance_normalization_behind_a_convolution() -> None:
    net = behind_convolution(19)
    net.add("InstanceNormalization", net.weights(19), net.weights(19))
    agree(net)


@pytest.mark.parametrize(
    ("operator", "factors", "attributes", "problem"),
    [
        ("LayerNormalization", [(4,)], {}, "its scale of shape (4,) does not match the shape (7,)"),
        (
            "LayerNormalization",
            [(7,)],
            {"axis": 4},
            "its axis 4 is not an axis of its input of shape (2, 3, 5, 7)",
        ),
        ("InstanceNormalization", [(3,), (5,)], {}, "its bias of shape (5,) does not match the shape (3,)"),
    ],
)
def test_normalizations_that_do_not_fit_are_refused(operator, factors, attributes, problem) -> None:
    net = FloatNetwork(2, 3, 5, 7)
    net.add(operator, *(net.weights(*shape) for shape in factors), **attributes)
    with pytest.raises(ModelError) as refused:
        compile_kernels(net.model(), cpu_now())
    assert problem in str(refused.value)


@pytest.mark.filterwarnings("error")
def test_channels_without_a_variance_are_no_numbers() -> None:
    net = FloatNetwork(1, 3, 2, 2)
    net.convolution(3, (1, 1))
    ones = net.constant(np.ones(3, np.float32))
    variance = net.constant(np.array([1, -1, -2], np.float32))
    net.add("BatchNormalization", ones, ones, ones, variance)
    x = {"x": np.ones((1, 3, 2, 2), np.float32)}
    got, expected = (
        compile_kernels(net.model(), cpu_now()).run(x)[net.last],
        runtime(net.model(), x)[net.last],
    )
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))


@pytest.mark.parametrize("opset", [21, 23])
def test_functions_of_operators_that_only_take_more_types_since(opset: int) -> None:
    net = FloatNetwork(2, 8, 5, 3, opset=opset)
    net.add("GroupNormalization", net.weights(8), net.weights(8), num_groups=4)
    model, x = net.model(), {"x": net.rng.standard_normal(net.input_shape, dtype=np.float32)}
    with compile_kernels(model, cpu_now()) as network:
        assert relative(network.run(x)[net.last], runtime(model, x)[net.last]) <= 1e-5

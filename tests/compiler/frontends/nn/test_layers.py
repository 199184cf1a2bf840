"""Layers and functions of `vdla.nn` equal plain numpy."""

from __future__ import annotations

from operator import iadd, imul

import numpy as np
import numpy_layers as plain
import pytest
from numpy_layers import close, filled, run, values

import vdla
from vdla import nn

F = nn.functional


@pytest.mark.parametrize("shape", [(3, 6), (2, 4, 6), (6,)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear(shape: tuple[int, ...], bias: bool) -> None:
    layer = nn.Linear(6, 5, bias=bias)
    state, x = filled(layer), values(*shape)
    assert state["weight"].shape == (5, 6)
    close(run(layer, x)[0], x @ state["weight"].T + state.get("bias", 0))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"padding": 1, "bias": False},
        {"stride": 2, "groups": 2},
        {"dilation": (1, 2), "padding": (0, 1), "groups": 4},
    ],
)
def test_conv2d(options: dict) -> None:
    layer = nn.Conv2d(4, 8, (3, 2), **options)
    state, x = filled(layer), values(2, 4, 7, 6)
    pairs = {
        key: tuple(np.broadcast_to(value, 2))
        for key, value in options.items()
        if key not in ("groups", "bias")
    }
    expected = plain.conv2d(x, state["weight"], **pairs, groups=options.get("groups", 1))
    close(run(layer, x)[0], expected + np.reshape(state.get("bias", 0), (-1, 1, 1)))


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5, 5)])
def test_batch_norm(shape: tuple[int, ...]) -> None:
    layer = nn.BatchNorm(3, eps=1e-3)
    state, x = filled(layer), values(*shape)
    weight, bias, mean, var = (
        state[name].reshape(3, *[1] * (len(shape) - 2))
        for name in ("weight", "bias", "running_mean", "running_var")
    )
    close(run(layer, x)[0], (x - mean) / np.sqrt(var + 1e-3) * weight + bias)


@pytest.mark.parametrize("sizes", [6, (4, 6)])
def test_norms_of_last_dimensions(sizes: int | tuple[int, ...]) -> None:
    x = values(3, 4, 6)
    for bias in (True, False):
        layer = nn.LayerNorm(sizes, bias=bias)
        state = filled(layer)
        close(run(layer, x)[0], plain.layer_norm(x, state["weight"], state.get("bias", 0.0)))
    rms = nn.RMSNorm(sizes, eps=0.1)
    weight = filled(rms)["weight"]
    axes = tuple(range(-weight.ndim, 0))
    close(run(rms, x)[0], x / np.sqrt((x**2).mean(axes, keepdims=True) + 0.1) * weight)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_embedding(dtype: str) -> None:
    layer = nn.Embedding(9, 4)
    table, indices = filled(layer)["weight"], np.array([[0, 8, 3]], dtype)
    np.testing.assert_array_equal(run(layer, indices)[0], table[indices])


class Fivefold(nn.Module):
    def forward(self, x):
        return 5 * x


@pytest.mark.parametrize(
    ("layer", "formula"),
    [
        (nn.ReLU(), lambda x: np.maximum(x, 0)),
        (nn.ReLU(inplace=True), lambda x: np.maximum(x, 0)),
        (nn.Sequential(Fivefold(), nn.ReLU6()), lambda x: np.clip(5 * x, 0, 6)),
        (nn.LeakyReLU(0.2), lambda x: np.where(x > 0, x, 0.2 * x)),
        (nn.Hardsigmoid(), lambda x: np.clip(x / 6 + 0.5, 0, 1)),
        (nn.Hardswish(), lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
        (nn.Identity(3, unused=True), lambda x: x),
        (nn.GELU(), lambda x: x * plain.phi(x)),
        (nn.GELU("tanh"), lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))),
        (nn.SiLU(), lambda x: x * plain.sigmoid(x)),
        (nn.Sigmoid(), plain.sigmoid),
        (nn.Tanh(), np.tanh),
        (nn.Softmax(dim=1), lambda x: plain.softmax(x, 1)),
        (nn.Dropout(0.3), lambda x: x),
        (nn.Flatten(), lambda x: x.reshape(2, 96)),
        (nn.Flatten(2, 3), lambda x: x.reshape(2, 4, 24)),
        (nn.AdaptiveAvgPool2d(1), lambda x: x.mean((2, 3), keepdims=True)),
        (nn.MaxPool2d(2), lambda x: x.reshape(2, 4, 2, 2, 3, 2).max((3, 5))),
        (
            nn.MaxPool2d((3, 2), stride=1),
            lambda x: np.max([x[:, :, i : i + 2, j : j + 5] for i in range(3) for j in (0, 1)], 0),
        ),
        (nn.AvgPool2d(2), lambda x: x.reshape(2, 4, 2, 2, 3, 2).mean((3, 5))),
        (
            nn.AvgPool2d(2, padding=(0, 1)),
            lambda x: np.pad(x, ((0, 0), (0, 0), (0, 0), (1, 1))).reshape(2, 4, 2, 2, 4, 2).mean((3, 5)),
        ),
        (nn.Sequential(nn.ReLU(), nn.Tanh()), lambda x: np.tanh(np.maximum(x, 0))),
    ],
)
def test_layers_without_parameters(layer: nn.Module, formula) -> None:
    x = values(2, 4, 4, 6)
    close(run(layer, x)[0], formula(x).astype(np.float32))


class Expression(nn.Module):
    def __init__(self, function) -> None:
        self.function = function
        self.scale = nn.Parameter(np.array([2.0, 3.0, 4.0]))

    def forward(self, x):
        return self.function(x, self.scale)


TABLE = values(3, 5, seed=3)


@pytest.mark.parametrize(
    ("recorded", "computed"),
    [
        (lambda x, s: 1 - (x + 1) * 2 / (x * x + 2), lambda x, s: 1 - (x + 1) * 2 / (x * x + 2)),
        (lambda x, s: -(x**2) @ TABLE, lambda x, s: -(x**2) @ TABLE),
        (lambda x, s: TABLE.T @ x.transpose(1, 2), lambda x, s: TABLE.T @ x.swapaxes(1, 2)),
        (lambda x, s: s * x - s, lambda x, s: s * x - s),
        (lambda x, s: x * np.array([0.1, 0.2, 0.3]), lambda x, s: x * np.array([0.1, 0.2, 0.3], np.float32)),
        (lambda x, s: F.concat(list(x)), lambda x, s: np.concatenate(list(x))),
        (lambda x, s: TABLE[:, 0] - x, lambda x, s: TABLE[:, 0] - x),
        (lambda x, s: iadd(imul(x, 2), s), lambda x, s: x * 2 + s),
        (lambda x, s: iadd(TABLE[:, :3], x[0, 0]), lambda x, s: TABLE[:, :3] + x[0, 0]),
        (lambda x, s: 2**x, lambda x, s: 2**x),
        (lambda x, s: x[1], lambda x, s: x[1]),
        (lambda x, s: x[..., -1], lambda x, s: x[..., -1]),
        (lambda x, s: x[:, 1:3, None, ::-1], lambda x, s: x[:, 1:3, None, ::-1]),
        (lambda x, s: x[0, :, None, 1:], lambda x, s: x[0, :, None, 1:]),
        (lambda x, s: x[:, -3:-1, ::2], lambda x, s: x[:, -3:-1, ::2]),
        (lambda x, s: x[None], lambda x, s: x[None]),
        (lambda x, s: x.reshape(4, -1), lambda x, s: x.reshape(4, -1)),
        (lambda x, s: x.flatten(), lambda x, s: x.reshape(24)),
        (lambda x, s: x.permute(-1, 0, 1), lambda x, s: x.transpose(2, 0, 1)),
        (
            lambda x, s: x.mean(-1) + x.sum(0, 2, keepdim=True)[0, :, 0],
            lambda x, s: x.mean(-1) + x.sum((0, 2)),
        ),
        (
            lambda x, s: F.concat(x.split([1, 3], dim=1)[::-1], 1),
            lambda x, s: np.concatenate([x[:, 1:], x[:, :1]], 1),
        ),
        (lambda x, s: F.where(x.cast("bool"), x, 7), lambda x, s: np.where(x != 0, x, 7)),
        (lambda x, s: x + F.arange(3, x).cast("float32"), lambda x, s: x + np.arange(3, dtype=np.float32)),
    ],
)
def test_operations_of_tensors(recorded, computed) -> None:
    x = values(2, 4, 3)
    x[0, 0, 0] = 0
    close(run(Expression(recorded), x)[0], computed(x, np.array([2, 3, 4], np.float32)))


def test_symbols_stay_in_shapes() -> None:
    """Sizes that are symbols are kept by reshapes, slices and arange, and are read when the network runs."""

    class Network(nn.Module):
        def forward(self, x, y):
            batch, steps, _ = x.shape
            assert x.reshape(batch, steps, 2, 3).shape == ("batch", "steps", 2, 3)
            assert x.reshape(steps, batch, 6).shape == ("steps", "batch", 6)
            assert x.flatten(1).shape[0] == "batch"
            assert y[:, :steps].shape == ("batch", "steps")
            return x.reshape(steps, batch, 6), y[:, :steps], F.arange(steps, x), x.reshape(-1, 3)

    spec = {"x": nn.spec.Tensor(("batch", "steps", 6)), "y": nn.spec.Tensor(("batch", 9))}
    model = Network().export({"forward": spec})
    x, y = values(2, 5, 6), values(2, 9)
    outputs = plain.evaluated(model, {"x": x, "y": y})
    for actual, expected in zip(
        outputs, (x.reshape(5, 2, 6), y[:, :5], np.arange(5), x.reshape(-1, 3)), strict=True
    ):
        np.testing.assert_array_equal(actual, expected)
    assert [d.dim_param for d in model.graph.output[1].type.tensor_type.shape.dim] == ["batch", "steps"]


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.BatchNorm1d, (2, 3)),
        (nn.BatchNorm1d, (2, 3, 5)),
        (nn.BatchNorm2d, (2, 3, 4, 5)),
        (nn.BatchNorm3d, (1, 3, 2, 2, 2)),
    ],
)
def test_batch_norms_of_each_rank(layer: type[nn.BatchNorm], shape: tuple[int, ...]) -> None:
    for affine in (True, False):
        module = layer(3, 1e-3, 0.1, affine)
        state, x = filled(module), values(*shape)
        assert ("weight" in state) == affine
        place = (1, -1, *(1,) * (len(shape) - 2))
        mean, variance = state["running_mean"].reshape(place), state["running_var"].reshape(place)
        scaled = (x - mean) / np.sqrt(variance + 1e-3)
        if affine:
            scaled = scaled * state["weight"].reshape(place) + state["bias"].reshape(place)
        close(run(module, x)[0], scaled)


@pytest.mark.parametrize("shape", [(2, 6, 3, 5), (2, 6, 4), (3, 6)])
@pytest.mark.parametrize("affine", [True, False])
def test_group_norm(shape: tuple[int, ...], affine: bool) -> None:
    layer = nn.GroupNorm(2, 6, affine=affine)
    state, x = filled(layer), values(*shape)
    groups = x.reshape(shape[0], 2, -1)
    normal = (groups - groups.mean(2, keepdims=True)) / np.sqrt(groups.var(2, keepdims=True) + 1e-5)
    place = (1, -1, *(1,) * (len(shape) - 2))
    weight, bias = (state.get(name, value) for name, value in (("weight", np.ones(6)), ("bias", np.zeros(6))))
    close(run(layer, x)[0], normal.reshape(shape) * weight.reshape(place) + bias.reshape(place))


@pytest.mark.parametrize(
    "options", [{}, {"stride": 2, "padding": 1, "groups": 2}, {"dilation": 2, "bias": False}]
)
def test_conv1d(options: dict) -> None:
    layer = nn.Conv1d(4, 6, 3, **options)
    state, x = filled(layer), values(2, 4, 9)
    assert state["weight"].shape == (6, 4 // options.get("groups", 1), 3)
    stride, padding, dilation = (
        options.get(*pair) for pair in (("stride", 1), ("padding", 0), ("dilation", 1))
    )
    expected = plain.conv2d(
        x[:, :, None],
        state["weight"][:, :, None],
        (1, stride),
        (0, padding),
        (1, dilation),
        options.get("groups", 1),
    )
    close(run(layer, x)[0], expected[:, :, 0] + np.reshape(state.get("bias", 0), (-1, 1)))


@pytest.mark.parametrize("groups", [1, 2])
def test_transposed_convolution(groups: int) -> None:
    layer = nn.ConvTranspose2d(4, 6, (3, 2), stride=2, padding=(1, 0), output_padding=(1, 0), groups=groups)
    state, x = filled(layer), values(2, 4, 3, 4)
    assert state["weight"].shape == (4, 6 // groups, 3, 2)
    # Each input adds its multiple of the window; the padding is cut off afterwards, less output_padding.
    whole = np.zeros((2, 6, 3 * 2 + 2, 4 * 2))
    for i, row, column in np.ndindex(4, 3, 4):
        first = i // (4 // groups) * (6 // groups)
        part = np.einsum("n,oij->noij", x[:, i, row, column], state["weight"][i])
        whole[:, first : first + 6 // groups, 2 * row : 2 * row + 3, 2 * column : 2 * column + 2] += part
    # Rows: (3 - 1) * 2 - 2 * 1 + (3 - 1) + 1 + 1 = 6. Columns: (4 - 1) * 2 + (2 - 1) + 1 = 8.
    expected = whole[:, :, 1:7] + state["bias"][:, None, None]
    # ONNX's reference evaluator computes one group only; the compiler computes both cases.
    if groups == 1:
        close(run(layer, x)[0], expected)
    with vdla.compile(layer.export({"forward": {"x": nn.spec.Tensor(x.shape)}}), target="llvm") as compiled:
        close(compiled.run({"x": x})["output"], expected)


def test_a_transposed_convolution_may_have_a_window_larger_than_its_input() -> None:
    layer = nn.ConvTranspose2d(3, 2, 4)
    state, x = filled(layer), values(2, 3, 1, 1)
    close(run(layer, x)[0], np.einsum("niab,iocd->nocd", x, state["weight"]) + state["bias"][:, None, None])


def linear_places(inputs: int, outputs: int, scale: float, corners: bool) -> np.ndarray:
    """Weights [outputs, inputs] of bilinear interpolation along one dimension, from PyTorch's documentation. `corners`:
    PyTorch's align_corners; `scale`: outputs per input, used only without it.
    """
    found = np.zeros((outputs, inputs))
    for at in range(outputs):
        place = at * (inputs - 1) / (outputs - 1) if corners else (at + 0.5) / scale - 0.5
        place = min(max(place, 0), inputs - 1)
        low = min(int(place), inputs - 2)
        found[at, low] += 1 - (place - low)
        found[at, low + 1] += place - low
    return found


@pytest.mark.parametrize("corners", [None, False, True])
@pytest.mark.parametrize("given", [{"scale_factor": 2}, {"scale_factor": (2.0, 1.5)}, {"size": (7, 5)}])
def test_upsample(given: dict, corners: bool | None) -> None:
    x = values(2, 3, 3, 4)
    factors = np.broadcast_to(given.get("scale_factor", (7 / 3, 5 / 4)), 2)
    rows, columns = given.get(
        "size", [int(size * factor) for size, factor in zip((3, 4), factors, strict=True)]
    )
    if corners is None:
        at = [
            np.floor(np.arange(n) / f + 1e-9).astype(int)
            for n, f in zip((rows, columns), factors, strict=True)
        ]
        close(run(nn.Upsample(**given), x)[0], x[:, :, at[0]][..., at[1]])
        return
    first, second = (
        linear_places(3, rows, factors[0], corners),
        linear_places(4, columns, factors[1], corners),
    )
    layer = nn.Upsample(**given, mode="bilinear", align_corners=corners)
    close(run(layer, x)[0], np.einsum("ri,cj,nkij->nkrc", first, second, x))


def test_new_layers_compile() -> None:
    network = nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4),
        nn.LeakyReLU(0.1),
        nn.GroupNorm(2, 4),
        nn.ConvTranspose2d(4, 4, 2, 2),
        nn.ReLU6(inplace=True),
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.Identity(),
        nn.Upsample((5, 5)),
        nn.Flatten(2),
        nn.Conv1d(4, 4, 3),
        nn.Hardswish(),
    )
    model = network.export({"forward": {"x": nn.spec.Tensor(("batch", 3, 6, 6))}})
    x = values(2, 3, 6, 6)
    with vdla.compile(model, target="llvm", batch=2) as compiled:
        close(compiled.run({"x": x})["output"], plain.evaluated(model, {"x": x})[0])

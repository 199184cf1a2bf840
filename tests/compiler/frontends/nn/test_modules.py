"""Names, weights and mistakes of `vdla.nn`."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from numpy_layers import evaluated, filled, values

import vdla
from vdla import nn

F = nn.functional


class Block(nn.Module):
    def __init__(self) -> None:
        self.norm = nn.LayerNorm(8)
        self.attention = nn.MultiHeadAttention(8, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.mlp(x)


class Network(nn.Module):
    def __init__(self) -> None:
        self.words = nn.Embedding(20, 8)
        self.layers = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(8, 20, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


IDS = {"forward": {"ids": nn.spec.Tensor((1, 5), "int64")}}


def test_nodes_and_weights_have_the_paths_of_modules() -> None:
    model = Network().export(IDS)
    names = {node.name for node in model.graph.node}
    assert {"words", "layers.0.norm", "layers.1.attention.query", "layers.1.attention.out_proj"} <= names
    assert {"layers.0.mlp.0", "layers.0.mlp.1", "layers.0.mlp.2", "layers.0.add", "head"} <= names
    assert len(names) == len(model.graph.node)
    assert [(end.name, model.graph.name) for end in model.graph.input] == [("ids", "Network")]
    assert [end.name for end in model.graph.output] == ["output"]
    # A weight of two layers is in the file once in each orientation that they read.
    weights = {tensor.name for tensor in model.graph.initializer}
    assert {"words.weight", "words.weight.T"} <= weights and not any("head" in name for name in weights)


def test_unset_weights_follow_from_seed_and_name() -> None:
    network = Network()
    first, again, other = network.state_dict(), Network().state_dict(), network.state_dict(seed=1)
    assert first.keys() == again.keys() == {name for name, _ in network.named_parameters()}
    for name, array in first.items():
        assert array.dtype == np.float32
        np.testing.assert_array_equal(array, again[name])
    assert not np.array_equal(first["words.weight"], other["words.weight"])
    assert not np.array_equal(first["layers.0.mlp.0.weight"], first["layers.1.mlp.0.weight"])
    assert first["head.weight"] is first["words.weight"]
    assert (
        abs(first["layers.0.mlp.0.weight"]).max() <= 8**-0.5 < 1.2 * abs(first["layers.0.mlp.0.weight"]).max()
    )
    assert (first["layers.0.norm.weight"] == 1).all() and not first["layers.0.norm.bias"].any()
    ids = np.arange(5)[None]
    drawn = evaluated(network.export(IDS, seed=1), {"ids": ids})[0]
    network.load_state_dict(other)
    np.testing.assert_array_equal(evaluated(network.export(IDS), {"ids": ids})[0], drawn)


class Torchlike:
    """A fake of PyTorch's tensors: it has no numpy values before `detach` and `float` are called."""

    def __init__(self, array: np.ndarray, steps: tuple[str, ...] = ()) -> None:
        self.array, self.steps = array, steps
        self.shape = array.shape

    def __getattr__(self, name: str) -> Callable[[], object]:
        if name not in ("detach", "cpu", "float"):
            raise AttributeError(name)
        return lambda: Torchlike(self.array, (*self.steps, name))

    def numpy(self) -> np.ndarray:
        assert self.steps == ("detach", "cpu", "float")
        return self.array


def test_state_dicts_of_pytorch_load_by_name() -> None:
    class Normed(nn.Module):
        def __init__(self) -> None:
            self.conv, self.bn = nn.Conv2d(2, 3, 1, bias=False), nn.BatchNorm(3)

        def forward(self, x):
            return self.bn(self.conv(x))

    network = Normed()
    state = filled(Normed())
    given = {name: Torchlike(array) for name, array in state.items()}
    network.load_state_dict(given | {"bn.num_batches_tracked": Torchlike(np.array(7))})
    for name, array in network.state_dict().items():
        np.testing.assert_array_equal(array, state[name])
    with pytest.raises(
        vdla.UserError,
        match=r"^Normed: the state dict lacks bn\.weight; has entries without a parameter: bn\.gamma; ",
    ):
        network.load_state_dict({("bn.gamma" if n == "bn.weight" else n): a for n, a in state.items()})
    changed = {"conv.weight": state["conv.weight"] + 1, "bn.bias": np.zeros(4)}
    with pytest.raises(
        vdla.UserError, match=r"Normed: the shape of bn\.bias of the state dict is \(4,\); give \(3,\)"
    ):
        network.load_state_dict(changed, strict=False)
    np.testing.assert_array_equal(network.state_dict()["conv.weight"], state["conv.weight"])
    del changed["bn.bias"]
    network.load_state_dict(changed | {"other": 1}, strict=False)
    np.testing.assert_array_equal(network.state_dict()["conv.weight"], changed["conv.weight"])


class Plain(nn.Module):
    """A module whose `forward` is the function that the test passes."""

    def __init__(self, forward: Callable[..., object], **parts: object) -> None:
        self.function = forward
        vars(self).update(parts)

    def forward(self, x):
        return self.function(self, x)


def export(forward: Callable[..., object], *shape: int | str, dtype: str = "float32", **parts: object):
    return Plain(forward, **parts).export({"forward": {"x": nn.spec.Tensor(shape, dtype)}})


def test_outputs_have_names() -> None:
    x = values(2, 3)
    model = export(lambda _, x: (x, x + 1, x), 2, 3)
    assert [end.name for end in model.graph.output] == ["output0", "output1", "output2"]
    for actual, expected in zip(evaluated(model, {"x": x}), (x, x + 1, x), strict=True):
        np.testing.assert_array_equal(actual, expected)
    model = export(lambda _, x: {"sum": x.sum(1), "x": x}, 2, 3)
    assert [end.name for end in model.graph.output] == ["sum", "x_1"]
    # An output has its name even if a node has that name, too, and is the output or not.
    model = export(lambda _, x: {"add": x * 2 + 1, "mul": x + 3}, 2, 3)
    assert [end.name for end in model.graph.output] == ["add", "mul"]
    for actual, expected in zip(evaluated(model, {"x": x}), (x * 2 + 1, x + 3), strict=True):
        np.testing.assert_array_equal(actual, expected)
    # Nodes that no output needs are left out.
    assert len(export(lambda _, x: (x @ x, x + 1)[1], 3, 3).graph.node) == 1


def test_a_module_may_be_called_twice() -> None:
    model = export(lambda self, x: self.fc(self.fc(x)), 2, 3, fc=nn.Linear(3, 3))
    assert [node.name for node in model.graph.node[:2]] == ["fc", "fc_1"]
    assert {tensor.name for tensor in model.graph.initializer} == {"fc.weight", "fc.bias"}


def test_modules_take_lists_of_tensors() -> None:
    class Joined(nn.Module):
        def forward(self, tensors):
            return F.concat(tensors, 1)

    model = export(lambda self, x: self.join([x, x + 1]), 2, 3, join=Joined())
    assert [node.name for node in model.graph.node] == ["add", "join.concat"]


def test_recording_imports_no_compiler() -> None:
    code = "import sys; from vdla import nn; print([m for m in ('numba', 'llvmlite', 'vdla.sim') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: export(lambda self, x: self.fc1(x), 1, 100, fc1=nn.Linear(784, 256)),
            "fc1 (Linear): the input is float32 [1, 100], but its dimension -1 must be 784 (in_features); ",
        ),
        (
            lambda: export(
                lambda self, x: self.parts(x), 1, 3, 8, 8, parts=nn.Sequential(nn.ReLU(), nn.Conv2d(4, 8, 3))
            ),
            "parts.1 (Conv2d): the input is float32 [1, 3, 8, 8], but its dimension 1 must be 4 (in_channels); ",
        ),
        (
            lambda: export(lambda self, x: self.pool(x), 1, 3, 8, 8, pool=nn.MaxPool2d(9)),
            "pool (MaxPool2d): the window is (9, 9); give a smaller kernel_size or more padding for the input float32",
        ),
        (
            lambda: export(lambda self, x: self.pool(x), 3, 8, pool=nn.AvgPool2d(2)),
            "pool (AvgPool2d): AveragePool does not take float32 [3, 8]: Input tensor must have at least 3",
        ),
        (
            lambda: export(lambda self, x: self.pool(x), 1, 3, 8, 8, pool=nn.AdaptiveAvgPool2d(7)),
            "output_size is 7; ",
        ),
        (
            lambda: export(lambda self, x: self.norm(x), 2, 6, norm=nn.LayerNorm(5)),
            "must be 5 (normalized_shape); ",
        ),
        (
            lambda: export(lambda self, x: self.rnn(x), 2, 6, rnn=nn.LSTM(6, 4)),
            "rnn (LSTM): the input is float32 [2, 6]; ",
        ),
        (
            lambda: export(lambda self, x: self.rnn(x)[0], 5, 2, 6, rnn=nn.GRU(7, 4)),
            "must be 7 (input_size); ",
        ),
        (
            lambda: export(lambda self, x: self.words(x), 2, 6, words=nn.Embedding(6, 4)),
            "words (Embedding): Gather does not take float32 [6, 4] and float32 [2, 6]: ",
        ),
        (
            lambda: export(lambda _, x: x + x.transpose(0, 1), 2, 6),
            "Plain: Add does not take float32 [2, 6] and float32 [6, 2]: Incompatible dimensions; change attributes",
        ),
        (lambda: export(lambda _, x: x.reshape(5, -1), 2, 6), "Plain: Reshape does not take float32 [2, 6]"),
        (
            lambda: export(lambda _, x: x.reshape("steps", 2, 3), "batch", 6),
            "Plain: a size is 'steps'; give an integer or a symbol (batch)",
        ),
        (
            lambda: export(lambda _, x: x[0, 0, 0], 2, 6),
            "Plain: the number of indices is 3; give at most 2 for float32 [2, 6]",
        ),
        (lambda: export(lambda _, x: x["a"], 2, 6), "Plain: an index is 'a'; give integers"),
        (lambda: export(lambda _, x: 3, 2, 6), "Plain: the result of forward is 3; give a tensor"),
        (
            lambda: export(lambda _, x: None, 2, 6),
            "Plain: the result of forward is None; give a tensor",
        ),
        (lambda: export(lambda _, x: (), 2, 6), "Plain: the result of forward is (); give a tensor"),
        (
            lambda: export(lambda self, x: self.parts[0](x), 2, 6, parts=[nn.Linear(6, 6)]),
            "Plain: calls a Linear that is not an attribute of a module; assign it to self in __init__, and a list",
        ),
        (
            lambda: export(lambda _, x: x + nn.Parameter((6,)), 2, 6),
            "Plain: reads a Parameter that is not a parameter of",
        ),
        (
            lambda: export(lambda _, x: x * [1, 2], 2, 6),
            "Plain: reads a list that is not a parameter of the network; ",
        ),
        (
            lambda: export(lambda _, x: nn.record("Rleu", x), 2, 6),
            "Plain: ONNX has no operator Rleu in opset 20; ",
        ),
        (lambda: export(lambda _, x: nn.record("Loop", x), 2, 6), "Plain: "),
        (lambda: export(lambda _, x: F.concat([]), 2, 6), "Concat: none of its operands is a tensor; "),
        (
            lambda: export(lambda _, x: x if x else -x, 2, 6),
            "Plain: reads the value of a tensor, which has no value",
        ),
        (
            lambda: export(lambda _, x: list(x), "batch", 6),
            "Plain: the tensor to iterate over is float32 [batch, 6]; give a known number of rows",
        ),
        (
            lambda: export(lambda _, x: x.transpose(1, 2), 2, 6),
            "Plain: a dimension is 2; give one of the 2 dimensions of float32 [2, 6]",
        ),
        (lambda: nn.Linear(3, 4)(np.zeros((2, 3))), "Linear: is called without a tensor; "),
        (lambda: nn.Module().export({"forward": {"x": nn.spec.Tensor((1,))}}), "Module: defines no forward"),
        (
            lambda: nn.ReLU().export({"forward": {"y": nn.spec.Tensor((1,))}}),
            "ReLU: missing a required argument: 'x'; spec gives forward(y); ",
        ),
        (
            lambda: nn.ReLU().export({"predict": {"x": nn.spec.Tensor((1,))}}),
            "ReLU: 'ReLU' object has no attribute 'predict'; spec gives predict(x); ",
        ),
        (
            lambda: nn.ReLU().export({"forward": {"x": (1, 2)}}),
            "ReLU: the argument x in spec is (1, 2); give nn.spec",
        ),  # type: ignore[dict-item]
        (lambda: nn.ReLU().export({}), "ReLU: spec is {}; give one method with its arguments"),
        (
            lambda: export(lambda self, x: self.conv(x), 1, 3, 8, 8, conv=nn.Conv2d(3, 4, (3, 3, 3))),  # type: ignore[arg-type]
            "Conv2d: kernel_size is (3, 3, 3); give an integer, 1 or larger, or 2 of them",
        ),
        (
            lambda: export(lambda _, x: F.scaled_dot_product_attention(x, x, x), 1, 2, 4, "size"),
            "Plain: the size of a head is 'size'; give a last dimension of known size",
        ),
        (
            lambda: export(lambda self, x: self.x, 2, 3, x=nn.Parameter((3,))),
            "Plain: the name of both an argument and a parameter is 'x'; give two names",
        ),
        (
            lambda: nn.spec.Tensor((1, 0)),
            "nn.spec.Tensor: shape is (1, 0); give sizes that are positive integers, or symbols",
        ),
        (
            lambda: nn.spec.Tensor((1,), "float31"),
            "nn.spec.Tensor: dtype is 'float31'; give one of float16, float32",
        ),
        (
            lambda: nn.Conv2d(3, 4, 3, groups=2),
            "Conv2d: (in_channels, out_channels) is (3, 4); give multiples of groups (2)",
        ),
        (lambda: nn.Linear(-1, 4), "Linear: in_features is -1; give a positive integer"),
        (lambda: nn.Linear(2.5, 4), "Linear: in_features is 2.5; give a positive integer"),  # type: ignore[arg-type]
        (lambda: nn.Linear(3, True), "Linear: out_features is True; give a positive integer"),
        (lambda: nn.Conv2d("a", 4, 3), "Conv2d: in_channels is 'a'; give a positive integer"),  # type: ignore[arg-type]
        (lambda: nn.Conv2d(3, 4, 3, groups=0), "Conv2d: groups is 0; give a positive integer"),
        (lambda: nn.Conv2d(3, 4, 0), "Conv2d: kernel_size is 0; give an integer, 1 or larger, or 2 of them"),
        (lambda: nn.Conv2d(3, 4, 3, padding="same"), "Conv2d: padding is 'same'; give an integer, 0 or"),  # type: ignore[arg-type]
        (lambda: nn.Conv1d(3, 4, (3, 3)), "Conv1d: kernel_size is (3, 3); give an integer, 1 or larger"),
        (lambda: nn.ConvTranspose2d(3, 4, 3, stride=0), "ConvTranspose2d: stride is 0; give"),
        (lambda: nn.BatchNorm2d(0), "BatchNorm2d: num_features is 0; give a positive integer"),
        (lambda: nn.BatchNorm(3, eps="a"), "BatchNorm: eps is 'a'; give a number"),  # type: ignore[arg-type]
        (lambda: nn.GroupNorm(2, 3), "GroupNorm: num_channels is 3; give a multiple of num_groups (2)"),
        (
            lambda: nn.LayerNorm((3, 2.5)),
            "LayerNorm: normalized_shape is (3, 2.5); give an integer, 1 or larger, or a tuple of them",
        ),  # type: ignore[arg-type]
        (lambda: nn.RMSNorm("a"), "RMSNorm: normalized_shape is 'a'; give an integer, 1 or larger"),  # type: ignore[arg-type]
        (lambda: nn.Embedding(6, 0), "Embedding: embedding_dim is 0; give a positive integer"),
        (lambda: nn.GRU(6, 0), "GRU: hidden_size is 0; give a positive integer"),
        (lambda: nn.MultiHeadAttention(8, 0), "MultiHeadAttention: num_heads is 0; give a positive integer"),
        (
            lambda: nn.Parameter((2, 2.5)),
            "nn.Parameter: the shape is (2, 2.5); give an integer, 0 or larger, or a tuple",
        ),  # type: ignore[arg-type]
        (lambda: nn.Parameter(np.array(["a"])), "nn.Parameter: the value is not an array of numbers"),
        (
            lambda: nn.MaxPool2d(2, size=3),
            "MaxPool2d: got an unexpected keyword argument 'size'; its arguments",
        ),
        (
            lambda: export(lambda self, x: self.pool(x), 1, 3, 8, 8, pool=nn.MaxPool2d("a")),
            "pool (MaxPool2d): kernel_size is 'a'; give an integer",
        ),
        (
            lambda: export(lambda self, x: self.act(x), 2, 3, act=nn.Softmax("a")),
            "act (Softmax): a dimension is 'a'; give one of the 2 dimensions of float32 [2, 3]",
        ),
        (
            lambda: export(lambda self, x: self.act(x), 2, 3, act=nn.GELU("a")),
            "act (GELU): approximate is 'a'; ",
        ),
        (
            lambda: export(lambda self, x: self.act(x), 2, 3, act=nn.LeakyReLU("a")),
            "act (LeakyReLU): negative_slope is 'a'; give a number",
        ),
        (
            lambda: export(lambda self, x: self.norm(x), 2, 3, norm=nn.BatchNorm2d(3)),
            "norm (BatchNorm2d): the input is float32 [2, 3]; give a tensor of 4 dimensions",
        ),
        (
            lambda: export(lambda self, x: self.up(x), 1, 2, 3, 3, up=nn.Upsample()),
            "up (Upsample): (size, scale_factor) is (None, None); give exactly one of them",
        ),
        (
            lambda: export(lambda self, x: self.up(x), 1, 2, 3, 3, up=nn.Upsample(2, mode="area")),
            "up (Upsample): mode is 'area'; give 'nearest' or 'bilinear'",
        ),
        (
            lambda: export(lambda self, x: self.up(x), 1, 2, 3, 3, up=nn.Upsample(None, (2, -1))),
            "up (Upsample): scale_factor is (2, -1); give a positive number",
        ),
        (
            lambda: nn.Linear(3, 4).load_state_dict({"weight": np.zeros((4, 3)), "bias": ["a"] * 4}),
            "Linear: bias of the state dict is not an array of numbers, but of type list; give",
        ),
        (
            lambda: export(lambda _, x: x if x > 0 else -x, 2, 6),
            "so it cannot decide control flow; use nn.functional.where",
        ),
        (
            lambda: export(lambda _, x: x if x == 0 else -x, 2, 6),
            "so it cannot decide control flow; use nn.functional.where",
        ),
        (lambda: export(lambda _, x: x * float(x), 2, 6), "it cannot decide control flow; "),
        (lambda: export(lambda _, x: list(range(x)), 2, 6), "it cannot decide control flow; "),
        (lambda: export(lambda _, x: np.sin(x), 2, 6), "Plain: np.sin takes no tensor, which has no value"),
        (lambda: export(lambda _, x: np.mean(x), 2, 6), "nn.functional, or nn.record for any operator"),
        (lambda: export(lambda _, x: np.asarray(x), 2, 6), "Plain: np.array takes no tensor"),
        (lambda: export(lambda _, x: x.view(3), 2, 6), "Plain: a tensor has no 'view'; use reshape"),
        (
            lambda: export(lambda _, x: x.contiguous(), 2, 6),
            "Plain: a tensor has no 'contiguous'; leave it out",
        ),
        (
            lambda: export(lambda _, x: x.softmax(1), 2, 6),
            "a tensor has no 'softmax'; use nn.functional.softmax",
        ),
        (
            lambda: export(lambda _, x: x.sqrt(), 2, 6),
            "Plain: a tensor has no 'sqrt'; use another method, nn.functional, or nn.record",
        ),
        (
            lambda: export(lambda _, x: x.cumsum(1), 2, 6),
            "Plain: a tensor has no 'cumsum'; use another method",
        ),
        (
            lambda: export(lambda _, x: x.reshape(2.5, 3), 2, 3),
            "Plain: a size is 2.5; give an integer or a",
        ),
        (
            lambda: export(lambda _, x: x.mean("a"), 2, 3),
            "Plain: a dimension is 'a'; give one of the 2 dimensions",
        ),
        (
            lambda: export(lambda _, x: x.split(2), 2, 3),
            "Plain: the first argument of split is 2; give a list with the size of each part",
        ),
        (
            lambda: export(lambda _, x: x.cast("float31"), 2, 3),
            "Plain: the element type is 'float31'; give one of float16",
        ),
        (lambda: nn.Sequential(nn.ReLU(), 3), "Sequential: element 1 is 3; give an nn.Module"),  # type: ignore[arg-type]
        (lambda: nn.ReLU().load_state_dict([1]), "ReLU: the state dict is [1]; give arrays by name"),  # type: ignore[arg-type]
        (
            lambda: nn.MultiHeadAttention(6, 4),
            "MultiHeadAttention: embed_dim is 6; give a multiple of num_heads (4)",
        ),
    ],
)
def test_a_mistake_is_one_line(make: Callable[[], object], words: str) -> None:
    with pytest.raises(vdla.UserError, match=re.escape(words)) as raised:
        make()
    (line,) = raised.value.lines
    assert "\n" not in line and isinstance(raised.value, nn.NetworkError)


def test_comparisons_choose_elements() -> None:
    x = values(2, 3)
    model = export(lambda _, x: (F.where(x > 0, x, 2 * x), x != 0, np.zeros(3) <= x), 2, 3)
    outputs = evaluated(model, {"x": x})
    for actual, expected in zip(outputs, (np.where(x > 0, x, 2 * x), x != 0, x >= 0), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_conditions_are_joined() -> None:
    x = values(2, 3)
    model = export(lambda _, x: ((x > -1) & (x < 1), (x < -1) | ~(x <= 1), abs(x)), 2, 3)
    expected = ((x > -1) & (x < 1), (x < -1) | (x > 1), abs(x))
    for actual, computed in zip(evaluated(model, {"x": x}), expected, strict=True):
        np.testing.assert_array_equal(actual, computed)


def test_dimensions_may_be_tuples_or_all() -> None:
    x = values(2, 3)
    model = export(lambda _, x: (x.reshape((3, 2)), x.permute((1, 0)), x.mean(), x.sum()), 2, 3)
    for actual, computed in zip(
        evaluated(model, {"x": x}), (x.reshape(3, 2), x.T, x.mean(), x.sum()), strict=True
    ):
        np.testing.assert_allclose(actual, computed, rtol=1e-5)


def test_tensors_are_asked_for_attributes() -> None:
    model = export(lambda _, x: x + int(hasattr(x, "view")) + 2 * int(hasattr(x, "reshape")), 2, 3)
    np.testing.assert_array_equal(evaluated(model, {"x": values(2, 3)})[0], values(2, 3) + 2)


def test_a_network_is_exported_before_it_is_compiled() -> None:
    with pytest.raises(
        vdla.UserError, match=r"^Network is a module of vdla\.nn .*; give the model that \.export\(spec="
    ):
        vdla.compile(Network())  # type: ignore[arg-type]

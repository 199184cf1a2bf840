"""Networks of `vdla.nn` through the toolkit: compiled, quantized, simulated, explored and tuned from memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy_layers import close, evaluated, values

import vdla
from vdla import nn

F = nn.functional


class Mlp(nn.Module):
    def __init__(self) -> None:
        self.fc1 = nn.Linear(24, 16)
        self.relu1 = nn.ReLU()
        self.fc2 = nn.Linear(16, 10)

    def forward(self, x):
        return self.fc2(self.relu1(self.fc1(x)))


class Residual(nn.Module):
    def __init__(self) -> None:
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm(8)
        self.conv2, self.bn2 = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm(8)
        self.pool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(8, 5)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x)) + x), 2)
        return self.fc(self.pool(x).flatten(1))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        self.lstm, self.fc = nn.LSTM(6, 8, bidirectional=True, batch_first=True), nn.Linear(16, 3)

    def forward(self, x):
        return self.fc(self.lstm(x)[0][:, -1])


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.RMSNorm(width)
        self.attention = nn.MultiHeadAttention(width, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x), is_causal=True)
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self) -> None:
        self.words, self.places = nn.Embedding(30, 16), nn.Embedding(12, 16)
        self.layers = nn.ModuleList([Block(16) for _ in range(2)])
        self.norm = nn.LayerNorm(16)

    def forward(self, ids):
        x = self.words(ids) + self.places(F.arange(ids.shape[1], ids))
        for layer in self.layers:
            x = layer(x)
        return F.linear(self.norm(x), self.words.weight)


IDS = np.array([[3, 1, 4, 1, 5, 9]])


@pytest.mark.parametrize(
    ("network", "inputs"),
    [
        (Mlp(), {"x": values(3, 24)}),
        (Residual(), {"x": values(2, 3, 8, 8)}),
        (Recurrent(), {"x": values(2, 5, 6)}),
        (Gpt(), {"ids": IDS}),
    ],
)
def test_networks_on_this_processor(network: nn.Module, inputs: dict[str, np.ndarray]) -> None:
    spec = {name: nn.spec.Tensor(array.shape, str(array.dtype)) for name, array in inputs.items()}
    model = network.export({"forward": spec})
    with vdla.compile(model, "llvm", cache=False) as compiled:
        close(compiled.run(inputs)["output"], evaluated(model, inputs)[0], 1e-4)


def test_a_symbolic_batch() -> None:
    model = Mlp().export({"forward": {"x": nn.spec.Tensor(("batch", 24))}})
    x = values(4, 24)
    with vdla.compile(model, "llvm", batch=4, cache=False) as compiled:
        assert compiled.inputs[0].shape == (4, 24)
        close(compiled.run({"x": x})["output"], evaluated(model, {"x": x})[0], 1e-4)


def test_any_number_of_tokens() -> None:
    model = Gpt().export({"forward": {"ids": nn.spec.Tensor((1, "sequence"), "int64")}})
    with vdla.compile(model, "llvm", lengths={"sequence": (1, 6)}, cache=False) as compiled:
        for count in (1, 4, 6):
            ids = IDS[:, :count]
            close(compiled.run({"ids": ids})["output"], evaluated(model, {"ids": ids})[0], 1e-4)


@pytest.fixture(scope="module")
def quantized() -> vdla.QuantizedNetwork:
    model = Mlp().export({"forward": {"x": nn.spec.Tensor((1, 24))}})
    return vdla.quantize(model, {"x": values(32, 24, seed=1)})


def test_a_quantized_network_is_whole_on_the_accelerator(quantized: vdla.QuantizedNetwork) -> None:
    assert [row["name"] for row in quantized.rows()] == ["fc1", "fc2"]
    x = values(1, 24)
    report = vdla.simulate(vdla.compile(quantized.content, config="tiny"), {"x": x})
    assert [row["name"] for row in report.rows()] == ["fc1", "fc2"]
    state = Mlp().state_dict()
    hidden = np.maximum(x @ state["fc1.weight"].T + state["fc1.bias"], 0)
    expected = hidden @ state["fc2.weight"].T + state["fc2.bias"]
    assert abs(report.outputs["output"] - expected).max() < 0.05 * abs(expected).max()


def test_a_model_in_memory_is_explored_and_tuned(quantized: vdla.QuantizedNetwork, tmp_path: Path) -> None:
    model = onnx.load_model_from_string(quantized.content)
    space = {"base": "tiny", "fields": {"block_in": [4, 8]}}
    for networks in (model, [(model, 2.0)]):
        found = vdla.explore(space, networks, "cycles", strategy="exhaustive")
        assert len(found.rows()) == 2
    rows = vdla.compare("tiny", "tiny", model).rows
    assert [row["ratio"] for row in rows if row["name"] == "cycles" and row["kind"] == "total"] == [1.0]
    options = {"config": "tiny", "trials": 2, "in_place": 0, "strategy": "random", "workers": 0}
    for name, subject in (("Mlp", model), ("model", quantized.content)):
        tuned = vdla.tune(subject, records=tmp_path / f"{name}.jsonl", **options)
        assert tuned.document["name"] == name and [task["name"] for task in tuned.tasks] == ["fc1", "fc2"]


def test_a_saved_model_is_the_same(tmp_path: Path) -> None:
    model = Mlp().export({"forward": {"x": nn.spec.Tensor((1, 24))}})
    onnx.save(model, tmp_path / "mlp.onnx")
    x = {"x": values(1, 24)}
    outputs = [
        vdla.compile(source, "llvm", cache=False).run(x)["output"]
        for source in (model, tmp_path / "mlp.onnx")
    ]
    np.testing.assert_array_equal(*outputs)

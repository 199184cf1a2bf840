"""Training of small ONNX models: the forward pass equals ONNX Runtime's, and the training reduces the error."""

from __future__ import annotations

import numpy as np
import pytest
from float_networks import runtime
from onnx import helper

from vdla.benchmarks.harness.digit_networks import CLASSES, SIDE, cnn, patches, transformer
from vdla.benchmarks.harness.onnx_training import forward, trained
from vdla.util.errors import UserError


def shapes(count: int):
    """`count` images, float32 [count, 1, 8, 8] from 0 to 1, each one of ten random patterns with noise; and the labels,
    the patterns' numbers.
    """
    rng = np.random.default_rng(0)
    drawn = rng.random((CLASSES, SIDE, SIDE)) < 0.3
    labels = np.arange(count) % CLASSES
    images = np.clip(drawn[labels] + 0.2 * rng.standard_normal((count, SIDE, SIDE)), 0, 1)
    return images.astype(np.float32)[:, None], labels


@pytest.mark.parametrize(
    ("build", "seen", "epochs"),
    [(cnn, np.asarray, 20), (transformer, patches, 5)],
    ids=["cnn", "transformer"],
)
def test_networks_compute_what_onnx_runtime_does_and_learn(build, seen, epochs):
    model = build(3)
    images, labels = shapes(128)
    data = seen(images)
    scores = forward(model, {}, data)
    for sample, row in zip(data[:4], scores, strict=False):
        np.testing.assert_allclose(
            row, runtime(model.SerializeToString(), {"x": sample[None]})["y"][0], atol=1e-5
        )

    def loss(scores):
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return -np.log(powers[np.arange(len(labels)), labels] / powers.sum(axis=1)).mean()

    after = loss(forward(trained(model, data, labels, epochs, 3), {}, data))
    assert after < 0.9 * loss(scores)


def test_other_operators_are_named():
    model = cnn(3)
    model.graph.node.append(helper.make_node("Tanh", ["y"], ["z"], name="last"))
    with pytest.raises(UserError, match=r"node last \(Tanh\)"):
        forward(model, {}, np.zeros((1, 1, 8, 8), np.float32))

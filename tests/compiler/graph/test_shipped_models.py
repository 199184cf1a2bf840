"""The shipped models in every form against ONNX Runtime, and the amount of work and the roofline of ResNet-18."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from campaign import representatives
from runtime_integers import addable
from shipped import shipped

from vdla.codesign.models import build, sample_inputs
from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.graph.cost import count_macs
from vdla.compiler.graph.traffic import compulsory_bytes
from vdla.compiler.rewrites.fuse import fuse
from vdla.compiler.rewrites.fuse_pairs import fuse_pool


@pytest.mark.parametrize(
    ("name", "form", "batch"),
    representatives(
        itertools.product(["mlp", "small_cnn"], ["u8", "s8", "qop"], [1, 2]),
        0,
        always=[
            ("mlp", "u8", 2), ("mlp", "s8", 1), ("mlp", "qop", 2),
            ("small_cnn", "u8", 2), ("small_cnn", "s8", 1), ("small_cnn", "qop", 1),
        ],
    ),
)  # fmt: skip
def test_layers_and_fusion(name, form, batch, layers_against_runtime, fusion_exact, runtime):
    data = addable(build(name, form, batch=batch).SerializeToString())
    feed = {"input": sample_inputs(name, batch)}
    differences = layers_against_runtime(data, feed, form != "s8")
    assert max(differences.values()) <= (1 if form == "s8" else 0), differences
    got = fusion_exact(import_model(data), feed)["output"]
    if form != "s8":
        np.testing.assert_array_equal(got, runtime(data, ["output"], feed, True)[0])


def test_resnet18_layers_work_and_roofline(layers_against_runtime, fusion_exact):
    data = addable(shipped("resnet18", "u8"))
    feed = {"input": sample_inputs("resnet18", 1)}
    graph = import_model(data)
    assert set(layers_against_runtime(data, feed, True).values()) == {0}
    fusion_exact(graph, feed)
    for stage in (graph, fuse(graph), fuse_pool(fuse(graph))):
        assert sum(count_macs(stage, node) for node in stage.nodes) == 1_814_073_344
        cycles = (
            max(count_macs(stage, node) / 256, compulsory_bytes(stage, node) / 8) for node in stage.nodes
        )
        assert sum(cycles) == 7_148_913
    # 20 convolutions and the dense layer, of which the first takes the pool and eight a sum; one average.
    assert len(fuse_pool(fuse(graph)).nodes) == 22

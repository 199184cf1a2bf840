"""Models of published networks: numbers of parameters and products equal the published ones, and every graph passes
ONNX's checker.
"""

import math
from collections import Counter

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from vdla.codesign.models.originals import NAMES, build_original, describe
from vdla.codesign.models.originals.graph import Graph
from vdla.util.errors import UserError

PUBLISHED = {
    # Parameters and billions of products, from the meta data of torchvision's weights: "num_params" and "_ops".
    "alexnet": (61_100_840, 0.714),
    "vgg11": (132_863_336, 7.609),
    "resnet50": (25_557_032, 4.089),
    "wide_resnet50": (68_883_240, 11.398),
    "resnext50": (25_028_904, 4.230),
    "squeezenet1_1": (1_235_496, 0.349),
    "mobilenet_v2": (3_504_872, 0.301),
    "mobilenet_v3_small": (2_542_856, 0.057),
    "mobilenet_v3_large": (5_483_032, 0.217),
    "efficientnet_b0": (5_288_548, 0.386),
    "densenet121": (7_978_856, 2.834),
    "googlenet": (6_624_904, 1.498),
    # 27,161,264 less the auxiliary classifier's 3,326,696, which evaluation has not.
    "inception_v3": (23_834_568, 5.713),
    "shufflenet_v2": (2_278_604, 0.145),
    "mnasnet": (4_383_312, 0.314),
    "regnet_y_400mf": (4_344_144, 0.402),
    "convnext_tiny": (28_589_128, 4.456),
    "swin_t": (28_288_354, 4.491),
    "lraspp": (3_221_538, 2.086),
    # 11,029,328 less the auxiliary classifier's 3,851, whose products are 0.016 of the published 10.452.
    "deeplabv3": (11_025_477, 10.436),
    # 3.77 millions and 0.19 billions in timm's tables of results.
    "mobilenet_v4_small": (3_774_024, 0.186),
    # In timm's tables of results 5.72, 22.05 and 18.53 millions; 1.26, 4.61 and 3.78 billions, with normalizations.
    "vit_tiny": (5_717_416, 1.26),
    "deit_small": (22_050_664, 4.61),
    "mixer": (18_528_264, 3.78),
}
SEGMENTATIONS = ("lraspp", "deeplabv3")
"""Networks whose numbers of products are published for images of 520x520."""
SMALL = {"size": 64, "width": 0.25, "depth": 0.25}


def small(name: str) -> Graph:
    return describe(name, **(SMALL | ({"size": 75} if name == "inception_v3" else {})))


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_and_products_are_the_published(name: str) -> None:
    parameters, billions = PUBLISHED[name]
    graph = describe(name, size=520 if name in SEGMENTATIONS else None)
    assert graph.parameters == parameters
    assert graph.macs / 1e9 == pytest.approx(billions, rel=1e-2, abs=5e-4)


def test_every_network_has_a_published_figure_but_ours() -> None:
    assert set(NAMES) - set(PUBLISHED) == {"unet"}
    assert len(NAMES) == 25


@pytest.mark.parametrize("name", NAMES)
def test_onnx_infers_the_shapes_that_the_builder_states(name: str) -> None:
    graph = small(name)
    model = onnx.shape_inference.infer_shapes(
        graph.outline(), check_type=True, strict_mode=True, data_prop=True
    )
    inferred = {
        value.name: tuple(extent.dim_value for extent in value.type.tensor_type.shape.dim)
        for value in (*model.graph.value_info, *model.graph.output)
    }
    written = {output for node in graph.nodes for output in node.output}
    assert inferred == {name: graph.values[name].shape for name in written}
    assert len({node.name for node in graph.nodes}) == len(graph.nodes)


def test_products_are_those_of_the_nodes() -> None:
    # The builder counts while it builds; this counts from the shapes of a graph that has every kind of product.
    for name in ("swin_t", "unet", "shufflenet_v2"):
        graph = small(name)
        shapes = {key: value.shape for key, value in graph.values.items()} | {
            key: weight.shape for key, weight in graph.weights.items()
        }
        total = 0
        for node in graph.nodes:
            output = math.prod(shapes[node.output[0]])
            if node.op_type == "Conv":
                total += output * math.prod(shapes[node.input[1]][1:])
            elif node.op_type == "ConvTranspose":
                total += math.prod(shapes[node.input[0]]) * math.prod(shapes[node.input[1]][1:])
            elif node.op_type in ("Gemm", "MatMul"):
                total += output * shapes[node.input[0]][-1]
        assert graph.macs == total


def test_operators_are_the_exporters() -> None:
    def count(name: str) -> Counter[str]:
        return Counter(node.op_type for node in describe(name).nodes)

    large = count("mobilenet_v3_large")
    assert (large["HardSwish"], large["HardSigmoid"], large["GlobalAveragePool"]) == (21, 8, 9)
    assert count("efficientnet_b0")["Sigmoid"] == 65
    dense = count("densenet121")
    assert (dense["Conv"], dense["BatchNormalization"], dense["Concat"]) == (120, 62, 62)
    assert count("vit_tiny")["LayerNormalization"] == 25
    swin = count("swin_t")
    assert (swin["Softmax"], swin["Erf"], swin["MatMul"]) == (12, 12, 12 * 6 + 3)
    assert count("unet")["ConvTranspose"] == 4


@pytest.mark.parametrize("name", ["shufflenet_v2", "swin_t", "lraspp"])
def test_values_stay_in_reach_through_all_layers(name: str) -> None:
    model = small(name).model(seed=3)
    onnx.checker.check_model(model, full_check=True)
    assert model.SerializeToString(deterministic=True) == small(name).model(3).SerializeToString(
        deterministic=True
    )
    assert model.SerializeToString() != small(name).model(seed=4).SerializeToString()
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(0).standard_normal((1, 3, 64, 64)).astype(np.float32)
    (y,) = session.run(None, {"x": x})
    assert np.isfinite(y).all()
    assert 0.1 < y.std() < 10


def test_refusals_name_the_network_and_a_way_out() -> None:
    with pytest.raises(UserError, match="choose one of alexnet"):
        build_original("lenet")
    with pytest.raises(
        UserError, match="vit_tiny does not accept images of 100x100; choose a size that is a multiple of 16"
    ):
        build_original("vit_tiny", size=100)
    with pytest.raises(UserError, match="the batch must be at least 1"):
        build_original("alexnet", batch=0)

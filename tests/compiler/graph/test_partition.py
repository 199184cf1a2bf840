"""Models divided between accelerator and CPU: the side of each node, and that the regions together compute
the model.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from mixed_networks import MixedNetwork, unoptimized
from onnx import TensorProto, helper

from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.frontends.onnx.partition import (
    Partition,
    RegionOrderError,
    check_order,
    partition_model,
)
from vdla.compiler.frontends.onnx.submodel import prepare_model
from vdla.compiler.graph.errors import ModelError

SHAPE = (1, 4, 5, 5)


def divide(model: bytes, **options) -> Partition:
    label, proto = prepare_model(model, least_opset=11)
    return partition_model(label, proto, **options)


def sides(partition: Partition) -> str:
    return "".join(region.side[0] for region in partition.regions)


def work(partition: Partition) -> list[list[str]]:
    """The operators of each region, without those that only quantize or dequantize."""
    return [
        [
            name
            for name in region.operators
            if not name.endswith("quantizeLinear") and name != "QuantizeLinear"
        ]
        for region in partition.regions
    ]


def random_feeds(model: bytes, seed: int = 0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    feeds = {}
    for info in onnx.load_from_string(model).graph.input:
        shape = [dimension.dim_value for dimension in info.type.tensor_type.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        feeds[info.name] = (generator.normal(0, 1.5, shape) * (1 if dtype == np.float32 else 40)).astype(
            dtype
        )
    return feeds


def assert_pieces_are_the_whole(model: bytes, partition: Partition) -> None:
    """Asserts that the regions, run one after another in ONNX Runtime, give the same bits as the whole model, and that
    the importer accepts each region of the accelerator.
    """
    feeds = random_feeds(model)
    expected = unoptimized(model, feeds)
    types = {info.name: info for info in onnx.load_from_string(model).graph.output}
    tensors: dict[str, np.ndarray] = {**partition.constants, **feeds}
    for region in partition.regions:
        given = {name: tensors[name] for name in region.inputs}
        if region.side == "accelerator":
            graph = import_model(region.model)
            assert {item.name for item in graph.inputs} == set(region.inputs)
            tensors.update(unoptimized(region.model, given))
        else:
            floats = {name: array.astype(np.float32) for name, array in given.items()}
            tensors.update(unoptimized(region.model, floats))
    for name, array in expected.items():
        dtype = helper.tensor_dtype_to_np_dtype(types[name].type.tensor_type.elem_type)
        np.testing.assert_array_equal(tensors[name].astype(dtype), array)


def classifier(dtype: type = np.uint8) -> MixedNetwork:
    """A quantized network that the accelerator supports completely."""
    net = MixedNetwork(*SHAPE, dtype=dtype)
    net.pair()
    shortcut = net.quantized_convolution(4)
    net.quantized_convolution(4)
    net.add("Add", shortcut)
    net.pair(0.06)
    net.other("MaxPool", kernel_shape=[2, 2])
    net.pair()
    net.other("Flatten")
    net.add("Gemm", net.weight(6, net.shape[1]), transB=1)
    net.shape = (1, 6)
    net.pair()
    return net


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_a_supported_model_is_one_region_of_the_accelerator(dtype: type) -> None:
    model = classifier(dtype).model()
    partition = divide(model)
    assert sides(partition) == "a" and not partition.refusals
    assert_pieces_are_the_whole(model, partition)
    assert sides(divide(model, offload=False)) == "c"


def test_a_float_model_is_one_region_of_the_cpu() -> None:
    net = MixedNetwork(*SHAPE)
    net.convolution(6, (3, 3))
    net.add("Relu")
    net.other("Flatten")
    partition = divide(net.model())
    assert sides(partition) == "c" and partition.refusals


def test_integers_pass_between_operators_that_take_them() -> None:
    net = MixedNetwork(*SHAPE)
    grid = [net.constant(np.float32(0.05)), net.constant(np.uint8(128))]
    net.add("QuantizeLinear", *grid)
    weights = net.constant(net.rng.integers(-127, 128, (4, 4, 1, 1)).astype(np.int8))
    scales = [net.constant(np.float32(0.01)), net.constant(np.int8(0))]
    integers = net.last
    for tiled in (True, False):
        net.add("QLinearConv", inputs=[integers, *grid, weights, *scales, *grid])
        if tiled:
            # The accelerator has no Tile; on the CPU integers are numbers of the same value.
            net.add("Tile", net.constant(np.ones(4, np.int64)))
            net.add("DequantizeLinear", *grid)
            integers = net.add("QuantizeLinear", *grid)
    net.add("DequantizeLinear", *grid)
    model = net.model()
    partition = divide(model)
    # Operators on integers are written in steps.
    assert work(partition) == [["Conv"], ["Tile"], ["Conv"]]
    assert_pieces_are_the_whole(model, partition)


@pytest.mark.parametrize("operator", ["Softmax", "Sigmoid", "normalization"])
def test_a_region_on_each_side_of_what_is_not_supported(operator: str) -> None:
    net = MixedNetwork(*SHAPE)
    net.pair()
    net.quantized_convolution(4)
    net.quantized_convolution(8)
    match operator:
        case "normalization":
            net.layer_normalization()
        case _:
            net.other(operator)
    net.pair()
    net.quantized_convolution(4)
    model = net.model()
    partition = divide(model)
    assert sides(partition) == "aca"
    assert work(partition)[0] == ["Conv", "Conv"] and work(partition)[2] == ["Conv"]
    for region in (partition.regions[0], partition.regions[2]):
        assert region.operators[0] == "QuantizeLinear" and region.operators[-1] == "DequantizeLinear"
    assert_pieces_are_the_whole(model, partition)


def test_a_sum_around_the_cpu_waits_for_it() -> None:
    net = MixedNetwork(*SHAPE)
    net.pair()
    shortcut = net.quantized_convolution(4)
    net.add("Sigmoid")
    net.pair(0.004, 0)
    net.add("Add", shortcut)
    net.pair()
    model = net.model()
    partition = divide(model)
    assert work(partition) == [["Conv"], ["Sigmoid"], ["Add"]]
    # The shortcut leaves the accelerator as float32 and comes back on the grid on which it left.
    assert shortcut in partition.regions[0].outputs and shortcut in partition.regions[2].inputs
    assert_pieces_are_the_whole(model, partition)


def test_a_result_that_is_never_rounded_stays_with_its_reader() -> None:
    net = MixedNetwork(*SHAPE)
    net.pair()
    net.quantized_convolution(4, pair=False)
    net.add("Relu")
    relu = net.last
    net.add("Sigmoid")
    net.pair(0.004, 0)
    net.quantized_convolution(4)
    last, net.last = net.last, relu
    branch = net.pair()
    model = net.model(**{last: SHAPE, branch: SHAPE})
    partition = divide(model)
    assert sides(partition) == "ca"
    assert sorted(work(partition)[0]) == ["Conv", "Relu", "Sigmoid"]
    assert_pieces_are_the_whole(model, partition)


def test_what_only_leads_into_regions_is_copied_into_each() -> None:
    net = MixedNetwork(*SHAPE)
    entry = net.pair()
    convolved = net.quantized_convolution(4)
    net.last = entry
    net.add("Softmax")
    model = net.model(**{convolved: SHAPE, net.last: SHAPE, entry: SHAPE})
    partition = divide(model)
    assert sorted(sides(partition)) == ["a", "c"]
    assert all(region.inputs == ("x",) for region in partition.regions)
    assert_pieces_are_the_whole(model, partition)


def test_a_maximum_goes_on_its_own_grid_to_another_region() -> None:
    net = MixedNetwork(*SHAPE)
    net.pair()
    pooled = net.other("MaxPool", kernel_shape=[2, 2])
    net.other("Sigmoid")
    net.pair()
    net.other("Mul", pooled)
    net.pair()
    model = net.model()
    partition = divide(model)
    assert work(partition) == [["MaxPool"], ["Sigmoid"], ["Mul"]]
    assert_pieces_are_the_whole(model, partition)


def test_integer_inputs_and_outputs() -> None:
    net = MixedNetwork(*SHAPE)
    grid = [net.constant(np.float32(0.05)), net.constant(np.uint8(128))]
    scale = [net.constant(np.float32(1 / 255)), net.constant(np.uint8(0))]
    net.add("DequantizeLinear", *grid)
    net.add("Softmax")
    net.add("QuantizeLinear", *scale)
    softmax = net.add("Transpose", perm=[0, 1, 3, 2])
    net.add("DequantizeLinear", *scale)
    net.pair(0.004, 0)
    net.add("Conv", net.weight(4, 4, 1, 1))
    convolved = net.add("QuantizeLinear", *grid)
    proto = onnx.load_from_string(net.model(**{softmax: SHAPE, convolved: SHAPE}))
    for info in (*proto.graph.input, *proto.graph.output):
        info.type.tensor_type.elem_type = TensorProto.UINT8
    model = proto.SerializeToString()
    partition = divide(model)
    assert sides(partition) == "ca"
    assert_pieces_are_the_whole(model, partition)


def test_outputs_that_are_inputs_or_constants() -> None:
    net = MixedNetwork(*SHAPE)
    constant = net.add("Add", inputs=[net.weights(3), net.weights(3)])
    net.last = "x"
    net.other("Sigmoid")
    model = net.model(**{net.last: SHAPE, constant: (3,)})
    partition = divide(model)
    assert sides(partition) == "c" and set(partition.constants) == {constant}
    assert_pieces_are_the_whole(model, partition)


def test_names_that_the_file_lacks() -> None:
    net = MixedNetwork(*SHAPE)
    net.pair()
    net.quantized_convolution(4)
    net.other("Sigmoid")
    net.pair()
    net.quantized_convolution(4)
    proto = onnx.load_from_string(net.model())
    first, last = (i for i, node in enumerate(proto.graph.node) if node.op_type == "Conv")
    for node in proto.graph.node:
        node.name = ""
    # As the other one, which has no name, is called.
    proto.graph.node[last].name = f"Conv_{first}"
    partition = divide(proto.SerializeToString())
    assert sides(partition) == "aca"
    names = [name for region in partition.regions for name in region.nodes]
    assert len(set(names)) == len(names)


def test_nodes_can_be_sent_to_the_cpu() -> None:
    net = classifier()
    model = net.model()
    pool = next(node.name for node in net.nodes if node.op_type == "MaxPool")
    partition = divide(model, on_cpu=[pool])
    assert sides(partition) == "aca" and partition.regions[1].nodes == (pool,)
    assert_pieces_are_the_whole(model, partition)


@pytest.mark.parametrize("behind", ["Softmax", "Conv"])
def test_a_guard_behind_either_side(behind: str) -> None:
    """A guard, a Where that replaces NaN by 0, is assigned to the side of the operator before it: to the processor
    after a Softmax, to the accelerator after a convolution.
    """
    net = MixedNetwork(*SHAPE)
    net.pair()
    net.quantized_convolution(4)
    if behind == "Softmax":
        net.add("Softmax")
        net.pair(1 / 255, 0)
    net.guard()
    net.pair(1 / 255, 0)
    net.quantized_convolution(4)
    net.add("Softmax")
    net.pair(1 / 255, 0)
    model = net.model()
    partition = divide(model)
    assert sides(partition) == ("acac" if behind == "Softmax" else "ac")
    assert_pieces_are_the_whole(model, partition)


def test_regions_that_wait_for_one_another_are_refused() -> None:
    net = MixedNetwork(*SHAPE)
    net.pair()
    net.quantized_convolution(4)
    net.add("Sigmoid")
    first, last = divide(net.model()).regions
    check_order("a model", ["x"], [first, last])
    with pytest.raises(
        RegionOrderError, match=f"a model: {last.name} reads tensor '.*' before {first.name} computes it"
    ):
        check_order("a model", ["x"], [last, first])
    with pytest.raises(RegionOrderError, match=r"reads tensor 'x' before no region computes it"):
        check_order("a model", [], [first, last])


def test_bad_files() -> None:
    with pytest.raises(ModelError, match="not an ONNX file"):
        divide(b"a text")
    net = MixedNetwork(*SHAPE)
    net.add("Sigmoid")
    proto = onnx.load_from_string(net.model())
    proto.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "height"
    with pytest.raises(ModelError, match="dynamic shape"):
        divide(proto.SerializeToString())


@st.composite
def networks(draw) -> bytes:
    """The bytes of a random graph of quantized tensors of one shape, with operators for the accelerator and for the CPU
    in any order.
    """
    net = MixedNetwork(*SHAPE, seed=draw(st.integers(0, 9)), dtype=draw(st.sampled_from([np.uint8, np.int8])))
    tensors = [net.pair()]
    for _ in range(draw(st.integers(1, 7))):
        net.last, net.shape = draw(st.sampled_from(tensors)), SHAPE
        match draw(
            st.sampled_from(
                ["conv", "conv", "conv", "relu", "max", "add", "add", "cpu", "cpu", "turn", "raw", "guard"]
            )
        ):
            case "conv":
                net.quantized_convolution(4)
            case "relu":
                net.add("Relu")
                net.pair(0.04)
            case "max":
                net.add("MaxPool", kernel_shape=[3, 3], pads=[1] * 4)
            case "add":
                net.add("Add", draw(st.sampled_from(tensors)))
                net.pair(0.06)
            case "cpu":
                net.add(draw(st.sampled_from(["Sigmoid", "Tanh", "Softmax"])))
                if draw(st.booleans()):
                    net.pair(0.01)
            case "guard":
                net.guard()
                if draw(st.booleans()):
                    net.pair(0.02)
            case "turn":
                net.add("Transpose", perm=[0, 1, 3, 2])
            case "raw":
                net.quantized_convolution(4, pair=False)
        tensors.append(net.last)
    wanted = {tensors[-1], *draw(st.lists(st.sampled_from(tensors), max_size=2))}
    return net.model(**dict.fromkeys(sorted(wanted), SHAPE))


@settings(max_examples=examples(30))
@given(networks())
def test_pieces_of_random_networks_are_the_whole(model: bytes) -> None:
    assert_pieces_are_the_whole(model, divide(model))

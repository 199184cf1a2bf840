"""Every mistake in a model file gives one message with file, node, operator and advice."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.frontends.onnx.float_importer import import_float_model
from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.graph.errors import InvalidModelError, ModelError
from vdla.compiler.graph.host import InputError, store_inputs
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.pipeline import compile_kernels
from vdla.compiler.rewrites.fuse import fuse


def refused(model, *words: str) -> str:
    data = model if isinstance(model, bytes) else model.SerializeToString()
    with pytest.raises(ModelError) as caught:
        import_model(data)
    message = str(caught.value)
    assert "\n" not in message and message.startswith("model: ")
    for word in words:
        assert word in message, message
    return message


def convolved(b, data="x", **attributes):
    """Adds a quantized convolution of `data`; returns the name of its dequantized output."""
    real = b.pair(data, 0.02, np.uint8(100))
    b.node("Conv", [real, b.weight("w", 4, 3, 3, 3)], "c", **attributes)
    return b.pair("c", 0.05, np.uint8(10))


def test_missing_file(tmp_path):
    path = tmp_path / "absent.onnx"
    with pytest.raises(ModelError, match=r"absent\.onnx.*no such file"):
        import_model(path)


def test_directory(tmp_path):
    with pytest.raises(ModelError, match="cannot be read"):
        import_model(tmp_path)


@pytest.mark.parametrize("data", [b"this is not a model", b"\x08\xff", b"\xff" * 64])
def test_corrupt_bytes(data):
    refused(data, "damaged")


def test_file_name_is_in_the_message(tmp_path):
    path = tmp_path / "broken.onnx"
    path.write_bytes(b"\x0a\xffgarbage")
    with pytest.raises(ModelError, match=r"broken\.onnx: is not an ONNX file or is damaged"):
        import_model(path)


def test_truncated_file(builder):
    b = builder(1, 3, 8, 8)
    data = b.model(convolved(b)).SerializeToString()
    for cut in range(1, len(data) - 1, 97):
        with pytest.raises(ModelError):
            import_model(data[:cut])


def test_empty_file():
    refused(b"", "no ONNX graph")


def test_an_opset_that_cannot_be_converted(builder):
    b = builder(1, 3, 8, 8, opset=12)
    model = b.model(convolved(b))
    model.opset_import[0].version = 0
    refused(model, "opset 0, older than 13", "cannot be converted", "export the model again")


def test_unsupported_operator(builder):
    b = builder(1, 3, 8, 8)
    b.node("Hardmax", [convolved(b)], "y")
    refused(b.model("y"), "node 'node_y' (Hardmax)", "only processors and GPUs compute", "leave the node")


def test_foreign_domain(builder):
    b = builder(1, 3, 8, 8)
    b.node("Magic", ["x"], "y", domain="org.example")
    model = b.model("y", domains=("org.example",))
    model.graph.output[0].type.tensor_type.shape.dim.add().dim_value = 1
    refused(model, "(Magic)", "org.example")


def test_dynamic_dimension(builder):
    b = builder(1, 3, 8, 8)
    model = b.model(convolved(b))
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    del model.graph.value_info[:]
    refused(model, "input 'x'", "dimension 0 is 'batch'", "--dim batch=SIZE")


def test_float_model(builder):
    b = builder(1, 3, 8, 8)
    b.conv("x", "y", 4, 3, 3, 3)
    refused(b.model("y"), "node 'node_y' (Conv)", "quantize_static")


def test_float_input_of_a_quantized_convolution(builder):
    b = builder(1, 3, 8, 8)
    b.node("Conv", ["x", b.weight("w", 4, 3, 3, 3)], "y")
    refused(b.model("y"), "'x' is a float tensor that is never quantized")


def test_missing_quantization_between_operators(builder):
    b = builder(1, 3, 8, 8)
    data = b.pair("x", 0.02, np.int8(0))
    b.node("Conv", [data, b.weight("w", 4, 3, 3, 3)], "c")
    b.node("Conv", ["c", b.weight("v", 4, 4, 3, 3)], "y")
    refused(b.model("y"), "node 'node_y' (Conv)", "'c' (from 'c') is float", "quantize_static")


def test_float_output(builder):
    b = builder(1, 3, 8, 8)
    b.node("Conv", [b.pair("x", 0.02, np.int8(0)), b.weight("w", 4, 3, 3, 3)], "y")
    refused(b.model("y"), "output 'y' is float and never quantized")


@pytest.mark.parametrize("elem_type", [TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT64])
def test_wrong_input_type(builder, elem_type):
    b = builder(1, 3, 8, 8, elem_type=elem_type)
    b.node("Identity", ["x"], "y")
    refused(b.model("y", elem_type=elem_type), "input 'x' has type", "float32, int8 or uint8")


def test_wide_activations(builder):
    b = builder(1, 3, 8, 8, opset=21)
    refused(
        b.model(b.pair("x", 0.02, np.uint16(0))),
        "activations quantized to uint16 are not supported",
        "int8 or uint8",
    )


def test_scale_per_channel_of_an_activation(builder):
    b = builder(1, 3, 8, 8)
    scales = [b.constant("s", np.full(3, 0.1, np.float32)), b.constant("z", np.zeros(3, np.uint8))]
    b.node("QuantizeLinear", ["x", *scales], "q", axis=1)
    b.node("DequantizeLinear", ["q", *scales], "y", axis=1)
    refused(b.model("y"), "3 scales", "per tensor")


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
def test_impossible_scale(builder, scale):
    b = builder(1, 3, 8, 8)
    refused(b.model(b.pair("x", scale, np.uint8(0))), "not a positive finite number")


def test_absurd_ratio_of_scales(builder):
    b = builder(1, 3, 8, 8)
    b.node("Relu", [b.pair("x", 1e-30, np.int8(0))], "r")
    refused(b.model(b.pair("r", 1e8, np.int8(0))), "ratio", "calibrate")


def test_weights_from_the_model_input(builder):
    b = builder(4, 3, 3, 3)
    data = b.pair("x", 0.02, np.int8(0))
    b.node("Conv", [data, data], "c")
    refused(b.model(b.pair("c", 1.0, np.int8(0))), "(Conv)", "weights are not constant")


def test_float_weights(builder):
    b = builder(1, 3, 8, 8)
    b.conv(b.pair("x", 0.02, np.int8(0)), "c", 4, 3, 3, 3)
    refused(b.model(b.pair("c", 1.0, np.int8(0))), "weights are float", "quantize_static")


def test_weights_with_a_scale_per_input_channel(builder):
    b = builder(1, 3, 8, 8)
    integers = b.constant("wq", np.ones((4, 3, 1, 1), np.int8))
    b.node("DequantizeLinear", [integers, b.constant("ws", np.ones(3, np.float32))], "w", axis=1)
    b.node("Conv", [b.pair("x", 0.02, np.int8(0)), "w"], "c")
    refused(b.model(b.pair("c", 1.0, np.int8(0))), "scale along axis 1", "axis 0")


def test_broadcast_sum(builder):
    b = builder(1, 3, 8, 8)
    data = b.pair("x", 0.02, np.int8(0))
    b.node("GlobalAveragePool", [data], "g")
    b.node("Mul", [data, b.pair("g", 0.02, np.int8(0))], "m")
    refused(
        b.model(b.pair("m", 1.0, np.int8(0))),
        "node 'node_m' (Mul)",
        "needs the extension 'broadcast'",
        "add it to `extensions`",
    )


def test_product_of_three_dimensions(builder):
    b = builder(1, 3, 8, 8)
    b.node("MatMul", [b.pair("x", 0.02, np.int8(0)), b.weight("w", 3, 8, 4)], "m")
    refused(b.model(b.pair("m", 1.0, np.int8(0))), "(MatMul)", "(..., K) x (K, M)")


def test_scaled_gemm(builder):
    b = builder(1, 8)
    b.node("Gemm", [b.pair("x", 0.02, np.int8(0)), b.weight("w", 8, 4)], "m", alpha=0.5)
    refused(b.model(b.pair("m", 1.0, np.int8(0))), "alpha = 0.5")


def test_dilated_pool(builder):
    b = builder(1, 3, 8, 8)
    b.node("MaxPool", [b.pair("x", 0.02, np.int8(0))], "y", kernel_shape=[2, 2], dilations=[2, 2])
    refused(b.model("y"), "(MaxPool)", "without dilation")


def test_contradicting_shapes(builder):
    b = builder(1, 3, 8, 8)
    data = b.pair("x", 0.02, np.int8(0))
    b.node("Conv", [data, b.weight("w", 4, 5, 3, 3)], "c")
    model = helper.make_model(
        helper.make_graph(
            b.nodes,
            "g",
            b.inputs,
            [helper.make_tensor_value_info("c", TensorProto.FLOAT, [1, 4, 6, 6])],
            b.initializers,
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=9,
    )
    refused(model, "Conv")


def test_wrong_declared_output_shape(builder):
    b = builder(1, 3, 8, 8)
    model = b.model(convolved(b))
    model.graph.output[0].type.tensor_type.shape.dim[3].dim_value = 5
    refused(model)


def test_unknown_name_in_a_node(builder):
    b = builder(1, 3, 8, 8)
    b.node("Relu", ["nowhere"], "y")
    graph = helper.make_graph(
        b.nodes, "g", b.inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, 8, 8])], []
    )
    refused(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), "nowhere")


def graph_of(builder):
    b = builder(1, 3, 8, 8)
    return import_model(b.model(convolved(b)).SerializeToString())


@pytest.mark.parametrize(
    ("feed", "words"),
    [
        ({}, "input 'x' is missing"),
        ({"x": np.zeros((1, 3, 8, 8), np.float32), "z": np.zeros(1)}, "no input 'z'"),
        ({"x": np.zeros((1, 3, 8, 9), np.float32)}, "has shape (1, 3, 8, 9); the model needs (1, 3, 8, 8)"),
        ({"x": np.zeros((1, 3, 8, 8), np.float64)}, "convert it to float32"),
    ],
)
def test_wrong_input_arrays(builder, feed, words):
    with pytest.raises(InputError) as caught:
        store_inputs(graph_of(builder), feed)
    assert words in str(caught.value)


def test_error_names_a_node_without_a_name(builder):
    b = builder(1, 3, 8, 8)
    b.node("Sigmoid", [convolved(b)], "y")
    model = b.model("y")
    model.graph.node[-1].ClearField("name")
    index = len(model.graph.node) - 1
    refused(model, f"node 'Sigmoid_{index}' (Sigmoid)")


def test_models_of_this_file_are_otherwise_fine(builder):
    b = builder(1, 3, 8, 8)
    model = b.model(convolved(b))
    onnx.checker.check_model(model)
    assert len(import_model(model.SerializeToString()).nodes) == 1


def test_initializer_whose_data_do_not_fill_its_shape(builder):
    b = builder(1, 3, 8, 8)
    model = b.model(convolved(b))
    next(tensor for tensor in model.graph.initializer if tensor.name == "w_q").dims[0] = 5
    refused(model, "w_q")


def mutated(model: onnx.ModelProto, rng: np.random.Generator) -> bytes:
    """The bytes of the model with one random change that may make it invalid: to an attribute, an operator, an operand
    or a shape; sometimes also to a byte.
    """
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    nodes, initializers = changed.graph.node, changed.graph.initializer
    node = nodes[rng.integers(len(nodes))]
    tensor = initializers[rng.integers(len(initializers))]
    match rng.integers(6):
        case 0 if node.attribute:
            attribute = node.attribute[rng.integers(len(node.attribute))]
            attribute.i = int(rng.integers(-3, 9))
            if attribute.ints:
                attribute.ints[rng.integers(len(attribute.ints))] = attribute.i
        case 1:
            node.op_type = str(
                rng.choice(["Conv", "Relu", "Add", "MaxPool", "Flatten", "Gemm", "Transpose", "Clip"])
            )
        case 2:
            node.input[rng.integers(len(node.input))] = tensor.name
        case 3:
            node.input[rng.integers(len(node.input))] = nodes[rng.integers(len(nodes))].output[0]
        case 4:
            del node.input[-1]
        case _ if tensor.dims:
            tensor.dims[rng.integers(len(tensor.dims))] = int(rng.integers(9))
    data = bytearray(changed.SerializeToString())
    if rng.random() < 0.3:
        data[rng.integers(len(data))] = rng.integers(256)
    return bytes(data)


def test_damaged_models_never_raise_anything_else(builder):
    b = builder(1, 3, 8, 8)
    b.node("MaxPool", [convolved(b)], "m", kernel_shape=[2, 2], strides=[2, 2])
    b.node("Flatten", ["m"], "f")
    b.node("Gemm", ["f", b.weight("v", 36, 5)], "g")
    model = b.model(b.pair("g", 0.5, np.uint8(128)))
    rng = np.random.default_rng(0)
    refusals = 0
    for _ in range(400):
        try:
            graph = fuse(import_model(mutated(model, rng)))
        except ModelError:
            refusals += 1
        else:
            inputs = {
                entry.tensor: np.zeros(graph.tensors[entry.tensor].shape, np.int8) for entry in graph.inputs
            }
            interpret(graph, inputs)
    assert 50 < refusals < 400


def test_models_without_outputs(builder):
    b = builder(1, 3, 8, 8)
    model = b.model(convolved(b))
    del model.graph.output[:]
    refused(model, "has no outputs")


def test_opsets_of_the_future(builder):
    b = builder(1, 3, 8, 8)
    model = b.model(convolved(b))
    for entry in model.opset_import:
        entry.version = 99
    refused(model, "opset 99, but the newest supported one is", "export the model for opset")


@pytest.mark.parametrize("axis", [-(2**31), -5, 4, 2**31 - 1])
def test_scales_along_an_axis_that_is_not_there(builder, axis):
    b = builder(1, 3, 8, 8)
    model = b.model(convolved(b))
    name = next(node.input[1] for node in model.graph.node if node.op_type == "Conv")
    node = next(node for node in model.graph.node if name in node.output)
    scale = next(item for item in model.graph.initializer if item.name == node.input[1])
    if not scale.dims:
        scale.CopyFrom(onnx.numpy_helper.from_array(np.full(4, 0.01, np.float32), scale.name))
        del node.input[2:]
    del node.attribute[:]
    node.attribute.append(helper.make_attribute("axis", axis))
    refused(model, "(DequantizeLinear)", f"axis {axis}")


def test_an_axis_that_is_not_there_beside_one_scale(builder):
    b = builder(1, 3, 8, 8)
    model = b.model(convolved(b))
    node = next(node for node in model.graph.node if "x" in node.input)
    for axis, names in (
        (0, ()),
        (-(2**31), (f"axis {-(2**31)}", "quantize the model again")),
        (7, ("axis 7",)),
    ):
        del node.attribute[:]
        node.attribute.append(helper.make_attribute("axis", axis))
        if not names:
            import_model(model.SerializeToString())
            continue
        refused(model, node.op_type, *names)
        with pytest.raises(InvalidModelError, match=f"axis {axis}"):
            import_float_model(model.SerializeToString())


def test_two_nodes_of_one_name(builder):
    b = builder(1, 3, 8, 8)
    model = b.model(convolved(b))
    for node in model.graph.node[-2:]:
        node.name = "twice"
    refused(model, f"node 'twice' ({model.graph.node[-1].op_type})", "another node has the same name")
    with pytest.raises(InvalidModelError, match="same name"):
        import_float_model(model.SerializeToString())


def test_what_no_target_can_take_is_not_computed_in_floats_instead():
    """An axis that no target supports is an error: the model is not computed in floats instead. ONNX's reference
    implementation, which evaluates constants of float models, would ignore the invalid axis.
    """
    weights, scale = np.ones((2, 3, 1, 1), np.float32), np.float32(0.1)
    constants = {"w": weights, "s": scale, "z": np.int8(0)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
        helper.make_node("QuantizeLinear", ["w", "s", "z"], ["wq"], "weights", axis=-(2**31)),
        helper.make_node("DequantizeLinear", ["wq", "s", "z"], ["wd"]),
        helper.make_node("Conv", ["xd", "wd"], ["c"]),
        helper.make_node("QuantizeLinear", ["c", "s", "z"], ["cq"]),
        helper.make_node("DequantizeLinear", ["cq", "s", "z"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, 4, 4])],
        [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(
        InvalidModelError, match=r"'weights' \(QuantizeLinear\): its axis -2147483648 is not an axis"
    ):
        compile_kernels(model.SerializeToString(), cpu_now())

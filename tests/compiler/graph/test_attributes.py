"""Boolean attributes with values other than 0 and 1, on which implementations of ONNX disagree, and attributes that
ONNX's own checker does not check.
"""

import re

import onnx
import pytest
from onnx import TensorProto, helper

import vdla
from vdla.compiler.frontends.onnx.attributes import FLAGS
from vdla.compiler.frontends.onnx.model.inference import EQUATION
from vdla.compiler.frontends.onnx.model.load import load_model
from vdla.compiler.graph.errors import ModelError


def content(**attributes: int) -> bytes:
    graph = helper.make_graph(
        [helper.make_node("ReduceMax", ["x"], ["y"], "largest", **attributes)],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model).SerializeToString()


@pytest.mark.parametrize("value", [2, 3, -1, 2**31])
@pytest.mark.parametrize("name", ["keepdims", "noop_with_empty_axes"])
def test_boolean_attributes_other_than_0_and_1_are_refused(name: str, value: int) -> None:
    with pytest.raises(
        ModelError, match=rf"'largest' \(ReduceMax\): has {name} = {value}, which must be 0 or 1"
    ):
        load_model(content(**{name: value}))


@pytest.mark.parametrize("value", [0, 1])
def test_boolean_attributes_of_0_and_1_are_accepted(value: int) -> None:
    load_model(content(keepdims=value, noop_with_empty_axes=value))


def test_the_flags_are_integers_of_operators() -> None:
    known = {
        name
        for schema in onnx.defs.get_all_schemas_with_history()
        for name, attribute in schema.attributes.items()
        if attribute.type == onnx.defs.OpSchema.AttrType.INT
    }
    assert known >= FLAGS


def test_a_split_that_promises_other_outputs() -> None:
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 5]) for name in ("a", "b")]
    graph = helper.make_graph(
        [helper.make_node("Split", ["x"], ["a", "b"], "parts", num_outputs=1)],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 5])],
        outputs,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    with pytest.raises(ModelError, match=r"'parts' \(Split\): has 2 outputs, but num_outputs = 1"):
        load_model(model.SerializeToString())


def test_an_attribute_of_split_on_another_operator_is_named() -> None:
    """The error for a Relu with `num_outputs`, an attribute of Split that is read before inference, names node and
    attribute, also if the value is a text and no number.
    """
    node = helper.make_node("Relu", ["x"], ["y"], name="act", num_outputs="NOTSET")
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3]) for name in "xy")
    model = helper.make_model(
        helper.make_graph([node], "g", [x], [y]), opset_imports=[helper.make_opsetid("", 18)]
    )
    with pytest.raises(ModelError, match=r"'act' \(Relu\): .*num_outputs"):
        vdla.compile(model.SerializeToString(), target="llvm")


@pytest.mark.parametrize("equation", ["ij%", "i.j,k", "ij,jk>ik"])
def test_a_malformed_equation_on_which_inference_does_not_end(equation: str) -> None:
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2]) for name in ("x", "y")]
    node = helper.make_node("Einsum", ["x", "x"], ["y"], "sum", equation=equation)
    graph = helper.make_graph([node], "net", tensors[:1], tensors[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    with pytest.raises(ModelError, match=r"'sum' \(Einsum\): has the equation '" + re.escape(equation)):
        load_model(model.SerializeToString())


@pytest.mark.parametrize("equation", ["", "->", "i...,...j", "...ij,jk->...k", " i j , j k -> i k ", "ij,jk"])
def test_equations_are_terms_of_letters(equation: str) -> None:
    assert EQUATION.fullmatch(equation.replace(" ", ""))

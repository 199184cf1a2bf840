"""Operators that ONNX defines by a function body of other operators: a node is replaced by the nodes of this body.

The body's nodes are named NODE/OPERATOR_i, its tensors NODE/NAME, so that messages name the model's node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx
from onnx import helper

from ..attributes import OnnxNode, schema_of
from ..context import GraphContext
from ..model.model_rewrites import SOFTMAX_HAS_ONE_AXIS
from ..steps import FloatSteps

REDEFINED = frozenset(
    (*("BatchNormalization", "Dropout", "Hardmax", "LogSoftmax", "Resize", "Softmax", "Upsample"),)
)
"""Operators whose meaning changed between opsets: the same inputs and attributes give other results."""


def has_function(context: GraphContext, node: OnnxNode) -> bool:
    """Whether to import a node by ONNX's function body: if ONNX defines a function for the operator, and an input after
    the first is not constant. (The operator's own importer requires constants there.)
    """
    variables = (node.inputs[i] and not context.is_constant(node, i) for i in range(1, len(node.inputs)))
    return any(variables) and function_body(context, node) is not None


def is_in_16_bits(context: GraphContext, node: OnnxNode) -> bool:
    """Whether to compute a softmax in 16 bits by ONNX's function body, which rounds each intermediate result. This is
    so if its input is a 16-bit float and the model's opset is at least 13.
    """
    return context.half_type(node) is not None and context.opset >= SOFTMAX_HAS_ONE_AXIS


def function_steps(s: FloatSteps) -> None:
    """Adds the ONNX nodes that compute an operator that ONNX defines as a function."""
    s.nodes += function_body(s.context, s.node) or []


def function_body(context: GraphContext, node: OnnxNode) -> list[onnx.NodeProto] | None:
    """The nodes of ONNX's function body for an operator in the model's opset. Returns None if ONNX defines no function,
    or if an operator in the body has another meaning in this opset.
    """
    schema = schema_of(node.op_type, node.domain, context.opset)
    if schema is None or (function := _function(context, node, schema)) is None:
        return None
    names = dict(zip(function.input, [*node.inputs, *[""] * len(function.input)], strict=False))
    names |= {formal: name for formal, name in zip(function.output, node.outputs, strict=False) if name}
    given = {entry.name: entry for entry in node.proto.attribute}
    for name, attribute in schema.attributes.items():
        if name not in given and attribute.default_value.name:
            given[name] = attribute.default_value
    prefix = f"{node.name}/"
    inside = (name for inner in function.node for name in inner.output if name)
    names = {name: f"{prefix}{name}" for name in inside} | names
    return [_renamed(inner, prefix, names, given, i) for i, inner in enumerate(function.node)]


def renamed(node: onnx.NodeProto, names: Mapping[str, str], name: str) -> onnx.NodeProto:
    """A copy of `node` called `name`, in which tensors have the new names `names` (by old name)."""
    made = onnx.NodeProto()
    made.CopyFrom(node)
    made.name = name
    _rename(made, names)
    return made


def _rename(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    """Renames inputs and outputs of a node in place, also inside its subgraphs, whose own names shadow outer names."""
    node.input[:] = [names.get(name, name) for name in node.input]
    node.output[:] = [names.get(name, name) for name in node.output]
    for attribute in node.attribute:
        if attribute.HasField("g"):
            body = attribute.g
            own = {info.name for info in body.input} | {tensor.name for tensor in body.initializer}
            own |= {name for inner in body.node for name in inner.output}
            outside = {name: new for name, new in names.items() if name not in own}
            for inner in body.node:
                _rename(inner, outside)
            for info in body.output:
                info.name = outside.get(info.name, info.name)


def _function(context: GraphContext, node: OnnxNode, schema: Any) -> onnx.FunctionProto | None:
    """ONNX's function body for an operator: the newest body that is not newer than the model's opset. Returns None if
    there is no such body, or if an operator in the body has changed its meaning from the body's opset to the model's
    opset.
    """
    plain = [v for v in schema.function_opset_versions if v <= context.opset]
    dependent = [v for v in schema.context_dependent_function_opset_versions if v <= context.opset]
    if plain:
        text = schema.get_function_with_opset_version(max(plain))
    elif dependent:
        text = schema.get_context_dependent_function_with_opset_version(
            max(dependent), node.proto.SerializeToString(), _types(context, node)
        )
    else:
        return None
    function = onnx.FunctionProto()
    function.ParseFromString(text)
    # Functions of the preview domain import no standard opset: their operators are of the model's opset.
    version = max(
        (e.version for e in function.opset_import if e.domain in ("", "ai.onnx")), default=context.opset
    )
    if any(not _means_the_same(inner, version, context.opset) for inner in function.node):
        return None
    return function if function.node else None


def _means_the_same(node: onnx.NodeProto, version: int, opset: int) -> bool:
    """Whether a node in a function body of opset `version` computes the same in `opset`. This is so if there is no
    newer version of the operator, or if newer versions add only dtypes, optional inputs, and attributes with defaults.
    An operator of `REDEFINED` computes something else in each newer version.
    """
    old, new = (schema_of(node.op_type, node.domain, number) for number in (version, opset))
    if old is None or new is None:
        return old is new
    if old.since_version == new.since_version:
        return True
    given = {entry.name for entry in node.attribute}
    formals = [[formal.name for formal in schema.inputs[: len(node.input)]] for schema in (old, new)]
    return (
        node.op_type not in REDEFINED
        and given <= new.attributes.keys()
        and formals[0] == formals[1]
        and new.min_input <= len(node.input)
        and all(
            _default(new, name) == _default(old, name)
            for name in (old.attributes.keys() | new.attributes.keys()) - given
            if name in old.attributes or new.attributes[name].required
        )
    )


def _default(schema: Any, attribute: str) -> bytes | None:
    """The default value of an attribute, serialized; None if the attribute has no default value."""
    known = schema.attributes.get(attribute)
    return None if known is None else known.default_value.SerializeToString() or None


def _types(context: GraphContext, node: OnnxNode) -> list[bytes]:
    """Serialized onnx.TypeProto, with shape, of each input of a node; an empty TypeProto for an input that is left
    out."""
    types: list[bytes] = []
    for index, name in enumerate(node.inputs):
        held = onnx.TypeProto()
        if name:
            resolved = context.resolve(name)
            if resolved in context.constants:
                array = context.constants[resolved]
                dtype, shape = array.dtype, array.shape
            else:
                tensor = context.tensor(node, index)
                dtype, shape = tensor.dtype.numpy, tensor.shape
            held = helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(dtype), shape)
        types.append(held.SerializeToString())
    return types


def _renamed(
    inner: onnx.NodeProto,
    prefix: str,
    names: Mapping[str, str],
    caller_attributes: Mapping[str, onnx.AttributeProto],
    number: int,
) -> onnx.NodeProto:
    """Copies a node of a function body into the graph of the function's caller. `inner`: the node; `number`: its index
    in the body.

    `names` maps names of the body to tensors of the caller; the node's own name begins with `prefix`. Some attributes
    refer to attributes of the function. They get the caller's values (`caller_attributes`), and are omitted if the
    caller gives no value.
    """
    made = renamed(inner, names, f"{prefix}{inner.op_type}_{number}")
    attributes = list(made.attribute)
    del made.attribute[:]
    for attribute in attributes:
        if not attribute.ref_attr_name:
            made.attribute.append(attribute)
        elif attribute.ref_attr_name in caller_attributes:
            entry = made.attribute.add()
            entry.CopyFrom(caller_attributes[attribute.ref_attr_name])
            entry.name = attribute.name
    return made

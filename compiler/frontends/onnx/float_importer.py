"""ONNX import of float networks: one pass over the nodes. Nodes with only constant inputs are evaluated at import."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import partial

import numpy as np
import onnx
from onnx import TensorProto, helper

from ...graph.errors import ModelError, NodeError
from ...graph.graph import Graph, GraphInput, GraphOutput, Tensor, plain_input, plain_output
from ...ir.types import DType
from .attributes import OnnxNode, opset_of, read_node
from .constants import evaluate_node, reference_is_mistaken
from .context import TYPES, GraphContext
from .model.foreign_domains import foreign, unsupported
from .model.load import input_shape, load_model, static_shapes, type_name
from .model.looked_up import with_rows
from .model.model_rewrites import means_standard
from .model.read import ReadModel, Source
from .operator_rows import Row, refuse_unread
from .table import GRAPHS, STRUCTURE, import_body, import_nodes, operators, rows_of

OLDEST_OPSET = 11


def import_float_model(
    source: Source | ReadModel, *, batch: int = 1, recurrent: AbstractSet[str] = frozenset({"LSTM"})
) -> Graph:
    """Imports a float32 ONNX model of opset 11 or later from a path or from the bytes of a file.

    A symbolic first dimension of an input becomes `batch`. Returns a graph. Each ONNX node that depends on an input
    becomes one or a few nodes of the graph. Raises ModelError, which names file, node and operator, for unsupported
    models. `recurrent`: the recurrent operators (LSTM, GRU or RNN) whose steps the target computes in one kernel; the
    others become separate nodes for each step.
    """
    loaded = load_model(source, oldest_opset=OLDEST_OPSET, batch=batch, empty=True)
    label, model = loaded.label, loaded.bare
    context = GraphContext(
        source=label, opset=opset_of(model), static_shapes=static_shapes(model), recurrent=recurrent
    )
    context.constants.update(loaded.arrays())
    inputs: list[GraphInput] = []
    for info in model.graph.input:
        if info.name not in context.constants:
            inputs.append(_input(context, info))
            context.input_names.add(info.name)
    infos = (*model.graph.value_info, *model.graph.output)
    types = {info.name: held_type(info.type.tensor_type.elem_type) for info in infos}
    nodes = [read_node(proto, index) for index, proto in enumerate(model.graph.node)]
    import_nodes(context, nodes, partial(_stand_in, context, types), reported=lambda _: True)
    for entry in inputs:
        if entry.tensor in context.constants:
            context.tensors.setdefault(
                entry.tensor, Tensor(name=entry.tensor, shape=entry.shape, dtype=entry.dtype)
            )
    outputs = tuple(_output(context, info) for info in model.graph.output)
    used = {name for node in context.nodes for name in node.inputs} | {output.tensor for output in outputs}
    return Graph(
        name=model.graph.name or "graph",
        inputs=with_rows(inputs, context.nodes, context.tensors),
        outputs=outputs,
        nodes=tuple(context.nodes),
        tensors=context.tensors,
        constants={name: array for name, array in context.constants.items() if name in used},
    )


def held_type(element_type: int) -> str:
    """The name in `DType` of ONNX's element type with this number; another text for a type that no graph has."""
    known = element_type and element_type in TensorProto.DataType.values()
    return helper.tensor_dtype_to_np_dtype(element_type).name if known else ""


def _stand_in(context: GraphContext, types: Mapping[str, str], name: str) -> bool:
    """Declares a tensor for `name`, an output of a refused node, so that the import continues with later nodes; returns
    False if its type (by name in `types`) or shape is unknown.
    """
    shape, dtype = context.static_shapes.get(name), types.get(name)
    if shape is None or dtype not in TYPES:
        return False
    context.tensors[name] = Tensor(name=name, shape=shape, dtype=DType(dtype))
    return True


def _input(context: GraphContext, info: onnx.ValueInfoProto) -> GraphInput:
    shape = input_shape(info)
    dtype = type_name(info.type.tensor_type.elem_type)
    held = held_type(info.type.tensor_type.elem_type)
    if held not in TYPES:
        raise ModelError(
            f"{context.source}: input '{info.name}' has type {dtype}; processors and GPUs take {', '.join(TYPES)}: "
            "convert the input to one of them"
        )
    tensor = Tensor(name=info.name, shape=shape, dtype=DType(held))
    if tensor.size:
        context.tensors[info.name] = tensor
    else:
        # An empty input is a constant.
        context.constants[info.name] = np.zeros(shape, tensor.dtype.numpy)
    return plain_input(tensor)


def _output(context: GraphContext, info: onnx.ValueInfoProto) -> GraphOutput:
    name = context.resolve(info.name)
    if name in context.constants and name not in context.tensors:
        array = context.constants[name]
        if array.dtype.name not in TYPES:
            raise ModelError(
                f"{context.source}: output '{info.name}' is a constant of type {array.dtype}, which is not supported; "
                "remove it from the outputs"
            )
        context.tensors[name] = Tensor(name=name, shape=array.shape, dtype=DType(array.dtype.name))
    if name not in context.tensors:
        raise ModelError(
            f"{context.source}: output '{info.name}' is computed by no node; remove it from the model's outputs"
        )
    if name in context.quantized:
        from .float_operators.quantization import as_integers

        maker = helper.make_node("Cast", [name], [info.name], info.name)
        name = as_integers(context, read_node(maker, 0), name)
    declared = type_name(info.type.tensor_type.elem_type)
    if held_type(info.type.tensor_type.elem_type) != context.tensors[name].dtype:
        raise ModelError(
            f"{context.source}: output '{info.name}' is declared {declared} but computed as "
            f"{context.tensors[name].dtype}; put a Cast before it"
        )
    return plain_output(info.name, context.tensors[name])


def expand(context: GraphContext, node: OnnxNode) -> bool:
    """Imports other ONNX nodes in place of `node`: the function body of an operator of another domain, or the subgraph
    of If, Loop or Scan. Imports nothing and returns False for any other node.
    """
    if not means_standard(node.domain, node.op_type):
        contributed = rows_of(node.domain, node.op_type, "contributed")
        body = contributed[0](context, node) if contributed else _function_body(context, node)
        if body is None:
            context.fail(node, *foreign(node.domain, SUPPORTED))
        import_body(context, body)
        return True
    control = rows_of("", node.op_type, "control")
    if control:
        control[0](context, node)
    return bool(control)


def fold(context: GraphContext, node: OnnxNode) -> bool:
    """Evaluates a node all of whose inputs are constants; its outputs become constants. Returns False if the node has
    another input, or if ONNX's reference implementation evaluates it wrongly or fails on its empty tensors.
    """
    known = all(context.resolve(name) in context.constants for name in node.inputs if name)
    if not known or reference_is_mistaken(node, context.opset):
        return False
    feeds = {name: context.constants[context.resolve(name)] for name in node.inputs if name}
    # The reference implementation has both operators, and 4-bit integers, from opset 21 on, with the same meaning.
    oldest = 21 if node.op_type in ("QuantizeLinear", "DequantizeLinear") else 0
    try:
        context.constants.update(evaluate_node(context, node, feeds, max(context.opset, oldest)))
    except NodeError:
        # The reference implementation of some operators fails for empty tensors.
        if all(array.size for array in feeds.values()):
            raise
        return False
    return True


def import_operator(context: GraphContext, node: OnnxNode) -> None:
    """Adds the graph operators of an ONNX node. If the node only moves elements of float32 tensors that hold integers,
    its outputs are marked with the dtype of these integers.
    """
    integers = ""
    if context.quantized:
        from .float_operators.quantization import with_integers

        node, integers = with_integers(context, node)
    _import_operator(context, node)
    if integers and node.op_type not in ("DequantizeLinear", "Shape"):
        context.quantized.update((context.resolve(name), integers) for name in node.outputs if name)


def _import_operator(context: GraphContext, node: OnnxNode) -> None:
    rows, steps = rows_of("", node.op_type, "float", *GRAPHS), rows_of("", node.op_type, "steps")
    if not rows or (steps and steps[0].needed(context, node)):
        body = steps[0](context, node) if steps else _function_body(context, node)
        if body is None:
            context.fail(node, *unsupported(SUPPORTED))
        import_body(context, body)
        return
    plain = rows_of("", node.op_type, "plain")
    importer = plain[0] if plain and _is_plain(context, node) else rows[0]
    held = next((dtype for dtype in context.types(node) if dtype.is_code), None)
    if node.op_type not in ACCEPT_CODES and held is not None:
        context.fail(
            node,
            f"computes on {held}, a type that can only be stored and moved",
            "put a Cast to float32 before it",
        )
    if importer.images:
        importer = partial(_on_images, importer=importer)
    if node.op_type not in TYPED and (half := context.half_type(node)) is not None:
        from .float_operators.halves import in_float32

        in_float32(context, node, half, importer)
        return
    importer(context, node)


def _on_images(context: GraphContext, node: OnnxNode, importer: Row) -> None:
    """Imports a node by calling `importer`, which expects images (N, C, H, W). Data (N, C, L) are first reshaped to
    images of one row.
    """
    if len(context.operand(node, 0).shape) != 3:
        importer(context, node)
        return
    from .lines import on_planes

    refuse_unread(context, node, [importer])
    on_planes(context, node, importer.function)


def _function_body(context: GraphContext, node: OnnxNode) -> list[onnx.NodeProto] | None:
    from .float_operators.functions import function_body

    return function_body(context, node)


def _is_plain(context: GraphContext, node: OnnxNode) -> bool:
    """Whether plain loops compute a node because no kernel template does: its weight is not constant, or it has more
    than two spatial dimensions.
    """
    if node.op_type in ("Conv", "ConvTranspose") and not context.is_constant(node, 1):
        return True
    return len(context.tensor(node, 0).shape) > 4


TYPED = STRUCTURE | frozenset(
    (
        *("And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "Or", "Xor", "Where"),
        *("Cast", "CastLike", "BitCast", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor"),
        *("Transpose", "DepthToSpace", "SpaceToDepth", "Concat", "Split", "Slice", "Gather"),
        *("GatherElements", "GatherND", "Trilu", "Expand", "Max", "Min", "OneHot", "ScatterElements"),
        *("ScatterND", "ArgMax", "ArgMin", "TopK", "Neg", "Abs", "EyeLike"),
    )
)
"""Operators whose importers take 16-bit floats without a cast to float32."""
ACCEPT_CODES = STRUCTURE | frozenset(
    (
        *("Cast", "CastLike", "Transpose", "Concat", "Split", "Slice", "Gather", "GatherElements"),
        *("GatherND", "Expand", "Where", "BitCast", "QuantizeLinear", "DequantizeLinear"),
    )
)
"""Operators that only move elements or convert their type. They therefore also accept the element types without
arithmetic, whose elements are stored as codes (`DType.is_code`: types of at most 8 bits)."""
SUPPORTED = (
    f"{', '.join(sorted(operators('float', *GRAPHS, 'steps', 'contributed', 'control')))}, "
    "whatever ONNX defines as a function of these, and whatever has constant inputs"
)
"""Names of all supported operators, for error messages."""

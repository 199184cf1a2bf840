"""ONNX import: a quantized model in QDQ or QOperator form becomes an integer graph.

One pass over the nodes binds each tensor name to a value (`values`). DequantizeLinear turns an integer tensor into
a real one. An operation on real tensors stays pending until a QuantizeLinear reads its result: then an integer node is
added. So pairs of QuantizeLinear and DequantizeLinear disappear without pattern matching.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import onnx

from ...graph.abilities import PLAIN, Abilities
from ...graph.errors import ModelError
from ...graph.graph import Graph, GraphOutput
from ...ir.types import DType
from .attributes import CONTRIBUTED, STANDARD, OnnxNode, opset_of, read_node
from .integer_context import QUANTIZE, ImportContext
from .known_values import Constant
from .model.foreign_domains import foreign, unsupported
from .model.load import input_shape, load_model, static_shapes, type_name
from .model.read import ReadModel, Source
from .operator_rows import Row, refuse_unread
from .strided_views import readable
from .table import GRAPHS, import_nodes, operators, rows_of
from .values import FloatInput, Integer, Pending, Real

SUPPORTED = ", ".join(sorted(operators("quantized", *GRAPHS, "integers")))
"""Names of all supported operators, for messages."""


def import_model(
    source: Source | ReadModel, *, batch: int | None = None, abilities: Abilities = PLAIN, every: bool = True
) -> Graph:
    """Imports a quantized ONNX model from a path or from the bytes of a file.

    Returns the unfused graph, with one node for each quantized ONNX operation. A tensor has the name of the ONNX output
    whose integers it holds. A dynamic first dimension of the inputs becomes `batch` (None: an error). `abilities`:
    capabilities of the target, which decide the nodes that the graph may have.

    Raises ModelError, which names file, node and operator, for everything that is not supported. The error lists all
    unsupported nodes, or only the first of them if `every` is false.
    """
    loaded = load_model(source, batch=batch)
    label, model = loaded.label, loaded.bare
    context = begin(label, model, loaded.arrays(), abilities, bind_input)
    context.own_grids = not abilities.processor
    import_nodes(
        context,
        context.model_nodes,
        partial(_stand_in, context),
        # A node with rows may be refused only because it reads the stand-in of a refused node.
        reported=lambda node: not rows_of("", node.op_type, "quantized", *GRAPHS, "integers"),
        every=every,
    )
    producers = {output: node for node in context.model_nodes for output in node.outputs}
    outputs = tuple(_output(context, info, producers.get(info.name)) for info in model.graph.output)
    return Graph(
        name=model.graph.name or "graph",
        inputs=tuple(context.inputs),
        outputs=outputs,
        nodes=tuple(context.nodes),
        tensors=context.tensors,
        constants=context.constants,
        views=context.views,
    )


def begin(
    label: str,
    model: onnx.ModelProto,
    arrays: Mapping[str, np.ndarray],
    abilities: Abilities,
    bind: Callable[[ImportContext, onnx.ValueInfoProto], None],
) -> ImportContext:
    """The state of the import of `model`, called `label`, before its first node: initializers are bound to `arrays`,
    model inputs by calls of `bind`. `abilities`: capabilities of the target.
    """
    context = ImportContext(
        source=label, opset=opset_of(model), static_shapes=static_shapes(model), abilities=abilities
    )
    context.values.update((name, Constant(array=array)) for name, array in arrays.items())
    context.initializers = frozenset(arrays)
    context.model_nodes = [read_node(proto, index) for index, proto in enumerate(model.graph.node)]
    for info in model.graph.input:
        if info.name not in arrays:
            bind(context, info)
    return context


def _stand_in(context: ImportContext, name: str) -> bool:
    """Binds `name`, a refused node's output, to a placeholder float tensor, so that the import can continue; returns
    False if the shape is unknown.
    """
    context.values.pop(name, None)
    shape = context.static_shapes.get(name)
    if shape is None:
        return False
    context.values[name] = FloatInput(name=name, declared=shape, permutation=None, shape=shape)
    return True


def bind_input(context: ImportContext, info: onnx.ValueInfoProto) -> None:
    """Binds the model input `info` to a value. Raises ModelError for types and shapes that no operator supports."""
    shape = input_shape(info)
    dtype = type_name(info.type.tensor_type.elem_type)
    if dtype == "float":
        context.values[info.name] = FloatInput(name=info.name, declared=shape, permutation=None, shape=shape)
    elif dtype == "int8" or dtype == "uint8":
        from .integer_inputs import bind_integers

        bind_integers(context, info.name, shape, dtype)
    else:
        raise ModelError(
            f"{context.source}: input '{info.name}' has type {dtype}; give the model a float32, int8 or uint8 input, "
            "or run the nodes that read it on the processor (--target vdla,llvm)"
        )


def _output(context: ImportContext, info: onnx.ValueInfoProto, node: OnnxNode | None) -> GraphOutput:
    value = context.values.get(info.name)
    if node is None or value is None:
        raise ModelError(
            f"{context.source}: output '{info.name}' is computed by no node; "
            "remove it from the model's outputs"
        )
    if isinstance(value, Pending):
        from .own_grids import on_own_grid

        value = on_own_grid(context, node, value, output=True) or value
    if isinstance(value, Real | Integer) and value.view is not None:
        value = readable(context, node, value)
    match value:
        case Real(tensor=tensor, shape=shape, quantization=quantization):
            dtype = DType.FLOAT32
        case Integer(tensor=tensor, shape=shape, dtype=integers):
            dtype, quantization = DType(integers), context.tensors[tensor].grid
        case Pending() | FloatInput():
            context.fail(node, f"the model's output '{info.name}' is float and never quantized", QUANTIZE)
        case _:
            context.fail(
                node, f"the model's output '{info.name}' does not depend on its input", "remove the output"
            )
    return GraphOutput(
        name=info.name, tensor=tensor, shape=shape, dtype=dtype, quantization=quantization, view=value.view
    )


def refuse_foreign(context: ImportContext, node: OnnxNode) -> None:
    """Raises NodeError for a node of a domain that no importer supports."""
    if node.domain not in (*STANDARD, CONTRIBUTED):
        context.fail(node, *foreign(node.domain, SUPPORTED))


def import_operator(context: ImportContext, node: OnnxNode) -> None:
    """Binds the outputs of one node to values by the first operator table row (`table`) that accepts the node."""
    rows = rows_of("", node.op_type, "quantized", *GRAPHS)
    if not rows:
        context.fail(node, *unsupported(SUPPORTED, node.op_type))
    refuse_unread(context, node, rows)
    values = [context.value(node, index) for index, name in enumerate(node.inputs) if name]
    kinds = {type(value.operation if isinstance(value, Pending) else value).__name__ for value in values}
    for row in rows:
        if row.behind and row.behind.isdisjoint(kinds):
            continue
        if not row.behind and "RowStatistic" in kinds:
            from .refusals import refuse_statistic

            refuse_statistic(context, node)
        if row is not rows[-1] and not row.takes(node, context.opset):
            continue
        if _import_by(context, node, row) is not False:
            return
    from .refusals import refuse_form

    refuse_form(context, node, rows)


def _import_by(context: ImportContext, node: OnnxNode, row: Row) -> object:
    """Imports a node by one `row` of the operator table; returns False if the row does not handle the node."""
    if row.images:
        data = context.value(node, 0)
        if isinstance(data, Real | Integer | Pending) and len(data.shape) == 3:
            from .lines import import_on_line

            return import_on_line(context, node, row)
        if isinstance(data, Real | Integer | Pending) and len(data.shape) == 5:
            from .operators.volumes import import_on_volume

            return import_on_volume(context, node)
        if isinstance(data, FloatInput) and len(data.shape) == 3:
            context.refuse_float(node, 0, data)
    return row(context, node)

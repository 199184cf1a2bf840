"""Survey of a model for the accelerator, which finds out how the importer treats each node. The model may contain
unsupported nodes.

The survey imports the nodes one after the other like `import_model`, but continues after a refused node; the node's
results become float tensors that are computed elsewhere. Because the survey is an import, it needs no table of
supported operators of its own, and checks every attribute, shape and constant.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import numpy as np
import onnx

from ...graph.abilities import PLAIN, Abilities
from ...graph.errors import ModelError, NodeError
from ...graph.int8_convolution import Quantization
from .attributes import OnnxNode
from .integer_context import ImportContext
from .integer_importer import begin, bind_input
from .known_values import Constant, QuantizedConstant
from .model.load import initializer_array, static_shapes
from .own_grids import on_own_grid
from .table import import_node
from .values import FloatInput, Integer, Pending, Real, RowStatistic, Value

Kind = Literal["constant", "entry", "result", "pending", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSurvey:
    """The survey's result for one node (for its first output).

    Values of `kind`:
        constant  known at import
        entry     a tensor from outside, quantized or reshaped on its way in; nothing is computed
        result    computed by the accelerator; `quantization`: scale and zero point if it is dequantized to float32
        pending   a float32 value that is rounded only together with its readers: no tensor of the accelerator holds it
        refused   not supported, for the reason `refusal`
    """

    kind: Kind
    quantization: Quantization | None = None
    refusal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorType:
    """Type and static shape of a tensor of the model."""

    dtype: np.dtype
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Survey:
    """The result of a survey. `nodes`: one result for each node, in the model's order. `constants`: arrays known at
    import, by tensor name. `types`: types of the tensors whose shapes ONNX or the importer knows, by tensor name.
    """

    nodes: tuple[NodeSurvey, ...]
    constants: Mapping[str, np.ndarray]
    types: Mapping[str, TensorType]


def survey_model(
    label: str, model: onnx.ModelProto, *, abilities: Abilities = PLAIN, elsewhere: Collection[str] = ()
) -> Survey:
    """Surveys a checked model with inferred shapes; `label` names the model in messages.

    `abilities`: capabilities of the accelerator. Nodes whose names are in `elsewhere` are refused without an import.
    """
    types = _declared_types(model)
    arrays = {item.name: initializer_array(label, item) for item in model.graph.initializer}
    context = begin(label, model, arrays, abilities, _bind_if_possible)
    nodes = context.model_nodes
    refusals: dict[int, str] = {}
    for index, node in enumerate(nodes):
        try:
            if node.name in elsewhere:
                context.fail(node, "runs on another target", "run it on that target")
            import_node(context, node)
        except ModelError as error:
            refusals[index] = error.problem if isinstance(error, NodeError) else str(error)
            for name in node.outputs:
                # Integers of a refused node have no known scale; their readers are refused in turn.
                context.values.pop(name, None)
                if name in types and types[name].dtype == np.float32:
                    shape = types[name].shape
                    context.values[name] = FloatInput(
                        name=name, declared=shape, permutation=None, shape=shape
                    )
    entries = {item.tensor for item in context.inputs}
    return Survey(
        nodes=tuple(
            NodeSurvey(kind="refused", refusal=refusals[index])
            if index in refusals
            else _survey_of(context, node, entries)
            for index, node in enumerate(nodes)
        ),
        constants={
            name: value.array for name, value in context.values.items() if isinstance(value, Constant)
        },
        # ONNX and the importer agree on shapes, except after ceil_mode, which ONNX's inference gets wrong.
        types=types
        | {
            name: _type_of(value)
            for name, value in context.values.items()
            if not isinstance(value, RowStatistic)
        },
    )


def _declared_types(model: onnx.ModelProto) -> dict[str, TensorType]:
    graph = model.graph
    shapes = static_shapes(model) | {
        info.name: tuple(dimension.dim_value for dimension in info.type.tensor_type.shape.dim)
        for info in graph.input
    }
    return {
        info.name: TensorType(
            dtype=onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type),
            shape=shapes[info.name],
        )
        for info in (*graph.input, *graph.value_info, *graph.output)
        if info.name in shapes and info.type.tensor_type.elem_type
    }


def _type_of(value: Value) -> TensorType:
    match value:
        case Constant(array=array):
            return TensorType(dtype=array.dtype, shape=array.shape)
        case Integer(dtype=dtype):
            return TensorType(dtype=np.dtype(dtype), shape=value.shape)
        case _:
            return TensorType(dtype=np.dtype(np.float32), shape=value.shape)


def _bind_if_possible(context: ImportContext, info: onnx.ValueInfoProto) -> None:
    # The readers of an input that the accelerator does not support are refused.
    with suppress(ModelError):
        bind_input(context, info)


def _survey_of(context: ImportContext, node: OnnxNode, entries: Collection[str]) -> NodeSurvey:
    value: Value | None = context.values.get(node.outputs[0])
    if isinstance(value, Pending):
        with suppress(ModelError):
            value = on_own_grid(context, node, value) or value
    match value:
        case Constant() | QuantizedConstant():
            return NodeSurvey(kind="constant")
        case FloatInput():
            return NodeSurvey(kind="entry")
        case Integer(tensor=tensor) | Real(tensor=tensor) if tensor in entries:
            return NodeSurvey(kind="entry")
        case Integer():
            return NodeSurvey(kind="result")
        case Real(quantization=quantization):
            return NodeSurvey(kind="result", quantization=quantization)
        case Pending() | RowStatistic():
            return NodeSurvey(kind="pending")
        case None:
            return NodeSurvey(kind="refused", refusal="has no output")

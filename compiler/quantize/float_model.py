"""A float32 model whose nodes and constants can be replaced by the rewrites of quantization. Errors name the node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from ..frontends.onnx.attributes import OnnxNode, opset_of, read_node
from ..frontends.onnx.constants import evaluate_node
from ..frontends.onnx.model.foreign_domains import foreign, is_qonnx
from ..frontends.onnx.model.inference import inferred_shapes
from ..frontends.onnx.model.load import free_inputs, initializer_array, load_model, static_shapes
from ..frontends.onnx.model.read import QUANTIZED
from ..graph.errors import ModelError, NodeErrors, node_error
from .recurrent import unrolled

LEAST_IR_VERSION = 7
INTEGER_OPERATORS = frozenset([*QUANTIZED, "DynamicQuantizeLinear", "ConvInteger", "MatMulInteger"])


@dataclass(slots=True, kw_only=True)
class FloatModel(NodeErrors):
    """A model in parts: `header` has its inputs, outputs and operator sets, the other fields its nodes and constants.

    All `nodes` have names. `types`: ONNX's element type of each activation, by tensor name. `static_shapes`: known
    shapes, by tensor name.
    """

    header: onnx.ModelProto
    nodes: list[onnx.NodeProto]
    constants: dict[str, np.ndarray]
    types: dict[str, int]
    static_shapes: dict[str, tuple[int, ...]]

    @property
    def opset(self) -> int:
        """The model's version of the standard operator set."""
        return opset_of(self.header)

    @property
    def inputs(self) -> list[onnx.ValueInfoProto]:
        """The model's inputs, without initializers."""
        return list(self.header.graph.input)

    @property
    def outputs(self) -> list[str]:
        """Names of the model's outputs."""
        return [info.name for info in self.header.graph.output]

    def uses(self) -> Counter[str]:
        """Number of reads of each name: by nodes, by their subgraphs, and as an output of the model."""
        return Counter([*(name for node in self.nodes for name in names_read(node)), *self.outputs])

    def producers(self) -> dict[str, onnx.NodeProto]:
        """Maps each computed name to its node."""
        return {name: node for node in self.nodes for name in node.output if name}

    def is_float(self, name: str) -> bool:
        """Whether `name` belongs to a float32 activation. Constants and tensors of other types are none."""
        return name not in self.constants and self.types.get(name) == onnx.TensorProto.FLOAT

    def float_constant(self, name: str) -> np.ndarray | None:
        """The value of a float32 constant; None for all other names."""
        array = self.constants.get(name)
        return array if array is not None and array.dtype == np.float32 else None

    def store(self, name: str, array: np.ndarray) -> str:
        """Adds a constant under `name`, with a number appended if the name is taken; returns its name."""
        taken = self.constants.keys() | self.types.keys()
        unique, suffix = name, 1
        while unique in taken:
            suffix += 1
            unique = f"{name}#{suffix}"
        self.constants[unique] = array
        return unique

    def array(self, node: OnnxNode, index: int, description: str) -> np.ndarray | None:
        """The value of a constant input, None if it is left out. Raises NodeError if the input is not constant; the
        message calls the input `description`.
        """
        if index >= len(node.inputs) or not node.inputs[index]:
            return None
        if node.inputs[index] not in self.constants:
            self.fail(
                node, f"its {description} '{node.inputs[index]}' is not a constant", "make it an initializer"
            )
        return self.constants[node.inputs[index]]


def read_float_model(
    source: str | Path | bytes, *, batch: int | None = None, unroll: bool = False
) -> FloatModel:
    """Reads a float model of opset 13 or later; nodes that do not depend on its inputs become constants.

    A dynamic first dimension becomes `batch` (None: it is an error). With `unroll` a recurrent node becomes the nodes
    of all its steps. Raises ModelError, also for a model that is already quantized.
    """
    loaded = load_model(source, batch=batch)
    label, proto = loaded.label, loaded.whole()
    proto = unrolled(label, proto) if unroll else proto
    opset = opset_of(proto)
    graph = proto.graph
    for index, node in enumerate(graph.node):
        node.name = node.name or f"{node.op_type}_{index}"
        if node.op_type in INTEGER_OPERATORS or node.op_type.startswith("QLinear"):
            raise ModelError(
                f"{label}: is quantized already: node '{node.name}' is a {node.op_type}; give the float32 model"
            )
        if is_qonnx(node.domain):
            problem, way_out = foreign(node.domain, "")
            raise node_error(label, node.name, node.op_type, problem, way_out)
    infos = (*graph.value_info, *graph.input, *graph.output)
    shapes = static_shapes(proto)
    for info in graph.input:
        shapes[info.name] = tuple(dimension.dim_value for dimension in info.type.tensor_type.shape.dim)
    header = onnx.ModelProto()
    header.CopyFrom(proto)
    for part in ("node", "initializer", "value_info", "quantization_annotation", "input"):
        header.graph.ClearField(part)
    header.graph.input.extend(free_inputs(graph))
    # Before version 4 every initializer had to be an input as well.
    header.ir_version = max(header.ir_version, LEAST_IR_VERSION)
    model = FloatModel(
        source=label,
        header=header,
        nodes=[],
        constants={tensor.name: initializer_array(label, tensor) for tensor in graph.initializer},
        types={info.name: info.type.tensor_type.elem_type for info in infos},
        static_shapes=shapes,
    )
    for index, node in enumerate(graph.node):
        values = _constant_outputs(model, read_node(node, index), opset)
        if values is None:
            model.nodes.append(node)
        else:
            model.constants.update(values)
    return model


def input_name(node: onnx.NodeProto, index: int) -> str:
    """Name of the node's input at `index`; "" if it is left out."""
    return node.input[index] if index < len(node.input) else ""


def names_read(node: onnx.NodeProto) -> Iterable[str]:
    """All names that a node and its subgraphs read, each as many times as it is read."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from names_read(inner)
            yield from (info.name for info in graph.output)


def assemble(
    header: onnx.ModelProto,
    nodes: Iterable[onnx.NodeProto],
    initializers: Iterable[onnx.TensorProto],
    *,
    outputs: Sequence[str] | None = None,
) -> onnx.ModelProto:
    """Builds a model from nodes and initializers, with the inputs of `header`. The model's outputs are the float32
    tensors `outputs`; by default they are the outputs of `header`.

    An initializer is left out if no node reads it and it is no output.
    """
    model = onnx.ModelProto()
    model.CopyFrom(header)
    graph = model.graph
    graph.node.extend(nodes)
    if outputs is not None:
        del graph.output[:]
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
        for info in graph.output:
            info.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    read = {name for node in graph.node for name in names_read(node)} | {info.name for info in graph.output}
    graph.initializer.extend(tensor for tensor in initializers if tensor.name in read)
    return model if outputs is None else inferred_shapes(model)


def constant_protos(constants: Mapping[str, np.ndarray]) -> list[onnx.TensorProto]:
    """ONNX initializers for `constants`, arrays by name."""
    return [numpy_helper.from_array(array, name) for name, array in constants.items()]


def _constant_outputs(model: FloatModel, node: OnnxNode, opset: int) -> dict[str, np.ndarray] | None:
    """Values, by output name, of all outputs of a node that depends on no input of the model. Returns None for other
    nodes, for nodes with random results or with subgraphs, and for nodes that compute an output of the model.
    """
    if node.domain not in ("", "ai.onnx") or any(attribute.g.node for attribute in node.proto.attribute):
        return None
    if set(node.outputs) & set(model.outputs) or "seed" in node.attributes or "Random" in node.op_type:
        return None
    if node.op_type == "Shape" and (shape := model.static_shapes.get(node.inputs[0])) is not None:
        start, end = node.integer("start", 0), node.attributes.get("end")
        return {node.outputs[0]: np.array(shape[start:end], np.int64)}
    names = [name for name in node.inputs if name]
    if not all(name in model.constants for name in names) or (not names and node.op_type != "Constant"):
        return None
    return evaluate_node(model, node, {name: model.constants[name] for name in names}, opset)

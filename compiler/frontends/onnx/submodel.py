"""Submodels: some nodes of an ONNX model as a model of their own.

A submodel has its own copies of the constants and entry nodes that its nodes need. Entry nodes are views and
QuantizeLinear nodes at the beginning of a region. The submodel's inputs and outputs are float32 tensors, unless the
model itself passes other types.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ...graph.errors import ModelError
from ...graph.graph import unused
from ...graph.int8_convolution import Quantization
from .float_operators.functions import renamed
from .model.fold_sizes import with_sizes_folded
from .model.load import load_model
from .model.qlinear import write_steps
from .model.read import Source, model_label
from .survey import Survey

INTEGERS = (np.dtype(np.int8), np.dtype(np.uint8))
"""Integer types that a submodel's inputs and outputs may have, in addition to float32."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Submodel:
    """A submodel: the serialized ONNX `model`, the names of its inputs and outputs, and the operator types of all its
    nodes, including copied nodes.

    `readers`: some nodes were added to convert an input or output to another type. For each of them, the names of the
    nodes that read the converted tensor in the model.
    """

    model: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    operators: tuple[str, ...]
    readers: Mapping[str, tuple[str, ...]]


def prepare_model(source: Source, *, least_opset: int) -> tuple[str, onnx.ModelProto]:
    """Reads a model and reduces it to the nodes on which an output depends, each with a unique name. Returns (label of
    the model in messages, reduced model).

    Integers that depend on shapes alone become constants, and operators on integers become DequantizeLinear, float
    operators and QuantizeLinear (`qlinear`). A model that ONNX cannot convert to a newer opset is accepted unchanged if
    its opset is `least_opset` or later.
    """
    steps = partial(write_steps, model_label(source))
    loaded = load_model(source, least_opset=least_opset, rewrite=steps, empty=True)
    label, model = loaded.label, loaded.whole()
    model = with_sizes_folded(model)
    wanted = {info.name for info in model.graph.output}
    needed: list[onnx.NodeProto] = []
    for index, node in reversed(list(enumerate(model.graph.node))):
        if wanted.intersection(node.output):
            node.name = node.name or f"{node.op_type}_{index}"
            wanted.update(tensors_read(node))
            needed.append(node)
    needed.reverse()
    taken: set[str] = set()
    for node in needed:
        node.name = unused(node.name, taken)
        taken.add(node.name)
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in needed]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return label, model


def tensors_read(node: onnx.NodeProto) -> Iterator[str]:
    """Names of a node's inputs, including tensors that the bodies of a loop or a branch read from outside."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        for body in (attribute.g, *attribute.graphs):
            own = {info.name for info in body.input} | {item.name for item in body.initializer}
            for inner in body.node:
                yield from (name for name in tensors_read(inner) if name not in own)
                own.update(inner.output)


class SubmodelWriter:
    """Writes submodels of `model`, a result of `prepare_model`. `survey` says which of the model's nodes are constants,
    and which only quantize or reshape a tensor that enters a submodel (entry nodes).
    """

    def __init__(self, label: str, model: onnx.ModelProto, survey: Survey) -> None:
        self.label = label
        self.model = model
        self.survey = survey
        self.makers = {name: index for index, node in enumerate(model.graph.node) for name in node.output}
        self.declared = {
            info.name: info for info in (*model.graph.input, *model.graph.value_info, *model.graph.output)
        }
        self.names = {
            *self.declared,
            *self.makers,
            *survey.constants,
            *(node.name for node in model.graph.node),
        }

    def write(self, own: Sequence[int], wanted: Sequence[str], *, accelerated: bool) -> Submodel:
        """The submodel of nodes `own` (indices) with outputs `wanted`, for the accelerator (`accelerated`) or the CPU.

        The submodel has copies of constants and of entry nodes (views and QuantizeLinear nodes at the beginning of a
        region). All other tensors that it reads are its inputs. On the accelerator, a QuantizeLinear and a
        DequantizeLinear are added for each float32 input of two to four dimensions that another submodel of the
        accelerator computes. On the CPU, integer inputs and outputs are passed as float32 numbers of the same values.
        Raises ModelError if an input or output has an unknown shape.
        """
        part = _Part(taken=self.names)
        self._collect(part, own, wanted)
        entries = [self._enter(part, name, accelerated) for name in part.inputs]
        outputs = [self._leave(part, name, accelerated) for name in wanted]
        kept = [self.model.graph.node[index] for index in sorted(part.nodes)]
        nodes = [renamed(node, part.renamed, node.name) for node in kept]
        graph = helper.make_graph(
            [*part.before, *nodes, *part.after],
            self.model.graph.name or "graph",
            entries,
            outputs,
            [numpy_helper.from_array(self.survey.constants[name], name) for name in part.constants]
            + part.initializers,
        )
        submodel = helper.make_model(
            graph, opset_imports=list(self.model.opset_import), ir_version=self.model.ir_version
        )
        return Submodel(
            model=submodel.SerializeToString(deterministic=True),
            inputs=tuple(part.inputs),
            outputs=tuple(wanted),
            operators=tuple(
                self.model.graph.node[index].op_type
                for index in sorted(part.nodes)
                if self.survey.nodes[index].kind != "constant"
            ),
            readers={
                added: tuple(
                    self.model.graph.node[index].name
                    for index in own
                    if name in tensors_read(self.model.graph.node[index])
                )
                for added, name in part.added.items()
            },
        )

    def _collect(self, part: _Part, own: Sequence[int], wanted: Sequence[str]) -> None:
        part.nodes.update(own)
        waiting = [name for index in own for name in tensors_read(self.model.graph.node[index])]
        waiting.extend(name for name in wanted if self.makers[name] not in part.nodes)
        waiting.reverse()
        while waiting:
            name = waiting.pop()
            maker = self.makers.get(name)
            if name in self.survey.constants:
                part.constants.setdefault(name)
            elif maker is not None and self.survey.nodes[maker].kind in ("constant", "entry"):
                if maker not in part.nodes:
                    part.nodes.add(maker)
                    waiting.extend(reversed(list(tensors_read(self.model.graph.node[maker]))))
            elif maker not in part.nodes:
                part.inputs.setdefault(name)

    def _enter(self, part: _Part, name: str, accelerated: bool) -> onnx.ValueInfoProto:
        """Returns the declaration of the input `name` of the submodel `part`, and adds nodes that convert it to the
        type that its readers take. `accelerated`: the submodel runs on the accelerator, else on the CPU. Raises
        ModelError for an unknown shape.
        """
        if name not in self.survey.types:
            raise ModelError(
                f"{self.label}: the shape of '{name}' is not known before the model runs, so the nodes that compute "
                "and read the tensor cannot run on different targets; export the model with fixed shapes"
            )
        dtype = self.survey.types[name].dtype
        maker = self.makers.get(name)
        grid = None if maker is None else self.survey.nodes[maker].quantization
        # The importer quantizes tensors of two to four dimensions and refuses readers of others, which go to the CPU.
        if accelerated and grid is not None and len(self.survey.types[name].shape) in (2, 3, 4):
            integers, part.renamed[name] = (
                part.name(f"{name}/{what}") for what in ("quantized", "dequantized")
            )
            part.before.append(part.convert("QuantizeLinear", name, integers, grid, about=name))
            part.before.append(
                part.convert("DequantizeLinear", integers, part.renamed[name], grid, about=name)
            )
        elif not accelerated and dtype in INTEGERS:
            part.renamed[name] = part.name(f"{name}/integers")
            part.before.append(
                part.convert("QuantizeLinear", name, part.renamed[name], _plain(dtype), about=name)
            )
            dtype = np.dtype(np.float32)
        return _declaration(name, dtype, self.survey.types[name].shape)

    def _leave(self, part: _Part, name: str, accelerated: bool) -> onnx.ValueInfoProto:
        """Returns the declaration of the output `name` of the submodel `part`; on the CPU (not `accelerated`) an
        integer output is converted to float32 numbers of the same values.
        """
        known = self.survey.types.get(name)
        if known is None:
            # An output of the model has at least a declared type; other readers report the missing shape.
            return self.declared.get(name) or onnx.ValueInfoProto(name=name)
        if accelerated or known.dtype not in INTEGERS:
            return _declaration(name, known.dtype, known.shape)
        part.renamed[name] = part.name(f"{name}/integers")
        part.after.append(
            part.convert("DequantizeLinear", part.renamed[name], name, _plain(known.dtype), about=name)
        )
        return _declaration(name, np.dtype(np.float32), known.shape)


def _plain(dtype: np.dtype) -> Quantization:
    """The quantization to `dtype` (int8 or uint8) with scale 1 and zero point 0: integers equal their real values."""
    return Quantization(scale=np.float32(1), zero_point=0, dtype="int8" if dtype == np.int8 else "uint8")


def _declaration(name: str, dtype: np.dtype, shape: tuple[int, ...]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), shape)


@dataclass(slots=True, kw_only=True)
class _Part:
    """A submodel under construction. `inputs` and `constants` are ordered sets of names (dictionaries whose values are
    None). `added` maps each added conversion node to the tensor that it converts.
    """

    taken: Collection[str]
    nodes: set[int] = field(default_factory=set)
    inputs: dict[str, None] = field(default_factory=dict)
    constants: dict[str, None] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    before: list[onnx.NodeProto] = field(default_factory=list)
    after: list[onnx.NodeProto] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)
    added: dict[str, str] = field(default_factory=dict)

    def name(self, wanted: str) -> str:
        """A name for an added tensor or node: `wanted`, with a number appended if `wanted` is taken."""
        return unused(wanted, self.taken)

    def convert(
        self, op_type: str, data: str, output: str, grid: Quantization, *, about: str
    ) -> onnx.NodeProto:
        """Makes a QuantizeLinear or DequantizeLinear node (`op_type`) from tensor `data` to tensor `output`, with the
        scale and zero point of `grid`. The node is named after the submodel's input or output `about`.
        """
        name = self.name(f"{about}/{op_type}")
        operands = [self.name(f"{name}/scale"), self.name(f"{name}/zero_point")]
        values = (np.asarray(grid.scale, np.float32), np.asarray(grid.zero_point, grid.dtype))
        self.initializers.extend(map(numpy_helper.from_array, values, operands))
        self.added[name] = about
        return helper.make_node(op_type, [data, *operands], [output], name)

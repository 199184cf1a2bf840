"""What of a float model is quantized: which nodes compute on integers, and which tensors share one scale.

Products with constant weights (Conv, ConvTranspose, Gemm, MatMul) always do. Other operators of `POINTWISE`, `POOLS`
and `SAME_SCALE` do where all that they read is quantized already, or is an input of the model. So what belongs to a
float operator (a normalization written out as sums and powers, the product behind a sigmoid) stays float with it.

A Relu or Clip behind an operator that nothing else reads is fused with it: only what leaves it is quantized, as ONNX
Runtime's static quantizer does.

Layers may be kept float, with the clamps that are fused with them. What leaves them is like an input of the model:
whoever computes on integers quantizes it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import onnx

from ..onnx_context import read_node
from .float_model import FloatModel, input_name
from .fold import weight_axis

PRODUCTS = frozenset(["Conv", "ConvTranspose", "Gemm", "MatMul"])
POINTWISE = frozenset(["Add", "Mul"])
POOLS = frozenset(["AveragePool", "GlobalAveragePool"])
CLAMPS = frozenset(["Relu", "Clip"])
VIEWS = frozenset(["Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Identity", "Dropout"])
"""Operators that move values about: of a tensor that is not quantized they stay float, wherever it goes."""
SAME_SCALE = VIEWS | frozenset(
    ["MaxPool", "GlobalMaxPool", "Concat", "Pad", "Slice", "Split", "Gather", "DepthToSpace", "SpaceToDepth"]
)
"""Operators whose outputs hold values of their inputs: all of them share one scale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`scale_of` leads from each quantized tensor or constant operand to the tensor whose scale it has.

    `nodes` are the names of outputs of nodes that compute on quantized tensors; `fused` leads from the outputs among
    them that are never quantized, because a clamp follows, to the clamp's output; `layers` are the nodes, but for those
    that only pass values on, with the tensor in which their result is quantized.
    """

    nodes: frozenset[str]
    scale_of: Mapping[str, str]
    fused: Mapping[str, str]
    layers: tuple[tuple[onnx.NodeProto, str], ...]

    def computes(self, node: onnx.NodeProto) -> bool:
        """Whether a node computes on quantized tensors."""
        return node.output[0] in self.nodes

    def behind_clamps(self, name: str) -> str:
        """The tensor in which a result is quantized: behind all clamps that are fused with it."""
        while name in self.fused:
            name = self.fused[name]
        return name


def plan_quantization(model: FloatModel, floats: Collection[str] = ()) -> Plan:
    """Chooses nodes and groups of tensors. `floats` are names of nodes that stay float."""
    sources = {info.name for info in model.inputs if model.is_float(info.name)}
    uses, producers = model.uses(), model.producers()
    chosen: dict[str, onnx.NodeProto] = {}
    ready: set[str] = set()
    fused: dict[str, str] = {}
    kept: set[str] = set()
    for node in model.nodes:
        data = operands(model, node)
        if not _supported(model, node, data):
            continue
        if node.name in floats or (node.op_type in CLAMPS and data[0] in kept and uses[data[0]] == 1):
            kept.update(node.output)
            sources.update(node.output)
            continue
        activations = [name for name in data if name not in model.constants]
        if node.op_type in VIEWS and not set(activations) <= ready:
            # The host does it before it quantizes.
            sources |= set(node.output) if set(activations) <= sources else set()
            continue
        if node.op_type not in PRODUCTS and not set(activations) <= ready | sources:
            continue
        chosen[node.output[0]] = node
        ready.update(name for name in node.output if name)
        before = producers.get(data[0])
        if (
            node.op_type in CLAMPS
            and data[0] in chosen
            and uses[data[0]] == 1
            and before is not None
            and before.op_type not in SAME_SCALE
        ):
            fused[data[0]] = node.output[0]
    scale_of = _Groups()
    for node in chosen.values():
        tensors = [*operands(model, node), *(name for name in node.output if name)]
        tensors = [name for name in tensors if name not in fused]
        for name in tensors:
            scale_of.add(name)
        if node.op_type in SAME_SCALE:
            for name in tensors[1:]:
                scale_of.join(tensors[0], name)
    layers = [
        (node, output)
        for output, node in chosen.items()
        if node.op_type not in SAME_SCALE and not (node.op_type in CLAMPS and node.input[0] in fused)
    ]
    plan = Plan(
        nodes=frozenset(chosen),
        scale_of={name: scale_of.find(name) for name in scale_of.parents},
        fused=fused,
        layers=(),
    )
    return replace(plan, layers=tuple((node, plan.behind_clamps(output)) for node, output in layers))


def operands(model: FloatModel, node: onnx.NodeProto) -> list[str]:
    """The inputs of an operator that are quantized as activations are; weights and other parameters are not."""
    if node.op_type in POINTWISE:
        return list(node.input[:2])
    return list(node.input) if node.op_type == "Concat" else list(node.input[:1])


def _supported(model: FloatModel, proto: onnx.NodeProto, data: list[str]) -> bool:
    """Whether an operator can compute on integers: its data float32, its parameters constants."""
    if proto.domain not in ("", "ai.onnx") or not data or any(proto.output[index] for index in _masks(proto)):
        return False
    if all(name in model.constants for name in data):
        return False
    if not all(model.is_float(name) or model.float_constant(name) is not None for name in data):
        return False
    if any(array.size == 0 for name in data if (array := model.constants.get(name)) is not None):
        return False
    if proto.op_type in PRODUCTS:
        return data[0] not in model.constants and _has_weights(model, proto)
    parameters = [name for name in proto.input[len(data) :] if name]
    known = POINTWISE | POOLS | CLAMPS | SAME_SCALE
    return proto.op_type in known and all(name in model.constants for name in parameters)


def _masks(proto: onnx.NodeProto) -> range:
    """Positions of outputs that hold no values of the input: the indices of a MaxPool, the mask of a Dropout."""
    return range(1, len(proto.output)) if proto.op_type in ("MaxPool", "Dropout") else range(0)


def _has_weights(model: FloatModel, proto: onnx.NodeProto) -> bool:
    """Whether a product has constant weights, no bias or a constant one a channel, and no factors."""
    node = read_node(proto, 0)
    weight = model.float_constant(proto.input[1])
    if weight is None or weight.size == 0:
        return False
    if proto.op_type in ("Gemm", "MatMul"):
        plain = not node.integer("transA", 0)
        factors = {node.attributes.get("alpha", 1.0), node.attributes.get("beta", 1.0)}
        if weight.ndim != 2 or not plain or factors != {1.0}:
            return False
    elif weight.ndim < 3:
        return False
    if not input_name(proto, 2):
        return True
    bias = model.float_constant(proto.input[2])
    channels = weight.shape[weight_axis(node)]
    channels *= node.integer("group", 1) if proto.op_type == "ConvTranspose" else 1
    return bias is not None and bias.shape == (channels,)


class _Groups:
    """Disjoint sets of names; each set goes by the name that came first."""

    def __init__(self) -> None:
        self.parents: dict[str, str] = {}

    def add(self, name: str) -> None:
        self.parents.setdefault(name, name)

    def find(self, name: str) -> str:
        while self.parents[name] != name:
            name = self.parents[name]
        return name

    def join(self, a: str, b: str) -> None:
        first, second = self.find(a), self.find(b)
        order = list(self.parents)
        if order.index(second) < order.index(first):
            first, second = second, first
        self.parents[second] = first

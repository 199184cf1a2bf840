"""The plan of quantization: the nodes that compute on integers, and the tensors that share one scale.

Products with constant weights (Conv, ConvTranspose, Gemm, MatMul) always compute on integers. Operators of `POINTWISE`,
`POOLS` and `SAME_SCALE` compute on integers if each operand is already quantized or is an input of the model. Therefore
an operator that reads the result of a float operator stays float, too.

If a Relu or Clip is the only reader of an operator's result, it is fused with the operator. Only the result of the Relu
or Clip is quantized, as in ONNX Runtime's static quantizer.

With `whole` (for accelerators with the extensions for transformers) more operators compute on integers: functions of
one tensor, `ROWS` (Softmax and normalizations), `REDUCTIONS`, `MOVED` and products of two activations. If a product
reads a float tensor, this tensor is quantized for all its readers; otherwise all sums that begin with a looked-up
embedding would stay float. For a function written as several nodes, such as x times sigmoid, only the result is
quantized, and so for a normalization (`norms`). Scores to which a mask is added stay float.

The caller may choose layers that stay float; a fused clamp then stays float, too. The results of these layers are
treated as inputs of the model: a reader that computes on integers quantizes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import onnx

from ..frontends.onnx.attributes import read_node
from ..frontends.onnx.table import FUNCTIONS, MERGED_INTO_FUNCTIONS
from .float_model import FloatModel, input_name
from .fold import weight_axis
from .norms import find_norms

PRODUCTS = frozenset(["Conv", "ConvTranspose", "Gemm", "MatMul"])
POINTWISE = frozenset(["Add", "Mul"])
POOLS = frozenset(["AveragePool", "GlobalAveragePool"])
CLAMPS = frozenset(["Relu", "Clip"])
LOOK_UPS = frozenset(["Gather", "GatherElements"])
HIDDEN = 1e4
"""A tensor that is added to scores counts as a mask if its least element is at most minus this number. (8 bits cannot
represent both the scores and such an element.)
"""
ROWS = frozenset(["Softmax", "LayerNormalization", "RMSNormalization"])
VIEWS = frozenset(
    ["Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Identity", "Dropout", "Expand"]
)
"""Operators that only move values. If they read float tensors they stay float, even if the next operator computes on
integers.
"""
SAME_SCALE = VIEWS | frozenset(
    ["MaxPool", "GlobalMaxPool", "Concat", "Pad", "Slice", "Split", "Gather", "DepthToSpace", "SpaceToDepth"]
)
"""Operators whose outputs consist of values of their inputs, so that inputs and outputs share one scale."""
MOVED = frozenset(["Resize", "ReduceMax", "ReduceMin", "GatherND", "GatherElements"])
"""Operators that compute on integers only with the option `whole` of `plan_quantization`. Each element of their outputs
is an element of the inputs, or lies between elements of the inputs.
"""
REDUCTIONS = frozenset(
    ["ReduceMean", "ReduceSum", "ReduceL1", "ReduceL2", "InstanceNormalization", "PRelu", "Div"]
)
"""Operators that compute on integers only with the option `whole` of `plan_quantization`. They read one tensor and
constants; the result has its own scale.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A plan that says which nodes of a model compute on quantized tensors. Nodes are identified by the name of their
    first output.

    `nodes`: the nodes that compute on quantized tensors. `operands`: for each node of `nodes`, the inputs that are
    quantized as activations. `weighted`: the nodes with constant weights. `scale_of` maps each quantized tensor or
    constant operand to the tensor whose scale it shares. `fused`: some nodes are computed together with a following
    clamp or function, so that their output is not quantized; this maps their output to the output of the following
    node. `layers`: pairs of a node and the tensor at which its result is quantized. Nodes of `SAME_SCALE`, and nodes
    that are part of another layer, are left out. `whole`: the option of `plan_quantization`.
    """

    nodes: frozenset[str]
    scale_of: Mapping[str, str]
    fused: Mapping[str, str]
    layers: tuple[tuple[onnx.NodeProto, str], ...]
    operands: Mapping[str, tuple[str, ...]]
    weighted: frozenset[str]
    whole: bool

    def computes(self, node: onnx.NodeProto) -> bool:
        """Whether a node computes on quantized tensors."""
        return node.output[0] in self.nodes

    def has_weights(self, node: onnx.NodeProto) -> bool:
        """Whether a node is a product (Conv, ConvTranspose, Gemm or MatMul) with constant weights."""
        return node.output[0] in self.weighted

    def behind_clamps(self, name: str) -> str:
        """The tensor at which the result `name` is quantized. If clamps or functions are fused with the node of `name`,
        this is the result of the last of them, else `name` itself.
        """
        while name in self.fused:
            name = self.fused[name]
        return name


def plan_quantization(model: FloatModel, floats: Collection[str] = (), *, whole: bool = False) -> Plan:
    """Chooses the nodes that compute on integers, and the groups of tensors that share a scale; nodes whose names are
    in `floats` stay float. With `whole` more operators compute on integers (see the module's text).
    """
    sources = {info.name for info in model.inputs if model.is_float(info.name)}
    uses, producers = model.uses(), model.producers()
    chosen: dict[str, onnx.NodeProto] = {}
    data_of: dict[str, tuple[str, ...]] = {}
    weighted: set[str] = set()
    ready: set[str] = set()
    fused: dict[str, str] = {}
    kept: set[str] = set()
    functions: set[str] = set()
    alone: dict[str, str] = {}  # Maps results of functions with a single reader to their argument.
    norms = find_norms(model) if whole else {}
    steps = {id(node): result for result, norm in norms.items() for node in norm.nodes}
    masked = masked_sums(model) if whole else frozenset[str]()
    looked_up: set[str] = (
        set()
    )  # Embeddings and their sums, which are quantized only if another operator on integers reads them.
    beside = computed_beside(model) if whole else frozenset[str]()
    same_scale = SAME_SCALE | MOVED if whole else SAME_SCALE
    for node in model.nodes:
        if node.op_type in LOOK_UPS and node.input[0] in model.constants:
            looked_up.update(node.output)
        if (result := steps.get(id(node))) is not None:
            norm = norms[result]
            if norm.data in ready | sources | looked_up and not {step.name for step in norm.nodes} & set(
                floats
            ):
                ready |= {norm.data}
                chosen[node.output[0]] = node
                within = {step.output[0] for step in norm.nodes} | {norm.data}
                data_of[node.output[0]] = tuple(name for name in dict.fromkeys(node.input) if name in within)
                functions.add(node.output[0])
                if node.output[0] != result:
                    fused[node.output[0]] = result
                else:
                    ready.add(result)
            continue
        if node.output[0] in masked:
            continue
        root = function_root(model, node, alone) if whole else None
        data = operands(model, node) if root is None else [n for n in node.input if n not in model.constants]
        if root is None and not _supported(model, node, data, whole):
            continue
        if node.name in floats or (node.op_type in CLAMPS and data[0] in kept and uses[data[0]] == 1):
            kept.update(node.output)
            sources.update(node.output)
            continue
        activations = [name for name in data if name not in model.constants]
        if whole and node.op_type in ROWS:
            ready.update(set(activations) & looked_up)
        if node.op_type in VIEWS and not set(activations) <= ready:
            # The processor moves the values before it quantizes.
            sources |= set(node.output) if set(activations) <= sources else set()
            continue
        if whole and node.op_type in POINTWISE and ready & set(activations):
            ready.update((beside | looked_up) & set(activations))
        if node.op_type not in PRODUCTS and not set(activations) <= ready | sources:
            if node.op_type == "Add" and set(activations) <= looked_up:
                looked_up.update(node.output)
            continue
        output = node.output[0]
        chosen[output], data_of[output] = node, tuple(data)
        ready.update(name for name in node.output if name)
        if whole and node.op_type in PRODUCTS:
            # The product's operands are quantized anyway: sums and normalizations that read them need not stay float.
            ready.update(activations)
        if node.op_type in PRODUCTS and len(data) == 1:
            weighted.add(output)
        if root is not None:
            functions.add(output)
            fused |= {name: output for name in data if name in alone}
            alone |= {output: root} if uses[output] == 1 else {}
        before = producers.get(data[0])
        if (
            node.op_type in CLAMPS
            and data[0] in chosen
            and uses[data[0]] == 1
            and before is not None
            and before.op_type not in same_scale
        ):
            fused[data[0]] = node.output[0]
    scale_of = _Groups()
    for node in chosen.values():
        tensors = [*data_of[node.output[0]], *(name for name in node.output if name)]
        tensors = [name for name in tensors if name not in fused]
        for name in tensors:
            scale_of.add(name)
        if node.op_type in same_scale:
            for name in tensors[1:]:
                scale_of.join(tensors[0], name)
    layers = [
        (node, output)
        for output, node in chosen.items()
        if node.op_type not in same_scale and not _is_part(node, functions, fused)
    ]
    plan = Plan(
        nodes=frozenset(chosen),
        scale_of={name: scale_of.find(name) for name in scale_of.parents},
        fused=fused,
        layers=(),
        operands=data_of,
        weighted=frozenset(weighted),
        whole=whole,
    )
    return replace(plan, layers=tuple((node, plan.behind_clamps(output)) for node, output in layers))


def _is_part(node: onnx.NodeProto, functions: Collection[str], fused: Mapping[str, str]) -> bool:
    """Whether a node belongs to the layer of another node: it is a clamp that is fused with the node before it, or a
    node of a function other than the function's last node. `functions`: results of nodes that compute functions.
    """
    if node.output[0] in functions:
        return node.output[0] in fused
    return node.op_type in CLAMPS and node.input[0] in fused


def computed_beside(model: FloatModel) -> frozenset[str]:
    """Names of the float tensors that are computed from integer inputs alone, without any product or embedding. An
    example are the sines of positions in a rotary embedding.

    Such a tensor is quantized only if an Add or Mul combines it with a quantized tensor.
    """
    integers = {info.name for info in model.inputs if not model.is_float(info.name)}
    for node in model.nodes:
        names = {name for name in node.input if name and name not in model.constants}
        if names and names <= integers and node.op_type not in PRODUCTS | LOOK_UPS:
            integers.update(node.output)
    return frozenset(name for name in integers if model.is_float(name))


def masked_sums(model: FloatModel) -> frozenset[str]:
    """Names of the masked scores. These are results of Adds that only Softmax reads, with a mask as one operand. A mask
    is an input of the model, a computed tensor that depends on no product, or a constant tensor whose least element is
    at most -`HIDDEN`.

    Masked scores and their Softmax stay float; accelerators with the extension `rows` compute Softmax and mask
    together.
    """
    producers, uses = model.producers(), model.uses()
    softmaxes: Counter[str] = Counter(
        node.input[0] for node in model.nodes if node.op_type == "Softmax" and node.input
    )
    computed: set[str] = set()  # Tensors that depend on a product.
    for node in model.nodes:
        if node.op_type in PRODUCTS or computed & set(node.input):
            computed.update(node.output)
    found = set[str]()
    for name, count in softmaxes.items():
        node = producers.get(name)
        if node is None or node.op_type != "Add" or uses[name] != count:
            continue
        for other in node.input:
            constant = model.float_constant(other)
            hides = constant is not None and constant.size > 1 and float(constant.min()) <= -HIDDEN
            if hides or (other not in model.constants and other not in computed):
                found.add(name)
    return frozenset(found)


def operands(model: FloatModel, node: onnx.NodeProto) -> list[str]:
    """The inputs of a node that are quantized as activations, without weights and other parameters."""
    of_two = node.op_type == "MatMul" and not model.constants.keys() & set(node.input)
    if node.op_type in POINTWISE | {"Sub"} or of_two:
        return list(node.input[:2])
    return list(node.input) if node.op_type == "Concat" else list(node.input[:1])


def function_root(model: FloatModel, node: onnx.NodeProto, roots: Mapping[str, str]) -> str | None:
    """If a node's result is an element-wise function of a tensor x and scalar constants, returns x; else None.

    `roots` maps the result of each earlier function with a single reader to the function's x, so that functions
    compose. An operator of `MERGED_INTO_FUNCTIONS` counts as a function only if it reads the result of another
    function.
    """
    if node.domain not in ("", "ai.onnx") or node.op_type not in FUNCTIONS | MERGED_INTO_FUNCTIONS:
        return None
    data = [name for name in node.input if name and name not in model.constants]
    numbers = [model.float_constant(name) for name in node.input if name in model.constants]
    found = {roots.get(name, name) for name in data}
    if len(found) != 1 or any(number is None or number.size != 1 for number in numbers):
        return None
    if not all(model.is_float(name) for name in data):
        return None
    behind = node.op_type in FUNCTIONS or any(name in roots for name in data)
    return found.pop() if behind else None


def _supported(model: FloatModel, proto: onnx.NodeProto, data: list[str], whole: bool) -> bool:
    """Whether a node can compute on integers: its operands `data` are float32, its parameters are constants, and its
    operator is supported (some operators only with `whole`).
    """
    if (
        proto.domain not in ("", "ai.onnx")
        or not data
        or any(proto.output[index] for index in _valueless_outputs(proto))
    ):
        return False
    if all(name in model.constants for name in data):
        return False
    if not all(model.is_float(name) or model.float_constant(name) is not None for name in data):
        return False
    if any(array.size == 0 for name in data if (array := model.constants.get(name)) is not None):
        return False
    if proto.op_type in PRODUCTS:
        if len(data) > 1:
            return whole
        return data[0] not in model.constants and _has_weights(model, proto)
    parameters = [name for name in proto.input[len(data) :] if name]
    known = POINTWISE | POOLS | CLAMPS | SAME_SCALE
    if whole:
        known |= MOVED | REDUCTIONS | {"Sub"}
    if proto.op_type in ROWS and len([name for name in proto.output if name]) == 1:
        return whole and all(name in model.constants for name in parameters)
    return proto.op_type in known and all(name in model.constants for name in parameters)


def _valueless_outputs(proto: onnx.NodeProto) -> range:
    """Indices of outputs that contain no values of the input: the indices of a MaxPool, the mask of a Dropout."""
    return range(1, len(proto.output)) if proto.op_type in ("MaxPool", "Dropout") else range(0)


def _has_weights(model: FloatModel, proto: onnx.NodeProto) -> bool:
    """Whether a product (Conv, Gemm, MatMul ...) has constant weights, no bias or one constant bias per channel, no
    factors alpha and beta, and no transposed data (transA).
    """
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
    """Disjoint sets of names (union-find); the representative of a set is the name that was added first."""

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

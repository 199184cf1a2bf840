"""The graph of a network: nodes of one operator each, tensors by name, and what the host hands over and reads.

One graph serves every target. Its operators are real-valued (`operators`) or integer (`int8_operators`). The tensors of
integer operators hold int8 values and have a `Quantization`; a tensor that is uint8 in the model is stored as `value -
128`, zero points with it, so that there is one activation type. `Quantization.offset` leads back to the model's own
integers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from ..ir.expr import Expr
from ..ir.types import DType
from ..ir.visit import free_vars
from ..te.merge import broadcast
from ..te.scalars import argument
from .int8_operators import Int8Operator
from .operators import Operator
from .quantization import Quantization

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A tensor of `shape`, (N, C, ...) where channels matter.

    With `block` above 1 it lies in blocks of channels, (N, ceil(C / block), ..., block), with zeros beyond C; else row
    by row. `quantization` says what the values of a quantized tensor stand for.
    """

    name: str
    shape: Shape
    dtype: DType = DType.FLOAT32
    block: int = 1
    quantization: Quantization | None = None

    @property
    def storage(self) -> Shape:
        """The shape of the row-major array that holds the tensor."""
        if self.block == 1:
            return self.shape
        batch, channels, *rest = self.shape
        return (batch, -(-channels // self.block), *rest, self.block)

    @property
    def bytes(self) -> int:
        """Bytes of that array."""
        return prod(self.storage) * self.dtype.bits // 8

    @property
    def size(self) -> int:
        """Elements."""
        return prod(self.shape)

    @property
    def nchw(self) -> tuple[int, int, int, int]:
        """The shape of an (N, C, H, W) tensor, or of an (N, K) one as (N, K, 1, 1)."""
        if len(self.shape) == 2:
            return (self.shape[0], self.shape[1], 1, 1)
        n, c, h, w = self.shape
        return (n, c, h, w)

    @property
    def grid(self) -> Quantization:
        """The quantization of a tensor that has one; ValueError for others."""
        if self.quantization is None:
            raise ValueError(f"tensor '{self.name}' is not quantized")
        return self.quantization


def quantized_tensor(name: str, shape: Shape, quantization: Quantization) -> Tensor:
    """A tensor of stored int8 values."""
    return Tensor(name=name, shape=shape, dtype=DType.INT8, quantization=quantization)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """One operator applied to tensors; `members` are the names of the ONNX nodes that it stands for.

    Operators with several outputs have those behind the first in `more_outputs`; they lie row by row.
    What is fused with a real-valued operator are expressions of the elements of `inputs`, `te.scalars.argument(i)` for
    that of input i, broadcast as numpy does: `data` is what the operator, one of a single input, has in place of it;
    `result` is what is stored for each element of its result, which is called `te.scalars.ELEMENT`.
    """

    name: str
    members: tuple[str, ...]
    operator: Operator | Int8Operator
    inputs: tuple[str, ...]
    output: str
    more_outputs: tuple[str, ...] = ()
    data: Expr | None = None
    result: Expr | None = None

    @property
    def kind(self) -> str:
        """The operator's name, as reports and records have it: integer operators are called like real-valued ones."""
        return type(self.operator).__name__.removeprefix("Int8")

    @property
    def outputs(self) -> tuple[str, ...]:
        """All outputs."""
        return (self.output, *self.more_outputs)

    @property
    def own_inputs(self) -> tuple[str, ...]:
        """The inputs that the operator itself reads."""
        fused = {*self.operands(self.data), *self.operands(self.result)}
        return tuple([name for i, name in enumerate(self.inputs) if i not in fused])

    def operands(self, body: Expr | None) -> tuple[int, ...]:
        """The positions of the inputs that `data` or `result` reads."""
        names = set() if body is None else free_vars(body)
        return tuple([i for i in range(len(self.inputs)) if argument(i).name in names])


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphInput:
    """What the host hands over as `name`: `shape` and `dtype` as the model declares them.

    For a quantized tensor the host transposes by `permutation` (None: not at all), quantizes where `dtype` is float32,
    reshapes to the tensor's shape and subtracts the offset: `vdla.compiler.graph.host.store_input`.
    """

    name: str
    tensor: str
    shape: Shape
    dtype: DType
    permutation: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GraphOutput:
    """What the host reads as `name`; a float32 output of a quantized tensor is dequantized with `quantization`.

    With `view`, int64 in the output's shape, its elements are those at these places of the tensor, counted row by row,
    and zeros at -1; else they are all in their order.
    """

    name: str
    tensor: str
    shape: Shape
    dtype: DType
    quantization: Quantization | None = None
    view: np.ndarray | None = None


def plain_input(tensor: Tensor) -> GraphInput:
    """A tensor that the host hands over as it is, by its own name."""
    return GraphInput(name=tensor.name, tensor=tensor.name, shape=tensor.shape, dtype=tensor.dtype)


def plain_output(name: str, tensor: Tensor) -> GraphOutput:
    """A tensor that the host reads as it is, as `name`."""
    return GraphOutput(name=name, tensor=tensor.name, shape=tensor.shape, dtype=tensor.dtype)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Graph:
    """A whole model: nodes in topological order, `tensors` by name, `constants` by tensor name.

    Constants are listed in `tensors` too, and lie as `Tensor.storage` says. `views` are those of the model's tensors of
    the same name, as of `GraphOutput`, where these have other orders; nothing is computed by them.
    """

    name: str
    inputs: tuple[GraphInput, ...]
    outputs: tuple[GraphOutput, ...]
    nodes: tuple[Node, ...]
    tensors: Mapping[str, Tensor]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    views: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def input_names(self) -> tuple[str, ...]:
        """What the host calls the inputs; in a graph for processors or GPUs their tensors are called so too."""
        return tuple([entry.name for entry in self.inputs])

    def uses(self) -> Counter[str]:
        """How often each tensor is read, by nodes and as an output."""
        counts = Counter(name for node in self.nodes for name in node.inputs)
        counts.update(output.tensor for output in self.outputs)
        return counts

    def data_shape(self, node: Node) -> Shape:
        """The shape of what a node's operator has as its first input."""
        if node.data is None:
            return self.tensors[node.inputs[0]].shape
        return broadcast([self.tensors[node.inputs[i]].shape for i in node.operands(node.data)])

    def producers(self) -> dict[str, Node]:
        """The node that computes each tensor."""
        return {name: node for node in self.nodes for name in node.outputs}

    def readers(self) -> dict[str, list[Node]]:
        """The nodes that read each tensor, a node once; tensors that none reads are left out."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                found.setdefault(name, []).append(node)
        return found


def with_tensors(graph: Graph, *tensors: Tensor) -> Graph:
    """The graph with these tensors added or replaced."""
    return replace(graph, tensors={**graph.tensors, **{tensor.name: tensor for tensor in tensors}})

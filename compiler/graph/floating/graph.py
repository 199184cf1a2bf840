"""The float graph: nodes with an operator each, tensors by name, and how each tensor lies in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from ...ir.expr import Expr
from ...ir.types import DType
from ...ir.visit import free_vars
from ...te.merge import broadcast
from ...te.scalars import argument
from .operators import Operator

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A tensor of `shape`, (N, C, ...) where channels matter.

    With `block` above 1 it lies in blocks of channels, (N, ceil(C / block), ..., block), with zeros beyond C; else row
    by row.
    """

    name: str
    shape: Shape
    dtype: DType = DType.FLOAT32
    block: int = 1

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One operator applied to tensors; `members` are the names of the ONNX nodes that it stands for.

    Operators with several outputs have those behind the first in `more_outputs`; they lie row by row.
    What is fused with an operator are expressions of the elements of `inputs`, `te.scalars.argument(i)` for that of
    input i, broadcast as numpy does: `data` is what the operator, one of a single input, has in place of it; `result`
    is what is stored for each element of its result, which is called `te.scalars.ELEMENT`.
    """

    name: str
    members: tuple[str, ...]
    operator: Operator
    inputs: tuple[str, ...]
    output: str
    more_outputs: tuple[str, ...] = ()
    data: Expr | None = None
    result: Expr | None = None

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
class GraphOutput:
    """What the host reads as `name`."""

    name: str
    tensor: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FloatGraph:
    """A whole model: nodes in topological order, `tensors` by name, `constants` by tensor name.

    `inputs` are names of tensors. Constants are listed in `tensors` too, and lie as `Tensor.storage` says.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[GraphOutput, ...]
    nodes: tuple[Node, ...]
    tensors: Mapping[str, Tensor]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)

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


def with_tensors(graph: FloatGraph, *tensors: Tensor) -> FloatGraph:
    """The graph with these tensors added or replaced."""
    return replace(graph, tensors={**graph.tensors, **{tensor.name: tensor for tensor in tensors}})

"""The graph of a network: nodes of one operator each, tensors by name, and the host's inputs and outputs.

One graph class serves every target. Operators are real-valued (`operators`) or integer (`int8_operators`). The tensors
of integer operators hold int8 values and have a `Quantization`. If a tensor is uint8 in the model, 128 is subtracted
from its values and its zero point, so that all activations are int8. Adding `Quantization.offset` to stored values
gives the model's integers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from ..ir.expr import Expr
from ..ir.types import DType
from ..ir.visit import free_vars
from ..te.merge import broadcast
from ..te.scalars import argument
from .int8_convolution import Quantization
from .int8_operators import Int8Operator
from .operators import Operator

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A tensor of `shape`. If it has channels, they are dimension 1: (N, C, ...).

    With `block` above 1 it is stored in blocks of channels, (N, ceil(C / block), ..., block), with zeros beyond C. With
    `block` 1 it is stored in row-major order. `quantization`: scale and zero point, with which the stored values of a
    quantized tensor represent real numbers."""

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
        """Bytes of the array of shape `storage`."""
        return prod(self.storage) * self.dtype.bits // 8

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nchw(self) -> tuple[int, int, int, int]:
        """The shape of an (N, C, H, W) tensor, or (N, K, 1, 1) of an (N, K) tensor; else ValueError."""
        if len(self.shape) == 2:
            return (self.shape[0], self.shape[1], 1, 1)
        n, c, h, w = self.shape
        return (n, c, h, w)

    @property
    def grid(self) -> Quantization:
        """The tensor's quantization. Raises ValueError if it has none."""
        if self.quantization is None:
            raise ValueError(f"tensor '{self.name}' is not quantized")
        return self.quantization


def quantized_tensor(name: str, shape: Shape, quantization: Quantization) -> Tensor:
    """A tensor of stored int8 values."""
    return Tensor(name=name, shape=shape, dtype=DType.INT8, quantization=quantization)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """One operator applied to tensors; `members`: names of the ONNX nodes that it implements.

    If an operator has several outputs, all but the first are in `more_outputs` and are row-major. Element-wise
    operators can be fused with the node as expressions. With an expression `data`, the operator reads the expression's
    values instead of its input. With an expression `result`, the node stores the expression's values instead of the
    operator's result. In an expression, `te.scalars.argument(i)` is an element of input i, broadcast as in numpy, and
    `te.scalars.ELEMENT` is an element of the operator's result."""

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
        """The operator's name in reports and records: the name of the class, without "Int8"."""
        return type(self.operator).__name__.removeprefix("Int8")

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of all outputs of the node, in order."""
        return (self.output, *self.more_outputs)

    @property
    def own_inputs(self) -> tuple[str, ...]:
        """The inputs that the operator itself reads, without inputs that only fused expressions read."""
        fused = {*self.operands(self.data), *self.operands(self.result)}
        return tuple([name for i, name in enumerate(self.inputs) if i not in fused])

    def operands(self, body: Expr | None) -> tuple[int, ...]:
        """Indices into `inputs` of the tensors that `body` (`data` or `result`) reads."""
        if body is None:
            return ()
        names = free_vars(body)
        return tuple([i for i in range(len(self.inputs)) if argument(i).name in names])


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphInput:
    """An input of the model, called `name`, with the model's `shape` and `dtype`.

    For a quantized tensor the host does the following (`vdla.compiler.graph.host.store_input`). It transposes the input
    by `permutation` (None: not at all), quantizes it if `dtype` is float32, reshapes it to the tensor's shape, and
    subtracts the offset. `rows`: for row indices (ids), the number of rows; ids are -rows .. rows - 1.
    """

    name: str
    tensor: str
    shape: Shape
    dtype: DType
    permutation: tuple[int, ...] | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GraphOutput:
    """An output of the model, called `name`. If the tensor is quantized and the output is float32, it is dequantized
    with `quantization`.

    `view`, int64 in the output's shape: the row-major index of each element in the tensor, -1 for zero. None: in order.
    """

    name: str
    tensor: str
    shape: Shape
    dtype: DType
    quantization: Quantization | None = None
    view: np.ndarray | None = None


def plain_input(tensor: Tensor) -> GraphInput:
    """A graph input with the tensor's own name, shape and dtype."""
    return GraphInput(name=tensor.name, tensor=tensor.name, shape=tensor.shape, dtype=tensor.dtype)


def plain_output(name: str, tensor: Tensor) -> GraphOutput:
    """A graph output called `name` with the tensor's shape and dtype."""
    return GraphOutput(name=name, tensor=tensor.name, shape=tensor.shape, dtype=tensor.dtype)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Graph:
    """A whole model: nodes in topological order, `tensors` by name, `constants` by tensor name.

    Constants are listed in `tensors`, too, and have the shape `Tensor.storage`. `views`: some tensors of the model are
    stored in another order of elements, under the same name. For each of them, an array with the row-major index of
    each element in the stored tensor (-1: zero). No node reads a view."""

    name: str
    inputs: tuple[GraphInput, ...]
    outputs: tuple[GraphOutput, ...]
    nodes: tuple[Node, ...]
    tensors: Mapping[str, Tensor]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    views: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the model's inputs; in a graph for processors or GPUs the input tensors have the same names."""
        return tuple([entry.name for entry in self.inputs])

    def uses(self) -> Counter[str]:
        """The number of times that each tensor is read, by nodes and as an output."""
        counts = Counter(name for node in self.nodes for name in node.inputs)
        counts.update(output.tensor for output in self.outputs)
        return counts

    def data_shape(self, node: Node) -> Shape:
        """The shape of the operator's main input. If the expression `data` is fused with the node, this is the shape of
        the expression's values, else the shape of the first input."""
        if node.data is None:
            return self.tensors[node.inputs[0]].shape
        return broadcast([self.tensors[node.inputs[i]].shape for i in node.operands(node.data)])

    def producers(self) -> dict[str, Node]:
        """Maps each tensor that a node computes to this node, by the tensor's name."""
        return {name: node for node in self.nodes for name in node.outputs}

    def readers(self) -> dict[str, list[Node]]:
        """The nodes that read each tensor, by its name, each node once; tensors that no node reads are left out."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                found.setdefault(name, []).append(node)
        return found


def with_tensors(graph: Graph, *tensors: Tensor) -> Graph:
    """The graph with these tensors added or replaced."""
    return replace(graph, tensors={**graph.tensors, **{tensor.name: tensor for tensor in tensors}})


_ONE_BY_ONE = 16
"""Number of suffixes that `first_free` tries one by one, before it searches by doubling and bisection."""


def unused(name: str, *taken: Collection[str]) -> str:
    """`name` if none of the collections `taken` contains it, else `name` followed by a free number: name#2, name#3, ...

    If a number up to `_ONE_BY_ONE` is free, it is the least one. Beyond that, bisection finds a free number quickly,
    because recurrent layers of many steps need thousands of names.
    """

    def is_taken(number: int) -> bool:
        candidate = _numbered(name, number)
        return any(candidate in names for names in taken)

    return _numbered(name, first_free(is_taken))


def first_free(is_taken: Callable[[int], bool]) -> int:
    """A number of 1 or more for which `is_taken` is False. If a number up to `_ONE_BY_ONE` is free, the least free
    number is returned; otherwise any free number that follows a taken one.
    """
    for number in range(1, _ONE_BY_ONE + 1):
        if not is_taken(number):
            return number
    # Invariant: `low` is taken. After the first loop `high` is free.
    low, high = _ONE_BY_ONE, 2 * _ONE_BY_ONE
    while is_taken(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if is_taken(middle):
            low = middle
        else:
            high = middle
    return high


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}#{number}"

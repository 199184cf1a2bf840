"""Lets operators that compute in float32 read 16-bit floats directly, instead of a float32 copy of the 16-bit data.

The importer casts the 16-bit inputs of arithmetic operators to float32. A product of two 16-bit floats is exact in
float32. Tensor cores may therefore multiply the 16-bit factors and sum in float32; only the order of the sums makes a
difference. Weights stay 16-bit numbers in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...graph.graph import Graph, Node, Tensor, unused
from ...graph.operators import (
    AveragePool,
    Convolution,
    Dense,
    Elementwise,
    MatrixProduct,
    MaxPool,
    Normalization,
    Permute,
    Reduction,
    Reshape,
    Softmax,
)
from ...ir.expr import Cast, Expr, Var, cast
from ...ir.types import HALVES, DType
from ...ir.visit import substitute_expr
from ...te.scalars import argument
from ..driver import remove_dead

PRODUCTS = (Convolution, Dense, MatrixProduct)
READERS = (*PRODUCTS, MaxPool, AveragePool, Normalization, Reduction, Softmax)
"""Classes of operators that can read 16-bit floats while they compute in float32."""


def read_halves(graph: Graph) -> Graph:
    """Lets operators read float16 and bfloat16 tensors directly, without the casts to float32 in the imported graph.
    Element-wise operators and the classes `READERS` can do this.

    Both factors of a product must have the same 16-bit type. A constant factor is converted to this type, if the
    conversion is exact. Transposed convolutions keep float32 factors.
    """
    halves = _Halves(graph)
    for node in graph.nodes:
        halves.add(node)
    changed = replace(
        graph,
        nodes=tuple(halves.nodes),
        tensors={**graph.tensors, **halves.tensors},
        constants={**graph.constants, **halves.constants},
    )
    return remove_dead(changed) if halves.changed else graph


class _Halves:
    """The rewritten nodes so far, and the tensors and constants of 16 bits that they read."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.producers = graph.producers()
        self.nodes: list[Node] = []
        self.tensors: dict[str, Tensor] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.changed = False
        self._known: dict[tuple[str, DType], str] = {}

    def add(self, node: Node) -> None:
        """Appends a node, with 16-bit inputs if its operator can read them."""
        if isinstance(node.operator, Elementwise):
            self.nodes.append(self._with_casts(node, node.operator))
            return
        count = self._factors(node)
        dtype = next((found for name in node.inputs[:count] if (found := self._type(name)) is not None), None)
        if dtype is not None and all(self._fits(name, dtype) for name in node.inputs[:count]):
            own = [self._half(name, dtype) for name in node.inputs[:count]]
            node = replace(node, inputs=(*own, *node.inputs[count:]))
            self.changed = True
        self.nodes.append(node)

    def _with_casts(self, node: Node, operator: Elementwise) -> Node:
        """An element-wise node that reads 16-bit inputs directly: its expression contains the casts to float32."""
        inputs, values = list(node.inputs), dict[str, Expr]()
        for i, name in enumerate(node.inputs):
            before = self.producers.get(name)
            if before is not None and isinstance(before.operator, Elementwise):
                held = _widened(before.operator.body)
                if held is not None:
                    inputs[i] = before.inputs[0]
                    values[argument(i).name] = cast(argument(i, held), DType.FLOAT32)
        if not values:
            return node
        self.changed = True
        body = substitute_expr(operator.body, values)
        return replace(node, operator=Elementwise(body=body), inputs=tuple(inputs))

    def _factors(self, node: Node) -> int:
        """Number of inputs, from the first one on, that the node may read as 16-bit floats of one type. This is 2 for a
        product, 1 for another operator of `READERS`, and 0 if the node reads only float32.
        """
        operator = node.operator
        if not isinstance(operator, READERS) or node.data is not None:
            return 0
        if isinstance(operator, Convolution) and operator.transposed:
            return 0
        return 2 if isinstance(operator, PRODUCTS) else 1

    def _source(self, name: str) -> tuple[Sequence[Node], str] | None:
        """Traces the float32 tensor `name` back to a 16-bit tensor that is cast to float32. Returns (reshapes and
        permutations after the cast, name of the 16-bit tensor); None if `name` has another origin.
        """
        moves: list[Node] = []
        while (node := self.producers.get(name)) is not None:
            match node.operator:
                case Elementwise(body=body) if _widened(body) is not None:
                    return moves[::-1], node.inputs[0]
                case Reshape() | Permute() if node.data is None and node.result is None:
                    moves.append(node)
                    name = node.inputs[0]
                case _:
                    return None
        return None

    def _type(self, name: str) -> DType | None:
        source = self._source(name)
        return None if source is None else self.graph.tensors[source[1]].dtype

    def _fits(self, name: str, dtype: DType) -> bool:
        array = self.graph.constants.get(name)
        if array is None:
            return self._type(name) is dtype
        with np.errstate(over="ignore"):
            rounded = array.astype(dtype.numpy)
        return np.array_equal(rounded.astype(array.dtype), array, equal_nan=True)

    def _half(self, name: str, dtype: DType) -> str:
        """The name of a tensor of type `dtype` with the values of the tensor `name`. The type must represent all of
        these values.
        """
        if (name, dtype) not in self._known:
            self._known[name, dtype] = self._made(name, dtype)
        return self._known[name, dtype]

    def _made(self, name: str, dtype: DType) -> str:
        if name in self.graph.constants:
            made = self._tensor(name, dtype)
            self.constants[made] = self.graph.constants[name].astype(dtype.numpy)
            return made
        source = self._source(name)
        assert source is not None
        moves, half = source
        for move in moves:
            made = self._tensor(move.output, dtype)
            self.nodes.append(replace(move, name=made, inputs=(half,), output=made))
            half = made
        return half

    def _tensor(self, name: str, dtype: DType) -> str:
        made = unused(f"{name}.{dtype}", self.graph.tensors, self.tensors)
        self.tensors[made] = replace(self.graph.tensors[name], name=made, dtype=dtype)
        return made


def _widened(body: Expr) -> DType | None:
    """The type of the 16-bit argument, if an expression is only the cast of this argument to float32; else None."""
    match body:
        case Cast(value=Var(dtype=held), dtype=DType.FLOAT32) if held in HALVES:
            return held
    return None

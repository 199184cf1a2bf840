"""Attention as one node: softmax(scores(Q K^T)) V.

The pattern is the product Q K^T, a softmax along its last axis, and the product of the softmax's result and V. No other
node reads the results of the first product and of the softmax. Element-wise operators between the first product and the
softmax (scale, mask) become the expression of a score. Exporters permute axes before and after the products, and repeat
the heads of keys and values. The fused node reads the tensors before these permutations and repetitions, and writes the
tensor after the last permutation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from ...graph.attention import sizes_of
from ...graph.graph import Graph, Node, Shape, Tensor, unused
from ...graph.operators import (
    DotProductAttention,
    Elementwise,
    MatrixProduct,
    Permute,
    Remap,
    Reshape,
    Softmax,
)
from ...ir.expr import Expr
from ...ir.types import HALVES, DType
from ...ir.visit import substitute_expr
from ...te.merge import broadcast
from ...te.ops.attention_sizes import Attention, Stored
from ...te.ops.movement import Run
from ...te.scalars import ELEMENT, argument, argument_types

FLOATS = (DType.FLOAT32, *HALVES)
"""Element types of Q, K and V with which an attention may become one node."""
Fits: TypeAlias = Callable[[Attention], bool]
"""A function that tells whether a target has a kernel for an attention."""


def fuse_attention(graph: Graph, fits: Fits) -> Graph:
    """Replaces each attention that `fits` accepts by one node. Nodes whose results are no longer read, such as
    permutations before the attention, stay until `driver.remove_dead`.
    """
    for node in graph.nodes:
        match node.operator:
            case Softmax():
                if (found := _Pattern(graph).match(node)) is not None:
                    graph = _replaced(graph, found, fits)
            case MatrixProduct() if graph.tensors[node.own_inputs[0]].dtype in HALVES:
                graph = _of_halves(graph, node.output, fits)
    return graph


def _of_halves(graph: Graph, output: str, fits: Fits) -> Graph:
    """Fuses an attention of 16-bit floats whose last matrix product computes `output` into one node. Returns the graph
    unchanged if this product is not part of an attention, or if `fits` rejects the attention.
    """
    from .half_softmax import with_whole_softmax

    product = graph.producers()[output]
    whole = with_whole_softmax(graph, product)
    found = None if whole is None else _Pattern(whole[0]).match(whole[1])
    if whole is None or found is None:
        return graph
    result = _replaced(whole[0], found, fits)
    return graph if result is whole[0] else result


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """The tensor that holds the matrices of Q, K or V. In attention the matrices have the dimensions (batch ..., rows,
    columns); `axes`[d] is the axis of the tensor that is dimension d. `repeats`: number of neighbouring heads that use
    the same matrix.
    """

    tensor: str
    axes: tuple[int, ...]
    repeats: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """An attention that was found in a graph. `nodes`: the nodes of the first product, the softmax, the second product,
    and a permutation of the result (or None). `sources`: the tensors that hold Q, K and V. `scores`: the expression
    that computes a score; `operands`: the tensors that this expression reads.
    """

    nodes: tuple[Node, Node, Node, Node | None]
    sources: tuple[_Source, _Source, _Source]
    scores: Expr
    operands: tuple[str, ...]


class _Pattern:
    """Looks for an attention in a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.uses, self.producers = graph, graph.uses(), graph.producers()
        self.readers: Mapping[str, list[Node]] = graph.readers()

    def match(self, softmax: Node) -> _Found | None:
        """The attention around a softmax; None if there is none."""
        operator, tensors = softmax.operator, self.graph.tensors
        assert isinstance(operator, Softmax)
        shape = tensors[softmax.output].shape
        if (
            operator.logarithm
            or operator.axis != len(shape) - 1
            or len(shape) < 2
            or softmax.result is not None
        ):
            return None
        product = self.scored(softmax)
        second = self.only_reader(softmax.output)
        if product is None or second is None or not isinstance(second.operator, MatrixProduct):
            return None
        if second.own_inputs[0] != softmax.output or softmax.output in second.inputs[1:]:
            return None
        scores, operands = self.scores(product, softmax)
        names = (*product.own_inputs, second.own_inputs[1], second.output)
        factors, result = {tensors[name].dtype for name in names[:3]}, tensors[names[3]].dtype
        if len(factors) > 1 or factors.isdisjoint(FLOATS) or result not in {DType.FLOAT32, *factors}:
            return None
        if any(tensors[name].block > 1 for name in names):
            return None
        if not factors.isdisjoint(HALVES):
            from .half_softmax import unrounded

            scores = unrounded(scores)
        if len(tensors[second.output].shape) != len(shape):
            return None
        key = self.source(names[1])
        after = self.only_reader(second.output) if second.result is None else None
        moved = after if after is not None and isinstance(after.operator, Permute) else None
        if moved is not None and not moved.data is moved.result is None:
            moved = None
        return _Found(
            nodes=(product, softmax, second, moved),
            sources=(
                self.source(names[0]),
                replace(key, axes=(*key.axes[:-2], key.axes[-1], key.axes[-2])),
                self.source(names[2]),
            ),
            scores=scores,
            operands=operands,
        )

    def scored(self, softmax: Node) -> Node | None:
        """Finds the matrix product that computes the scores of `softmax`. The softmax may read the scores directly or
        through its fused expression. Returns None if there is no such product, or if another node also reads the
        scores.
        """
        read = softmax.inputs if softmax.data is None else self.data_inputs(softmax)
        for name in read:
            node = self.producers.get(name)
            if (
                node is not None
                and isinstance(node.operator, MatrixProduct)
                and self.uses[name] == 1
                and self.graph.tensors[name].shape == self.graph.data_shape(softmax)
            ):
                return node
        return None

    def data_inputs(self, node: Node) -> list[str]:
        return [node.inputs[i] for i in node.operands(node.data)]

    def only_reader(self, name: str) -> Node | None:
        """The only node that reads the tensor `name`. Returns None if the tensor is a graph output, or if it is not
        read exactly once.
        """
        readers = self.readers.get(name, [])
        return readers[0] if len(readers) == 1 and self.uses[name] == 1 else None

    def scores(self, product: Node, softmax: Node) -> tuple[Expr, tuple[str, ...]]:
        """The expression of a score, and the names of the tensors that it reads as `argument(3)`, `argument(4)` ..."""
        names: list[str] = []

        def renumbered(body: Expr, node: Node, element: Expr) -> Expr:
            types, values = argument_types(body), dict[str, Expr]()
            for i in node.operands(body):
                if node.inputs[i] == product.output:
                    values[argument(i).name] = element
                    continue
                if node.inputs[i] not in names:
                    names.append(node.inputs[i])
                at = 3 + names.index(node.inputs[i])
                values[argument(i).name] = argument(at, types[argument(i).name])
            return substitute_expr(body, values)

        scores: Expr = ELEMENT if product.result is None else renumbered(product.result, product, ELEMENT)
        if softmax.data is not None:
            scores = renumbered(softmax.data, softmax, scores)
        return scores, tuple(names)

    def source(self, name: str) -> _Source:
        """Finds the stored tensor from which the tensor `name` is made by permutations. If the stored tensor was made
        by repeating heads, the tensor before the repetition is returned.
        """
        axes = tuple(range(len(self.graph.tensors[name].shape)))
        while (node := self.producers.get(name)) is not None and node.data is node.result is None:
            if not isinstance(node.operator, Permute):
                break
            # Dimension d of the result is axis of[d] of the permutation's input.
            of, name = node.operator.axes, node.inputs[0]
            axes = tuple([of[axis] for axis in axes])
        if len(axes) > 2 and (repeated := self.repeated(name, axes[-3])) is not None:
            return _Source(tensor=repeated[0], axes=axes, repeats=repeated[1])
        return _Source(tensor=name, axes=axes)

    def repeated(self, name: str, heads: int) -> tuple[str, int] | None:
        """Tests whether each head (index along axis `heads`) of `name` is repeated by the operators that exporters
        write: [..., heads, ...] -> [..., heads, 1, ...] -> [..., heads, repeats, ...] -> [..., heads * repeats, ...].
        Returns (first of these four tensors, repeats), or None.
        """
        tensors = self.graph.tensors
        joined = self.producers.get(name)
        if joined is None or joined.operator != Reshape():
            return None
        copied = self.producers.get(joined.inputs[0])
        if copied is None or not isinstance(copied.operator, Remap) or copied.data is not copied.result:
            return None
        wide = self.producers.get(copied.inputs[0])
        shape = tensors[name].shape
        if wide is None or wide.operator != Reshape() or len(copied.operator.runs) != len(shape) + 1:
            return None
        source = tensors[wide.inputs[0]].shape
        if len(source) != len(shape) or source[heads] == 0 or shape[heads] % source[heads]:
            return None
        times = shape[heads] // source[heads]
        narrow = (*source[: heads + 1], 1, *source[heads + 1 :])
        runs = [(Run(first=0, count=size, step=1),) for size in narrow]
        runs[heads + 1] = (Run(first=0, count=times, step=0),)
        expected = tuple([n * times if d == heads else n for d, n in enumerate(source)])
        if tensors[wide.output].shape != narrow or copied.operator.runs != tuple(runs) or shape != expected:
            return None
        return wide.inputs[0], times


def _replaced(graph: Graph, found: _Found, fits: Fits) -> Graph:
    """The graph with one node in place of the attention `found`, if `fits` accepts its sizes; else the same graph."""
    found, ahead = _with_causal_mask(graph, found)
    product, softmax, second, moved = found.nodes
    last = second if moved is None else moved
    rank = len(graph.tensors[second.output].shape)
    axes = tuple(range(rank))
    if moved is not None:
        assert isinstance(moved.operator, Permute)
        # Axis d of the permutation's output is axis `axes`[d] of the result.
        axes = tuple([moved.operator.axes.index(axis) for axis in range(rank)])
    query, key, value = found.sources
    output, tensors = last.output, dict(graph.tensors)
    if second.result is not None:
        output = unused(f"{second.output}.attention", tensors)
        tensors[output] = Tensor(name=output, shape=graph.tensors[second.output].shape)
    node = Node(
        name=second.name,
        members=tuple([m for n in found.nodes if n is not None for m in n.members]),
        operator=DotProductAttention(
            axes=(query.axes, key.axes, value.axes, axes),
            repeats=(key.repeats, value.repeats),
            scores=found.scores,
            ahead=ahead,
        ),
        inputs=(query.tensor, key.tensor, value.tensor, *found.operands),
        output=output,
    )
    extended = replace(graph, tensors=tensors)
    sizes = sizes_of(extended, node)
    if query.repeats > 1 or not _consistent(sizes) or not fits(sizes):
        return graph
    nodes: list[Node] = []
    gone = {id(product), id(softmax), id(second), id(moved)}
    for other in graph.nodes:
        if id(other) == id(last):
            nodes.append(node)
            if second.result is not None:
                nodes.append(_with_result(graph, second, output))
        elif id(other) not in gone:
            nodes.append(other)
    return replace(extended, nodes=tuple(nodes))


def _with_causal_mask(graph: Graph, found: _Found) -> tuple[_Found, int | None]:
    """Finds a constant causal mask, with which each row may read only the keys up to a certain distance ahead of the
    row. The scores may read no other operand. If the mask does nothing else (`without_mask`), a comparison of the
    indices of row and key replaces it. Returns (attention, distance); the distance is None without a causal mask.
    """
    shape = graph.tensors[found.nodes[0].output].shape[-2:]
    if len(found.operands) != 1 or found.operands[0] not in graph.constants:
        return found, None
    mask = graph.constants[found.operands[0]]
    if mask.ndim < 2 or mask.shape[-2:] != shape:
        return found, None
    from .causal_masks import HIDDEN, ahead_of, visible_keys, without_mask

    dtype = graph.tensors[found.sources[0].tensor].dtype
    visible = visible_keys(found.scores, mask, HIDDEN[dtype])
    ahead = None if visible is None else ahead_of(visible)
    if visible is None or ahead is None:
        return found, None
    scores = without_mask(found.scores, mask, visible, ahead)
    return found if scores is None else replace(found, scores=scores, operands=()), ahead


def _with_result(graph: Graph, second: Node, output: str) -> Node:
    """An element-wise node with the operators that were fused to the second product (softmax x V). It reads the tensor
    `output`, the result of the attention.
    """
    assert second.result is not None
    others = [second.inputs[i] for i in second.operands(second.result)]
    values: dict[str, Expr] = {ELEMENT.name: argument(0)}
    types = argument_types(second.result)
    for position, i in enumerate(second.operands(second.result)):
        values[argument(i).name] = argument(1 + position, types[argument(i).name])
    return replace(
        second,
        operator=Elementwise(body=substitute_expr(second.result, values)),
        inputs=(output, *others),
        result=None,
    )


def _consistent(sizes: Attention) -> bool:
    """Whether the batch dimensions of Q, K and V broadcast to those of the result, and the operands of the score
    expression broadcast to the shape of the scores.
    """

    def lead(of: Stored) -> Shape:
        shape = [of.shape[axis] for axis in of.axes[:-2]]
        if of.repeats > 1:
            shape[-1] *= of.repeats
        return tuple(shape)

    scores = (*sizes.batch, sizes.rows, sizes.keys)
    leads = [lead(of) for of in (sizes.query, sizes.key, sizes.value)]
    try:
        return broadcast(leads) == sizes.batch and all(
            broadcast([shape, scores]) == scores for shape, _ in sizes.operands
        )
    except ValueError:
        return False

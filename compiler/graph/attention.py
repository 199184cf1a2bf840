"""The sizes of the nodes with the operator `DotProductAttention`, from the shapes of their tensors."""

from __future__ import annotations

from ..te.ops.attention_sizes import Attention, Stored
from .graph import Graph, Node
from .operators import DotProductAttention


def sizes_of(graph: Graph, node: Node) -> Attention:
    """The sizes of the attention that a node with the operator `DotProductAttention` computes."""
    operator = node.operator
    assert isinstance(operator, DotProductAttention)
    names = (*node.inputs[:3], node.output)
    shapes = [graph.tensors[name].shape for name in names]
    repeats = (1, *operator.repeats, 1)
    query, key, value, result = (
        Stored(shape=shape, axes=axes, repeats=times)
        for shape, axes, times in zip(shapes, operator.axes, repeats, strict=True)
    )
    *batch, rows, columns = (result.shape[axis] for axis in result.axes)
    return Attention(
        batch=tuple(batch),
        rows=rows,
        depth=query.shape[query.axes[-1]],
        keys=key.shape[key.axes[-2]],
        columns=columns,
        query=query,
        key=key,
        value=value,
        result=result,
        scores=operator.scores,
        ahead=operator.ahead,
        dtype=graph.tensors[node.inputs[0]].dtype,
        result_dtype=graph.tensors[node.output].dtype,
        operands=tuple([(graph.tensors[n].shape, graph.tensors[n].dtype) for n in node.inputs[3:]]),
    )

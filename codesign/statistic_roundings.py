"""The reference for normalizations whose row statistics are rounded to 8 bits by the model, but not by the
accelerator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

import onnx

from vdla.compiler.frontends.onnx.model.qlinear import write_steps
from vdla.compiler.graph.graph import Graph
from vdla.compiler.graph.int8_operators import Rows


def leave_out_roundings(model: onnx.ModelProto, graph: Graph) -> None:
    """Changes `model` so that it rounds row statistics exactly where `graph`, the import of the same model, does.

    Quantizers round the mean of a row's squares, and its inverse root, to 8 bits if a model computes a normalization
    node by node. The accelerator computes the normalization in one node (`Rows`), with statistics of more bits. A
    comparison of this node with ONNX Runtime's result would find the error of the model's roundings. Therefore each
    QuantizeLinear that the node replaces becomes an Identity, together with the DequantizeLinear behind it.
    """
    normalized = [
        node.output
        for node in graph.nodes
        if isinstance(node.operator, Rows) and node.operator.entries is None
    ]
    if not normalized:
        return
    write_steps(graph.name, model)
    makers = {name: node for node in model.graph.node for name in node.output}
    stored = graph.tensors.keys() - graph.constants.keys()
    inside = {name for output in normalized for name in _quantized_before(makers, stored, output)}
    for node in model.graph.node:
        at_pair = {"QuantizeLinear": node.output[0], "DequantizeLinear": node.input[0] if node.input else ""}
        if at_pair.get(node.op_type) in inside:
            node.op_type, node.domain = "Identity", ""
            del node.input[1:], node.attribute[:]
    del model.graph.value_info[:]


def _quantized_before(
    makers: Mapping[str, onnx.NodeProto], stored: AbstractSet[str], output: str
) -> Iterator[str]:
    """Names of the quantized tensors between `output` and the tensors in `stored` from which it is computed. `makers`:
    the node that computes each tensor of the model, by the tensor's name. Tensors that are computed from constants
    alone are left out.
    """
    computed = dict.fromkeys(stored - {output}, True)
    unknown = [output]
    while unknown:
        name = unknown[-1]
        inputs = makers[name].input if name in makers else ()
        missing = [source for source in inputs if source not in computed]
        if missing:
            unknown += missing
            continue
        unknown.pop()
        if name not in computed:
            computed[name] = any(computed[source] for source in inputs)
            if computed[name] and name != output and makers[name].op_type == "QuantizeLinear":
                yield name

"""Converts a TFLite file to an ONNX model in NCHW. Quantized tensors are between a QuantizeLinear and a
DequantizeLinear.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from ..errors import FrontendError
from .flatbuffer import damaged, require
from .model import Tensor, read_network
from .rows import ROWS
from .writer import RefusedOperator, Writer

OPSET, WIDE_OPSET = 20, 21
"""The opset of the written models, and the opset of models that need QuantizeLinear to 16 bits (the first opset that
has it).
"""
_WAY_OUT = (
    f"supported are {', '.join(sorted(ROWS))}: cut the model before this operator, or replace the operator"
)
_STATE = (
    "keeps values from one run to the next; export the model without state, or with the state as an input"
)
_BODIES = "runs other subgraphs; export the model without it, or inline the subgraph"
_REASONS = {
    **dict.fromkeys(
        ["VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE", "SVDF", "RNN", "LSTM"], _STATE
    ),
    **dict.fromkeys(["UNIDIRECTIONAL_SEQUENCE_LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN"], _STATE),
    **dict.fromkeys(["IF", "WHILE", "CALL", "STABLEHLO_COMPOSITE", "STABLEHLO_WHILE"], _BODIES),
    "TFLite_Detection_PostProcess": "is a custom operator; cut the model before it and select the boxes yourself",
    "CUSTOM": "is a custom operator; cut the model before it, or replace it by built-in operators",
}
"""For each operator without a row in `rows.ROWS`, why the conversion refuses it and what the user can do. Keys are
operator names.
"""


def convert(content: bytes, name: str) -> onnx.ModelProto:
    """The ONNX model of a TFLite file's first subgraph, called `name`. Inputs and outputs have TFLite's names, shapes
    and types.

    Raises FrontendError for a damaged file and for unsupported operators. The message has a line for each unsupported
    operator, with its index in the subgraph, its first output and its kind.
    """
    network = read_network(content)
    writer = Writer(network=network)
    for index in dict.fromkeys(network.inputs):
        tensor = network.tensors[index]
        require(tensor.data is None, f"its input '{tensor.name}' is a constant")
        writer.values[index, False, tensor.grid is not None] = writer.name(tensor.name)
    # No other value gets the name of an output.
    reserved = {network.tensors[index].name for index in network.outputs} - writer.taken
    writer.taken |= reserved
    refused: list[str] = []
    for place, operator in enumerate(network.operators):
        label = "".join(network.tensors[index].name for index in operator.outputs[:1])
        label = f"operator {place} '{label}' ({operator.custom or operator.kind})"
        try:
            if operator.kind not in ROWS:
                reason = _REASONS.get(operator.custom) or _REASONS.get(operator.kind)
                raise RefusedOperator(reason or f"is not supported; {_WAY_OUT}")
            ROWS[operator.kind].convert(writer, operator)
        except RefusedOperator as error:
            refused.append(f"{label}: {error}")
        except (IndexError, ValueError, KeyError, TypeError, ArithmeticError):
            # The functions check what a valid file may have in a form of its own, not each contradiction.
            if not refused:
                raise damaged(f"{label} has attributes or tensors that contradict each other") from None
        if refused:
            # Names for the outputs of a refused operator, so that errors of later operators are found as well.
            writer.values |= {(i, False, stored): "" for i in operator.outputs for stored in (False, True)}
    if refused:
        heading = [f"{len(refused)} operators are not supported:"] if len(refused) > 1 else []
        raise FrontendError([*heading, *refused])
    try:
        return _finish(writer, name, reserved)
    except KeyError:
        raise damaged("an operator has more outputs than its kind computes") from None


def _finish(writer: Writer, name: str, reserved: set[str]) -> onnx.ModelProto:
    """The ONNX model `name` with the nodes in `writer`. An output keeps its TFLite name if the name is in `reserved`.
    If an input or a constant is also an output, it is copied to an output called "NAME/output".
    """
    network, renamed = writer.network, dict[str, str]()
    inputs = [
        _declared(network.tensors[i], writer.value(i, stored=True)) for i in dict.fromkeys(network.inputs)
    ]
    outputs: list[onnx.ValueInfoProto] = []
    for index in dict.fromkeys(network.outputs):
        tensor, value = network.tensors[index], writer.value(index, stored=True)
        if index in network.inputs or writer.known(index) is not None:
            value = writer.node("Identity", [value], f"{tensor.name}/output")
        elif tensor.name in reserved - {*renamed.values()}:
            renamed[value] = tensor.name
        outputs.append(_declared(tensor, renamed.get(value, value)))
    for names in (names for node in writer.nodes for names in (node.input, node.output)):
        names[:] = [renamed.get(value, value) for value in names]
    graph = helper.make_graph(writer.nodes, name, inputs, outputs, writer.initializers)
    wide = any(tensor.grid is not None and tensor.dtype == np.int16 for tensor in network.tensors)
    opset = helper.make_opsetid("", WIDE_OPSET if wide else OPSET)
    return helper.make_model(graph, opset_imports=[opset], ir_version=10)


def _declared(tensor: Tensor, name: str) -> onnx.ValueInfoProto:
    if tensor.dtype.name == "int4":
        problem = f"'{tensor.name}', an input or output, is int4; convert the model with int8 ones"
        raise FrontendError([problem])
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype.name))
    return helper.make_tensor_value_info(name, kind, tensor.shape)

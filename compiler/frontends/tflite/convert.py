"""Converts a TFLite file to an ONNX model, with quantized tensors between QuantizeLinear and DequantizeLinear,
in NCHW.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from ..errors import FrontendError
from .flatbuffer import damaged
from .model import Network, Operator, read_network
from .rows import ROWS
from .writer import OPSET, WIDE_OPSET, RefusedOperator, Writer

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
"""Why the conversion refuses an operator that has no row in `rows.ROWS`, and what the user can do, by operator name."""


def convert(content: bytes, name: str) -> onnx.ModelProto:
    """The ONNX model of a TFLite file's first subgraph, called `name`. Inputs and outputs have TFLite's names, shapes
    and types.

    Raises FrontendError for a damaged file, and with a line for each operator that is not supported.
    """
    network = read_network(content)
    writer = Writer(network=network)
    _begin(writer)
    refused: list[str] = []
    for operator in network.operators:
        try:
            _convert(writer, operator, refused)
        except RefusedOperator as error:
            refused.append(f"{_label(network, operator)}: {error}")
        except (IndexError, ValueError, KeyError, TypeError, ArithmeticError):
            # The functions check what a valid file may have in a form of its own, not each contradiction.
            if not refused:
                raise damaged(
                    f"{_label(network, operator)} has attributes or tensors that contradict each other"
                ) from None
        if refused:
            _stand_in(writer, operator)
    if refused:
        heading = [f"{len(refused)} operators are not supported:"] if len(refused) > 1 else []
        raise FrontendError([*heading, *refused])
    return _finish(writer, name)


def _label(network: Network, operator: Operator) -> str:
    outputs = [network.tensors[index].name for index in operator.outputs[:1]]
    return f"operator '{''.join(outputs)}' ({operator.custom or operator.kind})"


def _convert(writer: Writer, operator: Operator, refused: list[str]) -> None:
    row = ROWS.get(operator.kind)
    if row is None:
        reason = _REASONS.get(operator.custom) or _REASONS.get(operator.kind)
        raise RefusedOperator(reason or f"is not supported; {_WAY_OUT}")
    if not operator.outputs:
        raise damaged(f"{operator.kind} has no output")
    row.write(writer, operator)
    missing = [i for i in operator.outputs if writer.known(i) is None and not _has_value(writer, i)]
    if missing and not refused:
        raise damaged(f"{operator.kind} has {len(operator.outputs)} outputs")


def _has_value(writer: Writer, index: int) -> bool:
    keys = {(index, False), (index, True)}
    return not keys.isdisjoint(writer.reals) or not keys.isdisjoint(writer.integers)


def _stand_in(writer: Writer, operator: Operator) -> None:
    """Gives names to the outputs of a refused operator, so that errors of later operators are found as well."""
    for index in operator.outputs:
        if not _has_value(writer, index):
            writer.reals[index, False] = writer.name(f"{writer.tensor(index).name}/refused")


def _begin(writer: Writer) -> None:
    """Gives each input of the network its TFLite name in the ONNX model, and records that name as the tensor's value
    (layout "rows"). Raises FrontendError for an input that is a constant.
    """
    for index in dict.fromkeys(writer.network.inputs):
        name = writer.name(writer.tensor(index).name)
        if writer.tensor(index).data is not None:
            raise damaged(f"its input '{name}' is a constant")
        (writer.integers if writer.quantized(index) else writer.reals)[index, False] = name


def _finish(writer: Writer, name: str) -> onnx.ModelProto:
    network = writer.network
    inputs = [_declared(writer, index, writer.tensor(index).name) for index in dict.fromkeys(network.inputs)]
    outputs = [_declared(writer, index, _output(writer, index)) for index in dict.fromkeys(network.outputs)]
    needed = {info.name for info in outputs}
    kept: list[onnx.NodeProto] = []
    for node in reversed(writer.nodes):
        if not needed.isdisjoint(node.output):
            needed.update(node.input)
            kept.append(node)
    initializers = [tensor for tensor in writer.initializers if tensor.name in needed]
    graph = helper.make_graph(kept[::-1], name, inputs, outputs, initializers)
    wide = any(tensor.grid is not None and tensor.dtype == np.int16 for tensor in network.tensors)
    opset = helper.make_opsetid("", WIDE_OPSET if wide else OPSET)
    return helper.make_model(graph, opset_imports=[opset], ir_version=10)


def _output(writer: Writer, index: int) -> str:
    """The name, in the ONNX model, of tensor `index`, which is an output: its TFLite name if no other value has this
    name. An input or a constant that is also an output is copied, and the copy is called "NAME/output".
    """
    tensor = writer.tensor(index)
    if (array := writer.known(index)) is not None:
        return writer.node("Identity", [writer.constant(array, tensor.name)], f"{tensor.name}/output")
    name = writer.integral(index) if writer.quantized(index) else writer.real(index)
    if index in writer.network.inputs:
        return writer.node("Identity", [name], f"{tensor.name}/output")
    inputs = {writer.tensor(other).name for other in writer.network.inputs}
    if name != tensor.name and tensor.name not in inputs and tensor.name not in writer.outputs:
        writer.exchange(name, tensor.name)
        name = tensor.name
    writer.outputs.add(name)
    return name


def _declared(writer: Writer, index: int, name: str) -> onnx.ValueInfoProto:
    tensor = writer.tensor(index)
    if tensor.dtype.name == "int4":
        raise FrontendError(
            [f"'{tensor.name}', an input or output, is int4; convert the model with int8 ones"]
        )
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype.name))
    return helper.make_tensor_value_info(name, kind, tensor.shape)

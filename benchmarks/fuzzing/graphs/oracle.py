"""The right values of one node: from ONNX Runtime or, if it has no kernel for the node, from ONNX's reference
implementation.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import onnx
from onnx import helper

from vdla.compiler.frontends.onnx.attributes import read_node, subgraphs
from vdla.compiler.frontends.onnx.constants import reference_is_mistaken

IR_VERSION = 10
"""ONNX IR version of all models here: the first version with 4-bit integers."""
Engine = Literal["onnxruntime", "reference"]


class NoValueError(Exception):
    """Raised for a node that an engine (ONNX Runtime or ONNX's reference implementation) cannot run."""


SHORT = frozenset(("float16", "bfloat16"))
"""Types for which ONNX's reference implementation rounds after each step of a function, not only at its end."""
OF_TYPE = frozenset(("BitCast", "QuantizeLinear", "DequantizeLinear"))
"""Operators whose result depends on the type of their inputs, not only on the values of the inputs."""


@dataclass(slots=True)
class NodeRun:
    """A function that computes the outputs of one node, by `engine`, from arrays by tensor name."""

    node: onnx.NodeProto
    opsets: Sequence[onnx.OperatorSetIdProto]
    engine: Engine
    _run: Callable[[Mapping[str, np.ndarray]], Any] = field(repr=False)

    def __call__(self, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The node's outputs for the inputs `feeds` (arrays by tensor name); optional outputs without a name are left
        out. Raises NoValueError if the engine fails.
        """
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                return [np.asarray(array) for array in self._run(feeds)]
            except Exception as error:
                raise NoValueError(str(error)) from None


def node_run(
    node: onnx.NodeProto,
    opsets: Sequence[onnx.OperatorSetIdProto],
    feeds: Mapping[str, np.ndarray],
    engine: Engine | None = None,
) -> NodeRun:
    """A function that runs a node on arrays of the types and shapes of `feeds`: by `engine` or, if `engine` is None, by
    ONNX Runtime if possible, else by ONNX's reference implementation.

    Raises NoValueError if no engine can run the node.
    """
    model = node_model(_with_pads(node, feeds), opsets, feeds)
    makers: dict[Engine, Callable[[onnx.ModelProto], Callable[[Mapping[str, np.ndarray]], Any]]] = {
        "onnxruntime": _by_onnxruntime,
        "reference": _by_reference,
    }
    reasons: list[str] = []
    opset = max(entry.version for entry in opsets if not entry.domain)
    for name in makers if engine is None else (engine,):
        if name == "reference" and reference_is_mistaken(read_node(node, 0), opset):
            continue
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                run = NodeRun(node, opsets, name, makers[name](model))
                run(feeds)
            except Exception as error:
                reasons.append(f"{name}: {str(error).strip().partition(chr(10))[0]}")
                continue
            return run
    raise NoValueError("; ".join(reasons))


POOLS = frozenset(("AveragePool", "LpPool", "MaxPool", "NhwcMaxPool"))
"""Pooling operators, whose windows may be dilated."""


def _with_pads(node: onnx.NodeProto, feeds: Mapping[str, np.ndarray]) -> onnx.NodeProto:
    """Replaces SAME padding in a dilated pool by explicit pads, as ONNX specifies them, and returns the changed node.
    (ONNX Runtime 1.32 computes SAME padding as if the window were not dilated.) Any other node is returned unchanged.
    """
    given = read_node(node, 0)
    how, dilations = given.text("auto_pad", ""), given.integers("dilations", ())
    if node.op_type not in POOLS or not dilations or not how.startswith("SAME"):
        return node
    shape = feeds[node.input[0]].shape
    plane = shape[1:-1] if node.op_type == "NhwcMaxPool" else shape[2:]
    kernel, strides = given.integers("kernel_shape", ()), given.integers("strides", (1,) * len(plane))
    begin, end = [], []
    for n, k, d, s in zip(plane, kernel, dilations, strides, strict=True):
        total = max(0, (-(-n // s) - 1) * s + (k - 1) * d + 1 - n)
        begin.append((total + (how == "SAME_LOWER")) // 2)
        end.append(total - begin[-1])
    made = onnx.NodeProto()
    made.CopyFrom(node)
    kept = [entry for entry in node.attribute if entry.name != "auto_pad"]
    del made.attribute[:]
    made.attribute.extend([*kept, helper.make_attribute("pads", begin + end)])
    return made


def node_model(
    node: onnx.NodeProto, opsets: Sequence[onnx.OperatorSetIdProto], feeds: Mapping[str, np.ndarray]
) -> onnx.ModelProto:
    """A model of one node with the opsets `opsets`, whose inputs have the names, types and shapes of `feeds`, the
    arrays that the node and its subgraphs read.
    """
    inputs = [
        helper.make_tensor_value_info(name, element_type(array.dtype), array.shape)
        for name, array in feeds.items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], "node", inputs, outputs)
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def element_type(dtype: np.dtype[Any]) -> int:
    """ONNX's number (TensorProto.DataType) of the element type `dtype`."""
    return helper.np_dtype_to_tensor_dtype(dtype)


def _by_onnxruntime(model: onnx.ModelProto) -> Callable[[Mapping[str, np.ndarray]], Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return lambda feeds: session.run(None, dict(feeds))


def _by_reference(model: onnx.ModelProto) -> Callable[[Mapping[str, np.ndarray]], Any]:
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(model)
    (node,) = model.graph.node
    if node.op_type in OF_TYPE or any(True for _ in subgraphs(node)):
        return lambda feeds: evaluator.run(None, dict(feeds))

    def run(feeds: Mapping[str, np.ndarray]) -> Any:
        """Runs the node in float32 if its type is float16 or bfloat16, because numpy would round each step of a
        function to that type.
        """
        results: Any = evaluator.run(None, dict(feeds))
        if not any(array.dtype.name in SHORT for array in feeds.values()):
            return results
        longer = {n: a.astype(np.float32) if a.dtype.name in SHORT else a for n, a in feeds.items()}
        exact: Any = evaluator.run(None, longer)
        return [np.asarray(e).astype(r.dtype) for e, r in zip(exact, results, strict=True)]

    return run

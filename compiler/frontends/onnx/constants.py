"""Constant folding: nodes with constant inputs are evaluated at import, up to the sizes in `ir/limits.py`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx

from ...graph.budgets import item_bytes, too_large
from ...graph.errors import NodeErrors
from ...ir.limits import (
    MOST_CONSTANT_BYTES,
    MOST_LOOPED_ELEMENTS,
)
from .attributes import STANDARD, OnnxNode, schema_of, subgraphs
from .axes import described, gathered_axis, unit_axes, wrapped_indices
from .model.model_rewrites import SOFTMAX_HAS_ONE_AXIS, means_standard, standard_node

LOOPED = frozenset(
    (
        "AveragePool", "Conv", "ConvInteger", "ConvTranspose", "DeformConv", "GRU", "GridSample", "LRN",
        "LSTM", "LpPool", "MaxPool", "MaxRoiPool", "MaxUnpool", "NonMaxSuppression", "QLinearConv", "RNN",
        "Resize", "RoiAlign", "Upsample",
    )
)  # fmt: skip
"""Operators that the reference implementation computes in loops of Python."""

SHAPE_ELEMENTS = 1024
"""Largest number of elements of a constant whose values shape inference may use."""

_OUTSIDE = "fold the node when exporting the model"

_ALWAYS = frozenset(
    ("AveragePool", "ConvTranspose", "GlobalMaxPool", "GridSample", "LRN", "LogSoftmax", "LpPool", "MaxPool")
)

_ALONG_ONE_AXIS = frozenset(("Hardmax", "Softmax"))

_TEXTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), ("mode", ("DCR", "CRD"))),
    "Gelu": ("approximate", ("none", "tanh")),
}
"""For each operator, a text attribute and its allowed values. ONNX's reference implementation (1.23) does not reject
other values of these attributes, so `check_text` does.
"""


def check_text(context: NodeErrors, node: OnnxNode) -> None:
    """Raises NodeError for a node whose text attribute has an unknown value. `_TEXTS` lists the checked attributes with
    their known values, by operator.
    """
    name, known = _TEXTS.get(node.op_type, ("", ()))
    if name in node.attributes and (text := node.text(name, "")) not in known:
        context.fail(node, f"its {name} '{text}' is unknown", f"use {' or '.join(known)}")


def reference_is_mistaken(node: OnnxNode, opset: int) -> bool:
    """Whether ONNX's reference implementation (1.23) deviates from ONNX's specification for a node.

    The reference implementation computes wrong results for five kinds of operators. LRN: it sums over as many channels
    as there are samples. Pools: it places windows wrongly. ConvTranspose: it places groups wrongly. GridSample: it
    treats the border wrongly in mode cubic. LogSoftmax: it takes the logarithm of exponentials that underflow to 0.

    It also ignores lengths, activations and clips of recurrent layers, signs in LpNormalization with p = 1, the axis of
    ConvInteger's weight zero points, the type in ReduceSumSquare, and all axes but one in softmaxes before opset 13.
    Its Resize is wrong in three coordinate modes.
    """
    if node.domain not in STANDARD:
        return False
    match node.op_type:
        case "RNN" | "GRU" | "LSTM":
            own = {"activations", "clip", "input_forget"} & node.attributes.keys()
            return bool(own) or (len(node.inputs) > 4 and bool(node.inputs[4]))
        case "LpNormalization":
            return node.integer("p", 2) == 1
        case "ConvInteger":
            return len(node.inputs) > 3 and bool(node.inputs[3])
        case "Resize":
            mode = node.text("coordinate_transformation_mode", "half_pixel")
            return mode in ("align_corners", "pytorch_half_pixel", "tf_crop_and_resize")
        case "ReduceSumSquare":
            return True
    return node.op_type in _ALWAYS or (node.op_type in _ALONG_ONE_AXIS and opset < SOFTMAX_HAS_ONE_AXIS)


def evaluate_node(
    context: NodeErrors, node: OnnxNode, feeds: Mapping[str, np.ndarray | None], opset: int
) -> dict[str, np.ndarray]:
    """Computes the outputs of a node, by name, from the inputs `feeds` (by name). This file computes the operators of
    `_COMPUTED_HERE`, ONNX's reference implementation all others. Raises NodeError if an output cannot be computed,
    would be wrong, or would be too large, and for a node with a subgraph. `opset`: the model's opset.
    """
    check_text(context, node)
    if reference_is_mistaken(node, opset):
        context.fail(
            node,
            "depends on constants only, but ONNX's reference implementation, which computes constants at import, "
            "gives a wrong result for it",
            _OUTSIDE,
        )
    if node.op_type in _COMPUTED_HERE:
        return {node.outputs[0]: _COMPUTED_HERE[node.op_type](context, node, feeds)}
    if any(True for _ in subgraphs(node.proto)):
        # Time and memory of a subgraph, a loop's body, say, are unknown before it runs.
        context.fail(
            node,
            "depends on constants only, but contains a subgraph, which is not computed at import",
            "compute its result with onnxruntime, and replace the node by an initializer",
        )
    if node.domain and means_standard(node.domain, node.op_type):
        node = replace(node, domain="", proto=standard_node(node.proto))
    if node.op_type == "QuantizeLinear":
        feeds = {**feeds, node.inputs[0]: _bounded(node, feeds)}
    model = _single_node_model(node, feeds, _evaluation_opset(node, opset))
    _check_size(context, node, feeds, model)
    # Imported here, as it loads all of ONNX's operators (50 ms) and few models need it.
    from onnx.reference import ReferenceEvaluator

    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            # A result may be infinite or NaN, as it may be where a network runs.
            warnings.simplefilter("ignore", RuntimeWarning)
            results = ReferenceEvaluator(model).run(None, dict(feeds))
    except Exception as error:
        # The evaluator runs numpy code of any operator, which raises exceptions of many types.
        context.fail(node, f"its constant result cannot be computed: {error}", _OUTSIDE)
    values = results if isinstance(results, list) else [results]
    return {name: np.asarray(value) for name, value in zip(filter(None, node.outputs), values, strict=True)}


def _bounded(node: OnnxNode, feeds: Mapping[str, np.ndarray | None]) -> np.ndarray | None:
    """The data of a QuantizeLinear, clipped to 2**30 times their scales. The results stay the same, because they
    saturate; but the reference implementation casts the quotients to int32 before it saturates them.
    """
    data, scale = (feeds[name] for name in node.inputs[:2])
    if data is None or scale is None:
        return data
    axis = node.integer("axis", 1) % max(data.ndim, 1)
    most = np.abs(scale.astype(np.float64)) * 2.0**30
    if size := node.integer("block_size", 0):
        most = np.repeat(most, size, axis).take(range(data.shape[axis]), axis)
    else:
        most = most.reshape([-1 if d == axis and most.size > 1 else 1 for d in range(data.ndim)])
    return np.asarray(np.clip(data.astype(np.float64), -most, most).astype(data.dtype))


def _single_node_model(node: OnnxNode, feeds: Mapping[str, np.ndarray | None], opset: int) -> onnx.ModelProto:
    """A model of `opset` with the one node `node`. The model's inputs have the types and shapes of the arrays `feeds`;
    small arrays are initializers, too.
    """
    arrays = [(name, array) for name, array in feeds.items() if array is not None]
    inputs = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in arrays
    ]
    values = [
        onnx.numpy_helper.from_array(array, name) for name, array in arrays if array.size <= SHAPE_ELEMENTS
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.outputs if name]
    graph = onnx.helper.make_graph([node.proto], "constant", inputs, outputs, values)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])


def _too_large_constant(shape: Sequence[int], item_bytes: int, *, looped: bool) -> str | None:
    """The reason why a constant of `shape`, with `item_bytes` bytes per element, is too large to be computed at import;
    None if it is not.

    `looped`: the constant is computed element by element.
    """
    if problem := too_large(shape, item_bytes):
        return problem
    count = math.prod(shape)
    if looped and count > MOST_LOOPED_ELEMENTS:
        return (
            f"has {count:,} elements, more than the {MOST_LOOPED_ELEMENTS:,} that may be computed at import"
        )
    if count * item_bytes > MOST_CONSTANT_BYTES:
        return f"has {count * item_bytes:,} bytes, more than the {MOST_CONSTANT_BYTES:,} that may be computed at import"
    return None


def _check_size(
    context: NodeErrors,
    node: OnnxNode,
    feeds: Mapping[str, np.ndarray | None],
    model: onnx.ModelProto,
) -> None:
    """Raises NodeError if evaluating a node with the inputs `feeds` (by name) at import would take too much time or
    memory. This is so if the result is too large (as far as ONNX infers its shape), or if an operator of `LOOPED`,
    which is computed element by element, has a large input. `model`: a model that consists of this node.
    """
    try:
        inferred = onnx.shape_inference.infer_shapes(model)
    except Exception:
        # The evaluation reports the node's error.
        return
    for info in inferred.graph.output:
        tensor = info.type.tensor_type
        shape = [d.dim_value for d in tensor.shape.dim if d.HasField("dim_value")]
        looped = node.op_type in LOOPED
        if problem := _too_large_constant(shape, item_bytes(tensor.elem_type), looped=looped):
            context.fail(node, f"its output '{info.name}' {problem}", _OUTSIDE)
    if node.op_type in LOOPED:
        for name, array in feeds.items():
            if array is not None and (problem := _too_large_constant(array.shape, 1, looped=True)):
                context.fail(node, f"its input '{name}' {problem}", _OUTSIDE)


def _evaluation_opset(node: OnnxNode, opset: int) -> int:
    """The opset in which to evaluate a node: the model's `opset`, or the newest one.

    A node with more inputs than its operator has in the model's opset needs the newest opset. (Nodes that replace an
    integer operator are written in the newest form.) BatchNormalization needs the newest opset because the reference
    implementation (1.23) computes the statistics of a batch before opset 14.
    """
    if node.op_type == "BatchNormalization":
        return onnx.defs.onnx_opset_version()
    schema = schema_of(node.op_type, node.domain, opset)
    fits = schema is None or len(node.inputs) <= schema.max_input
    return opset if fits else onnx.defs.onnx_opset_version()


def _with_unit_axes(
    context: NodeErrors, node: OnnxNode, feeds: Mapping[str, np.ndarray | None]
) -> np.ndarray:
    """The result of Squeeze or Unsqueeze of the inputs `feeds` (by name). Its axes are an input or an attribute."""
    data, *given = (feeds.get(name) for name in node.inputs if name)
    if data is None:
        context.refuse(node, "its input with the data is missing")
    return data.reshape(unit_axes(context, node, data.shape, given[0] if given else None))


def _gather_elements(
    context: NodeErrors, node: OnnxNode, feeds: Mapping[str, np.ndarray | None]
) -> np.ndarray:
    """The result of GatherElements: out[..., i, ...] = data[..., index[..., i, ...], ...], with i along `axis`.

    `index` may be shorter than `data` in every dimension; negative indices count from the end.
    """
    data, indices = (feeds.get(name) for name in node.inputs[:2])
    if data is None or indices is None:
        context.refuse(node, "its data or indices are missing")
    axis = gathered_axis(context, node, data.shape, indices.shape)
    within = tuple(slice(None) if k == axis else slice(length) for k, length in enumerate(indices.shape))
    return np.take_along_axis(data[within], wrapped_indices(context, node, indices, data.shape, axis), axis)


def _one_hot(context: NodeErrors, node: OnnxNode, feeds: Mapping[str, np.ndarray | None]) -> np.ndarray:
    """The result of OneHot, whose elements are exactly the two given values (off and on). ONNX's reference
    implementation computes off + (on - off) instead, which rounds.
    """
    indices, depth, values = (feeds.get(name) for name in node.inputs[:3])
    axis = node.integer("axis", -1)
    if indices is None or depth is None or values is None or depth.size != 1 or values.shape != (2,):
        found = (
            f"its indices ({described(indices)}), depth ({described(depth)}) and values ({described(values)})"
        )
        context.refuse(node, f"{found} must be a tensor, one number and a list of two numbers")
    count = int(depth.reshape(-1)[0])
    if count < 1 or not -indices.ndim - 1 <= axis <= indices.ndim:
        context.refuse(
            node,
            f"its depth ({count}) must be at least 1, and its axis ({axis}) from {-indices.ndim - 1} to {indices.ndim}",
        )
    if problem := _too_large_constant((*indices.shape, count), values.itemsize, looped=False):
        context.fail(node, f"its result {problem}", _OUTSIDE)
    whole = indices.astype(np.int64)
    places = np.where(whole < 0, whole + count, whole)
    return np.moveaxis(np.where(places[..., None] == np.arange(count), values[1], values[0]), -1, axis)


_COMPUTED_HERE: Mapping[
    str, Callable[[NodeErrors, OnnxNode, Mapping[str, np.ndarray | None]], np.ndarray]
] = {
    # The reference implementation supports one opset's form of Squeeze, and only axes in ascending order.
    "Squeeze": _with_unit_axes,
    "Unsqueeze": _with_unit_axes,
    # The reference implementation supports only some of the shapes that ONNX allows for GatherElements.
    "GatherElements": _gather_elements,
    "OneHot": _one_hot,
}
"""Operators that this file computes instead of the reference implementation (1.23)."""

"""Loading of an ONNX model: from its file to a checked model of static shapes."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

import numpy as np
import onnx
from onnx import TensorProto, checker, shape_inference
from onnx.defs import onnx_opset_version

from ....graph.budgets import check_shapes
from ....graph.errors import ContradictionError, InvalidModelError, ModelError
from ..attributes import check_attributes, contradiction, nodes_of, opset_of
from .model_rewrites import first_line, infer_shapes
from .read import ReadModel, Source, quantizes, read_model
from .tensor_arrays import LEAST_BYTES, Bytes, tensor_array, tensor_bytes

OLDEST_OPSET = 13

NEWEST_OPSET = onnx_opset_version()
"""The newest opset that the installed ONNX defines."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadedModel(ReadModel):
    """A checked model with inferred shapes. Large initializers are stored in `weights`, not in `bare`: each read from
    `bare` would copy them.
    """

    def arrays(self) -> dict[str, np.ndarray]:
        """All initializers by name, not to be changed. Raises ModelError for bytes that do not match type and shape."""
        found: dict[str, np.ndarray] = {}
        for number, tensor in enumerate(self.bare.graph.initializer):
            found[tensor.name] = initializer_array(self.label, tensor, self.weights.get(number))
        return found


def load_model(
    source: Source | ReadModel,
    *,
    oldest_opset: int = OLDEST_OPSET,
    least_opset: int | None = None,
    batch: int | None = None,
    empty: bool = False,
    rewrite: Callable[[onnx.ModelProto], object] | None = None,
) -> LoadedModel:
    """Loads a model, checks it and infers its shapes. If `source` is a `ReadModel`, it cannot be loaded a second time.

    ONNX's own converter turns a model of an older opset into one of `oldest_opset`. If that fails, the model is loaded
    unchanged if its opset is at least `least_opset`. `rewrite` changes the model in place before shapes are inferred.
    `empty`: dimensions of inputs may be 0. A dynamic first dimension of the inputs becomes `batch` (None: it is
    refused). All other dynamic dimensions are refused. Raises ModelError if a file is missing, damaged or invalid, if
    its opset cannot be converted, if its shapes are inconsistent, or if it is larger than `budgets` allows.
    """
    read = source if isinstance(source, ReadModel) else read_model(source)
    label, model = read.label, read.bare
    weights = dict[int, Bytes](read.weights)
    if not model.HasField("graph") or not model.graph.node:
        from .other_formats import problem_of_name

        problem = problem_of_name(label) or "contains no ONNX graph; give the .onnx file of a model"
        raise InvalidModelError(f"{label}: {problem}")
    opset = opset_of(model)
    if opset < oldest_opset:
        from .opset_conversion import convert_opset

        model, weights = read.whole(), {}
        try:
            model = convert_opset(label, model, opset, oldest_opset)
        except ModelError:
            if least_opset is None or opset < least_opset:
                raise
    if opset > NEWEST_OPSET:
        raise InvalidModelError(
            f"{label}: the model is of opset {opset}, but the newest supported one is {NEWEST_OPSET}; export "
            f"the model for opset {NEWEST_OPSET}"
        )
    if not model.graph.output:
        raise InvalidModelError(
            f"{label}: the model has no outputs, so there is nothing to compute; export the model with its outputs"
        )
    if len({info.name for info in model.graph.output}) < len(model.graph.output):
        from .tidied_graphs import name_outputs_once

        name_outputs_once(model.graph)
    if rewrite is not None:
        rewrite(model)
    _check_names(label, model)
    if batch is not None:
        fix_batch(label, model, batch)
    check_attributes(label, model)
    # Checker and inference copy the whole model but need no weights: take these out.
    _extract_weights(model, weights)
    try:
        with _stand_ins(model, weights):
            try:
                checker.check_model(model)
            except checker.ValidationError:
                from .tidied_graphs import check_sorted

                check_sorted(model)
    except (checker.ValidationError, ValueError) as error:
        raise InvalidModelError(
            f"{label}: is not a valid ONNX model: {first_line(error)}; export the model again"
        ) from None
    check_sizes(label, free_inputs(model.graph), empty=empty)
    follow = _prepare_inference(label, model)
    try:
        model, weights = _with_shapes(model, weights, follow)
    except (shape_inference.InferenceError, ValueError) as error:
        reason = first_line(error)
        raise ContradictionError(label, reason) from None
    if quantizes(model.graph):
        from ..check_scales import check_scales

        check_scales(label, model, weights)
    check_shapes(label, model)
    return LoadedModel(label=label, bare=model, weights=weights)


def _prepare_inference(label: str, model: onnx.ModelProto) -> bool:
    """Prepares a model for ONNX's shape inference: checks its nodes, and rewrites nodes for which inference would be
    wrong. Returns whether inference may also propagate values (fold constants).
    """
    follow = True
    if any(node.op_type in ("Einsum", "Split") for _, node in nodes_of(model.graph)):
        from .inference import check_returns

        check_returns(label, model)
    if model.functions or any(node.op_type == "Range" for _, node in nodes_of(model.graph)):
        from .inference import check_ranges

        follow = check_ranges(label, model)
    if any(entry.name == "ceil_mode" and entry.i for node in model.graph.node for entry in node.attribute):
        from .inference import write_ceilings

        write_ceilings(model, follow=follow)
    return follow


def _check_names(label: str, model: onnx.ModelProto) -> None:
    """Raises InvalidNodeError if two nodes have the same name: messages, reports and records identify nodes by name."""
    seen: set[str] = set()
    for number, node in enumerate(model.graph.node):
        if node.name in seen:
            problem, way_out = "another node has the same name", "give each node a unique name, or no name"
            raise contradiction(label, node, number, problem, way_out)
        if node.name:
            seen.add(node.name)


def _extract_weights(model: onnx.ModelProto, weights: dict[int, Bytes]) -> None:
    """Moves the bytes of large initializers out of the model into `weights`, by initializer number. An initializer
    whose byte length does not match its shape, or whose elements are smaller than a byte, stays in the model."""
    for number, tensor in enumerate(model.graph.initializer):
        data = weights.get(number, tensor.raw_data)
        if len(data) > LEAST_BYTES and prod(tensor.dims) <= len(data) == tensor_bytes(tensor):
            weights[number] = data
            tensor.ClearField("raw_data")
        elif number in weights:
            tensor.raw_data = bytes(weights.pop(number))


@contextmanager
def _stand_ins(model: onnx.ModelProto, weights: Iterable[int]) -> Iterator[None]:
    """A context in which ONNX's checker accepts the model: a single zero replaces each initializer in `weights`, and
    outputs without a type are declared as float, outputs without a shape as scalars.
    """
    untyped = [info for info in model.graph.output if not info.type.WhichOneof("value")]
    unshaped = [
        info.type.tensor_type
        for info in model.graph.output
        if info.type.HasField("tensor_type") and not info.type.tensor_type.HasField("shape")
    ]
    unknown = [kind for kind in unshaped if not kind.elem_type]
    for info in untyped:
        info.type.tensor_type.elem_type = TensorProto.FLOAT
        info.type.tensor_type.shape.SetInParent()
    for kind in unshaped:
        kind.elem_type = kind.elem_type or TensorProto.FLOAT
        kind.shape.SetInParent()
    tensors = [model.graph.initializer[number] for number in weights]
    shapes = [tuple(tensor.dims) for tensor in tensors]
    for tensor in tensors:
        tensor.dims[:] = (1,)
        tensor.raw_data = bytes(tensor_bytes(tensor) or 0)
    try:
        yield
    finally:
        for tensor, shape in zip(tensors, shapes, strict=True):
            tensor.dims[:] = shape
            tensor.ClearField("raw_data")
        for info in untyped:
            info.ClearField("type")
        for kind in unshaped:
            kind.ClearField("shape")
        for kind in unknown:
            kind.ClearField("elem_type")


def _with_shapes(
    model: onnx.ModelProto, weights: dict[int, Bytes], follow: bool
) -> tuple[onnx.ModelProto, dict[int, Bytes]]:
    """Infers shapes. Returns (model with shapes, its large weights, which are not part of the model). If inference
    needs values of weights, all weights are put into the model, and none are returned. `follow`: ONNX's inference also
    propagates values.

    Raises InferenceError or ValueError if ONNX cannot infer the shapes.
    """
    try:
        return infer_shapes(model, follow=follow), weights
    except (shape_inference.InferenceError, ValueError):
        if not weights:
            raise
        # Inference may have failed because these values are missing.
        whole = ReadModel(label="", bare=model, weights=weights).whole()
        return infer_shapes(whole, follow=follow), {}


def initializer_array(label: str, tensor: onnx.TensorProto, data: Bytes | None = None) -> np.ndarray:
    """The array of an initializer. `data`: its bytes, if they are stored apart. `label` names the file in messages.

    Raises ModelError for bytes that do not match type and shape.
    """
    try:
        return tensor_array(tensor, data)
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidModelError(
            f"{label}: initializer '{tensor.name}' is damaged: {error}; export or copy the file again"
        ) from None


def free_inputs(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """The inputs of a graph that have no initializer, so that their values must be given for each run."""
    initialized = {tensor.name for tensor in graph.initializer}
    return [info for info in graph.input if info.name not in initialized]


def input_shape(info: onnx.ValueInfoProto) -> tuple[int, ...]:
    """The shape of an input of a loaded model."""
    return tuple([dimension.dim_value for dimension in info.type.tensor_type.shape.dim])


def check_sizes(label: str, inputs: Sequence[onnx.ValueInfoProto], *, empty: bool = False) -> None:
    """Raises ModelError unless all dimensions of a model's inputs are numbers above 0 (with `empty`, also 0). The
    message names all dimensions without a size.
    """
    without: list[tuple[str, int, str]] = []
    for info in inputs:
        tensor = info.type.tensor_type
        if not info.type.HasField("tensor_type") or not tensor.HasField("shape"):
            raise InvalidModelError(
                f"{label}: input '{info.name}' has no tensor shape; export the model with fixed shapes"
            )
        for axis, dimension in enumerate(tensor.shape.dim):
            if is_zero(dimension):
                if empty:
                    continue
                raise InvalidModelError(
                    f"{label}: input '{info.name}' is empty: dimension {axis} is 0; export the model with the "
                    "size of its real inputs"
                )
            if not dimension.HasField("dim_value") or dimension.dim_value < 1:
                without.append((info.name, axis, dimension_name(info, axis)))
    if without:
        name, axis, symbol = without[0]
        symbols = dict.fromkeys(symbol for _, _, symbol in without)
        # Symbols may be expressions: quoted for a shell.
        sizes = " ".join(f"--dim {shlex.quote(symbol)}=SIZE" for symbol in symbols)
        raise ModelError(
            f"{label}: input '{name}' has a dynamic shape: dimension {axis} is '{symbol}'; "
            f"give {'its size' if len(symbols) == 1 else 'sizes'}: {sizes}, or write fixed shapes into the file"
        )


def dimension_name(info: onnx.ValueInfoProto, axis: int) -> str:
    """Name of a dynamic dimension of an input: its symbol or, without one, INPUT:AXIS."""
    return info.type.tensor_type.shape.dim[axis].dim_param or f"{info.name}:{axis}"


def is_zero(dimension: onnx.TensorShapeProto.Dimension) -> bool:
    """Whether a dimension is explicitly set to 0. (The field reads as 0 for a dimension without a value, too.)"""
    return dimension.HasField("dim_value") and dimension.dim_value == 0


def fix_batch(label: str, model: onnx.ModelProto, batch: int) -> None:
    """Sets a symbolic or unknown first dimension of each input to `batch`, and other dimensions of the same symbol.

    `label` names the model in messages. Raises ModelError for a batch below 1.
    """
    if batch < 1:
        raise ModelError(f"{label}: a batch cannot be {batch}; give a size of 1 or more")
    symbols: set[str] = set()
    for info in free_inputs(model.graph):
        dimensions = info.type.tensor_type.shape.dim
        if not dimensions or dimensions[0].dim_value > 0 or is_zero(dimensions[0]):
            continue
        if dimensions[0].dim_param:
            symbols.add(dimensions[0].dim_param)
        dimensions[0].dim_value = batch
    for info in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        for dimension in info.type.tensor_type.shape.dim:
            if dimension.dim_param in symbols:
                dimension.dim_value = batch


def static_shapes(model: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    """All shapes that ONNX inferred completely, by tensor name."""
    shapes: dict[str, tuple[int, ...]] = {}
    for info in (*model.graph.value_info, *model.graph.output):
        tensor = info.type.tensor_type
        if tensor.HasField("shape") and all(
            dimension.HasField("dim_value") for dimension in tensor.shape.dim
        ):
            shapes[info.name] = tuple(dimension.dim_value for dimension in tensor.shape.dim)
    return shapes


def type_name(element_type: int) -> str:
    """ONNX's name of an element type, in lower case."""
    return TensorProto.DataType.Name(element_type).lower()

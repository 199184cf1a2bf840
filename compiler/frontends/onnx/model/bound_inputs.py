"""Turns model inputs into constants, if their values decide shapes and are known when the model is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
import onnx
from google.protobuf.message import EncodeError
from numpy.typing import ArrayLike
from onnx import helper, numpy_helper

from ....graph.errors import ModelError
from .read import Source, read_model


def with_constants(source: Source, values: Mapping[str, ArrayLike]) -> bytes:
    """Replaces the inputs named in `values` by initializers with these values; returns the serialized model.

    An initializer of the same name is replaced, too. A value is converted to the input's type if the conversion is
    exact; only decimal numbers may be rounded, to float types. It is reshaped to the input's shape if it has the same
    number of elements. Raises ModelError for a name that is not an input, and for values that do not fit.
    """
    read = read_model(source)
    label, model = read.label, read.whole()
    initialized = {tensor.name: tensor for tensor in model.graph.initializer}
    inputs = {info.name: info for info in model.graph.input}
    for name, given in values.items():
        if name not in inputs:
            others = [other for other in inputs if other not in initialized]
            raise ModelError(
                f"{label}: the model has no input '{name}', so it cannot be given a value; "
                + (f"its inputs are {', '.join(others)}" if others else "it has no inputs")
            )
        if name in initialized:
            model.graph.initializer.remove(initialized[name])
        model.graph.initializer.append(numpy_helper.from_array(_fitting(label, inputs[name], given), name))
        model.graph.input.remove(inputs[name])
    return serialized(label, model, "values")


def serialized(label: str, model: onnx.ModelProto, changed: str) -> bytes:
    """The bytes of a model's file. Raises ModelError, which names the model `label`, if the model is too large for a
    file. `changed`: the part of the model that was changed before, such as "sizes", for the message.
    """
    try:
        return model.SerializeToString(deterministic=True)
    except (ValueError, EncodeError):
        raise ModelError(
            f"{label}: the model is too large to be copied with new {changed}; write the {changed} into its file"
        ) from None


def _fitting(label: str, info: onnx.ValueInfoProto, value: ArrayLike) -> np.ndarray:
    tensor = info.type.tensor_type
    try:
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        array = np.asarray(value)
        if array.size == 0:
            array = array.astype(dtype)
        with np.errstate(all="ignore"):
            typed = array.astype(dtype)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise ModelError(
            f"{label}: input '{info.name}' cannot have the value {value}; give numbers"
        ) from None
    # Decimal numbers from a user are float64, and most are inexact in float32: rounding them is allowed.
    exact = array.dtype == dtype or array.dtype.kind == "f" or bool((typed == array).all())
    if not exact or (array.dtype.kind == "f" and np.dtype(dtype).kind in "iub" and (typed != array).any()):
        raise ModelError(
            f"{label}: input '{info.name}' is {np.dtype(dtype)} and cannot have the value {value}; "
            "give a value of this type"
        )
    if not tensor.HasField("shape"):
        return typed
    sizes = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
    known = [size for size in sizes if size is not None]
    if len(known) == len(sizes) and prod(known) == typed.size:
        return typed.reshape(known)
    fits = typed.ndim == len(sizes) and all(
        size is None or size == count for size, count in zip(sizes, typed.shape, strict=True)
    )
    if not fits:
        shape = "x".join("?" if size is None else str(size) for size in sizes) or "a number"
        raise ModelError(
            f"{label}: input '{info.name}' has the shape {shape}, but the given values have "
            f"{list(typed.shape)}; give values of the input's shape"
        )
    return typed

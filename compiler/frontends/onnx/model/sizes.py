"""Replaces dynamic dimensions of a model's inputs by given sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx

from ....graph.errors import ModelError
from .bound_inputs import serialized
from .load import dimension_name, free_inputs, is_zero
from .read import SizedModel, Source, read_model


def with_dimensions(source: Source, sizes: Mapping[str, int]) -> bytes:
    """Gives dynamic dimensions of a model's inputs a size. `sizes` has the sizes by the names of dimensions
    (`dimension_name`). Returns the serialized model.

    Raises ModelError for a name that the model does not have, and for a size below 1.
    """
    read = read_model(source)
    label, model = read.label, read.whole()
    _give_sizes(label, model, sizes)
    return serialized(label, model, "sizes")


def sized_models(source: Source) -> Callable[[Mapping[str, int]], SizedModel]:
    """Reads a model once, so that it can be compiled for several sizes. Returns a function of the sizes of the dynamic
    dimensions, by name. The function returns the model with these sizes, and does not copy the weights.
    """
    read = read_model(source)

    def sized(sizes: Mapping[str, int]) -> SizedModel:
        model = onnx.ModelProto()
        model.CopyFrom(read.bare)
        _give_sizes(read.label, model, sizes)
        return SizedModel(label=read.label, bare=serialized(read.label, model, "sizes"), weights=read.weights)

    return sized


def _give_sizes(label: str, model: onnx.ModelProto, sizes: Mapping[str, int]) -> None:
    dynamic: dict[str, list[onnx.TensorShapeProto.Dimension]] = {}
    for info in free_inputs(model.graph):
        for axis, dimension in enumerate(info.type.tensor_type.shape.dim):
            if dimension.dim_value < 1 and not is_zero(dimension):
                dynamic.setdefault(dimension_name(info, axis), []).append(dimension)
    for name, size in sizes.items():
        if name not in dynamic:
            there = ", ".join(f"'{known}'" for known in dynamic)
            raise ModelError(
                f"{label}: has no symbolic dimension '{name}'; "
                + (f"the inputs have {there}" if dynamic else "the inputs have fixed sizes")
            )
        if size < 1:
            raise ModelError(f"{label}: dimension '{name}' cannot be {size}; give a size of 1 or more")
        for dimension in dynamic[name]:
            dimension.dim_value = size
    # Shapes inferred for other sizes, or expressions of a symbol ("2*width"), are inferred again.
    del model.graph.value_info[:]
    for info in model.graph.output:
        for dimension in info.type.tensor_type.shape.dim:
            if dimension.HasField("dim_param"):
                if dimension.dim_param in sizes:
                    dimension.dim_value = sizes[dimension.dim_param]
                elif dimension.dim_param not in dynamic:
                    dimension.Clear()

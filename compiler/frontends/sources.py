"""The models that the Python interface takes: files, bytes, ONNX models, PyTorch modules and JAX functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from vdla.util.errors import UserError


@runtime_checkable
class TorchModel(Protocol):
    """A torch.nn.Module or a torch.export.ExportedProgram: both have `state_dict`, a method or a mapping."""

    state_dict: Any


NN_MODULE = "vdla.compiler.frontends.nn.module"
"""Module that defines the class `vdla.nn.Module`; it is imported only if a model is of that class."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Example:
    """Example arguments, tensors or arrays, with which a PyTorch module's `forward` or a JAX function is traced. `args`
    are passed by position, `kwargs` by name.

    `dynamic_shapes` marks the dimensions that may change. For PyTorch it has the form that torch.export takes; for JAX
    it gives a name to each such dimension, by parameter and axis.
    """

    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    dynamic_shapes: Any = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelSource:
    """A network as the compiler reads it: the path or the bytes of an ONNX file.

    `ranges`: least and greatest size of the dynamic dimensions of a PyTorch module, by name.
    """

    source: str | Path | bytes
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def model_source(model: object, example: Example | None = None) -> ModelSource:
    """The source of a network; a PyTorch module or a JAX function is exported with the arguments of `example`.

    Raises UserError for an object that is no network, and for a module or function that cannot be exported.
    """
    if isinstance(model, str | Path | bytes):
        return ModelSource(source=model)
    if type(model).__name__ == "ModelProto":
        return ModelSource(source=model.SerializeToString())  # type: ignore[attr-defined]
    if any(base.__module__ == NN_MODULE and base.__name__ == "Module" for base in type(model).__mro__):
        raise UserError(
            f"{type(model).__name__} is a module of vdla.nn without the shapes of its inputs; give the model that "
            '.export(spec={"forward": {"x": nn.spec.Tensor((1, 784))}}) returns'
        )
    given = example or Example()
    from .jax import export_function, is_function
    from .pytorch.export import export_model, is_torch

    if is_torch(model):
        exported = export_model(model, given.args, given.kwargs, given.dynamic_shapes)
        return ModelSource(source=exported.proto.SerializeToString(), ranges=exported.ranges)
    if is_function(model):
        function = export_function(model, given.args, given.kwargs, given.dynamic_shapes)
        return ModelSource(source=function.SerializeToString())
    raise UserError(
        f"{type(model).__name__} is not a network; give the path of an ONNX file, its bytes, an onnx.ModelProto, or a "
        "PyTorch module or JAX function with args=(x,)"
    )


def arguments(sample: Any) -> tuple[Any, ...]:
    """The elements of `sample` if it is a tuple or list, else `sample` as the only argument."""
    return tuple(sample) if isinstance(sample, tuple | list) else (sample,)


def stacked(names: Sequence[str], samples: Sequence[Any], label: str) -> dict[str, np.ndarray]:
    """Joins the values of each input in `names` over all `samples` along the first dimension: one array for each input.

    A sample has an argument, array or tensor, for each input in the order of `names` (`arguments`). Arguments of shape
    (1, ...) become an array (number of samples, ...); scalars become an array (number of samples,). Raises UserError,
    which begins with `label`, if a sample has more or fewer arguments than there are inputs, and if the arguments for
    an input differ in shape.
    """
    columns: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for number, sample in enumerate(samples):
        given = arguments(sample)
        if len(given) != len(names):
            raise UserError(
                f"{label}: sample {number} has {len(given)} arguments; the inputs are {', '.join(names)}"
            )
        for name, value in zip(names, given, strict=True):
            columns[name].append(np.asarray(value.detach().cpu() if hasattr(value, "detach") else value))
    found: dict[str, np.ndarray] = {}
    for name, arrays in columns.items():
        shapes = {array.shape for array in arrays}
        if len(shapes) > 1:
            raise UserError(
                f"{label}: samples of input '{name}' have the shapes {sorted(shapes)}; give one shape"
            )
        found[name] = np.concatenate(arrays) if arrays[0].ndim else np.stack(arrays)
    return found

"""Exports JAX functions to ONNX models in memory, by the exporter of the package jax2onnx.

A JAX function is any callable that JAX can trace: a Python function, the result of jax.jit, a functools.partial that
binds parameters, a module of flax.nnx or Equinox.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from vdla.util.errors import UserError

from .exporters import ExportError, quiet, reason
from .pytorch.names import WEIGHT, name_nodes

INSTALL = "pip install jax2onnx"
"""Command that installs the exporter, with JAX and Flax."""
WEIGHTS = ("kernel", "weight", "w", "embedding")
"""Names of weights, which are cut off the end of a parameter's path: "layers.0.kernel" belongs to layer "layers.0"."""
MOVED = {2: ((0, 1), (1, 0)), 3: ((0, 1, 2), (2, 1, 0)), 4: ((0, 1, 2, 3), (3, 2, 0, 1))}
"""The exporter may transpose a weight before storing it. For each rank of a weight, the possible orders of JAX's axes
in the file: unchanged, transposed (a matrix), or with output channels first (ONNX's convolutions over one or two axes).
"""


def is_function(model: object) -> bool:
    """Whether an object may be a JAX function: any callable except a class. JAX is not imported."""
    return callable(model) and not isinstance(model, type)


def export_function(
    model: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Mapping[str, Mapping[int, str]] | None = None,
) -> onnx.ModelProto:
    """Exports a JAX function to an ONNX model, by tracing it with example arguments `args` and `kwargs` (arrays).
    Inputs have the names of the function's parameters.

    `dynamic_shapes`: names of dimensions that may change, by parameter and axis, as in {"tokens": {1: "sequence"}}.
    Nodes that read a parameter of a module, or of a pytree bound by functools.partial, are called by the path of the
    parameter ("layers.0"), other nodes by their operator. Raises UserError if a package is missing or the arguments do
    not fit, ExportError if the exporter rejects the function.
    """
    label = getattr(model, "__name__", type(model).__name__)
    if not args and not kwargs:
        raise UserError(f"{label}: a function has no shapes of its own; give example arguments: args=(x,)")
    try:
        jax, exporter = import_module("jax"), import_module("jax2onnx")
    except ImportError as error:
        raise UserError(f"{label}: JAX functions need the package {error.name}: {INSTALL}") from None
    names, values = _bound(model, label, args, kwargs or {})
    inputs = []
    for name, value in zip(names, values, strict=True):
        try:
            array = jax.numpy.asarray(value)
        except TypeError:
            way_out = "bind parameters first: functools.partial(function, parameters)"
            raise UserError(
                f"{label}: argument {name} is no array, but {type(value).__name__}; {way_out}"
            ) from None
        symbols = (dynamic_shapes or {}).get(name, {})
        shape = tuple([symbols.get(axis, size) for axis, size in enumerate(array.shape)])
        inputs.append(jax.ShapeDtypeStruct(shape, array.dtype))
    with quiet():
        # JAX keeps traces of inner functions. Those made before would hide operators from the exporter; those that the
        # exporter makes have primitives that JAX cannot run.
        jax.clear_caches()
        try:
            how = {"model_name": label, "input_names": names, "normalization_mode": "prefer_native"}
            proto = exporter.to_onnx(model, inputs, **how)
        except Exception as error:
            raise ExportError(f"{label}: jax2onnx cannot export it: {reason(error)}") from None
        finally:
            jax.clear_caches()
    _name_weights(proto, _paths(jax, model))
    name_nodes(proto)
    return proto


def _bound(
    model: Any, label: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[str], tuple[Any, ...]]:
    """Names and values of the arguments of a call, in the order of the parameters of the function `model`. If a
    parameter takes several arguments (*args), the names are "input_0", "input_1" ... Raises UserError.
    """
    try:
        bound = inspect.signature(model).bind(*args, **kwargs)
    except (TypeError, ValueError) as error:
        raise UserError(f"{label}: args and kwargs do not match the function's parameters: {error}") from None
    if bound.kwargs:
        raise UserError(f"{label}: has keyword-only parameters ({', '.join(bound.kwargs)}); bind them")
    several = len(bound.arguments) != len(bound.args)
    return [f"input_{k}" for k in range(len(bound.args))] if several else [*bound.arguments], bound.args


def _paths(jax: Any, model: Any) -> dict[bytes, str]:
    """Maps the bytes of each weight to the path of the layer that has the weight. Each weight has several entries, one
    for each order of axes in which the exporter may store it (`MOVED`). The weights are those of a module, or of the
    pytrees that a functools.partial binds.
    """
    inner = inspect.unwrap(model)
    trees = [*inner.args, *inner.keywords.values()] if isinstance(inner, functools.partial) else [inner]
    found: dict[bytes, str] = {}
    for keys, leaf in (pair for tree in trees for pair in jax.tree_util.tree_flatten_with_path(tree)[0]):
        words = jax.tree_util.keystr(keys, simple=True, separator=".").removesuffix(".value").split(".")
        while len(words) > 1 and words[-1] in WEIGHTS:
            words.pop()
        for order in MOVED.get(np.ndim(leaf), ()):
            content = np.transpose(np.asarray(leaf), order).tobytes()
            found.setdefault(content, ".".join(words).removeprefix("params."))
    return found


def _name_weights(model: onnx.ModelProto, paths: Mapping[bytes, str]) -> None:
    """Renames each initializer whose bytes are a key of `paths` to the path of the layer and `WEIGHT`, as in
    "layers.0.weight" (the names that PyTorch's exporter gives).
    """
    taken: set[str] = set()
    renamed: dict[str, str] = {}
    for entry in model.graph.initializer:
        array = numpy_helper.to_array(entry)
        path = paths.get(array.tobytes()) if array.ndim in MOVED else None
        if path is not None and path not in taken:
            taken.add(path)
            renamed[entry.name] = path + WEIGHT
            entry.name = path + WEIGHT
    for node in model.graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]

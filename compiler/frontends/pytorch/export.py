"""Exports PyTorch modules and programs of torch.export to ONNX models in memory, by PyTorch's own exporter."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import onnx

from vdla.util.errors import UserError

from ..exporters import ExportError, quiet, reason
from .arrays import tensor_of
from .names import name_nodes

INSTALL = "pip install torch onnxscript"
"""Command that installs the packages which the exporter needs."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExportedModel:
    """The ONNX model of a PyTorch module. `ranges`: least and greatest size of each dynamic dimension with an upper
    bound, by the dimension's name in the model.
    """

    proto: onnx.ModelProto
    ranges: Mapping[str, tuple[int, int]]


def is_torch(model: object) -> bool:
    """Whether an object is a torch.nn.Module or a torch.export.ExportedProgram; torch is not imported."""
    return any(
        base.__module__.startswith("torch.") and base.__name__ in ("Module", "ExportedProgram")
        for base in type(model).__mro__
    )


def torch_package() -> Any:
    """The package torch. Raises UserError if torch or onnxscript, which the exporter needs, is not installed."""
    try:
        import_module("onnxscript")
        return import_module("torch")
    except ImportError as error:
        raise UserError(f"PyTorch models need the package {error.name}: {INSTALL}") from None


def export_model(
    model: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> ExportedModel:
    """The ONNX model of a module, or of a program of torch.export.

    `args`, `kwargs`: example arguments of the module's `forward`, tensors or numpy arrays; an exported program has its
    own arguments. `dynamic_shapes`: dimensions that may change, as torch.export takes them. A module is exported in
    evaluation mode, and keeps its own mode. Nodes are called by the path of the module that computes them, as
    "layer1.0.conv2"; initializers by the path of the parameter. Raises UserError if a package is missing or a module
    comes without example arguments, ExportError if the exporter rejects the module.
    """
    torch = torch_package()
    is_module = isinstance(model, torch.nn.Module)
    if is_module and not args and not kwargs:
        raise UserError(
            f"{type(model).__name__}: a module has no shapes of its own; give example arguments: args=(x,)"
        )
    given: dict[str, Any] = {}
    if is_module:
        given = {"args": tuple([tensor_of(torch, value) for value in args])}
        if kwargs:
            given["kwargs"] = {name: tensor_of(torch, value) for name, value in kwargs.items()}
        if dynamic_shapes is not None:
            given["dynamic_shapes"] = dynamic_shapes
    with evaluation(model if is_module else None), quiet():
        try:
            program = torch.onnx.export(model, **given, dynamo=True, verbose=False)
        except Exception as error:
            raise ExportError(f"{type(model).__name__}: PyTorch cannot export it: {reason(error)}") from None
    proto = program.model_proto
    name_nodes(proto)
    return ExportedModel(proto=proto, ranges=dynamic_ranges(program.exported_program, proto))


def dynamic_ranges(program: Any, model: onnx.ModelProto) -> dict[str, tuple[int, int]]:
    """Least and greatest size of the dynamic dimensions of a program's inputs, by their names in the model.

    `program`: the torch.export.ExportedProgram from which `model` was made. A dimension without an upper bound is left
    out.
    """
    user_inputs = set(program.graph_signature.user_inputs)
    tensors = [node.meta.get("val") for node in program.graph.nodes if node.name in user_inputs]
    found: dict[str, tuple[int, int]] = {}
    shapes = [getattr(tensor, "shape", ()) for tensor in tensors if hasattr(tensor, "shape")]
    for shape, info in zip(shapes, model.graph.input, strict=False):
        for size, dimension in zip(shape, info.type.tensor_type.shape.dim, strict=False):
            bounds = program.range_constraints.get(getattr(getattr(size, "node", None), "expr", None))
            if bounds is None or not dimension.dim_param:
                continue
            try:
                found[dimension.dim_param] = int(bounds.lower), int(bounds.upper)
            except (TypeError, ValueError, OverflowError):
                continue  # Without an upper bound.
    return found


@contextlib.contextmanager
def evaluation(module: Any) -> Iterator[None]:
    """A context in which `module` and its submodules are in evaluation mode. Afterwards each has its previous mode
    again. With None for `module` nothing is changed.
    """
    modes = [] if module is None else [(part, part.training) for part in module.modules()]
    for part, _ in modes:
        part.training = False
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training

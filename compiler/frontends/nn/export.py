"""Makes an ONNX model from a module."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .module import Module
from .recorder import OPSET, Recorder
from .spec import NetworkError
from .spec import Tensor as Spec
from .tensor import Tensor, record

IR_VERSION = 9
"""The version of ONNX's file format that belongs to opset 20."""


def export_module(module: Module, spec: Mapping[str, Mapping[str, Spec]], seed: int) -> onnx.ModelProto:
    """The ONNX model of a method of `module`; see `Module.export`. Raises NetworkError."""
    kind = type(module).__name__
    if len(spec) != 1:
        raise NetworkError(
            f"{kind}: spec names {len(spec)} methods; an ONNX model has one: give {{'forward': {{...}}}}"
        )
    ((method, arguments),) = spec.items()
    function = getattr(module, method, None)
    if function is None:
        raise NetworkError(f"{kind}: has no method {method!r}, which spec names; define it")
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        raise NetworkError(
            f"{kind}.{method}: {error}; spec gives {', '.join(arguments) or 'no argument'}"
        ) from None
    values, parameters = module.state_dict(seed), {}
    for name, parameter in module.named_parameters():
        parameters.setdefault(id(parameter), (name, values[name]))
    recorder = Recorder(
        parameters=parameters, modules={id(part): path for path, part in reversed([*module.named_modules()])}
    )
    for name in [*values, *(f"{name}.T" for name in values)]:
        recorder.unique(name)
    for name, given in arguments.items():
        if not isinstance(given, Spec):
            raise NetworkError(
                f"{kind}.{method}: spec gives {given!r} for {name}; give nn.spec.Tensor(shape, dtype)"
            )
        if name in values:
            raise NetworkError(f"{kind}.{method}: {name} is an argument and a parameter; rename one of them")
    inputs = {
        name: recorder.tensor(recorder.unique(name), given.shape, np.dtype(given.dtype))
        for name, given in arguments.items()
    }
    with recorder.inside(module):
        outputs = _outputs(f"{kind}.{method}", function(**inputs))
        _name_outputs(recorder, arguments, outputs)
    return _model(kind, recorder, inputs, outputs)


def _outputs(where: str, result: Any) -> dict[str, Tensor]:
    """The tensors that a method returned, by output name. Raises NetworkError for anything else."""
    match result:
        case Tensor():
            named = {"output": result}
        case Mapping():
            named = dict(result)
        case list() | tuple():
            named = {f"output{number}": item for number, item in enumerate(result)}
        case _:
            named = {"output": result}
    if not named:
        raise NetworkError(f"{where}: returns no tensor; return a tensor, a tuple or a dictionary of tensors")
    for name, item in named.items():
        if not isinstance(item, Tensor):
            raise NetworkError(
                f"{where}: {name} is of type {type(item).__name__}; return a tensor, a tuple or a dictionary of tensors"
            )
    return named


def _name_outputs(recorder: Recorder, inputs: Collection[str], outputs: dict[str, Tensor]) -> None:
    """Gives the tensors of `outputs` the names of the outputs, and other tensors of these names other ones.

    Inputs, constants, and tensors that are two outputs are copied. An output with the name of an input or a constant
    gets a number behind its name.
    """
    computed = {name for node in recorder.nodes for name in node.output}
    renamed: dict[str, str] = {}
    for name, tensor in outputs.items():
        if tensor.name not in computed or tensor.name in renamed:
            tensor = record("Identity", tensor, label="copy")
        fixed = name in inputs or name in recorder.constants
        renamed[tensor.name] = recorder.unique(name) if fixed else name
        outputs[name] = replace(tensor, name=renamed[tensor.name])
    for name in (computed & set(renamed.values())) - renamed.keys():
        renamed[name] = recorder.unique(name)
    for node in recorder.nodes:
        for names in (node.input, node.output):
            names[:] = [renamed.get(name, name) for name in names]


def _model(
    name: str, recorder: Recorder, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]
) -> onnx.ModelProto:
    """The model of the nodes that the outputs need."""
    needed = {tensor.name for tensor in outputs.values()}
    nodes = []
    for node in reversed(recorder.nodes):
        if needed & set(node.output):
            nodes.insert(0, node)
            needed |= set(node.input)
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_value_info(tensor.name, tensor.type) for tensor in inputs.values()],
        [helper.make_value_info(tensor.name, tensor.type) for tensor in outputs.values()],
        [numpy_helper.from_array(array, key) for key, array in recorder.constants.items() if key in needed],
    )
    opset = helper.make_opsetid("", OPSET)
    return helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION, producer_name="vdla")

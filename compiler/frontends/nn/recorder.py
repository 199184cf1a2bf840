"""Records the nodes of a module's method as an ONNX model. The output shapes of each node are inferred as it is
recorded, so that an error names the module; nodes are named after their modules.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper, shape_inference

from .spec import NetworkError, Size
from .spec import Tensor as Spec
from .tensor import Tensor, record

if TYPE_CHECKING:
    from .module import Module

OPSET, IR_VERSION = 20, 9
"""The version of ONNX's operators, and the version of the file format that belongs to it."""
_SMALL = 16
"""Largest number of elements of a constant that is stored only once, although several nodes use the value."""


def export_module(module: Module, spec: Mapping[str, Mapping[str, Spec]], seed: int) -> onnx.ModelProto:
    """Records a method of `module` as an ONNX model (`Module.export`). Raises NetworkError."""
    kind = type(module).__name__
    if len(spec) != 1:
        raise NetworkError(
            f"{kind}: spec names {len(spec)} methods, but an ONNX model computes one; give {{'forward': {{...}}}}"
        )
    ((method, arguments),) = spec.items()
    where, function = f"{kind}.{method}", getattr(module, method, None)
    if function is None:
        raise NetworkError(f"{kind}: has no method {method!r}, which spec names; define it")
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        given = ", ".join(arguments) or "no argument"
        raise NetworkError(f"{where}: {error}; spec gives {given}") from None
    values, parameters = module.state_dict(seed), {}
    for name, parameter in module.named_parameters():
        parameters.setdefault(id(parameter), (name, values[name]))
    paths = {id(part): path for path, part in reversed([*module.named_modules()])}
    recorder = Recorder(parameters=parameters, modules=paths)
    for name in [*values, *(f"{name}.T" for name in values)]:
        recorder.unique(name)
    inputs = {}
    for name, given in arguments.items():
        if not isinstance(given, Spec):
            raise NetworkError(f"{where}: spec gives {given!r} for {name}; give nn.spec.Tensor(shape, dtype)")
        if name in values:
            raise NetworkError(
                f"{where}: {name} is the name of both an argument and a parameter; rename one of them"
            )
        inputs[name] = recorder.tensor(recorder.unique(name), given.shape, np.dtype(given.dtype))
    with recorder.inside(module):
        outputs = _name_outputs(recorder, inputs, _outputs(where, function(**inputs)))
    return recorder.model(kind, [*inputs.values()], outputs)


def _outputs(where: str, result: Any) -> dict[str, Tensor]:
    """The tensors that a method returned, by output name. Raises NetworkError for anything else."""
    if isinstance(result, Mapping):
        named = dict(result)
    elif isinstance(result, list | tuple):
        named = {f"output{number}": item for number, item in enumerate(result)}
    else:
        named = {"output": result}
    way_out = "return a tensor, a tuple or a dictionary of tensors"
    if not named:
        raise NetworkError(f"{where}: returns no tensor; {way_out}")
    for name, item in named.items():
        if not isinstance(item, Tensor):
            raise NetworkError(f"{where}: {name} is of type {type(item).__name__}; {way_out}")
    return named


def _name_outputs(
    recorder: Recorder, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]
) -> list[Tensor]:
    """Renames the tensors of `outputs` to the names of the model's outputs. If a tensor inside the network already has
    one of these names, a number is appended to the name of the tensor inside.

    A tensor is copied if it is an input, a constant, or already another output. If an input or a constant has the name
    of an output, a number is appended to the output's name.
    """
    computed = {name for node in recorder.nodes for name in node.output}
    renamed: dict[str, str] = {}
    result = []
    for name, tensor in outputs.items():
        if tensor.name not in computed or tensor.name in renamed:
            tensor = record("Identity", tensor, label="copy")
        fixed = name in inputs or name in recorder.constants
        renamed[tensor.name] = recorder.unique(name) if fixed else name
        result.append(replace(tensor, name=renamed[tensor.name]))
    for name in (computed & set(renamed.values())) - renamed.keys():
        renamed[name] = recorder.unique(name)
    for node in recorder.nodes:
        for names in (node.input, node.output):
            names[:] = [renamed.get(name, name) for name in names]
    return result


@dataclass(slots=True, kw_only=True, eq=False)
class Recorder:
    """The graph of one export. `parameters`: name and value of each parameter, by its `id`; `modules`: the path of each
    module, by its `id`.
    """

    parameters: Mapping[int, tuple[str, np.ndarray]]
    modules: Mapping[int, str]
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)
    _shared: dict[tuple[Any, ...], Tensor] = field(default_factory=dict)
    _sources: dict[str, tuple[str, int]] = field(default_factory=dict)
    _path: str = ""
    _module: Module | None = None

    @property
    def where(self) -> str:
        """The path and class of the module that is recorded now, for messages."""
        kind = type(self._module).__name__
        return f"{self._path} ({kind})" if self._path else kind

    def mistake(self, text: str) -> NetworkError:
        """An error: the path and class of the module that is recorded now, then `text`."""
        return NetworkError(f"{self.where}: {text}")

    @contextmanager
    def inside(self, module: Module) -> Iterator[None]:
        """A context in which recorded nodes belong to `module`. Raises NetworkError for a module that has no path."""
        outer = self._path, self._module
        if id(module) not in self.modules:
            raise self.mistake(
                f"calls a {type(module).__name__} that is not an attribute of a module; assign it to self in "
                "__init__, and a list of modules as nn.ModuleList"
            )
        self._path, self._module = self.modules[id(module)], module
        try:
            yield
        finally:
            self._path, self._module = outer

    def tensor(self, name: str, shape: Sequence[Size | None], dtype: np.dtype[Any]) -> Tensor:
        """A tensor of the graph. Each size None becomes a new symbol, "NAME.AXIS". When the network runs, the size that
        a symbol stands for is read from the first recorded tensor with this symbol.
        """
        sizes = tuple(f"{name}.{axis}" if size is None else size for axis, size in enumerate(shape))
        for axis, size in enumerate(sizes):
            if isinstance(size, str):
                self._sources.setdefault(size, (name, axis))
        return Tensor(self, name, sizes, dtype)

    def constant(self, array: np.ndarray, label: str = "") -> Tensor:
        """The constant `array`, called "PATH.label" after the module's path. Without a label, small equal arrays become
        one constant.
        """
        small = not label and array.size <= _SMALL
        key = (str(array.dtype), array.shape, array.tobytes() if small else len(self.constants))
        if key not in self._shared:
            name = self.unique(label, self._path) if label else self.unique("constant")
            self.constants[name] = np.require(array, requirements="C")
            self._shared[key] = Tensor(self, name, array.shape, array.dtype)
        return self._shared[key]

    def parameter(self, parameter: object, *, transposed: bool = False) -> Tensor:
        """The constant with the value of a parameter or, if `transposed`, its transpose (named "NAME.T")."""
        name, array = self.named(parameter)
        name, array = (f"{name}.T", np.ascontiguousarray(array.T)) if transposed else (name, array)
        return Tensor(self, name, self.constants.setdefault(name, array).shape, array.dtype)

    def named(self, parameter: object) -> tuple[str, np.ndarray]:
        """The name and the value of a parameter. Raises NetworkError if no module has it."""
        if id(parameter) not in self.parameters:
            raise self.mistake(
                f"reads a {type(parameter).__name__} that is not a parameter of the network; assign an nn.Parameter "
                "to self in __init__, or give an array"
            )
        return self.parameters[id(parameter)]

    def size(self, size: Size) -> Tensor:
        """An int64 tensor of shape [1] that holds the number `size`. If `size` is a symbol (the name of a dynamic
        dimension), nodes are added that read the dimension when the network runs.
        """
        if not isinstance(size, str):
            return self.constant(np.array([size], np.int64))
        if ("size", size) not in self._shared:
            (source, axis), name = self.source(size), self.unique(f"{size}.size")
            self.nodes.append(
                helper.make_node("Shape", [source], [name], name=name, start=axis, end=axis + 1)
            )
            self._shared["size", size] = Tensor(self, name, (1,), np.dtype(np.int64))
        return self._shared["size", size]

    def source(self, symbol: str) -> tuple[str, int]:
        """Finds a tensor with `symbol` in its shape: (tensor's name, symbol's dimension). Raises NetworkError if there
        is none.
        """
        if symbol not in self._sources:
            known = ", ".join(self._sources) or "none"
            raise self.mistake(f"no tensor has the symbol {symbol!r}; give one that exists: {known}")
        return self._sources[symbol]

    def record(
        self,
        operator: str,
        inputs: Sequence[Tensor | None],
        *,
        label: str = "",
        outputs: int = 1,
        shape: Sequence[Size | None] = (),
        **attributes: Any,
    ) -> list[Tensor]:
        """Adds a node with ONNX's attributes; returns its outputs.

        The name of the node is the path of its module, with `label` behind it. In a module that contains modules, the
        label is by default the operator in lower case. `shape`: sizes of the first output, used where ONNX's inference
        finds none. Raises NetworkError for attributes, shapes and types that the operator does not take.
        """
        leaf = self._path and self._module is not None and not self._module.children()
        name = self.unique(label or ("" if leaf else operator.lower()), self._path)
        names = [name, *(self.unique(f"{name}.output{index}") for index in range(1, outputs))]
        read = ["" if tensor is None else tensor.name for tensor in inputs]
        try:
            node = helper.make_node(operator, read, names, name=name, **attributes)
        except (TypeError, ValueError) as error:
            raise self.mistake(
                f"{operator} does not accept the attributes {attributes}: {error}; change them"
            ) from None
        types = self._infer(node, [tensor for tensor in inputs if tensor is not None])
        self.nodes.append(node)
        made = []
        for output in names:
            found = types[output].tensor_type
            if not found.elem_type:
                raise self.mistake(f"ONNX cannot infer the output shape of {operator}; use other operators")
            sizes = [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in found.shape.dim]
            if shape and output == name:
                pairs = zip(sizes, shape, strict=True)
                sizes = [size if isinstance(size, int) else known or size for size, known in pairs]
            made.append(self.tensor(output, sizes, helper.tensor_dtype_to_np_dtype(found.elem_type)))
        return made

    def _infer(self, node: onnx.NodeProto, inputs: Sequence[Tensor]) -> Mapping[str, onnx.TypeProto]:
        """The types of a node's outputs, by name."""
        integers = {tensor.name for tensor in inputs if tensor.dtype == np.int64} & self.constants.keys()
        try:
            return shape_inference.infer_node_outputs(
                defs.get_schema(node.op_type, OPSET),
                node,
                {tensor.name: tensor.type for tensor in inputs},
                {name: numpy_helper.from_array(self.constants[name], name) for name in integers},
                opset_imports=[helper.make_opsetid("", OPSET)],
            )
        except defs.SchemaError:
            raise self.mistake(
                f"ONNX has no operator {node.op_type} in opset {OPSET}; change the name"
            ) from None
        except (shape_inference.InferenceError, onnx.checker.ValidationError) as error:
            reason = str(error).strip().splitlines()[0].removeprefix("[ShapeInferenceError] ")
            raise self.mistake(
                f"{node.op_type} does not take {' and '.join(map(str, inputs))}: {reason}; change shapes or types, by "
                "reshape, unsqueeze, cast, or the sizes of the module"
            ) from None

    def unique(self, name: str, path: str = "") -> str:
        """A new name for a node or tensor: "PATH.NAME", with a number at the end if the name is taken."""
        name = ".".join(filter(None, (path, name)))
        found, number = name, 1
        while found in self._names:
            found, number = f"{name}_{number}", number + 1
        self._names.add(found)
        return found

    def model(self, name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> onnx.ModelProto:
        """The ONNX model of the recorded nodes on which `outputs` depend."""
        needed = {tensor.name for tensor in outputs}
        nodes = []
        for node in reversed(self.nodes):
            if needed & set(node.output):
                nodes.insert(0, node)
                needed |= set(node.input)
        read, written = (
            [helper.make_value_info(end.name, end.type) for end in ends] for ends in (inputs, outputs)
        )
        constants = [numpy_helper.from_array(a, key) for key, a in self.constants.items() if key in needed]
        graph = helper.make_graph(nodes, name, read, written, constants)
        opset = helper.make_opsetid("", OPSET)
        return helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION, producer_name="vdla")

"""Modules and parameters: a network is a tree of Python objects; a weight has the dotted name of its attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from .spec import NetworkError, integers, need
from .spec import Tensor as Spec
from .tensor import Recorder, Tensor

if TYPE_CHECKING:
    import onnx

Draw = Callable[[np.random.Generator, tuple[int, ...]], Any]
"""Makes initial values of a shape from a generator of random numbers."""


class Parameter:
    """A float32 tensor of weights. `data` is either an array with the values, or only a shape; with a shape, the
    function `draw` makes the initial values (zeros without `draw`).

    Raises NetworkError for data that are neither an array of numbers nor a shape.
    """

    def __init__(self, data: np.ndarray | Sequence[int], draw: Draw | None = None) -> None:
        is_array = isinstance(data, np.ndarray)
        self.value = _float32("nn.Parameter: the value", data) if is_array else None
        self.shape = data.shape if is_array else integers("nn.Parameter: the shape", data, least=0)
        self.draw = draw or (lambda _, shape: np.zeros(shape))


class Module:
    """A part of a network. Subclasses assign parameters and modules to attributes, and define `forward`."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The outputs of the module, computed from tensors. Each module defines its own."""
        raise NetworkError("defines no forward(self, x); define it")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result of `forward`. Nodes that are recorded meanwhile get this module's path. Raises NetworkError if
        there is no tensor among the arguments.
        """
        for tensor in _tensors((args, kwargs)):
            with tensor.recorder.inside(self):
                return self.forward(*args, **kwargs)
        raise NetworkError(
            f"{type(self).__name__}: is called without a tensor; modules compute only while `export` records them; "
            "call the network that vdla.compile returns on arrays"
        )

    def children(self) -> dict[str, Module]:
        """The modules that are attributes of this module, by attribute name; modules in a plain list are left out."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Module)}

    def named_modules(self, path: str = "") -> Iterator[tuple[str, Module]]:
        """Yields (path, module) for this module, whose path is `path`, and all modules in it; the path of a child is
        "PATH.ATTRIBUTE".
        """
        yield path, self
        for name, child in self.children().items():
            yield from child.named_modules(f"{path}.{name}" if path else name)

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Yields (dotted name, parameter) for every parameter; a parameter of two modules occurs under both names."""
        for path, module in self.named_modules():
            for name, value in vars(module).items():
                if isinstance(value, Parameter):
                    yield f"{path}.{name}" if path else name, value

    def state_dict(self, seed: int = 0) -> dict[str, np.ndarray]:
        """All parameters by name, as `export` writes them with this seed.

        A parameter without a value gets random values. They depend on the seed and the parameter's name alone, and have
        the distributions that PyTorch documents for its layers.
        """
        values: dict[int, np.ndarray] = {}
        for name, parameter in self.named_parameters():
            if parameter.value is not None:
                values[id(parameter)] = parameter.value
            elif id(parameter) not in values:
                random = np.random.default_rng([seed, crc32(name.encode())])
                values[id(parameter)] = np.asarray(parameter.draw(random, parameter.shape), np.float32)
        return {name: values[id(parameter)] for name, parameter in self.named_parameters()}

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Sets parameters by name, from arrays or from tensors of another package (PyTorch's state dict).

        With `strict` the names must be exactly the names in `named_parameters`; otherwise missing and unknown names are
        ignored. PyTorch's entries num_batches_tracked are always ignored. Raises NetworkError for wrong names or shapes
        and for values that are no numbers, and sets no parameter in this case.
        """
        kind, own = type(self).__name__, dict(self.named_parameters())
        need(isinstance(state, Mapping), f"{kind}: the state dict", state, "arrays by name")
        missing = [name for name in own if name not in state]
        unknown = [name for name in state if name not in own and not name.endswith("num_batches_tracked")]
        if strict and (missing or unknown):
            found = (("lacks", missing), ("has entries without a parameter:", unknown))
            words = "; ".join(f"{verb} {', '.join(names)}" for verb, names in found if names)
            raise NetworkError(f"{kind}: the state dict {words}; rename the entries, or give strict=False")
        arrays = {n: _float32(f"{kind}: {n} of the state dict", state[n]) for n in own if n in state}
        for name, array in arrays.items():
            place, wanted = f"{kind}: the shape of {name} of the state dict", own[name].shape
            need(array.shape == wanted, place, array.shape, f"{wanted}, or change the module")
        for name, array in arrays.items():
            own[name].value = array

    def export(self, spec: Mapping[str, Mapping[str, Spec]], *, seed: int = 0) -> onnx.ModelProto:
        """The network as an ONNX model of opset 20, for `vdla.compile`, `vdla.quantize` and `onnx.save`.

        `spec` names the method to record and the shape and type of each of its arguments: {"forward": {"x":
        nn.spec.Tensor((1, 784), "float32")}}. Inputs of the model have the names of the arguments. A single output is
        called "output"; the outputs of a tuple are called "output0", "output1" ...; the outputs of a dictionary have
        its keys as names. Parameters without values are drawn with `seed`, as `state_dict` does. Raises NetworkError.
        """
        kind, state = type(self).__name__, self.state_dict(seed)
        need(len(spec) == 1, f"{kind}: spec", spec, "one method with its arguments: {'forward': {...}}")
        ((method, arguments),) = spec.items()
        try:
            function = getattr(self, method)
            signature(function).bind(**arguments)
        except (AttributeError, TypeError) as error:
            given = f"{method}({', '.join(arguments)})"
            raise NetworkError(f"{kind}: {error}; spec gives {given}; change one of them") from None
        recorder = Recorder(self, state)
        with recorder.inside(self):
            inputs = {name: recorder.input(name, given) for name, given in arguments.items()}
            result = function(**inputs)
            outputs = result if isinstance(result, Mapping) else {"output": result}
            if isinstance(result, list | tuple):
                outputs = {f"output{number}": tensor for number, tensor in enumerate(result)}
            fits = outputs and all(isinstance(tensor, Tensor) for tensor in outputs.values())
            need(fits, f"the result of {method}", result, "a tensor, or a tuple or dictionary of tensors")
            return recorder.model(kind, [*inputs.values()], outputs)


class ModuleList(Module, list[Module]):
    """A list of modules, which are called "0", "1" ..."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        list.__init__(self, modules)
        for number, module in enumerate(self):
            name = f"{type(self).__name__}: element {number}"
            need(isinstance(module, Module), name, module, "an nn.Module")

    def children(self) -> dict[str, Module]:
        """The modules of the list by their index."""
        return {str(number): module for number, module in enumerate(self)}


class Sequential(ModuleList):
    """Modules in a chain: each reads the output of the module before."""

    def __init__(self, *modules: Module) -> None:
        super().__init__(modules)

    def forward(self, x: Tensor) -> Tensor:
        """The output of the last module."""
        for module in self:
            x = module(x)
        return x


def _tensors(value: Any) -> list[Tensor]:
    """The tensors of a value that is a tensor, or a list, tuple or dictionary with tensors at any depth."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [value] if isinstance(value, Tensor) else [tensor for item in items for tensor in _tensors(item)]


def _float32(name: str, value: Any) -> np.ndarray:
    """Converts an array of numbers, or a tensor of PyTorch on any device, to a float32 array.

    Raises NetworkError for other values; the message calls the value `name`.
    """
    for method in ("detach", "cpu", "float", "numpy"):
        value = getattr(value, method)() if hasattr(value, method) else value
    try:
        return np.array(value, np.float32)
    except (TypeError, ValueError):
        kind = type(value).__name__
        raise NetworkError(f"{name} is not an array of numbers, but of type {kind}; give floats") from None

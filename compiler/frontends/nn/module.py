"""Modules and parameters: a network is a tree of Python objects; a weight has the dotted name of its attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from .spec import NetworkError, is_integer
from .spec import Tensor as Spec
from .tensor import Tensor

if TYPE_CHECKING:
    import onnx

Draw = Callable[[np.random.Generator, tuple[int, ...]], Any]
"""Makes initial values of a shape from a generator of random numbers."""


def uniform(bound: float) -> Draw:
    """Initial values spread evenly between -bound and bound."""
    return lambda random, shape: random.uniform(-bound, bound, shape)


class Parameter:
    """A float32 tensor of weights. `data` is either an array with the values, or only a shape; with a shape, the
    function `draw` makes the initial values (zeros without `draw`).

    Raises NetworkError for data that are neither an array of numbers nor a shape.
    """

    def __init__(self, data: np.ndarray | Sequence[int], draw: Draw | None = None) -> None:
        is_array = isinstance(data, np.ndarray)
        sizes: Any = data.shape if is_array else data if isinstance(data, tuple | list) else (data,)
        if not all(is_integer(size, 0) for size in sizes):
            raise NetworkError(
                f"nn.Parameter: {data!r} is not a shape; give a tuple of integers, or a numpy array"
            )
        self.value = _array("nn.Parameter", "the value", data) if is_array else None
        self.shape, self.draw = tuple(sizes), draw or (lambda _, shape: np.zeros(shape))


class Module:
    """A part of a network. Subclasses assign parameters and modules to attributes, and define `forward`."""

    unused: tuple[str, ...] = ()
    """Names of entries in PyTorch's state dicts for this kind of module that the network does not use."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The outputs of the module, computed from tensors. Each module defines its own."""
        raise NetworkError(f"{type(self).__name__}: defines no forward(self, x); define it")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result of `forward`, recorded as part of this module."""
        for tensor in _tensors((args, kwargs)):
            with tensor.recorder.inside(self):
                return self.forward(*args, **kwargs)
        raise NetworkError(
            f"{type(self).__name__}: is called without a tensor; modules compute only while `export` records them; "
            "call the network that vdla.compile returns on arrays"
        )

    def children(self) -> dict[str, Module]:
        """The modules that are attributes of this module, by attribute name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Module)}

    def named_modules(self, path: str = "") -> Iterator[tuple[str, Module]]:
        """Yields (path, module) for this module and all modules in it; the path of a child is "PATH.ATTRIBUTE"."""
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

        A parameter without a value gets one from random numbers that depend on the seed and the parameter's name alone,
        with the distributions that PyTorch documents for its layers.
        """
        made: dict[int, np.ndarray] = {}
        for name, parameter in self.named_parameters():
            if parameter.value is None and id(parameter) not in made:
                random = np.random.default_rng([seed, crc32(name.encode())])
                made[id(parameter)] = np.asarray(parameter.draw(random, parameter.shape), np.float32)
        pairs = self.named_parameters()
        return {name: made[id(p)] if p.value is None else p.value for name, p in pairs}

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Sets parameters by name, from arrays or from tensors of another package (PyTorch's state dict).

        With `strict` the names must be exactly the names in `named_parameters`; otherwise missing and unknown names are
        ignored. Raises NetworkError for wrong names or shapes and for values that are no numbers, and sets no parameter
        in this case.
        """
        kind, own = type(self).__name__, dict(self.named_parameters())
        if not isinstance(state, Mapping):
            raise NetworkError(
                f"{kind}: the state dict is of type {type(state).__name__}; give arrays by name"
            )
        unused = {
            f"{path}.{n}" if path else n for path, module in self.named_modules() for n in module.unused
        }
        missing = [name for name in own if name not in state]
        unknown = [name for name in state if name not in own and name not in unused]
        if strict and (missing or unknown):
            found = (("lacks", missing), ("has entries without a parameter:", unknown))
            words = "; ".join(f"{verb} {', '.join(names)}" for verb, names in found if names)
            raise NetworkError(f"{kind}: the state dict {words}; rename the entries, or give strict=False")
        arrays = {
            name: _array(kind, f"{name} of the state dict", state[name]) for name in own if name in state
        }
        for name, array in arrays.items():
            if array.shape != own[name].shape:
                raise NetworkError(
                    f"{kind}: {name} of the state dict has shape {list(array.shape)}, the parameter "
                    f"{list(own[name].shape)}; change the sizes of the module"
                )
        for name, array in arrays.items():
            own[name].value = array

    def export(self, spec: Mapping[str, Mapping[str, Spec]], *, seed: int = 0) -> onnx.ModelProto:
        """The network as an ONNX model of opset 20, which `vdla.compile`, `vdla.quantize` and `onnx.save` take.

        `spec` names the method to record and the shape and type of each of its arguments: {"forward": {"x":
        nn.spec.Tensor((1, 784), "float32")}}. Inputs of the model have the names of the arguments; outputs are called
        "output", or "output0", "output1" ... for a tuple, or have the keys of a dictionary. Parameters without values
        are drawn with `seed`, as `state_dict` does. Raises NetworkError.
        """
        from .recorder import export_module

        return export_module(self, spec, seed)


class ModuleList(Module):
    """A list of modules, which are called "0", "1" ..."""

    def __init__(self, modules: Sequence[Module] = ()) -> None:
        self.modules = list(modules)
        for number, module in enumerate(self.modules):
            if not isinstance(module, Module):
                raise NetworkError(
                    f"{type(self).__name__}: element {number} is {module!r}; give an nn.Module"
                )

    def children(self) -> dict[str, Module]:
        """The modules of the list by their index."""
        return {str(number): module for number, module in enumerate(self.modules)}

    def __iter__(self) -> Iterator[Module]:
        return iter(self.modules)

    def __len__(self) -> int:
        return len(self.modules)

    def __getitem__(self, number: int) -> Module:
        return self.modules[number]


class Sequential(ModuleList):
    """Modules in a chain: each reads the output of the module before."""

    def __init__(self, *modules: Module) -> None:
        super().__init__(modules)

    def forward(self, x: Tensor) -> Tensor:
        """The output of the last module."""
        for module in self.modules:
            x = module(x)
        return x


def _tensors(arguments: Any) -> Iterator[Tensor]:
    """The tensors among arguments, also within lists, tuples and dictionaries."""
    if isinstance(arguments, Tensor):
        yield arguments
    elif isinstance(arguments, list | tuple | dict):
        for item in arguments.values() if isinstance(arguments, dict) else arguments:
            yield from _tensors(item)


def _array(where: str, name: str, value: Any) -> np.ndarray:
    """Converts an array of numbers, or a tensor of PyTorch's on any device, to a float32 array.

    Raises NetworkError, with `where` and `name`, for values that are no numbers.
    """
    for method in ("detach", "cpu", "float", "numpy"):
        value = getattr(value, method)() if hasattr(value, method) else value
    try:
        return np.array(value, np.float32)
    except (TypeError, ValueError):
        raise NetworkError(
            f"{where}: {name} is not an array of numbers, but of type {type(value).__name__}; give a numpy array of "
            "floats"
        ) from None

"""Tensors of a network that is recorded: each operation on a tensor adds a node to the ONNX graph of a `Recorder`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from types import EllipsisType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper
from onnx.checker import ValidationError
from onnx.shape_inference import InferenceError, infer_node_outputs

from .spec import DTYPES, NetworkError, Size, is_integer, need
from .spec import Tensor as Spec

if TYPE_CHECKING:
    from .module import Module, Parameter

    Operand: TypeAlias = "Tensor | Parameter | np.ndarray | float"
    Index: TypeAlias = int | slice | EllipsisType | None
    NDArrayOperatorsMixin = object
else:
    from numpy.lib.mixins import NDArrayOperatorsMixin

OPSET, IR_VERSION = helper.make_opsetid("", 20), 9
"""The version of ONNX's operators, and the version of the file format that belongs to it."""


def _table(text: str) -> dict[str, str]:
    """The pairs of a text "KEY=VALUE KEY=VALUE ..." as a dictionary."""
    return dict(pair.split("=") for pair in text.split())


_OPERATORS = _table("""add=Add subtract=Sub multiply=Mul divide=Div matmul=MatMul power=Pow negative=Neg absolute=Abs
greater=Greater less=Less greater_equal=GreaterOrEqual less_equal=LessOrEqual equal=Equal not_equal=Equal
bitwise_and=And bitwise_or=Or invert=Not""")
"""The ONNX operator for each numpy function that a Python operator calls (`x + y` calls "add")."""
_OTHER_NAMES = _table("""view=reshape view_as=reshape size=shape T=transpose(0,1) mT=transpose(-1,-2)
swapaxes=transpose chunk=split dim=ndim to=cast("float32") type=cast("float32") astype=cast("float32")
float=cast("float32") half=cast("float16") long=cast("int64") int=cast("int32") bool=cast("bool")
contiguous= detach= clone= cpu= cuda= requires_grad= requires_grad_=""")
"""For attributes that only PyTorch's tensors have, the replacements that error messages suggest. "" means: leave it
out.
"""
_END = 2**63 - 1
"""End of a slice that reaches to the end of its dimension."""


class MissingNameError(NetworkError, AttributeError):
    """Raised for an attribute that tensors do not have. As an AttributeError it makes `hasattr` return False."""


@dataclass(frozen=True, eq=False)
class Tensor(NDArrayOperatorsMixin):
    """A tensor of the recorded network: its name, its shape (integers and symbols) and its element type.

    Arithmetic takes tensors, parameters, arrays and numbers; a number gets the type of the tensor. Methods have the
    names of PyTorch's. Operations raise NetworkError for shapes or types that do not fit.
    """

    recorder: Recorder
    name: str
    shape: tuple[Size, ...]
    dtype: np.dtype[Any]

    __hash__ = object.__hash__
    if TYPE_CHECKING:

        def _unary(self) -> Tensor: ...
        def _operator(self, other: Operand) -> Tensor: ...

        __neg__ = __abs__ = __invert__ = _unary
        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _operator
        __matmul__ = __rmatmul__ = __pow__ = __rpow__ = __gt__ = __lt__ = __ge__ = __le__ = __and__ = (
            __or__
        ) = _operator
        __eq__ = __ne__ = _operator  # type: ignore[assignment]

    def __array_ufunc__(self, function: np.ufunc, method: str, *inputs: Operand, **named: Any) -> Tensor:
        """Records the node of a Python operator, such as `x + y` or `x += y`. `function`: numpy's function for the
        operator ("add" for +). Raises NetworkError for other functions, and if `method` is not "__call__".
        """
        in_place = named.pop("out", inputs)[0] is inputs[0]
        if function.__name__ not in _OPERATORS or method != "__call__" or named or not in_place:
            self.__array_function__(function)
        differ = function.__name__ == "not_equal"
        result = record(_OPERATORS[function.__name__], *inputs, label="equal" if differ else "")
        return record("Not", result) if differ else result

    def __array_function__(self, function: Callable[..., Any], *_: Any) -> Any:
        raise NetworkError(
            f"np.{function.__name__} takes no tensor, which has no value until the network runs; use methods of the "
            "tensor, nn.functional, or nn.record for any operator of ONNX"
        )

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        return self.__array_function__(np.array)

    def __getattr__(self, name: str) -> Any:
        from . import functional

        if name.startswith("_"):
            raise AttributeError(f"a tensor has no attribute {name!r}")
        home = getattr(vars(functional).get(name), "__module__", None)
        found = f"nn.functional.{name}" if home == functional.__name__ else _OTHER_NAMES.get(name)
        others = "another method, nn.functional, or nn.record for any operator of ONNX"
        way_out = "leave it out, a recorded network needs none" if found == "" else f"use {found or others}"
        raise MissingNameError(f"a tensor has no {name!r}; {way_out}")

    def __repr__(self) -> str:
        return f"{self.dtype} [{', '.join(map(str, self.shape))}]"

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def type(self) -> onnx.TypeProto:
        """The element type and shape as an ONNX type."""
        return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(self.dtype), self.shape)

    def __bool__(self) -> bool:
        raise NetworkError(
            "reads the value of a tensor, which has no value until the network runs, so it cannot decide control "
            "flow; use nn.functional.where in place of if, while, and, or"
        )

    __int__ = __float__ = __index__ = __bool__

    def __len__(self) -> int:
        known = self.shape and not isinstance(self.shape[0], str)
        need(known, "the tensor to iterate over", self, "a known number of rows, or use slices")
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Tensor]:
        return (self[row] for row in range(len(self)))

    def __getitem__(self, index: Index | tuple[Index, ...]) -> Tensor:
        items: list[Any] = list(index) if isinstance(index, tuple) else [index]
        fits = all(isinstance(item, int | slice | EllipsisType | None) for item in items)
        need(fits, "an index", index, "integers, slices, None or Ellipsis, or use nn.functional.embedding")
        used = sum(isinstance(item, int | slice) for item in items)
        need(used <= self.ndim, "the number of indices", used, f"at most {self.ndim} for {self}")
        place = items.index(...) if ... in items else len(items)
        items[place : place + 1] = [slice(None)] * (self.ndim - used)
        own, kept = [i for i in items if i is not None], [i for i in items if not isinstance(i, int)]
        cuts: list[tuple[Size, ...]] = []
        shape: list[Size | None] = [*self.shape]
        for axis, item in enumerate(own):
            part = slice(item, item + 1 or None) if isinstance(item, int) else item
            if part != slice(None):
                begin, end, step = part.start, part.stop, part.step or 1
                begin = begin if begin is not None else 0 if step > 0 else _END
                end = end if end is not None else _END if step > 0 else -_END
                cuts.append((begin, end, axis, step))
                shape[axis] = end if (begin, step) == (0, 1) and isinstance(end, str) else None
        operands = [self.recorder.sizes(numbers) for numbers in zip(*cuts, strict=True)]
        result = record("Slice", self, *operands, label="slice", shape=shape) if cuts else self
        dropped = [axis for axis, item in enumerate(own) if isinstance(item, int)]
        new = [axis for axis, item in enumerate(kept) if item is None]
        result = result.squeeze(*dropped) if dropped else result
        return result.unsqueeze(*new) if new else result

    def axes(self, *dims: int) -> list[int]:
        """The dimensions `dims` (by default all) as indices of 0 or more. Raises NetworkError for dimensions that the
        tensor does not have.
        """
        for dim in dims:
            fits = is_integer(dim) and -self.ndim <= dim < self.ndim
            need(fits, "a dimension", dim, f"one of the {self.ndim} dimensions of {self}")
        return [dim % self.ndim for dim in dims or range(self.ndim)]

    def reshape(self, *sizes: Size | Sequence[Size]) -> Tensor:
        """The same elements in another shape, given as several sizes or one tuple of sizes; one size may be -1. Sizes
        may be symbols of inputs.
        """
        given, numbers = _spread(sizes), []
        for axis, size in enumerate(given):
            self.recorder.check_size(size)
            # ONNX reads 0 as the size that the dimension has, and -1 as the size that remains.
            is_kept = isinstance(size, str) and self.shape[axis : axis + 1] == (size,)
            numbers.append(0 if is_kept else size)
        symbols = [axis for axis, size in enumerate(numbers) if isinstance(size, str)]
        if len(symbols) == 1 and -1 not in numbers:
            numbers[symbols[0]] = -1
        shape = [None if size == -1 else size for size in given]
        return record("Reshape", self, self.recorder.sizes(numbers), label="reshape", shape=shape)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        """Merges the dimensions from `start_dim` to `end_dim` (inclusive) into one."""
        first, last = self.axes(start_dim, end_dim)
        sizes = [size for size in self.shape[first : last + 1] if not isinstance(size, str)]
        merged = prod(sizes) if len(sizes) == last + 1 - first else -1
        return self.reshape(*self.shape[:first], merged, *self.shape[last + 1 :])

    def permute(self, *dims: int | Sequence[int]) -> Tensor:
        """The tensor with its dimensions in the order `dims`, given as several numbers or one tuple."""
        return record("Transpose", self, label="transpose", perm=self.axes(*_spread(dims)))

    def transpose(self, dim0: int, dim1: int) -> Tensor:
        """The tensor with the dimensions `dim0` and `dim1` exchanged."""
        order, (first, second) = self.axes(), self.axes(dim0, dim1)
        order[first], order[second] = second, first
        return self.permute(order)

    def squeeze(self, *dims: int) -> Tensor:
        """The tensor without the dimensions `dims`, each of size 1."""
        return record("Squeeze", self, np.array(dims), label="squeeze")

    def unsqueeze(self, *dims: int) -> Tensor:
        """The tensor with new dimensions of size 1 at the indices `dims` of the result."""
        return record("Unsqueeze", self, np.array(dims), label="unsqueeze")

    def split(self, sizes: Sequence[int], dim: int = 0) -> list[Tensor]:
        """Parts with the given sizes along the dimension `dim`."""
        fits = isinstance(sizes, tuple | list) and all(is_integer(size) for size in sizes)
        need(fits, "the first argument of split", sizes, "a list with the size of each part")
        inputs, axis = [self, self.recorder.sizes(sizes)], self.axes(dim)[0]
        return self.recorder.record("Split", inputs, label="split", outputs=len(sizes), axis=axis)

    def mean(self, *dims: int, keepdim: bool = False) -> Tensor:
        """The mean over the dimensions `dims`, by default over all. With `keepdim` they remain, with size 1."""
        return record("ReduceMean", self, self.recorder.sizes(self.axes(*dims)), keepdims=int(keepdim))

    def sum(self, *dims: int, keepdim: bool = False) -> Tensor:
        """The sum over the dimensions `dims`, by default over all. With `keepdim` they remain, with size 1."""
        return record("ReduceSum", self, self.recorder.sizes(self.axes(*dims)), keepdims=int(keepdim))

    def cast(self, dtype: str) -> Tensor:
        """The elements converted to the element type of this name, one of `spec.DTYPES` ("float32")."""
        need(dtype in DTYPES, "the element type", dtype, f"one of {', '.join(DTYPES)}")
        return record("Cast", self, label="cast", to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _spread(items: Sequence[Any]) -> tuple[Any, ...]:
    """The items as a tuple. If the only item is a tuple or list, the elements of this item."""
    return tuple(items[0]) if len(items) == 1 and isinstance(items[0], tuple | list) else tuple(items)


def record(operator: str, *inputs: Operand | None, label: str = "", **attributes: Any) -> Tensor:
    """Adds a node of the ONNX operator `operator`; returns its first output. `inputs` are in ONNX's order, with None
    for an input that is left out.

    Numbers get the element type of the first tensor, and so do arrays of float64 if that type is a float type. `label`
    is added to the name of the node; `attributes` are the operator's. Raises NetworkError for attributes, shapes and
    types that the operator does not take.
    """
    first = next((item for item in inputs if isinstance(item, Tensor)), None)
    if first is None:
        raise NetworkError(f"{operator}: none of its operands is a tensor; give one, or compute in numpy")
    tensors = [first.recorder.operand(item, first.dtype) for item in inputs]
    return first.recorder.record(operator, tensors, label=label, **attributes)[0]


class Recorder:
    """The ONNX graph of one export of `module`, whose parameters have the values `state`, by name."""

    def __init__(self, module: Module, state: Mapping[str, np.ndarray]) -> None:
        self.paths = {id(part): path for path, part in reversed([*module.named_modules()])}
        self.parameters = {id(part): name for name, part in reversed([*module.named_parameters()])}
        self.path, self.is_leaf = "", False
        self.nodes: list[onnx.NodeProto] = []
        self.constants, self.names = dict(state), {*state}
        self.shared: dict[Any, Tensor] = {}
        self.symbols: dict[str, tuple[Tensor, int]] = {}

    @contextmanager
    def inside(self, module: Module) -> Iterator[None]:
        """A context in which recorded nodes belong to `module`, and errors begin with the module's path and class.

        Raises NetworkError for a module that is not a part of the exported network.
        """
        kind, outer = type(module).__name__, (self.path, self.is_leaf)
        if id(module) not in self.paths:
            raise NetworkError(
                f"calls a {kind} that is not an attribute of a module; assign it to self in __init__, and a list of "
                "modules as nn.ModuleList"
            )
        self.path = self.paths[id(module)]
        self.is_leaf = bool(self.path) and not module.children()
        try:
            yield
        except NetworkError as error:
            if not error.has_place:
                place = f"{self.path} ({kind})" if self.path else kind
                error.args, error.has_place = (f"{place}: {error}",), True
            raise
        finally:
            self.path, self.is_leaf = outer

    def unique(self, name: str) -> str:
        """A new name for a node or tensor: `name`, with a number at the end if the name is taken."""
        found, number = name, 1
        while found in self.names:
            found, number = f"{name}_{number}", number + 1
        self.names.add(found)
        return found

    def tensor(self, name: str, shape: Sequence[Size | None], dtype: np.dtype[Any]) -> Tensor:
        """A tensor of the graph. Each size of None becomes a new symbol, "NAME.AXIS". When the network runs, a symbol's
        size is read from the first recorded tensor with this symbol.
        """
        sizes = tuple(f"{name}.{axis}" if size is None else size for axis, size in enumerate(shape))
        made = Tensor(self, name, sizes, dtype)
        for axis, size in enumerate(sizes):
            if isinstance(size, str):
                self.symbols.setdefault(size, (made, axis))
        return made

    def input(self, name: str, given: Spec) -> Tensor:
        """The input `name` of the model, with the shape and element type of `given`. Raises NetworkError for a name
        that a parameter has.
        """
        need(isinstance(given, Spec), f"the argument {name} in spec", given, "nn.spec.Tensor(shape, dtype)")
        need(name not in self.constants, "the name of both an argument and a parameter", name, "two names")
        return self.tensor(self.unique(name), given.shape, np.dtype(given.dtype))

    def constant(self, array: np.ndarray, name: str = "constant") -> Tensor:
        """The constant `array`, called `name`. Equal arrays of one name and at most 16 elements are stored once."""
        content = array.tobytes() if array.size <= 16 else len(self.constants)
        key = (name, array.dtype.str, array.shape, content)
        if key not in self.shared:
            found = self.unique(name)
            self.constants[found] = np.require(array, requirements="C")
            self.shared[key] = Tensor(self, found, array.shape, array.dtype)
        return self.shared[key]

    def named(self, parameter: object) -> tuple[str, np.ndarray]:
        """The name and the value of a parameter. Raises NetworkError if no module has the parameter."""
        if id(parameter) not in self.parameters:
            raise NetworkError(
                f"reads a {type(parameter).__name__} that is not a parameter of the network; assign an nn.Parameter "
                "to self in __init__, or give an array"
            )
        name = self.parameters[id(parameter)]
        return name, self.constants[name]

    def derived(self, ending: str, function: Callable[..., np.ndarray], *parameters: object) -> Tensor:
        """The constant that `function` computes from the values of `parameters`. The name of the constant is the name
        of the first parameter, a dot, and `ending`. A further call with the same `parameters` and `ending` returns the
        first constant.
        """
        names, arrays = zip(*map(self.named, parameters), strict=True)
        key = (*names, ending)
        if key not in self.shared:
            self.shared[key] = self.constant(function(*arrays), f"{names[0]}.{ending}")
        return self.shared[key]

    def operand(self, item: Operand | None, like: Any) -> Tensor | None:
        """An operand of a node as a tensor; a tensor or None is returned unchanged. A number gets the element type
        `like`. An array of float64 also gets the type `like` if that is a float type.
        """
        if item is None or isinstance(item, Tensor):
            return item
        if isinstance(item, int | float | np.number):
            return self.constant(np.array(item, like))
        if isinstance(item, np.ndarray):
            narrow = item.dtype == np.float64 and np.issubdtype(like, np.floating)
            return self.constant(item.astype(like) if narrow else item)
        name, array = self.named(item)
        return Tensor(self, name, array.shape, array.dtype)

    def check_size(self, size: object) -> None:
        """Raises NetworkError unless `size` is an integer or a symbol in the shape of some tensor."""
        known = ", ".join(self.symbols) or "none"
        need(is_integer(size) or size in self.symbols, "a size", size, f"an integer or a symbol ({known})")

    def sizes(self, sizes: Sequence[Size]) -> Tensor:
        """An int64 tensor with the sizes. A symbol is read from the shape of a tensor when the network runs."""
        if not any(isinstance(size, str) for size in sizes):
            return self.constant(np.array(sizes, np.int64))
        parts = []
        for size in sizes:
            self.check_size(size)
            if isinstance(size, str) and size not in self.shared:
                source, axis = self.symbols[size]
                self.shared[size] = record("Shape", source, label=f"{size}.size", start=axis, end=axis + 1)
            parts.append(self.shared[size] if isinstance(size, str) else self.sizes([size]))
        return parts[0] if len(parts) == 1 else record("Concat", *parts, label="sizes", axis=0)

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
        """Adds a node that reads `inputs` in ONNX's order (None: left out). Returns its outputs, whose number is
        `outputs`.

        The name of the node is the path of its module, with `label` behind it. In a module that contains modules, the
        label is by default the operator in lower case. `shape`: sizes of the first output, used where ONNX's inference
        finds none. Raises NetworkError for attributes, shapes and types that the operator does not take.
        """
        if not defs.has(operator):
            raise NetworkError(f"ONNX has no operator {operator} in opset {OPSET.version}; change the name")
        label = label or ("" if self.is_leaf else operator.lower())
        name = self.unique(".".join(filter(None, (self.path, label))))
        names = [name, *(self.unique(f"{name}.output{index}") for index in range(1, outputs))]
        given = {tensor.name: tensor for tensor in inputs if tensor is not None}
        known = {key: self.constants[key] for key in given if key in self.constants}
        # Shapes follow from integers, and from the four scales of Resize.
        numbers = {
            k: numpy_helper.from_array(a) for k, a in known.items() if a.dtype == np.int64 or a.size < 5
        }
        try:
            read = ["" if tensor is None else tensor.name for tensor in inputs]
            node = helper.make_node(operator, read, names, name=name, **attributes)
            schema, types = defs.get_schema(operator, OPSET.version), {k: t.type for k, t in given.items()}
            found = infer_node_outputs(schema, node, types, numbers, opset_imports=[OPSET])
        except (TypeError, ValueError, ValidationError, InferenceError) as error:
            reason = str(error).strip().splitlines()[0].removeprefix("[ShapeInferenceError] ")
            raise NetworkError(
                f"{operator} does not take {' and '.join(map(str, given.values()))}: {reason}; change attributes, "
                "shapes or types, by reshape, unsqueeze, cast, or the sizes of the module"
            ) from None
        self.nodes.append(node)
        made = []
        for output in names:
            kind = found[output].tensor_type
            if not kind.elem_type:
                raise NetworkError(f"ONNX cannot infer the output shape of {operator}; use other operators")
            sizes = [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in kind.shape.dim]
            if shape and output == name:
                sizes = [s if isinstance(s, int) else k or s for s, k in zip(sizes, shape, strict=True)]
            made.append(self.tensor(output, sizes, helper.tensor_dtype_to_np_dtype(kind.elem_type)))
        return made

    def model(self, name: str, inputs: Sequence[Tensor], outputs: Mapping[str, Tensor]) -> onnx.ModelProto:
        """The ONNX model `name` of the recorded nodes on which `outputs` depend. It has the inputs `inputs`, also
        unread ones; its outputs have the keys of `outputs` as names.

        If a tensor inside the network has the name of an output, a number is added to the tensor's name. If an output
        has the name of an input or a constant, a number is added to the output's name. An output is copied if it is an
        input, a constant, or already another output.
        """
        computed = {output for node in self.nodes for output in node.output}
        fixed = {*self.constants, *(tensor.name for tensor in inputs)}
        final: dict[str, str] = {}
        written = []
        for wanted, tensor in outputs.items():
            if tensor.name not in computed or tensor.name in final:
                tensor = record("Identity", tensor, label="copy")
            final[tensor.name] = self.unique(wanted) if wanted in fixed else wanted
            written.append(helper.make_value_info(final[tensor.name], tensor.type))
        nodes, needed = [], {*final}
        final |= {taken: self.unique(taken) for taken in computed & {*final.values()} - final.keys()}
        for node in reversed(self.nodes):
            if needed & {*node.output}:
                needed |= {*node.input}
                for names in (node.input, node.output):
                    names[:] = [final.get(old, old) for old in names]
                nodes.insert(0, node)
        read = [helper.make_value_info(tensor.name, tensor.type) for tensor in inputs]
        constants = [numpy_helper.from_array(a, key) for key, a in self.constants.items() if key in needed]
        graph = helper.make_graph(nodes, name, read, written, constants)
        return helper.make_model(graph, opset_imports=[OPSET], ir_version=IR_VERSION, producer_name="vdla")

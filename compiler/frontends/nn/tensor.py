"""Tensors of a network that is recorded: each operation on a tensor adds a node to the ONNX graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from types import EllipsisType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import onnx
from onnx import helper

from .spec import NetworkError, Size, is_integer, need_dtype

if TYPE_CHECKING:
    from .module import Parameter
    from .recorder import Recorder

    Operand: TypeAlias = "Tensor | Parameter | np.ndarray | float"
    Index: TypeAlias = int | slice | EllipsisType | None

_UFUNCS = {
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "divide": "Div",
    "matmul": "MatMul",
    "power": "Pow",
    "greater": "Greater",
    "less": "Less",
    "greater_equal": "GreaterOrEqual",
    "less_equal": "LessOrEqual",
    "equal": "Equal",
}
"""The ONNX operator for each numpy function that Python operators call: array + tensor calls numpy's "add"."""
_OTHER_NAMES = {
    "view": "reshape",
    "view_as": "reshape",
    "size": "shape",
    "T": "transpose(0, 1)",
    "mT": "transpose(-1, -2)",
    "swapaxes": "transpose",
    "chunk": "split",
    "to": 'cast("float32")',
    "type": 'cast("float32")',
    "astype": 'cast("float32")',
    "float": 'cast("float32")',
    "half": 'cast("float16")',
    "long": 'cast("int64")',
    "int": 'cast("int32")',
    "bool": 'cast("bool")',
    "dim": "ndim",
}
"""Replacements for attributes that PyTorch's tensors have and these tensors lack."""
_NEEDLESS = ("contiguous", "detach", "clone", "cpu", "cuda", "requires_grad", "requires_grad_")
"""Methods of PyTorch's tensors that a network can leave out."""
_END = 2**63 - 1
"""End of a slice that reaches to the end of its dimension."""


def _binary(operator: str, *, swapped: bool = False) -> Callable[[Tensor, Operand], Tensor]:
    """The method of `Tensor` that records `operator` with the tensor as first (`swapped`: second) operand."""

    def method(self: Tensor, other: Operand) -> Tensor:
        return record(operator, other, self) if swapped else record(operator, self, other)

    return method


class MissingNameError(NetworkError, AttributeError):
    """Raised for an attribute that tensors do not have; `hasattr` is False, as for other objects."""


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A tensor of the recorded network: its name, its shape (integers and symbols) and its element type.

    Arithmetic takes tensors, parameters, arrays and numbers; a number gets the type of the tensor. Methods have the
    names of PyTorch's. Operations raise NetworkError for shapes or types that do not fit.
    """

    recorder: Recorder
    name: str
    shape: tuple[Size, ...]
    dtype: np.dtype[Any]

    __add__, __radd__ = _binary("Add"), _binary("Add", swapped=True)
    __sub__, __rsub__ = _binary("Sub"), _binary("Sub", swapped=True)
    __mul__, __rmul__ = _binary("Mul"), _binary("Mul", swapped=True)
    __truediv__, __rtruediv__ = _binary("Div"), _binary("Div", swapped=True)
    __matmul__, __rmatmul__ = _binary("MatMul"), _binary("MatMul", swapped=True)
    __pow__ = _binary("Pow")
    __gt__, __lt__ = _binary("Greater"), _binary("Less")
    __ge__, __le__ = _binary("GreaterOrEqual"), _binary("LessOrEqual")
    __hash__ = object.__hash__
    __eq__ = _binary("Equal")  # type: ignore[assignment]

    def __ne__(self, other: Operand) -> Tensor:  # type: ignore[override]
        return record("Not", record("Equal", self, other, label="equal"))

    def __array_ufunc__(self, function: np.ufunc, method: str, *inputs: Operand, **named: Any) -> Tensor:
        """Records `array + tensor` and other operators of _UFUNCS. Raises NetworkError for other functions of numpy."""
        if function.__name__ in _UFUNCS and method == "__call__" and not named:
            return record(_UFUNCS[function.__name__], *inputs)
        raise self._not_numpy(function.__name__)

    def __array_function__(self, function: Callable[..., Any], *_: Any) -> Any:
        raise self._not_numpy(function.__name__)

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise self._not_numpy("array")

    def _not_numpy(self, function: str) -> NetworkError:
        return self.recorder.mistake(
            f"np.{function} takes no tensor, which has no value until the network runs; use methods of the tensor, "
            "nn.functional, or nn.record for any operator of ONNX"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in self.__slots__:
            raise AttributeError(f"a tensor has no attribute {name!r}")
        if name in _OTHER_NAMES:
            way_out = f"use {_OTHER_NAMES[name]}"
        elif name in _NEEDLESS:
            way_out = "leave it out, a tensor of the recorded network needs none"
        else:
            from . import functional

            found = callable(getattr(functional, name, None))
            others = "another method, nn.functional, or nn.record for any operator of ONNX"
            way_out = f"use nn.functional.{name}" if found else f"use {others}"
        raise MissingNameError(f"{self.recorder.where}: a tensor has no {name!r}; {way_out}")

    __and__, __or__ = _binary("And"), _binary("Or")

    def __invert__(self) -> Tensor:
        return record("Not", self)

    def __abs__(self) -> Tensor:
        return record("Abs", self)

    def __neg__(self) -> Tensor:
        return record("Neg", self)

    def __str__(self) -> str:
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
        raise self.recorder.mistake(
            "reads the value of a tensor, which has no value until the network runs, so it cannot decide control "
            "flow; use nn.functional.where in place of if, while, and, or"
        )

    __int__ = __float__ = __index__ = __bool__

    def __len__(self) -> int:
        if not self.shape or isinstance(self.shape[0], str):
            raise self.recorder.mistake(f"{self} has no known number of rows to iterate over; use slices")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[row] for row in range(len(self)))

    def __getitem__(self, index: Index | tuple[Index, ...]) -> Tensor:
        items = list(index) if isinstance(index, tuple) else [index]
        if wrong := [item for item in items if not isinstance(item, int | slice | EllipsisType | None)]:
            raise self.recorder.mistake(
                f"{wrong[0]!r} is not an index; give integers, slices, None or Ellipsis; for indices known only at "
                "run time use nn.functional.embedding"
            )
        rest = self.ndim - sum(isinstance(item, int | slice) for item in items)
        if rest < 0:
            raise self.recorder.mistake(f"too many indices for {self}; give at most {self.ndim}")
        place = items.index(...) if ... in items else len(items)
        items[place : place + 1] = [slice(None)] * rest
        own = [item for item in items if item is not None]
        shape: list[Size | None] = list(self.shape)
        cuts: list[tuple[int, Size, Size, int]] = []
        for axis, item in enumerate(own):
            if isinstance(item, int):
                item = slice(item, item + 1 if item != -1 else None)
            if isinstance(item, slice) and item != slice(None):
                step = item.step or 1
                begin = (0 if step > 0 else _END) if item.start is None else item.start
                end = (_END if step > 0 else -_END) if item.stop is None else item.stop
                cuts.append((axis, begin, end, step))
                shape[axis] = end if (begin, step) == (0, 1) and isinstance(end, str) else None
        result = self
        if cuts:
            axes, begins, ends, steps = zip(*cuts, strict=True)
            operands = self._sizes(begins), self._sizes(ends), np.array(axes), np.array(steps)
            result = record("Slice", self, *operands, label="slice", shape=shape)
        if dropped := [axis for axis, item in enumerate(own) if isinstance(item, int)]:
            result = result.squeeze(*dropped)
        kept = [item for item in items if not isinstance(item, int)]
        new = [axis for axis, item in enumerate(kept) if item is None]
        return result.unsqueeze(*new) if new else result

    def _sizes(self, sizes: Sequence[Size]) -> Tensor:
        """An int64 tensor with the sizes: a constant, or, if a size is a symbol, computed when the network runs."""
        if not any(isinstance(size, str) for size in sizes):
            return self.recorder.constant(np.array(sizes, np.int64))
        tensors = [self.recorder.size(size) for size in sizes]
        return tensors[0] if len(tensors) == 1 else record("Concat", *tensors, label="sizes", axis=0)

    def axes(self, *dims: int) -> list[int]:
        """The dimensions `dims` as indices of 0 or more. Raises NetworkError for a dimension that the tensor lacks."""
        for dim in dims:
            if not (is_integer(dim) and -self.ndim <= dim < self.ndim):
                raise self.recorder.mistake(f"{self} has no dimension {dim!r}; it has {self.ndim}")
        return [dim % self.ndim for dim in dims]

    def reshape(self, *sizes: Size | Sequence[Size]) -> Tensor:
        """The same elements in another shape, given as several sizes or one tuple of sizes; one size may be -1. Sizes
        may be symbols of inputs.
        """
        given = _spread(sizes)
        if wrong := [size for size in given if not (is_integer(size) or isinstance(size, str))]:
            raise self.recorder.mistake(f"{wrong[0]!r} is not a size; give an integer or a symbol")
        # ONNX reads 0 as the size that the dimension has, and -1 as the size that remains.
        numbers = [
            0 if isinstance(size, str) and self.shape[axis : axis + 1] == (size,) else size
            for axis, size in enumerate(given)
        ]
        symbols = [axis for axis, size in enumerate(numbers) if isinstance(size, str)]
        if len(symbols) == 1 and -1 not in numbers and self.recorder.source(str(numbers[symbols[0]])):
            numbers[symbols[0]] = -1
        known = [None if size == -1 else size for size in given]
        return record("Reshape", self, self._sizes(numbers), label="reshape", shape=known)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        """Merges the dimensions from `start_dim` to `end_dim` (inclusive) into one."""
        first, last = self.axes(start_dim, end_dim)
        behind = last + 1
        sizes = [size for size in self.shape[first:behind] if not isinstance(size, str)]
        joined = prod(sizes) if len(sizes) == behind - first else -1
        return self.reshape(*self.shape[:first], joined, *self.shape[behind:])

    def permute(self, *dims: int | Sequence[int]) -> Tensor:
        """The tensor with its dimensions in the order `dims`, given as several numbers or one tuple."""
        return record("Transpose", self, label="transpose", perm=self.axes(*_spread(dims)))

    def transpose(self, dim0: int, dim1: int) -> Tensor:
        """The tensor with the dimensions `dim0` and `dim1` exchanged."""
        dims, (first, second) = list(range(self.ndim)), self.axes(dim0, dim1)
        dims[first], dims[second] = second, first
        return self.permute(*dims)

    def squeeze(self, *dims: int) -> Tensor:
        """The tensor without the dimensions `dims`, each of size 1."""
        return record("Squeeze", self, np.array(dims), label="squeeze")

    def unsqueeze(self, *dims: int) -> Tensor:
        """The tensor with new dimensions of size 1 at the indices `dims` of the result."""
        return record("Unsqueeze", self, np.array(dims), label="unsqueeze")

    def split(self, sizes: Sequence[int], dim: int = 0) -> list[Tensor]:
        """Parts with the given sizes along the dimension `dim`."""
        if not isinstance(sizes, tuple | list) or not all(is_integer(size) for size in sizes):
            raise self.recorder.mistake(
                f"split is called with {sizes!r}; give a list with the size of each part"
            )
        inputs, axis = [self, self._sizes(sizes)], self.axes(dim)[0]
        return self.recorder.record("Split", inputs, label="split", outputs=len(sizes), axis=axis)

    def mean(self, *dims: int, keepdim: bool = False) -> Tensor:
        """The mean over the dimensions `dims`, by default over all."""
        return record("ReduceMean", self, self._reduced(dims), keepdims=int(keepdim))

    def sum(self, *dims: int, keepdim: bool = False) -> Tensor:
        """The sum over the dimensions `dims`, by default over all."""
        return record("ReduceSum", self, self._reduced(dims), keepdims=int(keepdim))

    def _reduced(self, dims: Sequence[int]) -> np.ndarray:
        """The dimensions of a reduction as an array; () means all."""
        return np.array(self.axes(*(dims or range(self.ndim))), np.int64)

    def cast(self, dtype: str) -> Tensor:
        """The elements converted to the element type of this name, one of `spec.DTYPES` ("float32")."""
        need_dtype(self.recorder.where, dtype)
        return record("Cast", self, label="cast", to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def record(operator: str, *inputs: Operand | None, label: str = "", **attributes: Any) -> Tensor:
    """The first output of a new node of the ONNX operator; `inputs` in ONNX's order, None for an input left out.

    Numbers, and arrays of float64, get the element type of the first tensor. `label` is added to the name of the node;
    `attributes` are the operator's. Raises NetworkError for attributes, shapes and types that the operator does not
    take.
    """
    first = next((item for item in inputs if isinstance(item, Tensor)), None)
    if first is None:
        raise NetworkError(f"{operator}: none of its operands is a tensor; give one, or compute in numpy")
    tensors = [_tensor(item, first) for item in inputs]
    return first.recorder.record(operator, tensors, label=label, **attributes)[0]


def _spread(items: Sequence[Any]) -> tuple[Any, ...]:
    """The items as a tuple; if the only item is a tuple or list, its elements."""
    return tuple(items[0]) if len(items) == 1 and isinstance(items[0], tuple | list) else tuple(items)


def _tensor(item: Operand | None, like: Tensor) -> Tensor | None:
    if item is None or isinstance(item, Tensor):
        return item
    if isinstance(item, int | float | np.number):
        return like.recorder.constant(np.array(item, like.dtype))
    if not isinstance(item, np.ndarray):
        return like.recorder.parameter(item)
    narrow = item.dtype == np.float64 and np.issubdtype(like.dtype, np.floating)
    return like.recorder.constant(item.astype(like.dtype) if narrow else item)

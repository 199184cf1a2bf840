"""Evaluates expressions in all iterations of loops at once, with numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from vdla.util.errors import CodeError

from .affine import LinearForm, linear_form
from .expr import Binary, Buffer, Call, Cast, Const, Expr, Load, Select, Var
from .interp import Functions
from .iteration_axes import Iterations


class EvaluateError(CodeError):
    """Raised for a program that cannot be evaluated on arrays, only by the interpreter. Examples are programs with
    integers or intrinsics, with sums that are not float32, and with sums whose initialization is not in the first
    iteration of their loops.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A buffer's contents as an array. The first axes of the array are the loops `axes` around the buffer's allocation,
    the others are the buffer's dimensions.
    """

    data: np.ndarray
    axes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The contents of buffers by name, and the functions that expressions may call."""

    functions: Functions
    cells: dict[str, Cell] = field(default_factory=dict)

    def positions(self, buffer: Buffer, indices: tuple[Expr, ...], iterations: Iterations) -> tuple[Any, ...]:
        """Index arrays into a buffer's contents for `indices` in all iterations of `iterations`; indices outside of the
        buffer, which occur only under guards, are clipped.
        """
        around = [iterations.variable(name) for name in self.cells[buffer.name].axes]
        own = [
            np.clip(self.value(i, iterations), 0, size - 1)
            for i, size in zip(indices, buffer.shape, strict=True)
        ]
        return (*around, *own)

    def view(self, e: Expr, iterations: Iterations, dtype: type | None = None) -> np.ndarray | None:
        """A strided view of the buffer with the values of a Load in all iterations; None unless the load's indices are
        affine and in range. With `dtype`, the buffer is converted to that type first, and the view is of the converted
        copy.
        """
        if not isinstance(e, Load):
            return None
        cell = self.cells[e.buffer.name]
        forms = [LinearForm({Var(name): 1}, 0) for name in cell.axes] + [linear_form(i) for i in e.indices]
        data = cell.data if dtype is None else cell.data.astype(dtype)
        steps, offset = dict.fromkeys(iterations.axes, 0), 0
        for form, size, stride in zip(forms, data.shape, data.strides, strict=True):
            low = high = form.constant
            for atom, c in form.terms.items():
                if not isinstance(atom, Var):
                    return None
                first, count = iterations.axes.get(atom.name, (iterations.values.get(atom.name, 0), 1))
                ends = (c * first, c * (first + count - 1))
                low, high = low + min(ends), high + max(ends)
                offset += stride * c * first
                if atom.name in steps:
                    steps[atom.name] += stride * c
            if low < 0 or high >= size:
                return None
            offset += stride * form.constant
        begin = data.reshape(-1)[offset // data.itemsize :]
        return as_strided(begin, iterations.shape, list(steps.values()), writeable=False)

    def value(self, e: Expr, iterations: Iterations) -> Any:
        """The values of expression `e` in all iterations: an array with one axis for each loop. An axis may have size 1
        if the value does not depend on its loop. A constant is a scalar.
        """
        match e:
            case Const(value=value, dtype=dtype):
                return dtype.numpy.type(value)
            case Var(name=name):
                return iterations.variable(name)
            case Binary(op=op, a=a, b=b):
                return _BINARY[op](self.value(a, iterations), self.value(b, iterations))
            case Select(condition=condition, then=then, otherwise=otherwise):
                return np.where(*[self.value(part, iterations) for part in (condition, then, otherwise)])
            case Load(buffer=buffer, indices=indices):
                found = self.view(e, iterations)
                return (
                    self.cells[buffer.name].data[self.positions(buffer, indices, iterations)]
                    if found is None
                    else found
                )
            case Cast(value=value, dtype=dtype):
                return np.asarray(self.value(value, iterations)).astype(dtype.numpy)
            case Call(arguments=arguments):
                return self.call(e, [self.value(a, iterations) for a in arguments])

    def call(self, e: Call, arguments: list[Any]) -> np.ndarray:
        """The values of the function that `e` calls, given arrays of its `arguments`; converted to the type of `e`."""
        if e.function not in self.functions:
            raise EvaluateError(f"no implementation of the function {e.function} was given")
        return np.asarray(self.functions[e.function](*arguments)).astype(e.dtype.numpy)


_BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "//": np.floor_divide,
    "%": np.mod,
    # NaN on either side makes the result NaN.
    "min": np.minimum,
    "max": np.maximum,
    "<": np.less,
    "<=": np.less_equal,
    "==": np.equal,
    "!=": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
}

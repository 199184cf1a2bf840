"""One executable for inputs of any length in a range. It consists of several executables, called rungs, each for one
length.

Each input runs on the rung with the least length that is not below the input's length. Inputs are padded behind their
real tokens, by default with zeros. Outputs are cropped to the real tokens. `backends.lengths` checks, when it compiles
the rungs, that pads do not change real outputs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vdla.util.arguments import arrays_by_name
from vdla.util.errors import UserError

from .executable import Arrays, AxisRange, Executable, Port
from .readable import Readable, joined

if TYPE_CHECKING:
    from .network_description import ConstantPool


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """The name (symbol) of a model's variable dimension, and its least and greatest length."""

    symbol: str
    least: int
    most: int

    def __str__(self) -> str:
        return f"{self.symbol} from {self.least} to {self.most}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rung:
    """The executable for one length. `cycles`: its cost in cycles, if known exactly.

    `describe` saves the executable: it adds the executable's arrays to a pool of constants, and returns a JSON object
    with all other data. `describe` is None for targets whose executables cannot be saved.
    """

    length: int
    executable: Executable
    cycles: int | None = None
    describe: Callable[[ConstantPool], dict[str, Any]] | None = None


_Place = tuple[slice, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Fit:
    """Padding and cropping of arrays for one length, computed at the first run with this length.

    So later runs with this length execute little Python code. This matters for short lengths, which run in a tenth of a
    millisecond: even with the precomputed values, Python code takes a tenth of a run with cold caches.

    `expected`: (name, shape, type) of each input. `padded`: (input, padded shape, value of pads, slices of real
    tokens). `cropped`: (output, slices of real tokens).
    """

    length: int
    executable: Executable
    expected: tuple[tuple[str, tuple[int, ...], np.dtype], ...]
    padded: tuple[tuple[str, tuple[int, ...], float, _Place], ...]
    cropped: tuple[tuple[str, _Place], ...]


class LengthsExecutable(Readable):
    """An executable for a range of lengths. It consists of rungs, executables for single lengths, in ascending order of
    length. `pads`: for each input, the value that fills the input behind its real tokens.

    `target`: the target's text for messages and files. `axes`: by input and output, the axes whose size is the length
    plus a constant. `compiled_lengths`: number of lengths that were compiled to choose the rungs. `compile_seconds`:
    the time that their compilation took. Both are 0 for a loaded executable.
    """

    def __init__(
        self,
        *,
        target: str,
        lengths: Lengths,
        rungs: Sequence[Rung],
        axes: Mapping[str, tuple[int, ...]],
        pads: Mapping[str, float],
    ) -> None:
        self.target = target
        self.lengths = lengths
        self.rungs = tuple(rungs)
        self.axes = dict(axes)
        self.pads = dict(pads)
        last = self.rungs[-1].executable
        self.name = last.name
        self.inputs = tuple([self._ranged(port) for port in last.inputs])
        self.outputs = tuple([self._ranged(port) for port in last.outputs])
        self.compile_seconds = 0.0
        self.compiled_lengths = 0
        self._sizes = [rung.length for rung in self.rungs]
        self._ranges = [(port.name, port.ranges[0]) for port in self.inputs if port.ranges]
        self._fits: dict[int, _Fit] = {}

    def _ranged(self, port: Port) -> Port:
        below = self.lengths.most - self.lengths.least
        axes = self.axes.get(port.name, ())
        return replace(
            port,
            ranges=tuple(
                [AxisRange(axis=axis, least=port.shape[axis] - below, most=port.shape[axis]) for axis in axes]
            ),
        )

    def rung(self, length: int) -> Rung:
        """The rung (executable for one length) with the least length that is at least `length`. Raises UserError for a
        length outside of the range.
        """
        if not self.lengths.least <= length <= self.lengths.most:
            raise UserError(f"{self.name}: length {length} is not in the range: {self.lengths}")
        return self.rungs[bisect_left(self._sizes, length)]

    def length(self, inputs: Arrays) -> int:
        """The length of `inputs` along the variable dimension. Raises UserError if an input's length is outside of the
        range, or if two inputs have different lengths; the message names input, axis and range.
        """
        fit = self._fit(inputs)
        return self._checked_length(inputs) if fit is None else fit.length

    def _fit(self, inputs: Arrays) -> _Fit | None:
        """The precomputed padding and cropping (`_Fit`) for valid inputs; None for invalid inputs or a length that has
        not run before.
        """
        if not isinstance(inputs, Mapping):
            return None
        for name, among in self._ranges[:1]:
            first = inputs.get(name)
            if not isinstance(first, np.ndarray) or first.ndim <= among.axis:
                return None
            fit = self._fits.get(first.shape[among.axis] - among.most + self.lengths.most)
            if fit is None or len(inputs) != len(fit.expected):
                return None
            for key, shape, dtype in fit.expected:
                array = inputs.get(key)
                if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != dtype:
                    return None
            return fit
        return None

    def _new_fit(self, length: int) -> _Fit:
        rung = self.rung(length)
        own = [(port, self._shape(port, length)) for port in self.inputs]
        pads = rung.length - length
        return _Fit(
            length=length,
            executable=rung.executable,
            expected=tuple([(port.name, shape, port.dtype) for port, shape in own]),
            padded=tuple(
                [
                    (port.name, self._shape(port, rung.length), self.pads.get(port.name, 0), _place(shape))
                    for port, shape in own
                    if pads and port.ranges
                ]
            ),
            cropped=tuple(
                [
                    (port.name, _place(self._shape(port, length)))
                    for port in self.outputs
                    if pads and port.ranges
                ]
            ),
        )

    def _shape(self, port: Port, length: int) -> tuple[int, ...]:
        below = {item.axis: self.lengths.most - length for item in port.ranges}
        return tuple([size - below.get(axis, 0) for axis, size in enumerate(port.shape)])

    def _checked_length(self, inputs: Arrays) -> int:
        known = {port.name: port for port in self.inputs}
        for name in arrays_by_name(inputs):
            if name not in known:
                raise UserError(f"{self.name} has no input '{name}'; it has {', '.join(known)}")
        found: dict[str, int] = {}
        for name, port in known.items():
            if name not in inputs:
                raise UserError(f"{self.name}: input '{name}' is missing; give an array of that name")
            array = inputs[name]
            if array.dtype != port.dtype:
                raise UserError(
                    f"input '{name}' must be {port.dtype}, not {array.dtype}; convert it with .astype"
                )
            self._check_shape(port, array, found)
        # A range of a single length has no ranged axis.
        return next(iter(found.values()), self.lengths.most)

    def _check_shape(self, port: Port, array: np.ndarray, found: dict[str, int]) -> None:
        """Raises UserError if the shape of `array` does not fit `port`, or if it gives another length than the lengths
        already in `found`. For each axis whose size may vary, adds the length to `found`; the key is a text that names
        the input and the axis.
        """
        if array.ndim != len(port.shape):
            raise UserError(
                f"input '{port.name}' has {array.ndim} dimensions; it needs {len(port.shape)}: "
                f"{shape_text(port, self.lengths)}"
            )
        ranged = {item.axis: item for item in port.ranges}
        for axis, (size, needed) in enumerate(zip(array.shape, port.shape, strict=True)):
            if axis not in ranged:
                if size != needed:
                    raise UserError(
                        f"input '{port.name}': axis {axis} has {size} elements, but must have {needed}"
                    )
                continue
            allowed = ranged[axis]
            if not allowed.least <= size <= allowed.most:
                raise UserError(
                    f"input '{port.name}': axis {axis} ({self.lengths.symbol}) has {size} elements, but was "
                    f"compiled for {allowed.least} to {allowed.most}"
                )
            length = size - allowed.most + self.lengths.most
            for other, known in found.items():
                if known != length:
                    raise UserError(
                        f"input '{port.name}': axis {axis} gives {self.lengths.symbol} = {length}, but {other} "
                        f"gives {known}; all inputs must agree"
                    )
            found[f"input '{port.name}': axis {axis}"] = length

    def run(self, inputs: Arrays, **options: Any) -> dict[str, np.ndarray]:
        """One inference of inputs of any length in the range: runs the executable for the least compiled length that is
        not below the inputs' length, with these `options`.

        Raises UserError for arrays that do not fit the inputs.
        """
        fit = self._fit(inputs)
        if fit is None:
            length = self._checked_length(inputs)
            fit = self._fits[length] = self._new_fit(length)
        if fit.padded:
            inputs = dict(inputs)
            for name, shape, pad, place in fit.padded:
                array = inputs[name]
                inputs[name] = full = np.empty(shape, array.dtype)
                full.fill(pad)
                full[place] = array
        results = fit.executable.run(inputs, **options)
        for name, place in fit.cropped:
            results[name] = results[name][place]
        return results

    def source(self, kind: str) -> str:
        """The sources of the executables for all compiled lengths, in the order of their lengths."""
        return joined(kind, [(f"length {r.length}", r.executable.source(kind)) for r in self.rungs])

    def close(self) -> None:
        """Closes the executables for all compiled lengths."""
        for rung in self.rungs:
            rung.executable.close()


def _place(shape: tuple[int, ...]) -> _Place:
    return tuple([slice(size) for size in shape])


def shape_text(port: Port, lengths: Lengths) -> str:
    """A port's shape as text with the symbol's name, for example [1, sequence]."""
    ranged = {item.axis: item.most for item in port.ranges}
    sizes = [
        str(size) if axis not in ranged else _sum(lengths.symbol, ranged[axis] - lengths.most)
        for axis, size in enumerate(port.shape)
    ]
    return f"[{', '.join(sizes)}]"


def _sum(symbol: str, more: int) -> str:
    return symbol if not more else f"{symbol} {'+' if more > 0 else '-'} {abs(more)}"

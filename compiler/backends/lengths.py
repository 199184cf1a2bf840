"""compile_lengths: makes one executable of a model that takes inputs of any length in a range.

The model is compiled for a few lengths, the rungs (`length_rungs`); their executables share constants. Padding must not
change the outputs of real tokens. Before the result is returned, this is tested on a few lengths: each is compared with
an executable for that length alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from vdla.util.errors import UserError

from ..frontends.onnx.model.read import Source
from ..frontends.onnx.model.sizes import sized_models
from ..runtime.archive_fields import ArchiveError, Field
from ..runtime.executable import Executable, Port
from ..runtime.lengths import Lengths, LengthsExecutable, Rung
from ..runtime.lengths_archive import Read
from ..runtime.lengths_archive import load_lengths as read_lengths
from ..runtime.shared_arrays import SharedArrays
from .backend import Backend, CompileOptions
from .length_rungs import LADDER_TOLERANCE, TOLERANCE, rungs_by_cost, rungs_by_ratio
from .registry import backend_of

FLOAT_DIFFERENCE = 1e-5
"""Tolerance of float outputs in the test of padding, relative to the output's largest magnitude. A tolerance is needed
because kernels for different lengths round differently.
"""
SEED = 0
Progress = Callable[[int], object]
"""A function that reports progress: called with each sequence length that is compiled."""


@runtime_checkable
class LengthsBackend(Backend, Protocol):
    """A backend that compiles models for all input lengths in a range."""

    def compile_length(
        self, model: Source, options: CompileOptions, shared: SharedArrays, length: int
    ) -> Rung:
        """Compiles the model to an executable (a rung) for inputs of `length` tokens; the model's shapes are already
        fixed for this length. Its constants are stored in `shared`. Raises UserError.
        """
        ...

    def read_rungs(
        self, path: Path, entries: Sequence[Field], arrays: Mapping[str, np.ndarray]
    ) -> Sequence[Executable]:
        """Makes the executables of an archive. `entries` has one item for each executable: the fields that
        `Rung.describe` returned when the archive was saved. `arrays`: all arrays of the archive. Raises ArchiveError.
        """
        ...

    @property
    def exact(self) -> bool:
        """Whether the target computes with integers only, so that padding of inputs must not change a single bit of the
        results for real tokens.
        """
        ...


@dataclass(slots=True, kw_only=True)
class _Work:
    """Cache of rungs (executables) by input length; each length is compiled once. `sized`: a function that returns the
    model with given sizes of its symbols. `symbol`: the symbol of the input length. `told`: called with each length
    that is compiled.
    """

    sized: Callable[[Mapping[str, int]], Source]
    backend: LengthsBackend
    options: CompileOptions
    symbol: str
    told: Progress | None
    shared: SharedArrays = field(default_factory=SharedArrays)
    compiled: dict[int, Rung] = field(default_factory=dict)

    def rung(self, length: int) -> Rung:
        if length not in self.compiled:
            if self.told is not None:
                self.told(length)
            self.compiled[length] = self.backend.compile_length(
                self.sized({self.symbol: length}), self.options, self.shared, length
            )
        return self.compiled[length]

    def cycles(self, length: int) -> int:
        """Cycles of the accelerator's part of the executable for a length; 0 if nothing runs on the accelerator."""
        return self.rung(length).cycles or 0


def compile_lengths(
    model: Source,
    backend: Backend,
    options: CompileOptions,
    lengths: Lengths,
    *,
    tolerance: float | None = None,
    pads: Mapping[str, float] | None = None,
    told: Progress | None = None,
) -> LengthsExecutable:
    """Compiles an ONNX model for all input lengths in `lengths`. In the model's shapes, the symbol `lengths.symbol`
    stands for the length.

    `tolerance`: largest extra cost of padding a length to its rung, relative to an executable for the length alone
    (None: a default of `length_rungs`). Costs are exact cycles if the target has them. `pads`: maps an input's name to
    the value that pads the input (default 0). `told` is called with each length that is compiled. Raises UserError for
    an unsupported target or model, and if outputs of real tokens depend on pads.
    """
    started = time.perf_counter()
    if not isinstance(backend, LengthsBackend):
        raise UserError(
            f'target "{options.target}": supports fixed lengths only; use vdla, llvm or "vdla,llvm", or give the '
            f"size: --dim {lengths.symbol}=SIZE"
        )
    _check_range(lengths, tolerance)
    work = _Work(
        sized=sized_models(model), backend=backend, options=options, symbol=lengths.symbol, told=told
    )
    most, least = work.rung(lengths.most), work.rung(lengths.least)
    axes = _axes(least, most, lengths)
    pads = {} if pads is None else dict(pads)
    _check_pads(pads, most.executable)

    def made(sizes: Sequence[int]) -> LengthsExecutable:
        return LengthsExecutable(
            target=options.target,
            lengths=lengths,
            rungs=[work.rung(length) for length in sizes],
            axes=axes,
            pads=pads,
        )

    # Refuse a model before many lengths are compiled.
    _check_exact(made([lengths.most]), work)
    if most.cycles is None:
        share = LADDER_TOLERANCE if tolerance is None else tolerance
        chosen = rungs_by_ratio(lengths.least, lengths.most, share)
    else:
        share = TOLERANCE if tolerance is None else tolerance
        chosen = rungs_by_cost(lengths.least, lengths.most, work.cycles, share)
    found = made(chosen)
    _check_exact(found, work)
    for length, rung in work.compiled.items():
        if length not in chosen:
            rung.executable.close()
    found.compiled_lengths = len(work.compiled)
    found.compile_seconds = time.perf_counter() - started
    return found


def load_lengths(path: Path) -> LengthsExecutable:
    """Loads the executable in a file that `save_lengths` wrote, for the target named in the file. Raises ArchiveError
    for other files.
    """

    def reader(target: str) -> Read:
        try:
            backend = backend_of(target)
        except UserError:
            backend = None
        if not isinstance(backend, LengthsBackend):
            raise ArchiveError(
                f'{path}: is a model compiled for several input lengths on target "{target}", which has no such files; '
                "compile the model again for vdla or llvm"
            )
        return backend.read_rungs

    return read_lengths(path, reader)


def _check_range(lengths: Lengths, tolerance: float | None) -> None:
    if not 1 <= lengths.least <= lengths.most:
        raise UserError(
            f"lengths of {lengths.symbol}: {lengths.least} to {lengths.most} is not a range; give the smallest length "
            "first, 1 or more"
        )
    if tolerance is not None and not 0 <= tolerance <= 10:
        raise UserError(
            f"tolerance {tolerance}: give the allowed slowdown as a fraction from 0 to 10, such as 0.05"
        )


def _axes(least: Rung, most: Rung, lengths: Lengths) -> dict[str, tuple[int, ...]]:
    """For each input and output, by name, the axes whose size depends on the input length. Their sizes differ between
    the executable for the least length and the executable for the largest length. Raises UserError if the size of such
    an axis does not grow by one for each token.
    """
    axes: dict[str, tuple[int, ...]] = {}
    for what, ports, longer in (
        ("input", least.executable.inputs, most.executable.inputs),
        ("output", least.executable.outputs, most.executable.outputs),
    ):
        for port, other in zip(ports, longer, strict=True):
            found = [axis for axis, size in enumerate(port.shape) if size != other.shape[axis]]
            for axis in found:
                if other.shape[axis] - port.shape[axis] != lengths.most - lengths.least:
                    raise UserError(
                        f"{what} '{port.name}': axis {axis} has {port.shape[axis]} elements for {lengths.symbol} "
                        f"{lengths.least} and {other.shape[axis]} elements for {lengths.symbol} {lengths.most}, but "
                        f"must grow by one element per token; give a fixed size: --dim {lengths.symbol}=SIZE"
                    )
            axes[port.name] = tuple(found)
    return axes


def _check_pads(pads: Mapping[str, float], executable: Executable) -> None:
    known = [port.name for port in executable.inputs]
    for name, value in pads.items():
        if name not in known:
            raise UserError(f"pad of '{name}': the model has no such input; it has {', '.join(known)}")
        port = next(port for port in executable.inputs if port.name == name)
        try:
            exact = port.dtype.kind == "f" or np.array(value).astype(port.dtype) == value
        except (OverflowError, ValueError):
            exact = False
        if not exact:
            raise UserError(
                f"pad of '{name}': {value:g} is not a value of {port.dtype}, the type of the input; give a "
                "value of this type"
            )


def _check_exact(found: LengthsExecutable, work: _Work) -> None:
    """Raises UserError if outputs of real tokens depend on pads. Tests up to three rungs (lengths with an executable).
    The test takes the shortest input length that is padded to the rung. The rung's executable must give the same
    outputs as an executable for this length alone. Floats may differ by FLOAT_DIFFERENCE, unless the backend is
    `exact`.
    """
    chosen = [rung.length for rung in found.rungs]
    lows = [found.lengths.least, *[length + 1 for length in chosen[:-1]]]
    padded = [(low, high) for low, high in zip(lows, chosen, strict=True) if low < high]
    tried = dict.fromkeys([padded[0], padded[len(padded) // 2], padded[-1]]) if padded else {}
    for low, high in tried:
        own = work.rung(low).executable
        inputs = check_inputs_of(own)
        expected, results = own.run(inputs), found.run(inputs)
        for name, array in expected.items():
            if not _equal(array, results[name], exact=work.backend.exact):
                masks = ", ".join(name for name, among in found.axes.items() if among and name in inputs)
                raise UserError(
                    f"{found.name}: results of real tokens depend on padded tokens: for {found.lengths.symbol}={low}, "
                    f"output '{name}' changes when the inputs are padded to {high}. There are three remedies. Add an "
                    "input to the model that masks padded tokens. Or, if an input does so already, pad it with the "
                    f"value that means 'masked': pad NAME=VALUE, NAME one of {masks}. Or compile the model for a "
                    f"single length, which needs no padding: --dim {found.lengths.symbol}={high}"
                )


def check_inputs_of(executable: Executable) -> dict[str, np.ndarray]:
    """Inputs for the test of pads: integers are 1, valid as ids, types and masks; floats are normally distributed."""
    rng = np.random.default_rng(SEED)
    return {port.name: _tried(port, rng) for port in executable.inputs}


def _tried(port: Port, rng: np.random.Generator) -> np.ndarray:
    if port.dtype.kind in "iub":
        return np.ones(port.shape, port.dtype)
    return rng.standard_normal(port.shape).astype(port.dtype)


def _equal(expected: np.ndarray, found: np.ndarray, *, exact: bool) -> bool:
    if expected.shape != found.shape:
        return False
    if exact or expected.dtype.kind in "iub":
        return np.array_equal(expected, found, equal_nan=expected.dtype.kind == "f")
    a, b = expected.astype(np.float64), found.astype(np.float64)
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return False
    finite = np.isfinite(a)
    most = np.abs(a[finite]).max(initial=0)
    return bool((np.abs(a - b)[finite] <= FLOAT_DIFFERENCE * most).all())

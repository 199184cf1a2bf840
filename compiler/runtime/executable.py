"""The protocol of compiled networks and kernels on every target: arrays by name in, arrays by name out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisRange:
    """An axis whose size may differ from run to run, from `least` to `most`."""

    axis: int
    least: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """An input or an output: its name in the model, its numpy type and its shape.

    `shape` has the greatest sizes; axes in `ranges` may be smaller. `rows`: the number of rows of a table, if the
    elements of the input are ids of its rows (in -rows .. rows - 1); else None.
    """

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    ranges: tuple[AxisRange, ...] = ()
    rows: int | None = None


class Executable(Protocol):
    """A compiled network or kernel. `close`, or the end of a `with` block, frees its threads, memory and devices."""

    @property
    def name(self) -> str:
        """The model's own name."""
        ...

    @property
    def inputs(self) -> tuple[Port, ...]:
        """The arrays that `run` takes."""
        ...

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The arrays that `run` returns."""
        ...

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """One inference: new arrays by the outputs' names. Raises UserError for arrays that do not fit the inputs."""
        ...

    def source(self, kind: str) -> str:
        """The code that runs, as text: "instructions" of the accelerator, "llvm" (IR) or "asm" of a processor, "cuda"
        (C++), "opencl" (C) or "wgsl" of a GPU. Raises UserError, which names the available kinds, for any other.
        """
        ...

    def close(self) -> None:
        """Frees the executable's threads, memory and devices."""
        ...

    def __enter__(self) -> Self:
        """The executable itself, for a `with` block that closes it."""
        ...

    def __exit__(self, *_: object) -> None:
        """Closes the executable."""
        ...

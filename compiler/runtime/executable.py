"""What compilation gives, on every target: arrays by name in, arrays by name out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisRange:
    """An axis whose size each run chooses, from `least` to `most`."""

    axis: int
    least: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """An input or an output: its name in the model, its numpy type and its shape.

    Axes in `ranges` may have other sizes than `shape`, which has the greatest.
    """

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    ranges: tuple[AxisRange, ...] = ()


class Executable(Protocol):
    """A compiled network or kernel. Threads, memory and devices that it holds go with `close`, or a `with` block."""

    @property
    def name(self) -> str:
        """What the model calls itself."""
        ...

    @property
    def inputs(self) -> tuple[Port, ...]:
        """What `run` takes."""
        ...

    @property
    def outputs(self) -> tuple[Port, ...]:
        """What `run` gives."""
        ...

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """One inference: fresh arrays by the outputs' names. UserError for arrays that are not the inputs."""
        ...

    def source(self, kind: str) -> str:
        """The code that runs, as text: "instructions" of the accelerator, "llvm" (IR) or "asm" of a processor, "cuda"
        (C++) or "opencl" (C) of a GPU. UserError, which names those that there are, for any other kind."""
        ...

    def close(self) -> None:
        """Gives back what the executable holds."""
        ...

    def __enter__(self) -> Self:
        """The executable, for a `with` block that closes it."""
        ...

    def __exit__(self, *_: object) -> None:
        """Closes it."""
        ...

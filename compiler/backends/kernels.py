"""Targets that run networks kernel by kernel: processors and GPUs. What they share, as protocols.

A `KernelCompiler` needs no device: it names what decides the bytes of compiled code and writes archives. A
`KernelDevice` is a compiler with a device of this machine behind it, opened: it also loads and runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from ..runtime.executable import Arrays, Executable

if TYPE_CHECKING:
    from ..graph.onnx_read import Source
    from ..graph.storage_plan import StoragePlan
    from ..templates.chosen_knobs import ChosenKnobs
    from ..tune.records.book import RecordBook

Told = Callable[[int, int], object]
"""Hears how many kernels are done, and of how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """A device at its best: operations a second, and bytes a second from its memory."""

    operations: float
    bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A compiled network in a file: how many kernels and launches, and bytes of its tensors but constants and scratch,
    as planned and as they would be without reuse."""

    kernels: int
    launches: int
    arena_bytes: int
    arena_bytes_without_reuse: int


class _Code(Protocol):
    """A compiled network, not loaded: what those of all targets have."""

    @property
    def modules(self) -> Sequence[object]: ...

    @property
    def launches(self) -> Sequence[object]: ...

    @property
    def plan(self) -> StoragePlan: ...


def saved_code(code: _Code) -> Saved:
    """The counts of a compiled network that was just saved."""
    return Saved(
        kernels=len(code.modules),
        launches=len(code.launches),
        arena_bytes=code.plan.bytes,
        arena_bytes_without_reuse=code.plan.bytes_without_reuse,
    )


def saved_of(description: Mapping[str, Any], kernels: str) -> Saved:
    """The counts in the description of an archive, whose list of kernels is under the key `kernels`."""
    return Saved(
        kernels=len(description[kernels]),
        launches=len(description["launches"]),
        arena_bytes=description["arena_bytes"],
        arena_bytes_without_reuse=description["arena_bytes_without_reuse"],
    )


class KernelTime(Protocol):
    """What one kernel took, in the median of the runs; a dataclass, whose fields a report shows."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def name(self) -> str:
        """The node."""
        ...

    @property
    def operator(self) -> str:
        """What it computes."""
        ...

    @property
    def members(self) -> tuple[str, ...]:
        """The ONNX nodes in it."""
        ...

    @property
    def milliseconds(self) -> float:
        """Time of one run."""
        ...

    @property
    def gflops(self) -> float:
        """Operations a nanosecond; 0 where nothing is counted."""
        ...


class KernelNetwork(Executable, Protocol):
    """A compiled network of kernels. `again` compiles it once more, where it comes from a file without its sources."""

    again: Callable[[], Executable] | None

    def run(self, inputs: Arrays, *, threads: int = 1) -> dict[str, np.ndarray]:
        """One inference on so many threads of a processor; GPUs use all they have."""
        ...

    def profile(self, inputs: Arrays, *, threads: int = 1, repeat: int = 20) -> Sequence[KernelTime]:
        """The time of each kernel, in the order of their runs."""
        ...


class KernelCompiler(Protocol):
    """Compiles networks for one target into archives."""

    @property
    def label(self) -> str:
        """What the target is called while it is compiled for."""
        ...

    @property
    def full_label(self) -> str:
        """The same with all that a file is for."""
        ...

    def describe(self) -> dict[str, Any]:
        """The target as JSON documents have it."""
        ...

    def decided(self) -> Mapping[str, Any]:
        """What decides the bytes of an archive beside the model, the batch and the records, as JSON has it."""
        ...

    def remark(self, model: Source) -> str | None:
        """What a user should know of how this target computes a model; None for nothing."""
        ...

    def knobs(self, records: RecordBook | None) -> ChosenKnobs[Any] | None:
        """The knobs that records choose, for one compilation; None without records."""
        ...

    def save(
        self,
        path: Path,
        model: Source,
        *,
        batch: int,
        knobs: ChosenKnobs[Any] | None,
        dump_passes: Path | None = None,
        told: Told | None = None,
    ) -> Saved:
        """Compiles a model into the files of `files(path)`. Raises UserError."""
        ...

    def files(self, output: Path) -> tuple[Path, ...]:
        """What `save` writes for a file of this name: one is an archive. UserError where it says nothing to write."""
        ...

    def describe_saved(self, path: Path) -> Saved:
        """What is in an archive that `save` wrote."""
        ...


class KernelDevice(KernelCompiler, Protocol):
    """A target of which this machine has the device. What it loads and compiles is closed before it is."""

    @property
    def device(self) -> str:
        """Its name, as in "cpu" and "cuda:0"."""
        ...

    def describe_device(self) -> dict[str, Any]:
        """The device as JSON documents have it, `device` among the keys."""
        ...

    def describe_network(self, network: KernelNetwork) -> dict[str, Any]:
        """The target that a network was compiled for, which an archive decides: `describe` of it."""
        ...

    def profile_title(self, network: KernelNetwork) -> str:
        """What stands above a profile."""
        ...

    def peaks(self, network: KernelNetwork) -> Peaks | None:
        """What the device can do at most; None where it is not known."""
        ...

    def compile(
        self,
        model: Source,
        *,
        batch: int,
        knobs: ChosenKnobs[Any] | None = None,
        dump_passes: Path | None = None,
        told: Told | None = None,
    ) -> KernelNetwork:
        """Compiles a model and loads it. Raises UserError."""
        ...

    def load(self, path: Path, *, trusted: bool = False) -> KernelNetwork:
        """Loads an archive; of a `trusted` one, which this user's cache holds, checksums are not looked at again."""
        ...

    def device_milliseconds(self, network: KernelNetwork, inputs: Arrays, repeat: int) -> list[float] | None:
        """What each of `repeat` runs takes by the device's own clock; None where it has none."""
        ...

    def times_text(self, network: KernelNetwork, threads: int, milliseconds: str) -> str:
        """The line that tells people how long a network takes."""
        ...

    def close(self) -> None:
        """Gives the device back."""
        ...

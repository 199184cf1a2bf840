"""Protocols of targets that run networks kernel by kernel: processors and GPUs.

A `KernelCompiler` needs no device: it writes archives, and names the settings that decide their bytes. A `KernelDevice`
is a compiler with an open device of this machine: it also loads and runs networks.
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
    from ..records.book import RecordBook
    from ..runtime.archive import Saved
    from ..templates.chosen_knobs import ChosenKnobs

Progress = Callable[[int, int], object]
"""Progress callback: gets the number of kernels done, and of all kernels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """Peak rates of a device: operations a second, and bytes a second from its memory."""

    operations: float
    bytes: float


class KernelTime(Protocol):
    """Median time of one kernel over the runs; a dataclass, whose fields a report shows."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def name(self) -> str:
        """The node."""
        ...

    @property
    def operator(self) -> str:
        """The name of its operator."""
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
        """Operations a nanosecond; 0 if no operations are counted."""
        ...


class KernelNetwork(Executable, Protocol):
    """A compiled network of kernels. `again` compiles it once more if it comes from a file without sources."""

    again: Callable[[], Executable] | None

    def run(self, inputs: Arrays, *, threads: int = 1) -> dict[str, np.ndarray]:
        """One inference on `threads` threads of a processor; GPUs ignore `threads`."""
        ...

    def profile(self, inputs: Arrays, *, threads: int = 1, repeat: int = 20) -> Sequence[KernelTime]:
        """The time of each kernel, in the order of their runs."""
        ...


class KernelCompiler(Protocol):
    """Compiles networks for one target into archives."""

    @property
    def label(self) -> str:
        """The target's short name in progress messages."""
        ...

    @property
    def full_label(self) -> str:
        """The target's full name, for messages on files."""
        ...

    def describe(self) -> dict[str, Any]:
        """The target as JSON documents have it."""
        ...

    def decided(self) -> Mapping[str, Any]:
        """The settings that decide an archive's bytes beside model, batch and records, as JSON values."""
        ...

    def remark(self, model: Source) -> str | None:
        """A remark for the user on this target's computation of a model; None if there is none."""
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
        told: Progress | None = None,
    ) -> Saved:
        """Compiles a model into the files of `files(path)`. Raises UserError."""
        ...

    def files(self, output: Path) -> tuple[Path, ...]:
        """The files that `save` writes for `output`; a single file is an archive. UserError for an unknown suffix."""
        ...

    def describe_saved(self, path: Path) -> Saved:
        """Counts of an archive that `save` wrote."""
        ...


class KernelDevice(KernelCompiler, Protocol):
    """A target with a device of this machine. Its networks must be closed before the device."""

    @property
    def device(self) -> str:
        """The device's name, such as "cpu" and "cuda:0"."""
        ...

    def describe_device(self) -> dict[str, Any]:
        """The device as JSON documents have it, `device` among the keys."""
        ...

    def describe_network(self, network: KernelNetwork) -> dict[str, Any]:
        """The description of the target that a network (perhaps from an archive) was compiled for, as `describe`."""
        ...

    def profile_title(self, network: KernelNetwork) -> str:
        """The title of a profile."""
        ...

    def peaks(self, network: KernelNetwork) -> Peaks | None:
        """Peak rates of the device; None if they are not known."""
        ...

    def compile(
        self,
        model: Source,
        *,
        batch: int,
        knobs: ChosenKnobs[Any] | None = None,
        dump_passes: Path | None = None,
        told: Progress | None = None,
    ) -> KernelNetwork:
        """Compiles a model and loads it. Raises UserError."""
        ...

    def load(self, path: Path, *, trusted: bool = False) -> KernelNetwork:
        """Loads an archive; checksums of a `trusted` archive, from this user's cache, are not verified."""
        ...

    def device_milliseconds(self, network: KernelNetwork, inputs: Arrays, repeat: int) -> list[float] | None:
        """Milliseconds of each of `repeat` runs by the device's own clock; None if it has no clock."""
        ...

    def times_text(self, network: KernelNetwork, threads: int, milliseconds: str) -> str:
        """The output line with a network's run time."""
        ...

    def close(self) -> None:
        """Closes the device."""
        ...

"""Protocols of targets that run networks kernel by kernel: processors and GPUs.

A `KernelCompiler` needs no device: it writes archives, and names the settings that determine the archives' bytes. A
`KernelDevice` is a compiler with an open device of this computer: it also loads and runs networks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypedDict, Unpack

import numpy as np

from ..runtime.executable import Arrays, Executable

if TYPE_CHECKING:
    from ..frontends.onnx.model.read import Source
    from ..records.book import RecordBook
    from ..runtime.archive import Saved
    from ..templates.chosen_knobs import ChosenKnobs

Progress = Callable[[int, int], object]
"""Callback on progress: gets the number of compiled kernels and the number of all kernels."""


class Settings(TypedDict, total=False):
    """Settings of the compilation of a model into a network of kernels: keyword arguments of
    `pipeline.compile_kernels`.

    `batch`: size of a dynamic first dimension of the inputs. `knobs`: chosen knobs (None: defaults). `dump_passes`:
    folder that receives the program after each pass. `told` is called after each kernel, with the number of finished
    kernels and the number of all kernels.
    """

    batch: int
    knobs: ChosenKnobs[Any] | None
    dump_passes: Path | None
    told: Progress | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """Peak rates of a device: arithmetic operations per second, and bytes per second read from its memory."""

    operations: float
    bytes: float


class KernelTime(Protocol):
    """Median time of one kernel over several runs of the network. Implementations are dataclasses, whose fields a
    report shows.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def name(self) -> str:
        """The name of the kernel's node."""
        ...

    @property
    def operator(self) -> str:
        """The name of the node's operator."""
        ...

    @property
    def members(self) -> tuple[str, ...]:
        """The names of the ONNX nodes that the kernel computes."""
        ...

    @property
    def milliseconds(self) -> float:
        """The median milliseconds of a single run of the kernel."""
        ...

    @property
    def gflops(self) -> float:
        """Arithmetic throughput of the kernel in operations per nanosecond (GFLOP/s); 0 if the kernel's operations are
        not counted.
        """
        ...


class KernelNetwork(Executable, Protocol):
    """A compiled network of kernels. `again`: a network that is loaded from the cache has no source text; for such a
    network, this function compiles the model once more to get the text. None for other networks.
    """

    again: Callable[[], Executable] | None

    def run(self, inputs: Arrays, *, threads: int = 1) -> dict[str, np.ndarray]:
        """The outputs of one inference, by name, on `threads` threads of a processor; GPUs ignore `threads`."""
        ...

    def profile(self, inputs: Arrays, *, threads: int = 1, repeat: int = 20) -> Sequence[KernelTime]:
        """The median time of each kernel over `repeat` runs, in the order of execution."""
        ...


class KernelCompiler(Protocol):
    """Compiles networks for one target into archives."""

    @property
    def label(self) -> str:
        """The target's short name in progress messages."""
        ...

    @property
    def full_label(self) -> str:
        """The target's full name, for messages about files."""
        ...

    def describe(self) -> dict[str, Any]:
        """The description of the target in JSON documents."""
        ...

    def archive_settings(self) -> Mapping[str, Any]:
        """The settings that determine an archive's bytes, as JSON values. Model, batch and tuning records also
        determine them, and are left out.
        """
        ...

    def remark(self, model: Source) -> str | None:
        """A remark for the user on how this target computes a model; None if there is none."""
        ...

    def knobs(self, records: RecordBook | None) -> ChosenKnobs[Any] | None:
        """The knobs that the tuner's records choose, as an object for a single compilation. None without records."""
        ...

    def save(self, path: Path, model: Source, **settings: Unpack[Settings]) -> Saved:
        """Compiles a model into the files of `files(path)`. Raises UserError."""
        ...

    def files(self, output: Path) -> tuple[Path, ...]:
        """The files that `save` writes for `output`; a single file is an archive. Raises UserError for an unknown
        suffix.
        """
        ...

    def describe_saved(self, path: Path) -> Saved:
        """Describes an archive that `save` wrote: its numbers of kernels and launches, and the bytes of its arenas."""
        ...


class KernelDevice(KernelCompiler, Protocol):
    """A target with a device of this computer. The device's networks must be closed before the device."""

    @property
    def device(self) -> str:
        """The device's name, such as "cpu" or "cuda:0"."""
        ...

    def describe_device(self) -> dict[str, Any]:
        """A description of the device for JSON documents, which includes its name under the key "device"."""
        ...

    def describe_network(self, network: KernelNetwork) -> dict[str, Any]:
        """Describes the target for which a network was compiled, in the form of `describe`. The network may come from
        an archive, so that its target need not be this device.
        """
        ...

    def profile_title(self, network: KernelNetwork) -> str:
        """The title of a network's profile."""
        ...

    def peaks(self, network: KernelNetwork) -> Peaks | None:
        """Peak rates of the device; None if they are not known."""
        ...

    def compile(self, model: Source, **settings: Unpack[Settings]) -> KernelNetwork:
        """Compiles a model and loads the network on the device. Raises UserError."""
        ...

    def load(self, path: Path, *, trusted: bool = False) -> KernelNetwork:
        """Loads an archive. If it is `trusted`, that is, from this user's cache, checksums are not verified."""
        ...

    def device_milliseconds(self, network: KernelNetwork, inputs: Arrays, repeat: int) -> list[float] | None:
        """Milliseconds of each of `repeat` runs by the device's own clock. None for a device without a clock."""
        ...

    def times_text(self, network: KernelNetwork, threads: int, milliseconds: str) -> str:
        """The output line that reports a network's run time. `threads`: number of the processor's threads that ran the
        network. `milliseconds`: the time, formatted as text.
        """
        ...

    def close(self) -> None:
        """Closes the device."""
        ...

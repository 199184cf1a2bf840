"""The protocol of targets. A backend is a value with one explicit line in `table`; nothing outside asks which it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from vdla.isa.config import Config, load_config

if TYPE_CHECKING:
    from ..graph.onnx_read import Source
    from ..ir.stmt import Program
    from ..runtime.executable import Executable
    from ..schedule import Schedule
    from ..tune.records.book import RecordBook
    from .kernels import KernelCompiler, KernelDevice, KernelNetwork


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOptions:
    """What a compilation is asked for, on whatever target.

    `target` is the target as a user writes it: the backend's name and its own options ("llvm -mcpu=..."). `config` is
    the accelerator's configuration, `virtual_threads` how many copies of its buffers overlap; `device` names a device
    where there are several ("0", "1" or "emulated" for GPUs; None: the first). A dynamic first dimension of the
    model's inputs becomes `batch`. `records` of the tuner set the knobs that they know. `dump_passes` names a folder
    that gets the program after each pass.
    """

    target: str
    config: Config | None = None
    virtual_threads: int = 2
    device: str | None = None
    batch: int = 1
    records: RecordBook | None = None
    dump_passes: Path | None = None

    @property
    def machine(self) -> Config:
        """The configuration, `vta` unless one is given."""
        return load_config("vta") if self.config is None else self.config


class Backend(Protocol):
    """How one kind of target compiles networks and scheduled expressions, loads what it saved, and describes itself."""

    @property
    def name(self) -> str:
        """The first word of its targets."""
        ...

    def compile(self, model: Source, options: CompileOptions) -> Executable:
        """An ONNX model, compiled. Raises UserError, which names the node and what to do."""
        ...

    def build(self, schedule: Schedule | Program, options: CompileOptions) -> Executable:
        """A scheduled tensor expression, compiled; a program without a schedule gets the backend's plain one.

        Its inputs are the parameters that it reads, its outputs those that it writes. UserError where the schedule is
        none for this target.
        """
        ...

    def load(self, path: Path, options: CompileOptions) -> Executable:
        """What `vdla compile` saved for this target. UserError for any other file."""
        ...

    def describe(self, options: CompileOptions) -> Mapping[str, Any]:
        """The target's memories, intrinsics and capabilities, by name, as JSON has them."""
        ...


@runtime_checkable
class KernelBackend(Backend, Protocol):
    """A backend whose networks are kernels, one after the other: what `vdla compile` saves, `vdla run` times."""

    def compiler(self, options: CompileOptions) -> KernelCompiler:
        """What compiles into archives; this machine needs no such device."""
        ...

    def open(self, options: CompileOptions) -> KernelDevice:
        """A device of this machine. UserError where there is none, or it cannot run code for the target."""
        ...

    def load_cached(self, path: Path, device: KernelDevice) -> KernelNetwork:
        """The network of an archive in this user's cache, on a device that `open` gave, which the network closes."""
        ...

"""The protocol that every target implements (`Backend`). `registry.BACKENDS` lists the implementations.

Code outside of this folder treats all backends alike, through the protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from .. import VIRTUAL_THREADS

if TYPE_CHECKING:
    from vdla.isa.config import Config

    from ..frontends.onnx.model.read import Source
    from ..ir.stmt import Program
    from ..records.book import RecordBook
    from ..runtime.executable import Executable
    from ..schedule import Schedule
    from .kernels import KernelCompiler, KernelDevice, KernelNetwork


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOptions:
    """Options of a compilation, for all targets.

    `target`: name and options of the backend, as in "llvm -mcpu=...". `config`: the accelerator's configuration (None:
    the preset `vta`). `virtual_threads`: number of copies of each scratchpad buffer that are in use at the same time
    (2: double buffering). `device`: which of several devices to use ("0", "1" or "emulated" for GPUs; None: the first).
    `batch`: size of a dynamic first dimension of the model's inputs. `records`: the tuner's records, which choose the
    knobs. `dump_passes`: the folder that receives the program after each pass.
    """

    target: str
    config: Config | None = None
    virtual_threads: int = VIRTUAL_THREADS
    device: str | None = None
    batch: int = 1
    records: RecordBook | None = None
    dump_passes: Path | None = None


class Backend(Protocol):
    """A kind of target: compiles networks and scheduled expressions, loads saved networks, describes itself."""

    @property
    def name(self) -> str:
        """The first word of this backend's target strings, such as "llvm" in "llvm -mcpu=..."."""
        ...

    def compile(self, model: Source, options: CompileOptions) -> Executable:
        """Compiles an ONNX model. Raises UserError, which names the unsupported node and suggests a remedy."""
        ...

    def build(self, schedule: Schedule | Program, options: CompileOptions) -> Executable:
        """Compiles a scheduled tensor expression. On GPUs, a program without a schedule gets threads; for other targets
        it is compiled as it is. The parameters that the program writes are the executable's outputs, all other
        parameters are its inputs. Raises UserError if the schedule does not fit this target.
        """
        ...

    def load(self, path: Path, options: CompileOptions) -> Executable:
        """The network in a file that `vdla compile` saved for this target. Raises UserError for any other file."""
        ...

    def describe(self, options: CompileOptions) -> Mapping[str, Any]:
        """The target's memories, intrinsics and capabilities, by name, as JSON values."""
        ...


@runtime_checkable
class KernelBackend(Backend, Protocol):
    """A backend whose networks are sequences of kernels, which `vdla compile` saves and `vdla run` times."""

    def compiler(self, options: CompileOptions) -> KernelCompiler:
        """The compiler of networks into archives; it needs no device of the target."""
        ...

    def open(self, options: CompileOptions) -> KernelDevice:
        """Opens a device of this computer. Raises UserError if there is no device, or if the device cannot run code for
        the target.
        """
        ...

    def load_cached(self, path: Path, device: KernelDevice) -> KernelNetwork:
        """Loads the network of an archive in this user's cache on `device`, which `open` returned. Closing the network
        also closes the device.
        """
        ...

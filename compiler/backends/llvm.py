"""The LLVM backend of processors. It compiles and runs networks on this processor, with all or some of this processor's
instructions, and writes archives for any processor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from vdla.util.errors import UserError

from ..codegen.cpu.machine import CpuTarget, host_target, runs_here
from ..codegen.cpu.options import parse_target
from ..runtime.executable import Arrays
from ..runtime.lengths import Rung
from ..runtime.shared_arrays import SharedArrays
from .backend import CompileOptions
from .c_code import CODE, code_files
from .kernels import KernelDevice, KernelNetwork, Settings

if TYPE_CHECKING:
    import numpy as np

    from ..frontends.onnx.model.read import Source
    from ..ir.stmt import Program
    from ..records.book import RecordBook
    from ..runtime.archive import Saved
    from ..runtime.archive_fields import Field
    from ..runtime.cpu_network import CpuNetwork
    from ..schedule import Schedule
    from ..templates.chosen_knobs import ChosenKnobs
    from ..templates.cpu.workload import CpuWorkload


@dataclass(frozen=True)
class LlvmCompiler:
    """The compiler of networks into files for the processor that the target `text` ("llvm ...") names. See
    `kernels.KernelCompiler`.
    """

    text: str

    @cached_property
    def target(self) -> CpuTarget:
        """The description of the processor that `text` names."""
        return parse_target(self.text)

    @property
    def label(self) -> str:
        """LLVM's name of the processor."""
        return self.target.cpu

    @property
    def full_label(self) -> str:
        """LLVM's name of the processor, and its triple."""
        return f"{self.target.cpu} ({self.target.triple})"

    def describe(self) -> dict[str, Any]:
        """The processor's triple, LLVM's name of the processor, and the number of bits in a vector."""
        target = self.target
        return {"triple": target.triple, "cpu": target.cpu, "vector_bits": target.vector_bits}

    def archive_settings(self) -> Mapping[str, Any]:
        """The settings that determine an archive's bytes: the processor's description for LLVM."""
        return {"device": "cpu", "target": asdict(self.target)}

    def remark(self, model: Source) -> str | None:
        """None, because processors compute models without changes."""
        return None

    def knobs(self, records: RecordBook | None) -> ChosenKnobs[CpuWorkload] | None:
        """The knobs that the tuner's records choose; None without records."""
        if records is None:
            return None
        from ..records.apply import knobs_from
        from ..templates.cpu.table import CPU

        return knobs_from(records, CPU, self.target)

    def save(self, path: Path, model: Source, **settings: Unpack[Settings]) -> Saved:
        """Compiles a model and saves it; the suffix of `path` decides in which form. An archive also contains the
        kernels as a static library for C programs. An object or a shared library is code for C programs.
        """
        # Half a second of imports, for which a network that is in the cache need not wait.
        from ..cpu_stages import cpu_ahead
        from ..pipeline import compile_kernels
        from ..runtime.archive import saved_code
        from ..runtime.network_archive import NAME, save_network
        from .c_code import write_code

        archive = path.suffix not in CODE
        code = compile_kernels(model, cpu_ahead(self.target, library=NAME if archive else None), **settings)
        if archive:
            save_network(path, code)
        else:
            write_code(code, path)
        return saved_code(code)

    def files(self, output: Path) -> tuple[Path, ...]:
        """The files that `save` writes: an archive, or code for C programs with its header and a driver."""
        return code_files(output)

    def describe_saved(self, path: Path) -> Saved:
        """Describes an archive: its numbers of kernels and launches, and the bytes of its arenas."""
        from ..runtime.archive import describe_saved, saved_of

        return saved_of(describe_saved(path), "kernels")


@dataclass(frozen=True)
class LlvmDevice(LlvmCompiler):
    """This processor, with all or some of its instructions. See `kernels.KernelDevice`. Raises UserError if the target
    is another processor.
    """

    device: str = "cpu"

    def __post_init__(self) -> None:
        if runs_here(self.target):
            return
        host = host_target()
        raise UserError(
            f'--target "{self.text}": this machine ({host.cpu}, {host.triple}) may lack instructions of '
            f"{self.target.cpu} ({self.target.triple}); leave --target out, or write a file for it with `vdla compile`"
        )

    def describe_device(self) -> dict[str, Any]:
        """The name of the device."""
        return {"device": self.device}

    def compile(self, model: Source, **settings: Unpack[Settings]) -> CpuNetwork:
        """Compiles a model in this process."""
        from ..cpu_stages import cpu_now
        from ..pipeline import compile_kernels

        return compile_kernels(model, cpu_now(self.target), **settings)

    def load(self, path: Path, *, trusted: bool = False) -> CpuNetwork:
        """Loads the network of an archive. A `trusted` archive is loaded without checksum and trial run."""
        from ..runtime.network_archive import load_network

        return load_network(path, trusted=trusted)

    def device_milliseconds(self, network: KernelNetwork, inputs: Arrays, repeat: int) -> None:
        """None, because a processor has no clock of its own."""

    def describe_network(self, network: KernelNetwork) -> dict[str, Any]:
        """Triple and name of the processor for which the network's code was compiled."""
        target = self._own(network).target
        return {"triple": target.triple, "cpu": target.cpu}

    def profile_title(self, network: KernelNetwork) -> str:
        """The title of a network's profile: the network's name."""
        return network.name

    def peaks(self, network: KernelNetwork) -> None:
        """None, because a processor's peak rates are not known."""

    def times_text(self, network: KernelNetwork, threads: int, milliseconds: str) -> str:
        """The output line with the network's name, the processor, the number of threads, and the run time."""
        workers = "1 thread" if threads == 1 else f"{threads} threads"
        return f"{network.name} on {self._own(network).target.cpu}, {workers}: {milliseconds}"

    def _own(self, network: KernelNetwork) -> CpuNetwork:
        from ..runtime.cpu_network import CpuNetwork

        assert isinstance(network, CpuNetwork)
        return network

    def close(self) -> None:
        """Does nothing: a processor holds no resources."""


@dataclass(frozen=True, slots=True)
class LlvmBackend:
    """The backend of processors, see `backend.Backend`."""

    name: str = "llvm"

    def compiler(self, options: CompileOptions) -> LlvmCompiler:
        """The compiler of networks into archives, for any processor."""
        return LlvmCompiler(options.target)

    def open(self, options: CompileOptions) -> LlvmDevice:
        """This processor as a device."""
        return LlvmDevice(options.target)

    def compile(self, model: Source, options: CompileOptions) -> CpuNetwork:
        """Compiles a float32 or quantized model to kernels for this processor."""
        device = self.open(options)
        return device.compile(
            model, batch=options.batch, knobs=device.knobs(options.records), dump_passes=options.dump_passes
        )

    @property
    def exact(self) -> bool:
        """False: kernels for different lengths add floats in different orders, so padding may change roundings."""
        return False

    def compile_length(
        self, model: Source, options: CompileOptions, shared: SharedArrays, length: int
    ) -> Rung:
        """Compiles a network, which can be saved, for inputs of one length. Its constants are stored in `shared`."""
        from .llvm_lengths import compile_rung

        return compile_rung(self.open(options), model, options, shared, length)

    def read_rungs(
        self, path: Path, entries: Sequence[Field], arrays: Mapping[str, np.ndarray]
    ) -> list[CpuNetwork]:
        """The networks of an archive (see `LengthsBackend.read_rungs`), after a trial run. Raises ArchiveError."""
        from .llvm_lengths import read_rungs

        return read_rungs(path, entries, arrays)

    def build(self, schedule: Schedule | Program, options: CompileOptions) -> CpuNetwork:
        """Compiles a scheduled expression to one kernel. A program without a schedule is compiled as it is."""
        from ..cpu_stages import cpu_now
        from ..pipeline import compile_kernel
        from ..schedule import Schedule

        program = schedule.program if isinstance(schedule, Schedule) else schedule
        return compile_kernel(program, cpu_now(self.open(options).target))

    def load(self, path: Path, options: CompileOptions) -> CpuNetwork:
        """Loads a network from a file that `vdla compile --target llvm` wrote."""
        from ..runtime.network_archive import load_network

        return load_network(path)

    def load_cached(self, path: Path, device: KernelDevice) -> KernelNetwork:
        """Loads a network from the cache. `device` is this processor, which need not be closed."""
        return device.load(path, trusted=True)

    def describe(self, options: CompileOptions) -> Mapping[str, Any]:
        """The backend's name, and all fields of the processor's description (`CpuTarget`), by name."""
        return {"target": self.name, **asdict(parse_target(options.target))}


BACKEND = LlvmBackend()

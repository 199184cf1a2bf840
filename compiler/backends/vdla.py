"""The backend of the accelerator: networks and tensorized expressions become programs, which the simulator runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vdla.isa.config import load_config
from vdla.util.errors import UserError

from ..pipeline import compile_program
from ..runtime.accelerator import AcceleratorExecutable
from .backend import CompileOptions

if TYPE_CHECKING:
    from vdla.isa.config import Config

    from ..frontends.onnx.model.read import Source
    from ..ir.stmt import Program
    from ..runtime.archive_fields import Field
    from ..runtime.lengths import Rung
    from ..runtime.shared_arrays import SharedArrays
    from ..schedule import Schedule
    from .accelerator_kernel import KernelExecutable


def machine_of(options: CompileOptions) -> Config:
    """Returns the configuration in `options`, or the preset `vta` if `options.config` is None. Raises UserError if
    `options.batch` is not 1: models for the accelerator have fixed shapes.
    """
    if options.batch != 1:
        raise UserError(
            f"batch {options.batch}: is for processors and GPUs; leave it out with target {options.target}"
        )
    return load_config("vta") if options.config is None else options.config


@dataclass(frozen=True, slots=True)
class VdlaBackend:
    """The backend of the accelerator, see `backend.Backend`."""

    name: str = "vdla"

    def compile(self, model: Source, options: CompileOptions) -> AcceleratorExecutable:
        """Compiles a quantized model to one accelerator program, which one launch runs."""
        return AcceleratorExecutable(
            compile_program(
                model,
                machine_of(options),
                virtual_threads=options.virtual_threads,
                dump_passes=options.dump_passes,
                records=options.records,
            )
        )

    @property
    def exact(self) -> bool:
        """True: the accelerator computes with integers alone, so padded inputs do not change results."""
        return True

    def compile_length(
        self, model: Source, options: CompileOptions, shared: SharedArrays, length: int
    ) -> Rung:
        """Compiles the program for `length` tokens and simulates it to count cycles. Its constants move to `shared`."""
        from ..runtime.lengths import Rung
        from ..runtime.program_description import describe_program
        from ..runtime.shared_arrays import share_constants

        compiled = share_constants(self.compile(model, options).compiled, shared)
        executable = AcceleratorExecutable(compiled)
        return Rung(
            length=length,
            executable=executable,
            cycles=executable.launch()[0].cycles,
            describe=lambda pool: describe_program(compiled, pool),
        )

    def read_rungs(
        self, path: Path, entries: Sequence[Field], arrays: Mapping[str, np.ndarray]
    ) -> list[AcceleratorExecutable]:
        """The programs of an archive, as executables. The arguments are those of `LengthsBackend.read_rungs`."""
        from ..runtime.program_description import read_program

        return [AcceleratorExecutable(read_program(entry, arrays)) for entry in entries]

    def build(self, schedule: Schedule | Program, options: CompileOptions) -> KernelExecutable:
        """Compiles a scheduled expression, whose innermost statements must be intrinsics or scratchpad loads."""
        from .accelerator_kernel import build_kernel

        return build_kernel(schedule, machine_of(options), options.virtual_threads)

    def load(self, path: Path, options: CompileOptions) -> KernelExecutable:
        """Raises UserError: a saved program lacks the types and shapes of its outputs, which are only in the model."""
        raise UserError(
            f"{path}: is a program of the accelerator; run it with `vdla.simulate(vdla.load_program(path))`, or get "
            "outputs as arrays from the model: vdla.compile(model)"
        )

    def describe(self, options: CompileOptions) -> Mapping[str, Any]:
        """The accelerator's configuration, scratchpad depths, memory, multiplications per cycle and intrinsics."""
        config = machine_of(options)
        return {
            "target": self.name,
            "config": config.to_dict(),
            "memories": {
                kind: getattr(config, f"{kind}_depth") for kind in ("uop", "inp", "wgt", "acc", "par")
            },
            "memory": asdict(config.memory),
            "multiplies_per_cycle": config.multiplies_per_cycle,
            "intrinsics": ["gemm", "depthwise", "post", "patch"],
        }


BACKEND = VdlaBackend()

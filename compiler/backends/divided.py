"""The backend "vdla,llvm": a network is partitioned between the accelerator and this processor. The processor runs the
nodes that the accelerator does not support.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from vdla.util.errors import UserError

from ..codegen.cpu.options import parse_target
from ..cpu_stages import cpu_now
from ..divided import Division, compile_divided
from ..frontends.onnx.model.read import Source
from ..ir.stmt import Program
from ..runtime.accelerator import AcceleratorExecutable
from ..runtime.archive_fields import Field
from ..runtime.artifact import Compiled
from ..runtime.cpu_network import CpuNetwork
from ..runtime.executable import Arrays, Executable, Port
from ..runtime.heterogeneous_network import run_region
from ..runtime.lengths import Rung
from ..runtime.readable import Readable, Texts, texts_of_parts
from ..runtime.shared_arrays import SharedArrays, run_time_graph, share_constants, share_launches
from ..schedule import Schedule
from . import llvm, vdla
from .backend import CompileOptions
from .vdla import machine_of


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DividedExecutable(Readable):
    """A network partitioned into regions, each of which runs on one target. `division` says which nodes run on which
    target, and why.
    """

    division: Division

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.division.network.name

    @property
    def inputs(self) -> tuple[Port, ...]:
        """The inputs of the model."""
        return self.division.network.inputs

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The outputs of the model."""
        network = self.division.network
        known = {
            name: Port(name=name, dtype=array.dtype, shape=array.shape)
            for name, array in network.constants.items()
        }
        for region in network.regions:
            code = region.code
            ports = code.outputs if isinstance(code, CpuNetwork) else AcceleratorExecutable(code).outputs
            known |= {port.name: port for port in ports}
        return tuple([known[name] for name in network.outputs])

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """The outputs of one inference; the simulator runs the accelerator's regions."""
        return dict(self.division.network.run(inputs).outputs)

    def texts(self) -> Texts:
        """The sources of the regions: instructions, LLVM IR, assembly."""
        return texts_of_parts(
            (
                region.name,
                region.code if isinstance(region.code, CpuNetwork) else AcceleratorExecutable(region.code),
            )
            for region in self.division.network.regions
        )

    def close(self) -> None:
        """Ends the threads that execute the regions placed on the CPU."""
        self.division.network.close()


@dataclass(frozen=True, slots=True)
class DividedBackend:
    """The backend of targets such as "vdla,llvm", see `backend.Backend`."""

    name: str = "vdla,llvm"

    def compile(self, model: Source, options: CompileOptions) -> DividedExecutable:
        """Partitions and compiles a model: the accelerator runs the nodes that it supports, the processor the rest."""
        return DividedExecutable(
            compile_divided(
                model,
                machine_of(options),
                cpu=cpu_now(parse_target(_llvm(options))),
                virtual_threads=options.virtual_threads,
                dump_passes=options.dump_passes,
                records=options.records,
            )
        )

    @property
    def exact(self) -> bool:
        """False: the regions on the processor compute with floats, so padding of inputs may change how results are
        rounded.
        """
        return False

    def compile_length(
        self, model: Source, options: CompileOptions, shared: SharedArrays, length: int
    ) -> Rung:
        """Compiles a partitioned network for inputs of one length, and moves the network's constants to `shared`.
        `Rung.cycles` is the sum over all regions of the accelerator, or None without such regions; the processor's time
        is not counted.
        """
        division = self.compile(model, options).division
        cycles = [
            run_region(region, dict.fromkeys(region.inputs, np.empty(0)), data=False)[1]
            for region in division.network.regions
            if region.accelerated
        ]
        for region in division.network.regions:
            if isinstance(region.code, CpuNetwork):
                region.code.launches = share_launches(region.code.launches, shared)
                region.code.graph = run_time_graph(region.code.graph)
        division.network.regions = tuple(
            [
                replace(
                    region,
                    model=b"",
                    cpu_model=b"",
                    code=share_constants(region.code, shared)
                    if isinstance(region.code, Compiled)
                    else region.code,
                )
                for region in division.network.regions
            ]
        )
        total = sum(count for count in cycles if count is not None)
        return Rung(length=length, executable=DividedExecutable(division), cycles=total if cycles else None)

    def read_rungs(
        self, path: Path, entries: Sequence[Field], arrays: Mapping[str, np.ndarray]
    ) -> list[Executable]:
        """Raises UserError: partitioned networks are not saved."""
        raise UserError(
            f"{path}: a network divided between targets cannot be saved to a file; compile it from its ONNX model"
        )

    def build(self, schedule: Schedule | Program, options: CompileOptions) -> Executable:
        """Raises UserError: a single expression cannot be partitioned."""
        raise UserError(f'target "{options.target}": an expression runs on one target only; use vdla or llvm')

    def load(self, path: Path, options: CompileOptions) -> Executable:
        """Raises UserError: partitioned networks are not saved."""
        raise UserError(
            f'{path}: networks of target "{options.target}" cannot be read from files; compile the model instead'
        )

    def describe(self, options: CompileOptions) -> Mapping[str, Any]:
        """The descriptions of both targets, by the names "vdla" and "llvm"."""
        return {
            "target": self.name,
            "vdla": vdla.BACKEND.describe(options),
            "llvm": llvm.BACKEND.describe(replace(options, target=_llvm(options))),
        }


def _llvm(options: CompileOptions) -> str:
    """The part of the target string that describes the processor, from "llvm" on: "llvm -mattr=+avx2" in "vdla,llvm
    -mattr=+avx2".
    """
    found = re.search(r"llvm\b.*", options.target)
    return found.group() if found else "llvm"


BACKEND = DividedBackend()

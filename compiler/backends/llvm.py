"""Processors, through LLVM: this one, or a lower level of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..cpu_driver import compile_cpu
from ..graph.onnx_read import Source
from ..ir.stmt import Program
from ..runtime.cpu_network import CpuNetwork, Launch
from ..runtime.cuda_alone import graph_alone
from ..runtime.network_archive import load_network
from ..schedule import Schedule
from ..target.cpu.kernel import build
from ..target.cpu.options import parse_target
from ..templates.cpu.tasks import CPU
from ..tune.records.apply import knobs_from
from .backend import CompileOptions


@dataclass(frozen=True, slots=True)
class LlvmBackend:
    """See `backend.Backend`."""

    name: str = "llvm"

    def compile(self, model: Source, options: CompileOptions) -> CpuNetwork:
        """A float32 or quantized model as kernels of this processor."""
        target = parse_target(options.target)
        return compile_cpu(
            model,
            target,
            batch=options.batch,
            dump_passes=options.dump_passes,
            knobs=None if options.records is None else knobs_from(options.records, CPU, target),
        )

    def build(self, schedule: Schedule | Program, options: CompileOptions) -> CpuNetwork:
        """A scheduled expression as one kernel; a program runs its loops as they are."""
        program = schedule.program if isinstance(schedule, Schedule) else schedule
        target = parse_target(options.target)
        kernel = build(program, target)
        graph, plan = graph_alone(program.parameters, kernel.outputs, program.name)
        launch = Launch(
            name=program.name,
            operator=program.name,
            members=(),
            operations=0,
            tensors={parameter.name: parameter.name for parameter in program.parameters},
            constants={},
            kernel=kernel,
        )
        return CpuNetwork(graph=graph, plan=plan, launches=(launch,), target=target, compile_seconds=0.0)

    def load(self, path: Path, options: CompileOptions) -> CpuNetwork:
        """A network that `vdla compile --target llvm` wrote."""
        return load_network(path)

    def describe(self, options: CompileOptions) -> Mapping[str, Any]:
        """The processor as LLVM knows it."""
        return {"target": self.name, **asdict(parse_target(options.target))}


BACKEND = LlvmBackend()

"""NVIDIA GPUs: kernels in CUDA C++, on a device, or the same kernels emulated on this processor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vdla.util.errors import UserError

from ..cuda_driver import compile_cuda, compile_cuda_emulated, compile_cuda_schedule, emulate_cuda_schedule
from ..graph.onnx_read import Source
from ..ir.stmt import Program
from ..runtime.cpu_network import CpuNetwork
from ..runtime.cuda_archive import load_cuda_network
from ..runtime.cuda_code import CudaNetworkCode
from ..runtime.cuda_core import open_device
from ..runtime.cuda_network import CudaNetwork
from ..runtime.device_target import device_target
from ..runtime.executable import Executable, Port
from ..runtime.reshaped import ReshapedExecutable
from ..schedule import Schedule
from ..target.cuda.machine import CudaTarget
from ..target.cuda.options import parse_target
from ..templates.chosen_knobs import ChosenKnobs
from ..templates.gpu.flat import flattened
from ..templates.gpu.generic import schedule as generic_schedule
from ..templates.gpu.tasks import GPU
from ..templates.gpu.workload import CudaWorkload
from ..tune.records.apply import knobs_from
from .backend import CompileOptions

EMULATED = "emulated"
"""The device that is this processor: the numbers are the GPU's, the times are not."""


class OwningNetwork(CudaNetwork):
    """A network that also closes its device."""

    def close(self) -> None:
        """Gives back the network's memory and the device."""
        super().close()
        self.device.close()


@dataclass(frozen=True, slots=True)
class CudaBackend:
    """See `backend.Backend`."""

    name: str = "cuda"

    def compile(self, model: Source, options: CompileOptions) -> CudaNetwork | CpuNetwork:
        """A model as kernels of a GPU, in float32; quantized ones with the roundings of their QuantizeLinear nodes."""
        if options.device == EMULATED:
            target = parse_target(options.target)
            return compile_cuda_emulated(
                model,
                target,
                batch=options.batch,
                dump_passes=options.dump_passes,
                knobs=_knobs(options, target),
            )

        def code(target: CudaTarget) -> CudaNetworkCode:
            return compile_cuda(
                model,
                target,
                batch=options.batch,
                dump_passes=options.dump_passes,
                knobs=_knobs(options, target),
            )

        return _on_device(options, code)

    def build(self, schedule: Schedule | Program, options: CompileOptions) -> Executable:
        """A scheduled expression as kernels; of a program every iteration that can be is a thread."""
        if isinstance(schedule, Program):
            # Kernels index arrays of one dimension.
            inner = self.build(generic_schedule(parse_target(options.target), flattened(schedule)), options)
            ports = {
                p.name: Port(name=p.name, dtype=p.dtype.numpy, shape=p.shape) for p in schedule.parameters
            }
            return ReshapedExecutable(
                inner,
                tuple([ports[port.name] for port in inner.inputs]),
                tuple([ports[port.name] for port in inner.outputs]),
            )
        if options.device == EMULATED:
            target = parse_target(options.target)
            return emulate_cuda_schedule(schedule, target, operator=schedule.program.name, operations=0)

        def code(target: CudaTarget) -> CudaNetworkCode:
            return compile_cuda_schedule(schedule, target, operator=schedule.program.name, operations=0)

        return _on_device(options, code)

    def load(self, path: Path, options: CompileOptions) -> CudaNetwork:
        """A network that `vdla compile --target cuda` wrote, on its device."""
        if options.device == EMULATED:
            raise UserError(
                f"{path}: holds machine code of a GPU, which is not emulated; compile the model instead"
            )
        return _on_device(options, lambda _: load_cuda_network(path))

    def describe(self, options: CompileOptions) -> Mapping[str, Any]:
        """The GPU that the target names."""
        return {"target": self.name, **asdict(parse_target(options.target))}


def _knobs(options: CompileOptions, target: CudaTarget) -> ChosenKnobs[CudaWorkload] | None:
    return None if options.records is None else knobs_from(options.records, GPU, target)


def _on_device(options: CompileOptions, code: Callable[[CudaTarget], CudaNetworkCode]) -> OwningNetwork:
    """What `code` compiles for the device that the options name, on that device."""
    ordinal = options.device or "0"
    if not ordinal.isdecimal():
        raise UserError(f'device "{ordinal}": GPUs have numbers from 0 on; "{EMULATED}" is this processor')
    device = open_device(int(ordinal))
    try:
        return OwningNetwork(code(device_target(options.target, device.properties)), device)
    except BaseException:
        device.close()
        raise


BACKEND = CudaBackend()

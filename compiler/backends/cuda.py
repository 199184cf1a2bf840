"""The backend of NVIDIA GPUs, with kernels in CUDA C++. Kernels run on a device, or are emulated on this processor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

from vdla.util.errors import UserError

from ..codegen.cpu.machine import host_target
from ..codegen.cuda.machine import GpuTarget
from ..codegen.cuda.nvrtc import nvrtc_version
from ..codegen.cuda.options import parse_target
from ..frontends.onnx.model.read import Source, is_quantized
from ..ir.stmt import Program
from ..records.book import RecordBook
from ..runtime import cuda_core
from ..runtime.archive import Saved, saved_code, saved_of
from ..runtime.cpu_network import CpuNetwork
from ..runtime.cuda_archive import CUBINS, check_cuda_network, load_cuda_network, save_cuda_network
from ..runtime.cuda_code import CudaNetworkCode
from ..runtime.cuda_device import Device
from ..runtime.cuda_kind import device_target
from ..runtime.cuda_network import CudaNetwork, check_device
from ..runtime.executable import Arrays, Executable
from ..runtime.network_archive import load_network, save_network
from ..runtime.network_inputs import parameter_port
from ..runtime.reshaped import ReshapedExecutable
from ..schedule import Schedule
from ..templates.chosen_knobs import ChosenKnobs
from ..templates.gpu.workload import CudaWorkload
from .backend import CompileOptions
from .kernels import KernelDevice, KernelNetwork, Peaks, Settings

EMULATED = "emulated"
"""The device name for emulation on this processor. Results equal the GPU's, except that sums are added in another
order; times say nothing about the GPU.
"""
QUANTIZED = "quantized model: computed in float32 with the roundings of its QuantizeLinear nodes"


@dataclass(frozen=True)
class CudaCompiler:
    """The compiler of networks into files for the GPU that the target `text` ("cuda ...") names. See
    `kernels.KernelCompiler`.
    """

    text: str

    @cached_property
    def target(self) -> GpuTarget:
        """The description of the GPU that `text` names."""
        return parse_target(self.text)

    @property
    def label(self) -> str:
        """The name of the GPU's architecture, such as sm_90."""
        return self.target.arch

    @property
    def full_label(self) -> str:
        """The name of the GPU's architecture, such as sm_90."""
        return self.target.arch

    archive = CUBINS
    """The kind of archive that `save` writes."""

    def describe(self) -> dict[str, Any]:
        """The description of the GPU (`describe_target`)."""
        return self.describe_target(self.target)

    def describe_target(self, target: GpuTarget) -> dict[str, Any]:
        """The target's architecture, and whether matrix products may round their inputs to tf32."""
        return {"arch": target.arch, "tf32": target.tensor_float}

    def archive_settings(self) -> Mapping[str, Any]:
        """The settings that determine an archive's bytes: the GPU's description and the version of NVIDIA's
        compiler.
        """
        return {"device": "cuda", "target": asdict(self.target), "nvrtc": nvrtc_version()}

    def remark(self, model: Source) -> str | None:
        """A remark for the user if `model` is quantized but computed in float32, because the kernels' language has no
        exact integer arithmetic. None for any other model.
        """
        return None if self.target.dialect.exact_integers or not is_quantized(model) else QUANTIZED

    def knobs(self, records: RecordBook | None) -> ChosenKnobs[CudaWorkload] | None:
        """The knobs that the tuner's records choose; None without records."""
        if records is None:
            return None
        from ..records.apply import knobs_from
        from ..templates.gpu.table import GPU

        return knobs_from(records, GPU, self.target)

    def code(self, model: Source, **settings: Unpack[Settings]) -> CudaNetworkCode:
        """Compiles a model for the target, without loading the code on a device."""
        from ..gpu_stages import gpu_ahead
        from ..pipeline import compile_kernels

        return compile_kernels(model, gpu_ahead(self.target), **settings)

    def save(self, path: Path, model: Source, **settings: Unpack[Settings]) -> Saved:
        """Compiles a model into an archive of cubins."""
        code = self.code(model, **settings)
        save_cuda_network(path, code, self.archive)
        return saved_code(code)

    def files(self, output: Path) -> tuple[Path, ...]:
        """The archive `output`, the only file that `save` writes. Raises UserError if `output` has a suffix other than
        .tar.
        """
        if output.suffix not in (".tar", ""):
            raise UserError(
                f"-o {output}: code for GPUs is written to a FILE.tar, which `vdla run` executes; give a name with "
                "the suffix .tar"
            )
        return (output,)

    def describe_saved(self, path: Path) -> Saved:
        """Describes an archive: its numbers of kernels and launches, and the bytes of its arenas. The archive's
        checksum is verified first.
        """
        return saved_of(check_cuda_network(path, self.archive), "modules")


@dataclass(frozen=True)
class CudaDevice(CudaCompiler):
    """A GPU of this computer, opened as `gpu`. See `kernels.KernelDevice`."""

    gpu: Device
    device: str

    @cached_property
    def target(self) -> GpuTarget:
        """The target that the field `text` (name and options) describes, with the properties of the open device. Raises
        UserError if code for this target does not run on the device.
        """
        target = device_target(self.text, self.gpu.properties)
        check_device(self.gpu, target)
        return target

    def describe_device(self) -> dict[str, Any]:
        """The names of the device, the card and its driver."""
        card = self.gpu.properties
        return {
            "device": self.device,
            "emulated": False,
            "card": {"name": card.name, "driver": card.driver},
        }

    def compile(self, model: Source, **settings: Unpack[Settings]) -> CudaNetwork:
        """Compiles a model and copies the network to the device."""
        return CudaNetwork(self.code(model, **settings), self.gpu)

    def load(self, path: Path, *, trusted: bool = False) -> CudaNetwork:
        """Loads the network of an archive on the device. Checksums of a `trusted` archive are not verified."""
        return CudaNetwork(load_cuda_network(path, self.archive, trusted=trusted), self.gpu)

    def device_milliseconds(self, network: KernelNetwork, inputs: Arrays, repeat: int) -> list[float]:
        """Milliseconds of each of `repeat` runs of all kernels, measured between two events of the device. Copies of
        inputs and outputs are not included.
        """
        return _on_gpu(network).time(inputs, repeat=repeat)

    def describe_network(self, network: KernelNetwork) -> dict[str, Any]:
        """Describes the GPU for which the network's code was compiled."""
        return self.describe_target(_on_gpu(network).target)

    def profile_title(self, network: KernelNetwork) -> str:
        """The title of a network's profile: the network's name."""
        return network.name

    def peaks(self, network: KernelNetwork) -> Peaks | None:
        """Peak rates of the card. The rate of arithmetic is that of the network's type: int8 or float32 (tf32 where the
        target allows it). The bandwidth is that of the card's memory.
        """
        code = _on_gpu(network).code
        target = code.target
        # On GPUs only integer tensors have blocks of channels.
        integers = any(tensor.block > 1 for tensor in code.graph.tensors.values())
        operations = target.peak("int8" if integers else "tf32" if target.tensor_float else "float32")
        return Peaks(operations=operations, bytes=float(target.memory_bandwidth))

    def times_text(self, network: KernelNetwork, threads: int, milliseconds: str) -> str:
        """The output line with the network's name, the device and its card, and the run time; `threads` is ignored."""
        return f"{network.name} on {self.device}, {self.gpu.properties.name}: {milliseconds} by the device's clock"

    def close(self) -> None:
        """Closes the GPU."""
        self.gpu.close()


class EmulatedCudaDevice(CudaCompiler):
    """Emulation, on this processor, of the GPU that the target names; blocks and threads run one after the other. See
    `kernels.KernelDevice`.
    """

    device = f"cuda:{EMULATED}"

    @property
    def label(self) -> str:
        """The name of the GPU's architecture, and the word "emulated"."""
        return f"{self.target.arch}, {EMULATED}"

    def archive_settings(self) -> Mapping[str, Any]:
        """The settings that determine an archive's bytes: the descriptions of the GPU and of the processor that
        emulates it.
        """
        return {"device": EMULATED, "target": asdict(self.target), "host": asdict(host_target())}

    def describe_device(self) -> dict[str, Any]:
        """The device's name, and None as the name of the card, since emulation uses no card."""
        return {"device": self.device, "emulated": True, "card": None}

    def save(self, path: Path, model: Source, **settings: Unpack[Settings]) -> Saved:
        """Compiles the emulated kernels into an archive for this processor."""
        from ..gpu_stages import gpu_emulated_ahead
        from ..pipeline import compile_kernels

        code = compile_kernels(model, gpu_emulated_ahead(self.target, host_target()), **settings)
        save_network(path, code)
        return saved_code(code)

    def compile(self, model: Source, **settings: Unpack[Settings]) -> CpuNetwork:
        """Compiles the emulated kernels in this process."""
        from ..gpu_stages import gpu_emulated
        from ..pipeline import compile_kernels

        return compile_kernels(model, gpu_emulated(self.target), **settings)

    def load(self, path: Path, *, trusted: bool = False) -> CpuNetwork:
        """Loads an archive from this user's cache that `save` wrote; the caller must pass `trusted`. Raises UserError
        without `trusted`: other archives contain machine code of a GPU, which emulation cannot run.
        """
        if not trusted:
            raise UserError(
                f"{path}: contains machine code of a GPU, which runs only on --device cuda:0; for {self.device} give "
                "the model"
            )
        return load_network(path, trusted=True)

    def device_milliseconds(self, network: KernelNetwork, inputs: Arrays, repeat: int) -> None:
        """None, because emulation has no clock of a GPU."""

    def describe_network(self, network: KernelNetwork) -> dict[str, Any]:
        """The description of the GPU that is emulated."""
        return self.describe()

    def profile_title(self, network: KernelNetwork) -> str:
        """The title of a network's profile: the network's name, and the word "emulated"."""
        return f"{network.name}, {EMULATED}"

    def peaks(self, network: KernelNetwork) -> None:
        """None, because times of the emulation say nothing about a GPU."""

    def times_text(self, network: KernelNetwork, threads: int, milliseconds: str) -> str:
        """The output line with the network's name, the architecture, the run time, and the remark that the times say
        nothing about a GPU; `threads` is ignored.
        """
        return (
            f"{network.name} for {self.target.arch}, emulated on this processor: the times say nothing about a GPU "
            f"({milliseconds})"
        )

    def close(self) -> None:
        """Does nothing: an emulated device holds no resources."""


class OwningNetwork(CudaNetwork):
    """A network that also closes its device."""

    def close(self) -> None:
        """Frees the network's memory and closes the device."""
        super().close()
        self.device.close()


@dataclass(frozen=True, slots=True)
class CudaBackend:
    """The backend of NVIDIA GPUs, see `backend.Backend`; base class of the backends of other GPU languages."""

    name: str = "cuda"

    def compiler(self, options: CompileOptions) -> CudaCompiler:
        """The compiler of networks into archives, for any GPU."""
        return CudaCompiler(options.target)

    def open(self, options: CompileOptions) -> CudaDevice | EmulatedCudaDevice:
        """Opens a GPU of this computer, or its emulation. Raises UserError if the computer has no such GPU."""
        if options.device == EMULATED:
            return EmulatedCudaDevice(options.target)
        ordinal = options.device or "0"
        if not (ordinal.isdecimal() and ordinal.isascii()):
            raise UserError(
                f'device "{ordinal}": the number of a GPU must be 0 or more; "{EMULATED}" emulates a GPU on this '
                "processor"
            )
        gpu = cuda_core.open_device(int(ordinal))
        return CudaDevice(text=options.target, gpu=gpu, device=f"cuda:{int(ordinal)}")

    def compile(self, model: Source, options: CompileOptions) -> CudaNetwork | CpuNetwork:
        """Compiles a model to kernels of a GPU. The kernels compute in integers if the whole model is quantized and
        their language has exact integer arithmetic. Otherwise they compute in float32, rounded where the model has
        QuantizeLinear nodes.
        """
        device = self.open(options)
        knobs = device.knobs(options.records)
        settings = Settings(batch=options.batch, knobs=knobs, dump_passes=options.dump_passes)
        if isinstance(device, EmulatedCudaDevice):
            return device.compile(model, **settings)
        with _owned(device):
            return OwningNetwork(device.code(model, **settings), device.gpu)

    def build(self, schedule: Schedule | Program, options: CompileOptions) -> Executable:
        """Compiles a scheduled expression to kernels. In a program without a schedule, each independent iteration
        becomes a thread.
        """
        from ..gpu_stages import gpu_ahead, gpu_emulated
        from ..pipeline import compile_kernel
        from ..templates.gpu.flat import flattened
        from ..templates.gpu.generic import schedule as generic_schedule

        if isinstance(schedule, Program):
            # The generic schedule takes flat arrays.
            inner = self.build(generic_schedule(self.compiler(options).target, flattened(schedule)), options)
            ports = {parameter.name: parameter_port(parameter) for parameter in schedule.parameters}
            return ReshapedExecutable(
                inner,
                tuple([ports[port.name] for port in inner.inputs]),
                tuple([ports[port.name] for port in inner.outputs]),
            )
        device = self.open(options)
        if isinstance(device, EmulatedCudaDevice):
            return compile_kernel(schedule.program, gpu_emulated(device.target))
        with _owned(device):
            code = compile_kernel(schedule.program, gpu_ahead(device.target))
            return OwningNetwork(code, device.gpu)

    def load(self, path: Path, options: CompileOptions) -> CudaNetwork:
        """Loads a network that `vdla compile --target cuda` wrote; closing the network also closes its GPU. Raises
        UserError if the device is emulated.
        """
        device = self.open(options)
        if isinstance(device, EmulatedCudaDevice):
            raise UserError(
                f"{path}: contains machine code of a GPU, which cannot be emulated; compile the model instead"
            )
        with _owned(device):
            return OwningNetwork(load_cuda_network(path, device.archive), device.gpu)

    def load_cached(self, path: Path, device: KernelDevice) -> KernelNetwork:
        """Loads a network from the cache on a GPU or its emulation. Closing the network also closes the GPU."""
        if not isinstance(device, CudaDevice):
            return device.load(path, trusted=True)
        with _owned(device):
            return OwningNetwork(load_cuda_network(path, device.archive, trusted=True), device.gpu)

    def describe(self, options: CompileOptions) -> Mapping[str, Any]:
        """The description of the GPU that the target names."""
        return {"target": self.name, **asdict(self.compiler(options).target)}


def _on_gpu(network: KernelNetwork) -> CudaNetwork:
    assert isinstance(network, CudaNetwork)
    return network


@contextmanager
def _owned(device: CudaDevice) -> Iterator[None]:
    """A `with` context that closes `device` if its block raises. If the block succeeds, the network that it creates
    owns the device and must close it.
    """
    try:
        yield
    except BaseException:
        device.close()
        raise


BACKEND = CudaBackend()

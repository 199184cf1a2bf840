"""The options of `vdla run`: the device that they select, and the options that each device has."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import typer

from vdla.util.errors import UserError

from ..network_options import NetworkOptions
from .dram_oracle import DramOracle
from .options import was_given
from .targets import Targets, gpu_number


class Device(StrEnum):
    """Kinds of devices on which `vdla run` can run a network."""

    vdla = "vdla"
    cpu = "cpu"
    gpu = "gpu"


class Engine(StrEnum):
    """Engines that run a network compiled for the accelerator."""

    cycle = "cycle"
    rtl = "rtl"


class Check(StrEnum):
    """References with which the outputs of `vdla run` are compared."""

    auto = "auto"
    onnxruntime = "onnxruntime"
    interpreter = "interpreter"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """Options of `vdla run` that apply only to models, not to networks that are already compiled. `check`: the
    reference for the outputs, a value of `Check`.
    """

    network: NetworkOptions
    check: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of `vdla run` on all devices: files of arrays, timed runs, threads, and the form of output."""

    inputs: Path | None
    outputs: Path | None
    repeat: int
    threads: int
    profile: bool
    json: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorOptions:
    """Options of `vdla run` that apply only to the accelerator: its configuration, the engine that runs the program,
    the RTL's DRAM, and whether to simulate only the timing and to give advice. `timeline`, `program`: files to which
    the timeline and the compiled program are written.
    """

    config: str
    virtual_threads: int
    technology: str = "models"
    engine: Engine = Engine.cycle
    dram: DramOracle | None = None
    timing_only: bool = False
    timeline: Path | None = None
    program: Path | None = None
    advise: bool = False


FOR_ALL = (
    *("model", "device", "target", "check", "dump_passes", "inputs", "outputs", "records", "dim"),
    *("constant", "json"),
)
FOR_CPU = ("repeat", "threads", "profile", "batch", "no_cache")
FOR_GPUS = ("repeat", "profile", "batch", "no_cache")
FOR_DIVIDED = ("config", "technology", "partition", "vthreads", "repeat", "threads", "no_cache")
"""The four lists `FOR_ALL`, `FOR_CPU`, `FOR_GPUS`, `FOR_DIVIDED` name the parameters of `vdla run` that apply to all
devices, to processors, to GPUs, and to models that are partitioned between accelerator and processor. The accelerator
alone has all parameters except those of `FOR_CPU` and `partition`.
"""
FOR_MODELS = ("target", "check", "dump_passes", "batch", "records", "dim", "constant", "no_cache")
"""Parameters for models on processors and GPUs; they do not apply to networks that are already compiled."""


def find_device(text: str | None, model: Path, targets: Targets) -> tuple[Device, str | None]:
    """Finds the device on which `vdla run` runs the file `model`: from `text`, the value of --device; without it from
    --target and, if `model` is a compiled archive, from the archive's target. Returns the kind of device, and the name
    of the GPU, such as "cuda:0" or "cuda:emulated" (None if the device is no GPU).

    Raises UserError.
    """
    from vdla.compiler.backends.registry import gpu_of
    from vdla.compiler.runtime.gpus import GPUS

    compiled = model.suffix == ".tar"
    name, _, number = (text or "").partition(":")
    for_gpu = gpu_of(model) if compiled or name in GPUS else None
    if text is None:
        if gpu := targets.gpu_name or for_gpu:
            return Device.gpu, f"{gpu}:0"
        return (Device.cpu if compiled or not targets.vdla else Device.vdla), None
    if name in GPUS:
        if compiled and for_gpu != name and model.exists():
            raise UserError(
                f"{model}: this archive was not compiled for {GPUS[name].device}; leave out --device {text}, or give "
                "the model file from which the archive was compiled"
            )
        if GPUS[name].emulated and number == "emulated":
            return Device.gpu, text
        return Device.gpu, f"{name}:{gpu_number(text, name)}"
    if text not in ("vdla", "cpu"):
        gpus = ", ".join(f"{name}:0 ({gpu.device} by its number)" for name, gpu in GPUS.items())
        raise UserError(f"--device {text}: is not one of vdla, cpu, {gpus} and cuda:emulated")
    if for_gpu is not None:
        raise UserError(
            f"{model}: this archive was compiled for {GPUS[for_gpu].device}; run it with --device {for_gpu}:0, or "
            "give the model file from which the archive was compiled"
        )
    return Device(text), None


def check_target(target: str, targets: Targets, kind: Device, device: str | None) -> None:
    """Raises UserError if --target and --device contradict each other. `target` is the text of --target, and `targets`
    is this text after parsing. `kind` is the kind of device that `find_device` returned, and `device` is the text of
    --device, or None.
    """
    if kind is Device.vdla and not targets.vdla:
        if targets.gpu:
            raise UserError(f"--device vdla: --target {target} is for a GPU; leave out one of them")
        raise UserError(
            f"--device vdla: --target {target} is for a processor; take --target vdla,{targets.llvm} to use both"
        )
    if kind is Device.cpu and targets.gpu:
        raise UserError(
            f"--device cpu: --target {target} is for a GPU; take --device cuda:emulated to emulate it"
        )
    if kind is Device.cpu and targets.vdla:
        raise UserError(f"--device cpu: --target {target} names the accelerator; leave out one of them")
    if kind is Device.gpu and device is not None and targets.gpu_name != (name := device.partition(":")[0]):
        raise UserError(
            f"--device {device}: --target {target} is not for a GPU; leave --target out, or take --target {name}"
        )


def refuse_interpreter(check: Check, device: Device) -> None:
    """Raises UserError if `check` demands a comparison with our interpreter, but the outputs are from a processor or a
    GPU.
    """
    if check is Check.interpreter:
        where = "GPUs" if device is Device.gpu else "processors"
        raise UserError(f"--check interpreter is for the accelerator; on {where} take --check onnxruntime")


def refuse_options_of_others(context: typer.Context, device: Device, *, divided: bool) -> None:
    """Raises UserError for options that were given but have no effect on this device. `divided`: whether the network is
    partitioned between the accelerator and a processor.
    """
    for name in context.params:
        if not was_given(context, name) or name in FOR_ALL:
            continue
        option = "--" + name.replace("_", "-")
        if device is Device.cpu:
            if name not in FOR_CPU:
                raise UserError(f"{option} is for the accelerator; leave it out on a cpu")
        elif device is Device.gpu:
            if name not in FOR_GPUS:
                owner = "processors" if name == "threads" else "the accelerator"
                raise UserError(f"{option} is for {owner}; leave it out on a GPU")
        elif divided:
            if name not in FOR_DIVIDED:
                raise UserError(
                    f"{option} is not for networks on several targets; leave it out, or take --target vdla"
                )
        elif name == "partition":
            raise UserError("--partition divides networks between targets; add --target vdla,llvm")
        elif name in FOR_CPU:
            raise UserError(f"{option} is for processors; leave it out, or run with --device cpu")


def refuse_options_of_models(context: typer.Context) -> None:
    """Raises UserError for options that were given but have no effect for a network that is already compiled."""
    for name in FOR_MODELS:
        if was_given(context, name):
            option = "--" + name.replace("_", "-")
            raise UserError(f"{option} is for models; leave it out for a FILE.tar, which is compiled already")

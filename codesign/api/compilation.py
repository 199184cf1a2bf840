"""Compile an ONNX model or a tensor expression for a target; load what was compiled."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vdla.compiler.backends.backend import CompileOptions
from vdla.compiler.backends.table import backend_of
from vdla.compiler.ir.stmt import Program
from vdla.compiler.runtime.executable import Executable
from vdla.compiler.schedule import Schedule
from vdla.isa.config import Config, load_config

if TYPE_CHECKING:
    from collections.abc import Mapping

    import onnx
    from numpy.typing import ArrayLike
    from vdla.compiler.tune.records.book import RecordBook


def compile(
    model: str | Path | bytes | onnx.ModelProto,
    target: str = "vdla",
    config: Config | str | Path | None = None,
    *,
    device: int | str | None = None,
    batch: int = 1,
    records: RecordBook | str | Path | None = None,
    virtual_threads: int = 2,
    dump_passes: str | Path | None = None,
    constants: Mapping[str, ArrayLike] | None = None,
) -> Executable:
    """Compile an ONNX model: a path, the bytes of a file, or a ModelProto.

    `target` is "vdla" (the accelerator `config`, simulated), "llvm" (this processor), "vdla,llvm" (what the accelerator
    does not support runs on the processor), "cuda" (a GPU) or "opencl" (an OpenCL device), each with its options as
    `vdla compile --target` takes them. `config` is a configuration, a preset's name or a TOML file; `vta` unless given.
    `device` is a GPU's number,
    or "emulated". A dynamic first dimension of the inputs becomes `batch`. `records` are those of the tuner, "shipped"
    those of the package. `virtual_threads` is how many copies of each of the accelerator's buffers hide latency.
    `dump_passes` names a folder that gets the program after each pass. `constants` are values of inputs by name, which
    are no inputs then: those that decide shapes, such as the axes of a reduction. Raises UserError.
    """
    source = model if isinstance(model, str | Path | bytes) else model.SerializeToString()
    if constants:
        from vdla.compiler.graph.bound_inputs import with_constants

        source = with_constants(source, constants)
    options = CompileOptions(
        target=target,
        config=_config(config),
        device=None if device is None else str(device),
        batch=batch,
        records=_records(records),
        virtual_threads=virtual_threads,
        dump_passes=None if dump_passes is None else Path(dump_passes),
    )
    return backend_of(target).compile(source, options)


def build(
    schedule: Schedule | Program,
    target: str = "llvm",
    config: Config | str | Path | None = None,
    *,
    device: int | str | None = None,
    virtual_threads: int = 2,
) -> Executable:
    """Compile a scheduled tensor expression; arguments as of `compile`.

    A program without a schedule runs its loops as they are on a processor, and on a GPU with a thread for each
    iteration that may be one. The inputs are the parameters that it reads, the outputs those that it writes. Raises
    UserError, LegalityError.
    """
    options = CompileOptions(
        target=target,
        config=_config(config),
        device=None if device is None else str(device),
        virtual_threads=virtual_threads,
    )
    return backend_of(target).build(schedule, options)


def load(path: str | Path, target: str = "llvm", *, device: int | str | None = None) -> Executable:
    """What `vdla compile` wrote for a processor or a GPU. Raises UserError for any other file."""
    options = CompileOptions(target=target, device=None if device is None else str(device))
    return backend_of(target).load(Path(path), options)


def _config(config: Config | str | Path | None) -> Config | None:
    return config if config is None or isinstance(config, Config) else load_config(config)


def _records(records: RecordBook | str | Path | None) -> RecordBook | None:
    if records is None:
        return None
    from vdla.compiler.tune.records.book import RecordBook, read_book, shipped_book

    if isinstance(records, RecordBook):
        return records
    return shipped_book() if str(records) == "shipped" else read_book([Path(records)])[0]

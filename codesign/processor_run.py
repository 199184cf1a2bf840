"""One network on this processor: compiled now or earlier, and held against ONNX Runtime."""

from __future__ import annotations

import math
import tarfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from vdla.compiler.cpu_driver import compile_cpu
from vdla.compiler.graph.quantize.error import Error
from vdla.compiler.runtime.archive import ArchiveError
from vdla.compiler.runtime.cpu_network import CpuNetwork
from vdla.compiler.runtime.network_archive import load_network
from vdla.compiler.target.cpu.machine import host_target, runs_here
from vdla.compiler.target.cpu.options import parse_target
from vdla.compiler.templates.chosen_knobs import ChosenKnobs
from vdla.compiler.templates.workload_cpu import CpuWorkload
from vdla.compiler.tune.records.apply_cpu import knobs_from
from vdla.compiler.tune.records.book import RecordBook
from vdla.hw.user_cache import CacheError
from vdla.isa.errors import UserError

from .evaluate import ONNXRUNTIME, RefusedModelError, reference_to_use, session_runs
from .network_cache import cached_network


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledHere:
    """A network of kernels, the seconds it took to have it, and whether the cache had it.

    `knobs` says which of the records were applied; None without records, and where the network was compiled earlier.
    """

    network: CpuNetwork
    seconds: float
    cached: bool
    knobs: ChosenKnobs[CpuWorkload] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputCheck:
    """Outputs against a reference: max |a - b| / max |b| over all of them, and whether all vectors have equal top-1.

    The first is None where only one side is finite, or where b is all zeros and a is not; the second for networks
    without a vector among their outputs.
    """

    against: str
    max_relative_error: float | None
    top1_equal: bool | None


def is_compiled(path: Path) -> bool:
    """Whether a file is, or by its name should be, what `vdla compile` wrote, and no model."""
    try:
        return path.suffix == ".tar" or tarfile.is_tarfile(path)
    except OSError:
        return False


def compile_here(
    model: Path,
    target: str,
    *,
    batch: int,
    cache: bool,
    dump_passes: Path | None,
    remark: Callable[[str], None],
    records: RecordBook | None = None,
) -> CompiledHere:
    """The network of the model in a file for `target` ("llvm ..."), which must be a processor that this one can be.

    With `cache`, and without passes to dump, the user's cache is asked first and keeps what is compiled; `remark` is
    told where it cannot be written. `records` of the tuner set the knobs of the kernels that they know. Raises
    UserError.
    """
    processor = parse_target(target)
    if not runs_here(processor):
        host = host_target()
        raise UserError(
            f'--target "{target}": this machine ({host.cpu}, {host.triple}) may lack instructions of {processor.cpu} '
            f"({processor.triple}); leave --target out, or write a file for it with `vdla compile`"
        )
    started = time.perf_counter()
    network: CpuNetwork | None = None

    def loads(path: Path) -> bool:
        nonlocal network
        try:
            network = load_network(path)
        except ArchiveError:
            return False
        return True

    if cache and dump_passes is None:
        try:
            entry = cached_network(model, processor, batch=batch, records=records, valid=loads)
            if network is None:
                network = load_network(entry.path)
            seconds = time.perf_counter() - started
            return CompiledHere(network=network, seconds=seconds, cached=entry.hit, knobs=entry.knobs)
        except CacheError as error:
            remark(f"compiled without the cache: {error}")
    knobs = None if records is None else knobs_from(records, processor)
    network = compile_cpu(model, processor, batch=batch, dump_passes=dump_passes, knobs=knobs)
    return CompiledHere(network=network, seconds=time.perf_counter() - started, cached=False, knobs=knobs)


def check_outputs(
    model: Path, inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray], wanted: str
) -> tuple[OutputCheck | None, str | None]:
    """Holds outputs against ONNX Runtime's, where that is installed; else None, and why.

    `wanted` is auto or onnxruntime. Raises CheckError.
    """
    against, remark = reference_to_use(wanted)
    if against != ONNXRUNTIME:
        return None, remark
    try:
        (expected,) = session_runs(
            str(model), list(outputs), [dict(inputs)], optimized=True, way_out="leave out --check"
        )
    except RefusedModelError as error:
        if wanted == ONNXRUNTIME:
            raise
        return None, f"ONNX Runtime refuses the model: {error.reason}"
    wanted_outputs = {name: np.asarray(values) for name, values in zip(outputs, expected, strict=True)}
    top1: list[float] = []
    for name, values in wanted_outputs.items():
        error = Error()
        error.add(*_without_equal_infinities(values, outputs[name]))
        if error.top1 is not None:
            top1.append(error.top1)
    return OutputCheck(
        against=against,
        max_relative_error=relative_difference(wanted_outputs, outputs),
        top1_equal=min(top1) == 1.0 if top1 else None,
    ), None


def relative_difference(expected: Mapping[str, np.ndarray], got: Mapping[str, np.ndarray]) -> float | None:
    """The largest max |a - b| / max |b| of outputs by name; None where only one side is finite, or b is all zeros and a
    is not."""
    parts: list[float | None] = []
    for name, values in expected.items():
        error = Error()
        error.add(*_without_equal_infinities(np.asarray(values), got[name]))
        part = error.relative_maximum
        parts.append(part if part is not None and math.isfinite(part) else None)
    known = [part for part in parts if part is not None]
    return max(known, default=0.0) if len(known) == len(parts) else None


class NamedInputs(Protocol):
    """A network of any kind, as far as its inputs go."""

    @property
    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        """The inputs' shapes by name."""
        ...

    @property
    def input_types(self) -> dict[str, np.dtype]:
        """The inputs' types by name."""
        ...


def sample_inputs(network: NamedInputs) -> dict[str, np.ndarray]:
    """Seeded inputs by name: of a normal distribution, for integers evenly distributed ones."""
    generator = np.random.default_rng(0)
    arrays: dict[str, np.ndarray] = {}
    for name, shape in network.input_shapes.items():
        dtype = network.input_types[name]
        if dtype == np.float32:
            arrays[name] = generator.standard_normal(shape, dtype=np.float32)
        else:
            limits = np.iinfo(dtype)
            arrays[name] = generator.integers(limits.min, limits.max + 1, shape, dtype=dtype)
    return arrays


def _without_equal_infinities(expected: np.ndarray, got: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both arrays with zeros where they hold the same infinity, or both NaN: there they agree."""
    same = ~np.isfinite(expected) & ((expected == got) | (np.isnan(expected) & np.isnan(got)))
    return np.where(same, 0, expected), np.where(same, 0, got)

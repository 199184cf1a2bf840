"""Compiles a network for any target that runs networks kernel by kernel, or loads it from the user's cache."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vdla.compiler.backends.kernels import KernelCompiler, KernelDevice, KernelNetwork, Progress
from vdla.compiler.runtime.archive import Saved
from vdla.compiler.templates.chosen_knobs import ChosenKnobs
from vdla.util.files import copy_whole, open_file
from vdla.util.user_cache import CacheError

from .network_cache import cached_network
from .network_options import NetworkOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledNetwork:
    """A network that is ready to run; the seconds of compiling or loading it, and whether it came from the cache.

    `knobs` has the tuning records that were applied. It is None if there were no records, or if the network came from
    the cache.
    """

    network: KernelNetwork
    seconds: float
    cached: bool
    knobs: ChosenKnobs[Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedNetwork:
    """A compiled network in files. `cached`: whether it came from the user's cache. `knobs`: the tuning records that
    were applied; None if there were no records, or if the network came from the cache.
    """

    saved: Saved
    cached: bool
    knobs: ChosenKnobs[Any] | None


def compile_on(
    device: KernelDevice,
    model: Path,
    options: NetworkOptions,
    *,
    remark: Callable[[str], None],
    told: Progress | None = None,
) -> CompiledNetwork:
    """Compiles the model in the file `model`, or takes it from the cache, and loads it on a device.

    `remark` is called with sentences for the user, for example about a cache that cannot be written. `told` is called
    with (number of kernels done, number of all kernels). Raises UserError.
    """
    started = time.perf_counter()
    _remark(device, model, remark)
    if options.cache and options.dump_passes is None:
        try:
            entry = cached_network(model, device, batch=options.batch, records=options.records, told=told)
            network = device.load(entry.path, trusted=True)
            seconds = time.perf_counter() - started
            return CompiledNetwork(network=network, seconds=seconds, cached=entry.hit, knobs=entry.knobs)
        except CacheError as error:
            remark(f"compiled without the cache: {error}")
    knobs = device.knobs(options.records)
    network = device.compile(
        model, batch=options.batch, knobs=knobs, dump_passes=options.dump_passes, told=told
    )
    return CompiledNetwork(network=network, seconds=time.perf_counter() - started, cached=False, knobs=knobs)


def write_network(
    compiler: KernelCompiler,
    model: Path,
    output: Path,
    options: NetworkOptions,
    *,
    remark: Callable[[str], None],
    told: Progress | None = None,
) -> SavedNetwork:
    """Compiles a model into files (`KernelCompiler.files`); an archive that is in the cache is copied from there.
    `remark` is called with sentences for the user, and `told` is called with (number of kernels done, number of all
    kernels). Raises UserError.
    """
    _remark(compiler, model, remark)
    if options.cache and options.dump_passes is None and len(compiler.files(output)) == 1:
        try:
            entry = cached_network(model, compiler, batch=options.batch, records=options.records, told=told)
            copy_whole(entry.path, output)
            # The cache has verified the archive.
            saved = compiler.describe_saved(entry.path)
            return SavedNetwork(saved=saved, cached=entry.hit, knobs=entry.knobs)
        except CacheError as error:
            remark(f"compiled without the cache: {error}")
    knobs = compiler.knobs(options.records)
    saved = compiler.save(
        output, model, batch=options.batch, knobs=knobs, dump_passes=options.dump_passes, told=told
    )
    return SavedNetwork(saved=saved, cached=False, knobs=knobs)


def _remark(compiler: KernelCompiler, model: Path, remark: Callable[[str], None]) -> None:
    if (text := compiler.remark(model)) is not None:
        remark(text)


def is_compiled(path: Path) -> bool:
    """Whether a file is a tar archive, as `vdla compile` writes it, or has the suffix .tar; otherwise it is a model."""
    if path.suffix == ".tar":
        return True
    # tarfile.is_tarfile would also decompress, and would read /dev/zero for ever.
    try:
        with os.fdopen(open_file(path), "rb") as file:
            return file.read(262)[257:] == b"ustar"
    except OSError:
        return False

"""Runs a whole network on this processor, as a baseline for a run that is partitioned between accelerator and
processor, and divides the measured time among the regions of the partition.

The network is compiled as by `vdla run --device cpu` and shares its cache. A second process compiles it into the cache
in parallel, because compilation is mostly Python code, which uses only one core.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from vdla.compiler.backends.kernels import KernelTime
from vdla.compiler.backends.llvm import LlvmDevice
from vdla.compiler.frontends.onnx.partition import Region
from vdla.compiler.graph.errors import ModelError
from vdla.compiler.runtime.heterogeneous_network import RegionTime, timed

from .divided_run import DividedRun
from .kernels_run import compile_on

PRODUCTS = frozenset(
    ["Conv", "ConvTranspose", "Gemm", "MatMul", "QLinearConv", "QLinearMatMul", "LSTM", "GRU", "RNN"]
)
"""ONNX operators (products and recurrent layers) that take most of the time of a kernel, whatever other operators are
fused into the kernel.
"""
_LONGEST_END = 10.0
"""Seconds that the compiling process has to end after the signal SIGTERM; after that, the process is killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuAlone:
    """The time of the whole network on the CPU alone, in `seconds`, and the part of this time that each region takes,
    by name of the region.

    If the network cannot run on the CPU, `seconds` is None and `remark` is the reason.
    """

    regions: Mapping[str, float]
    seconds: float | None = None
    remark: str = ""


def all_on_cpu(times: Sequence[RegionTime]) -> CpuAlone:
    """The CPU's seconds for a network that has no region on the accelerator: the sum of `times`."""
    seconds = {spent.name: spent.seconds for spent in times}
    return CpuAlone(seconds=sum(seconds.values()), regions=seconds)


@contextlib.contextmanager
def compiled_meanwhile(
    model: Path, target: str, records: Sequence[str] | None
) -> Iterator[Callable[[], object]]:
    """Starts another process that compiles `model` for `target` into the user's cache; `records` are values of
    --records.

    The value of the context is a function that waits for the other process. If that process fails, the next compilation
    of the network in this process raises the error. At the end of the block the other process is ended.
    """
    command = [sys.executable, "-m", "vdla.codesign.compile_into_cache", str(model), target, *(records or ())]
    # A session of its own: Ctrl-C then reaches only this process, which ends the other one.
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process.wait
    finally:
        process.terminate()
        try:
            process.wait(_LONGEST_END)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run_cpu_alone(
    run: DividedRun,
    regions: Sequence[Region],
    feeds: Mapping[str, np.ndarray],
    remark: Callable[[str], None],
) -> CpuAlone:
    """Runs the whole network on the CPU, measures its time as `timed` measures regions on the CPU (median of repeated
    runs), and divides the time among `regions`. If the CPU cannot run the network, the result has the reason in place
    of a time.

    `feeds` are the network's inputs by name; `remark` is passed to `kernels_run.compile_on`. Raises UserError.
    """
    try:
        compiled = compile_on(
            LlvmDevice(run.target), run.model, replace(run.network, dump_passes=None), remark=remark
        )
    except ModelError as error:
        return CpuAlone(regions={}, remark=str(error))
    with compiled.network as network:
        _, seconds = timed(lambda: network.run(feeds, threads=run.threads), run.threads, run.repeat)
        profile = network.profile(feeds, threads=run.threads, repeat=run.repeat)
    return CpuAlone(seconds=seconds, regions=divide_time(profile, regions, seconds))


def divide_time(
    profile: Sequence[KernelTime], regions: Sequence[Region], seconds: float
) -> Mapping[str, float]:
    """Divides `seconds` among regions in proportion to the times in `profile` of the regions' kernels. Returns seconds
    by name of the region.

    A kernel belongs to the region of its first product (`PRODUCTS`) or, if it has none, to the region of its first
    node. A kernel that computes no node of a region, such as a change of layout, belongs to the region of the kernel
    before it (the first kernel: to the first region).
    """
    owners = {node: region.name for region in regions for node in region.nodes}
    products = {
        node
        for region in regions
        for node, operator in zip(region.nodes, region.node_types, strict=True)
        if operator in PRODUCTS
    }
    spent = dict.fromkeys((region.name for region in regions), 0.0)
    region = regions[0].name
    for kernel in profile:
        known = [name for name in kernel.members if name in owners]
        first = next((name for name in known if name in products), next(iter(known), None))
        region = region if first is None else owners[first]
        spent[region] += kernel.milliseconds
    total = sum(spent.values())
    return {name: seconds * own / total if total else 0.0 for name, own in spent.items()}

"""Times of the kernels of a network on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from ..codegen.cpu.errors import KernelArgumentError
from .network_inputs import check_inputs

if TYPE_CHECKING:
    from ..codegen.cpu.kernel import Kernel
    from .cpu_network import CpuNetwork
    from .launch import Launch


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchTime:
    """Median time of one kernel over several runs. `gflops` is 0 if the kernel only moves data. `name`, `operator`:
    name and operator of the graph's node that the kernel computes. `members`: names of the ONNX nodes in this node.
    """

    name: str
    operator: str
    members: tuple[str, ...]
    milliseconds: float
    gflops: float


def launch_times(
    network: CpuNetwork, inputs: Mapping[str, np.ndarray], *, threads: int = 1, repeat: int = 20
) -> tuple[LaunchTime, ...]:
    """Median wall-clock time of each kernel over `repeat` runs, in the order of execution. All other arguments, and
    errors, are as in `CpuNetwork.run`. Also raises KernelArgumentError if `repeat` is less than 1.
    """
    check_inputs(network.name, network.inputs, inputs, network.quantized)
    if repeat < 1:
        raise KernelArgumentError(f"cannot profile {repeat} runs; ask for at least 1")
    with network.lock:
        bound = network.ready(threads)
        times: list[list[float]] = [[] for _ in bound]
        for _ in range(repeat):
            held = network.enter(threads, inputs)
            for kernel, seconds in zip(bound, times, strict=True):
                start = time.perf_counter()
                kernel()
                seconds.append(time.perf_counter() - start)
            del held
    return tuple(
        LaunchTime(
            name=launch.name,
            operator=launch.operator,
            members=launch.members,
            milliseconds=median(seconds) * 1e3,
            gflops=launch.operations / median(seconds) / 1e9,
        )
        for launch, seconds in zip(network.launches, times, strict=True)
    )


def time_kernels(
    network: CpuNetwork,
    inputs: Mapping[str, np.ndarray],
    *,
    clock: Callable[[], float] = time.perf_counter,
    counted: Callable[[Launch[Kernel]], bool] = lambda launch: True,
) -> float:
    """Runs the network once on one thread. Returns the total seconds, by `clock`, of the kernels that `counted`
    selects. Storing inputs and fetching outputs is not measured.

    Arguments and errors as in `CpuNetwork.run`.
    """
    check_inputs(network.name, network.inputs, inputs, network.quantized)
    with network.lock:
        bound = network.ready(1)
        groups = [
            (timed, [kernel for _, kernel in group])
            for timed, group in groupby(
                zip(network.launches, bound, strict=True), lambda pair: counted(pair[0])
            )
        ]
        held = network.enter(1, inputs)
        seconds = 0.0
        for timed, kernels in groups:
            start = clock()
            for kernel in kernels:
                kernel.run_in_turn()
            seconds += clock() - start if timed else 0.0
        del held
    return seconds

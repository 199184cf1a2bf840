"""Networks divided between the simulated accelerator and this machine's processor, which run as one network."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

import numpy as np

from vdla.util.arguments import InputError, arrays_by_name
from vdla.util.closing import Closing
from vdla.util.errors import CodeError, UserError

from ..frontends.onnx.partition import Region
from ..graph.host import load_output, store_inputs
from .accelerator import run as execute
from .artifact import Compiled
from .cpu_network import CpuNetwork
from .executable import Port

Arrays = Mapping[str, np.ndarray]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CompiledRegion(Region):
    """A region of a network with its code, for the accelerator (`Compiled`) or for the CPU (`CpuNetwork`)."""

    code: Compiled | CpuNetwork

    @property
    def accelerated(self) -> bool:
        """Whether the region runs on the accelerator."""
        return isinstance(self.code, Compiled)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionTime:
    """The time of one run of a region.

    For a region on the accelerator, `seconds` is the time of the simulated `cycles` at the clock that the caller gives.
    `boundary_seconds` is the measured time in which the host converts inputs to int8 and outputs to float32 (numpy).
    For a region on the CPU, `seconds` is measured and `cycles` is None.
    """

    name: str
    accelerated: bool
    seconds: float
    boundary_seconds: float = 0.0
    cycles: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeterogeneousResult:
    """Result of one run: the outputs by the model's names, and the cycles of the accelerator's regions by region name.
    Also holds, by name, the model's inputs and outputs and all tensors that go from one region to another.
    """

    outputs: Arrays
    cycles: Mapping[str, int]
    tensors: Arrays


class HeterogeneousNetwork(Closing):
    """A network of regions, in an order in which the regions can run. `close` or the end of a `with` block ends its
    threads.

    `types`: the types of all tensors that the model declares; `constants`: outputs that depend on no input.
    """

    def __init__(
        self,
        *,
        name: str,
        inputs: tuple[Port, ...],
        outputs: tuple[str, ...],
        regions: tuple[CompiledRegion, ...],
        types: Mapping[str, np.dtype],
        constants: Arrays,
    ) -> None:
        self.name = name
        self.inputs = inputs
        self.outputs = outputs
        self.regions = regions
        self.constants = constants
        self._types = types

    def run(self, feeds: Arrays, *, threads: int = 1) -> HeterogeneousResult:
        """One inference. `feeds`: the model's inputs by name. `threads`: number of threads of regions on the CPU.
        Raises UserError for inputs that do not fit the model, and for NaN in a tensor that is quantized for the
        accelerator.
        """
        self._check(feeds)
        tensors: dict[str, np.ndarray] = {**self.constants, **feeds}
        cycles: dict[str, int] = {}
        for region in self.regions:
            try:
                results, taken = run_region(region, tensors, threads=threads)
            except CodeError:
                raise
            except UserError:
                self._check_inside(region, tensors, feeds)
                raise
            if taken is not None:
                cycles[region.name] = taken
            for name, array in results.items():
                # NaN has no integer value; QuantizeLinear leaves the result undefined.
                with np.errstate(invalid="ignore"):
                    tensors[name] = np.asarray(array, self._types[name])
        return HeterogeneousResult(
            outputs={name: tensors[name] for name in self.outputs}, cycles=cycles, tensors=tensors
        )

    def time(
        self,
        result: HeterogeneousResult,
        *,
        threads: int = 1,
        repeat: int = 1,
        clock_hertz: float | None = None,
    ) -> tuple[RegionTime, ...]:
        """The time of each region, in the order in which regions run, on the tensors in `result`.

        Work of the host is run `repeat` times and measured by `timed`; regions on the CPU use `threads` threads.
        `clock_hertz`: the accelerator's clock, by default that of its configuration. Raises UserError for less than one
        repetition.
        """
        return tuple(
            time_region(
                region,
                result.tensors,
                cycles=result.cycles.get(region.name),
                threads=threads,
                repeat=repeat,
                clock_hertz=clock_hertz,
            )
            for region in self.regions
        )

    def close(self) -> None:
        """Ends the threads."""
        for region in self.regions:
            if isinstance(region.code, CpuNetwork):
                region.code.close()

    def _check_inside(self, region: CompiledRegion, tensors: Arrays, feeds: Arrays) -> None:
        """Raises UserError if a region gets NaN that the network computed, since int8 has no NaN. Does nothing if the
        inputs `feeds` already contain NaN.
        """
        if any(_holds_nan(array) for array in feeds.values()):
            return
        for name in region.inputs:
            if name not in feeds and _holds_nan(tensors[name]):
                maker = next(other for other in self.regions if name in other.outputs)
                nodes = ", ".join(maker.nodes[:5]) + (", ..." if maker.nodes[5:] else "")
                raise UserError(
                    f"{region.name}: tensor '{name}' contains NaN, which cannot be quantized, although the inputs "
                    f"contain none: {maker.name} computes the tensor; look for a division by zero, or for a root or "
                    f"logarithm of a negative number, among {nodes}"
                )

    def _check(self, feeds: Arrays) -> None:
        ports = {port.name: port for port in self.inputs}
        needs = ", ".join(f"{port.name} {port.dtype} {list(port.shape)}" for port in self.inputs)
        for name in arrays_by_name(feeds):
            if name not in ports:
                raise InputError(f"the model has no input '{name}'; it expects {needs}")
        for name, port in ports.items():
            if name not in feeds:
                raise InputError(f"input '{name}' is missing; the model expects {needs}")
            array = feeds[name]
            if array.shape != port.shape:
                raise InputError(f"input '{name}' has shape {array.shape}; the model needs {port.shape}")
            if array.dtype != port.dtype:
                raise InputError(f"input '{name}' has type {array.dtype}; convert it to {port.dtype}")


def _holds_nan(array: np.ndarray) -> bool:
    return array.dtype.kind == "f" and bool(np.isnan(array).any())


def run_region(
    region: CompiledRegion, tensors: Arrays, *, threads: int = 1, data: bool = True
) -> tuple[dict[str, np.ndarray], int | None]:
    """Runs a region. `tensors`: arrays by name, which include the region's inputs. Returns the region's outputs by
    name, and the number of cycles on the accelerator (None for a region of the CPU).

    `threads`: number of threads on the CPU. If `data` is False, a region of the accelerator is only simulated for
    timing, and has no outputs. Raises UserError for inputs that do not fit the region.
    """
    feeds = {name: tensors[name] for name in region.inputs}
    match region.code:
        case CpuNetwork() as network:
            return network.run(_as_input_types(network, feeds), threads=threads), None
        case Compiled() as compiled:
            try:
                result = execute(compiled, feeds, data=data)
            except CodeError:
                raise
            except UserError as error:
                raise InputError(f"{region.name} ({', '.join(region.inputs)}): {error}") from None
            return dict(result.outputs), result.simulation.cycles


def time_region(
    region: CompiledRegion,
    tensors: Arrays,
    *,
    cycles: int | None,
    threads: int = 1,
    repeat: int = 1,
    clock_hertz: float | None = None,
) -> RegionTime:
    """The time of a region. `tensors`: arrays by name, which include the region's inputs. `cycles`: the number of
    cycles that `run_region` returned for the region. `threads`: number of threads of a region on the CPU. `repeat`:
    number of timed runs of the host's work (a region on the CPU, or conversions for the accelerator). `clock_hertz`:
    the accelerator's clock (None: the clock in its configuration). Raises UserError if `repeat` is less than 1.
    """
    feeds = {name: tensors[name] for name in region.inputs}
    match region.code:
        case CpuNetwork() as network:
            taken = _as_input_types(network, feeds)
            _, seconds = timed(lambda: network.run(taken, threads=threads), threads, repeat)
            return RegionTime(name=region.name, accelerated=False, seconds=seconds)
        case Compiled() as compiled:
            assert cycles is not None
            return RegionTime(
                name=region.name,
                accelerated=True,
                seconds=cycles / (clock_hertz or compiled.program.config.clock_hertz),
                boundary_seconds=_boundary_seconds(compiled, feeds, repeat),
                cycles=cycles,
            )


def timed(work: Callable[[], Result], threads: int, repeat: int) -> tuple[Result, float]:
    """The result of `work`, and the median of its seconds in `repeat` runs after a warm-up run.

    Seconds are CPU time of this thread if `threads` is 1, else wall-clock time. Raises UserError for less than one
    repetition.
    """
    if repeat < 1:
        raise UserError(f"cannot time {repeat} runs; ask for at least 1")
    clock = time.thread_time if threads == 1 else time.perf_counter
    result = work()
    times: list[float] = []
    for _ in range(repeat):
        start = clock()
        result = work()
        times.append(clock() - start)
    return result, median(times)


def _as_input_types(network: CpuNetwork, feeds: Arrays) -> dict[str, np.ndarray]:
    """Converts the arrays `feeds` to the types of the network's inputs. int8 values from the accelerator become
    float32; token ids stay integers.
    """
    return {port.name: np.asarray(feeds[port.name], port.dtype) for port in network.inputs}


def _boundary_seconds(compiled: Compiled, feeds: Arrays, repeat: int) -> float:
    """Seconds that the host needs to convert the inputs `feeds` of a region of the accelerator to int8, and the
    region's outputs back. The outputs are zeros, which take as long as other values. `repeat`: number of timed runs of
    each conversion (`timed`).
    """
    graph = compiled.graph
    stored = {item.name: np.zeros(graph.tensors[item.tensor].shape, np.int8) for item in graph.outputs}
    _, entering = timed(lambda: store_inputs(graph, dict(feeds)), 1, repeat)
    _, leaving = timed(lambda: [load_output(item, stored[item.name]) for item in graph.outputs], 1, repeat)
    return entering + leaving

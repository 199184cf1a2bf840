"""The suite of GPU benchmarks: checks each entry against float64 and times it against torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from statistics import median
from types import ModuleType
from typing import Any

import numpy as np

from vdla.compiler.codegen.cuda.machine import Precision
from vdla.compiler.codegen.cuda.tolerances import tolerance
from vdla.compiler.runtime.cuda_timing import repetitions_for

from .case import relative_error
from .gpu_models import ModelCase, inputs_of, layer_cases, network_cases, operator_cases, product_case
from .gpu_run import (
    LOW_PRECISION,
    Checked,
    Ours,
    Platform,
    check_model,
    check_product,
    model_on,
    output_type,
    product_on,
)
from .gpu_torch import (
    Forward,
    PeerError,
    TorchTimer,
    model_forward,
    outputs_of,
    product_forward,
    set_convolutions,
    set_precision,
)
from .suite import UnknownRowError

SIZES = (512, 1024, 2048, 4096, 8192)
CHECKED_SIZES = (512, 1000)
REDUCED_SIZES = (96, 100)
TOLERANCES = {"float32": 2e-5, "tf32": 4e-3, "float16": 2e-3, "bfloat16": 1.6e-2, "int8": 0.0}
"""The largest allowed difference of a result, relative to the largest value. Sums are in float32 in any order,
including Winograd's; tf32 and float16 have 11 significant bits, bfloat16 has 8.
"""
NETWORK_FACTOR = 4.0
"""Factor by which the tolerance of whole networks is larger, because errors of many layers add up."""
GRAPHED, EAGER, COMPILED = "torch, CUDA graph", "torch, eager", "torch.compile, max-autotune, CUDA graph"
COMPILED_LIBRARY = f"{COMPILED}, convolutions by cuDNN"

MilliSeconds = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuEntry:
    """An entry of the suite in one `precision`: a model or, if `model` is None, a product of square
    matrices of `size`.
    """

    name: str
    group: str
    precision: str
    model: ModelCase | None = None
    size: int = 0

    @property
    def tolerance(self) -> float:
        """The largest allowed error: from `codegen.cuda.tolerances` for products, whose depth is known, else from
        `TOLERANCES`.
        """
        if self.group == "products":
            precision: Precision = self.precision  # type: ignore[assignment]
            output = output_type(self.precision)
            # Only products in networks have float32 factors that are still to be rounded.
            return tolerance(precision, self.size, output=output, rounded=precision != "tf32")
        return TOLERANCES[self.precision] * (NETWORK_FACTOR if self.group == "networks" else 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRow:
    """The result of timing one entry of the suite.

    `ratios`: by peer (a way to run torch), its time over ours, median over the rounds; above 1 ours is faster. Times
    are medians in milliseconds; `gflops`: billions of operations per second of our side; `of_peak`: share of the card's
    peak in this precision.
    """

    name: str
    group: str
    precision: str
    ours_ms: float
    gflops: float
    of_peak: float
    peers_ms: Mapping[str, float]
    ratios: Mapping[str, float]

    def to_dict(self) -> dict[str, Any]:
        """The row as a JSON object."""
        return asdict(self)


def checked_entries(*, reduced: bool) -> tuple[GpuEntry, ...]:
    """All entries that are checked: every operator, layers, products in all precisions (small ones if `reduced`), and
    networks.
    """
    cases = (*operator_cases(), *layer_cases(), *network_cases())
    sizes = REDUCED_SIZES if reduced else CHECKED_SIZES
    return (
        *(_of_model(case, "float32") for case in cases),
        *(_of_model(case, "tf32") for case in layer_cases() if case.group == "convolutions"),
        *_products(sizes),
    )


def timed_entries() -> tuple[GpuEntry, ...]:
    """All entries that are timed. A layer or network in float32 and the same one in tf32 are two entries; matrix
    products also have entries in types of 16 bits and fewer.
    """
    layers, networks = layer_cases(), network_cases()
    return (
        *(_of_model(case, "float32") for case in (*layers, *networks)),
        *(_of_model(case, "tf32") for case in (*layers, *networks) if case.group != "depthwise convolutions"),
        *_products(SIZES),
    )


def _of_model(case: ModelCase, precision: str) -> GpuEntry:
    name = case.name if precision == "float32" else f"{case.name}_{precision}"
    return GpuEntry(name=name, group=case.group, precision=precision, model=case)


def _products(sizes: Sequence[int]) -> tuple[GpuEntry, ...]:
    """Entries for products of square matrices: in float32 and tf32 as models, in less precise types as
    single products.
    """
    return tuple(
        [
            GpuEntry(
                name=f"gemm{size}_{precision}",
                group="products",
                precision=precision,
                model=None if precision in LOW_PRECISION else product_case(size),
                size=size,
            )
            for precision in TOLERANCES
            for size in sizes
        ]
    )


def choose_entries(entries: Sequence[GpuEntry], names: Iterable[str]) -> tuple[GpuEntry, ...]:
    """The entries of the suite whose names or groups are in `names`, in the suite's order; all entries if there are no
    `names`. Raises UnknownRowError for unknown names.
    """
    wanted = set(names)
    known = {entry.name for entry in entries} | {entry.group for entry in entries}
    if unknown := sorted(wanted - known):
        raise UnknownRowError(
            f"there is no row or group {unknown[0]!r}; there are {', '.join(sorted(known))}"
        )
    return tuple([entry for entry in entries if not wanted or entry.name in wanted or entry.group in wanted])


def check_entry(platform: Platform, entry: GpuEntry, *, reduced: bool) -> Checked:
    """Compiles and runs an entry of the suite for `platform`, and compares its outputs with those computed in float64.
    Returns the largest relative error, and the largest allowed one. `reduced`: a model in small sizes; products keep
    their size.
    """
    platform = _in_precision(platform, entry)
    if entry.model is None:
        return check_product(platform, entry.precision, entry.size, tolerance=entry.tolerance)
    return check_model(platform, entry.model, reduced=reduced, tolerance=entry.tolerance)


def measure_entry(
    platform: Platform,
    torch: ModuleType | None,
    entry: GpuEntry,
    rounds: int,
    *,
    library_convolutions: bool = False,
) -> GpuRow:
    """Measures an entry on `platform` in `rounds` rounds: our runs and those of the peers (ways to run torch)
    alternate; each round gives one ratio to each peer. Returns the entry's row.

    `torch`: the module; None: there are no peers. `library_convolutions`: torch.compile uses cuDNN's convolutions only
    (`gpu_torch.set_convolutions`). A peer's outputs are compared before it is timed; raises PeerError if they differ
    from ours.
    """
    platform = _in_precision(platform, entry)
    with ExitStack() as undo:
        ours = _ours(platform, entry)
        undo.callback(ours.close)
        ours_once = median([ours.time() for _ in range(3)])
        timers: dict[str, MilliSeconds] = {}
        if torch is not None:
            set_precision(torch, tensor_float=entry.precision == "tf32")
            mine = [np.asarray(array, _comparable(array)) for array in ours.run().values()]
            repetitions = repetitions_for(ours_once)
            for name, peer in _peers(torch, entry, ours.inputs, library_convolutions).items():
                compare_peer(entry, name, mine, outputs_of(torch, peer.forward))
                timer = TorchTimer(torch, peer.forward, repetitions=repetitions, graphed=peer.graphed)
                timers[name] = timer.milliseconds
        times: list[float] = []
        theirs: dict[str, list[float]] = {name: [] for name in timers}
        for _ in range(rounds):
            times.append(ours.time())
            for name, timer in timers.items():
                theirs[name].append(timer())
    milliseconds = median(times)
    gflops = ours.operations / milliseconds / 1e6
    return GpuRow(
        name=entry.name,
        group=entry.group,
        precision=entry.precision,
        ours_ms=milliseconds,
        gflops=gflops,
        of_peak=gflops * 1e9 / platform.target.peak(entry.precision),  # type: ignore[arg-type]
        peers_ms={name: median(values) for name, values in theirs.items()},
        ratios={
            name: median([peer / own for peer, own in zip(values, times, strict=True)])
            for name, values in theirs.items()
        },
    )


def geometric_means(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Geometric means of the ratios to each peer, by group and precision; `rows` are results of `GpuRow.to_dict`."""
    ratios: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        held = ratios.setdefault(f"{row['group']}, {row['precision']}", {})
        for peer, ratio in row["ratios"].items():
            held.setdefault(peer, []).append(ratio)
    return {
        group: {peer: math.exp(sum(map(math.log, v)) / len(v)) for peer, v in peers.items()}
        for group, peers in ratios.items()
    }


def _in_precision(platform: Platform, entry: GpuEntry) -> Platform:
    return replace(platform, target=replace(platform.target, tensor_float=entry.precision == "tf32"))


def _comparable(array: np.ndarray) -> type[np.generic]:
    """The type in which arrays are compared: its own type for integers, float32 for floats of any width."""
    return array.dtype.type if np.issubdtype(array.dtype, np.integer) else np.float32


def _ours(platform: Platform, entry: GpuEntry) -> Ours:
    if entry.model is None:
        return product_on(platform, entry.precision, entry.size)
    model = entry.model.make(False)
    return model_on(platform, model, inputs_of(model))


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A way to run an entry in torch, for comparison. `forward` runs it once and returns its outputs. `graphed`:
    whether the timed runs replay a CUDA graph of `forward`.
    """

    forward: Forward
    graphed: bool


def _peers(
    torch: ModuleType, entry: GpuEntry, inputs: Mapping[str, Any], library_convolutions: bool
) -> dict[str, Peer]:
    if entry.group == "products":
        forward = product_forward(torch, entry.precision, inputs)
    else:
        assert entry.model is not None
        forward = model_forward(torch, entry.model.make(False), inputs)
    peers = {GRAPHED: Peer(forward=forward, graphed=True), EAGER: Peer(forward=forward, graphed=False)}
    if entry.group == "networks":
        assert entry.model is not None
        set_convolutions(torch, library=library_convolutions)
        best = model_forward(torch, entry.model.make(False), inputs, compiled=True)
        name = COMPILED_LIBRARY if library_convolutions else COMPILED
        peers[name] = Peer(forward=best, graphed=True)
    return peers


def compare_peer(
    entry: GpuEntry, name: str, ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]
) -> None:
    """Compares our outputs of an entry with those of the peer `name` (a way to run torch), both in the model's order.
    Raises PeerError if shapes differ, or if the outputs differ by more than twice the tolerance of the entry. The
    tolerance is the allowed error against float64; either side may have this error.
    """
    shapes = [array.shape for array in ours], [array.shape for array in theirs]
    if shapes[0] != shapes[1]:
        raise PeerError(
            f"{entry.name}: outputs of {name} have shapes {shapes[1]}, ours {shapes[0]}; not timed"
        )
    error = max(relative_error(mine, other) for mine, other in zip(ours, theirs, strict=True))
    if not error <= 2 * entry.tolerance:
        raise PeerError(
            f"{entry.name}: outputs of {name} differ from ours by {error:.1e}, allowed are "
            f"{2 * entry.tolerance:.1e}; not timed"
        )

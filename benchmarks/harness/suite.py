"""Suites of benchmarks: the layers and networks that the TVM paper (OSDI 2018) measures on processors, and other
shapes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from vdla.codesign.named_layers import CONVOLUTIONS, DEPTHWISE, OTHER_CONVOLUTIONS
from vdla.util.errors import UserError

from .case import Case, Row, measure
from .convolutions import convolution_case
from .networks import NETWORKS, network_case
from .products import OTHER_PRODUCTS, int8_product_case, product_case


class UnknownRowError(UserError):
    """Raised for a name that no entry (measured layer or network) of the suite has."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a suite: the name of a layer, product or network, its group, and the function that makes its
    benchmark case for a number of threads.
    """

    name: str
    group: str
    make: Callable[[int], Case]


def paper_suite() -> tuple[Entry, ...]:
    """The entries that the TVM paper measures: layers C1-C12 and D1-D9, matrix products, whole networks."""
    return (
        *(Entry(name, "convolutions", partial(convolution_case, name)) for name in CONVOLUTIONS),
        *(Entry(name, "depthwise convolutions", partial(convolution_case, name)) for name in DEPTHWISE),
        *(_product(f"gemm{size}", (size, size, size)) for size in (512, 1024, 2048)),
        Entry("int8_1024", "matrix products", partial(int8_product_case, 1024)),
        *(Entry(name, "networks", partial(network_case, name)) for name in NETWORKS),
    )


def other_suite() -> tuple[Entry, ...]:
    """Entries that the TVM paper does not measure: layers and matrix products of other networks, and some with odd
    sizes.
    """
    return (
        *(Entry(name, "convolutions", partial(convolution_case, name)) for name in OTHER_CONVOLUTIONS),
        *(_product(name, sizes) for name, sizes in OTHER_PRODUCTS.items()),
    )


def _product(name: str, sizes: tuple[int, int, int]) -> Entry:
    return Entry(name, "matrix products", partial(product_case, name, *sizes))


def choose(entries: Sequence[Entry], names: Iterable[str]) -> tuple[Entry, ...]:
    """The entries with the given names, in the suite's order; all entries if no name is given. Raises UnknownRowError
    for unknown names.
    """
    wanted = set(names)
    if unknown := sorted(wanted - {entry.name for entry in entries}):
        raise UnknownRowError(
            f"the suite has no row {unknown[0]!r}; it has {', '.join(entry.name for entry in entries)}"
        )
    return tuple(entry for entry in entries if not wanted or entry.name in wanted)


def measured(entry: Entry, *, threads: int, rounds: int) -> Row:
    """Compiles the entry's kernels, compares their outputs with those of ONNX Runtime, times both on `threads` threads
    in `rounds` rounds, and returns the row. A difference is in the row's `error`; it raises nothing.
    """
    with closing(entry.make(threads)) as case:
        return measure(case, rounds)


def geometric_means(entries: Sequence[Entry], rows: Sequence[Row]) -> dict[str, float | None]:
    """Geometric mean of the ratios of each group of `entries` that has rows, by the group's name. The mean is None if
    one of the ratios is not above 0. This can happen because the time of a layer is the difference of two measured
    times, which noise can make zero or negative.
    """
    groups = {entry.name: entry.group for entry in entries}
    ratios: dict[str, list[float]] = {}
    for row in rows:
        ratios.setdefault(groups[row.name], []).append(row.ratio)
    return {
        group: round(math.exp(sum(map(math.log, values)) / len(values)), 3) if min(values) > 0 else None
        for group, values in ratios.items()
    }

"""Proposes knobs of kernels on a machine with a DRAM (hw/dram.md); `dram_choices` compares them by simulation.

The templates' cost models count bus beats, and the latency of a fixed memory. A DRAM also loses cycles with each burst
that opens a row, and with each change between reads and writes. So the knobs of least cost need not be the fastest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import numpy as np

from vdla.isa.config import Config

from .node_points import Points
from .templates.columns import Values
from .templates.space import Space
from .templates.template import candidate_values, grid_costs
from .templates.vdla.template import Kernel, template_of
from .templates.vdla.workload import Workload

CANDIDATES = 7
"""Number of points (settings of the knobs) of each kernel, those of least cost, that are proposed. With 9, the networks
of `benchmarks/dram_placement.py` take up to 0.1% fewer cycles, and their compilation a sixth longer.
"""
_TRIED = 400
"""Number of points of least cost among which different programs are looked for; many points have the same program."""


def candidates(
    config: Config, kernels: Mapping[str, Sequence[Kernel]], virtual_threads: int
) -> Iterator[Points]:
    """Yields knobs for all nodes, from the second best ones by the cost models to those of rank CANDIDATES. Each of
    them leaves out nodes that have no such knobs, and nodes whose kernels share the knobs of a series.

    `kernels`: the kernels of all nodes. `virtual_threads`: largest number of copies of a buffer.
    """

    @cache
    def best(workload: Workload) -> tuple[Values, ...]:
        template = template_of(workload)
        return _of_least_cost(
            template.space(config, workload), dict.fromkeys(template.copies, virtual_threads)
        )

    found = {
        name: [best(kernel.workload) for kernel in several]
        for name, several in kernels.items()
        if all(kernel.series is None for kernel in several)
    }
    for rank in range(1, CANDIDATES):
        yield {
            name: tuple([points[min(rank, len(points) - 1)] for points in several])
            for name, several in found.items()
            if any(rank < len(points) for points in several)
        }


def _of_least_cost(space: Space, most: Values) -> tuple[Values, ...]:
    """Up to CANDIDATES points of `space`, in order of cost, whose programs differ. They are in the first group of the
    space's candidates that has a legal point. `most`: largest values of knobs, by name.
    """
    names = [axis.name for axis in space.axes]
    for group in space.candidates:
        choices = candidate_values(space, group, most)
        if not all(choices):
            continue
        costs, _ = grid_costs(space, choices)
        # Among equal costs the last point comes first, as in `cheapest`.
        order = len(costs) - 1 - np.argsort(costs[::-1], kind="stable")[:_TRIED]
        order = order[np.isfinite(costs[order])]
        if not len(order):
            continue
        numbers = np.unravel_index(order, [len(values) for values in choices])
        columns = {
            name: np.array(values)[chosen]
            for name, values, chosen in zip(names, choices, numbers, strict=True)
        }
        effective = space.cost(columns).effective
        same = np.stack([np.broadcast_to(effective[name], order.shape) for name in names], 1)
        first = np.sort(np.unique(same, axis=0, return_index=True)[1])[:CANDIDATES]
        return tuple([{name: int(columns[name][place]) for name in names} for place in first.tolist()])
    return ()


def with_deeper_buffers(
    config: Config, kernels: Sequence[Kernel], knobs: Sequence[Values]
) -> tuple[Values, ...]:
    """The `knobs` of a node's kernels, with as many copies of each buffer as the scratchpads hold. The load unit then
    runs further ahead of the array, and the array further ahead of the store unit, so that the array waits less for
    loads while stores use the bus.
    """
    return tuple(
        [_deeper(config, kernel.workload, values) for kernel, values in zip(kernels, knobs, strict=True)]
    )


def _deeper(config: Config, workload: Workload, values: Values) -> Values:
    template = template_of(workload)
    space = template.space(config, workload)
    choices = {axis.name: axis.values for axis in space.axes}
    for name in template.copies:
        for count in sorted(choices[name], reverse=True):
            tried = {**values, name: count}
            if count > values[name] and space.permits(tried):
                values = tried
                break
    return values

"""Proposes knobs of kernels on a machine with a DRAM (hw/dram.md); `dram_choices` compares them by simulation.

The templates' cost models assume a memory with a fixed latency, and count beats of the bus. A DRAM also loses cycles
with each burst that opens a row, and with each change between reads and writes. So the knobs of least cost need not be
the fastest. Candidates are ordered by the cost model's cycles plus an estimate of the lost cycles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import numpy as np

from vdla.isa.config import Config

from .node_points import Points
from .templates.columns import Columns, Values
from .templates.space import Space
from .templates.template import candidate_values, grid_costs
from .templates.vdla.template import Kernel, template_of
from .templates.vdla.workload import Workload

CANDIDATES = 7
"""Number of points (settings of the knobs) that are proposed for each kernel. One is the point of least cost by the
cost model; the others have the least costs on a DRAM.
"""
_TRIED = 4000
"""Number of points that are examined: those of least cost by the cost model. The points of least cost on a DRAM are
chosen among them. Many of these points have the same program.
"""
_BEAT, _TILE, _INSTRUCTION = 1.15, 40.0, 6.0
"""Estimated cycles of a DRAM's bus for each beat (with rows and refreshes). Cycles are added for each tile (two changes
of direction) and for each instruction (its fetch, and the rows that the fetch opens). The three numbers were found by
simulation of MobileNet-v2 on DDR3-800.
"""


def candidates(
    config: Config, kernels: Mapping[str, Sequence[Kernel]], virtual_threads: int
) -> Iterator[Points]:
    """Yields proposals of knobs for all nodes, from rank 1 to rank CANDIDATES - 1. Rank 1 are each node's knobs of
    least cost on a DRAM. (Rank 0, the knobs of least cost by the cost model, is left out.) The buffers have as many
    copies as the scratchpads hold. A proposal has no entry for a node without knobs of the rank, and for a node whose
    kernels take their knobs from a series of kernels.

    `kernels`: the kernels of all nodes. `virtual_threads`: largest number of copies of a buffer for which costs are
    compared.
    """

    @cache
    def best(workload: Workload) -> tuple[Values, ...]:
        template = template_of(workload)
        most = dict.fromkeys(template.copies, virtual_threads)
        points = _of_least_cost(template.space(config, workload), most)
        return (*points[:1], *(_deeper(config, workload, values) for values in points[1:]))

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
    """Up to CANDIDATES points of `space` with different programs. The first is the point of least cost by the cost
    model; the others are ordered by their cost on a DRAM. All points are in the first group of the space's candidates
    that has a legal point. `most`: upper limits of knobs, by the knob's name.
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
        estimates = space.cost(columns)
        same = np.stack([np.broadcast_to(estimates.effective[name], order.shape) for name in names], 1)
        first = np.sort(np.unique(same, axis=0, return_index=True)[1])
        lost = np.broadcast_to(_lost_cycles(estimates.quantities), order.shape)
        others = first[1:][np.argsort((costs[order] + lost)[first[1:]], kind="stable")]
        chosen = [*first[:1].tolist(), *others.tolist()][:CANDIDATES]
        return tuple([{name: int(columns[name][place]) for name in names} for place in chosen])
    return ()


def _lost_cycles(quantities: Columns) -> np.ndarray | float:
    """Estimated cycles that a kernel loses on a DRAM, for each point (setting of the knobs). With rows and changes of
    direction, the bus is busy for a longer time than the kernel's busiest unit without them; the difference is the lost
    cycles.

    `quantities`: the cost model's results for these points. If they do not include the traffic, the result is 0.
    """
    if "tiles" not in quantities:
        return 0.0
    compute, storing, beats = (quantities[name] for name in ("compute cycles", "storing", "traffic"))
    bus = _BEAT * beats + _TILE * quantities["tiles"] + _INSTRUCTION * quantities["instructions"]
    return np.maximum(0.0, bus - np.maximum(np.maximum(compute, storing), beats))


def with_deeper_buffers(
    config: Config, kernels: Sequence[Kernel], knobs: Sequence[Values]
) -> tuple[Values, ...]:
    """The `knobs` of a node's kernels, with as many copies of each buffer as the scratchpads hold. With more copies,
    the load unit runs further ahead of the array, and the array further ahead of the store unit. While stores use the
    bus, the array then waits less for loads.
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

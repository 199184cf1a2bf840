"""Chooses knobs by simulated cycles of the whole network, for nodes with several kernels in small networks. (The cost
model estimates each kernel alone.)

The kernels of a node, such as the phases of a transposed convolution or the borders of a pool, overlap: while one
computes, the next one loads. Double buffering within a kernel hides the kernel's own loads, but takes more
instructions. Whether it pays off in an overlapped kernel is found out by simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from vdla.isa.config import Config
from vdla.isa.layout import Opcode
from vdla.isa.program import Program
from vdla.sim import simulate

from .te.blocks import ceil_div
from .templates.columns import Values
from .templates.space import EmptySpaceError
from .templates.vdla.lower import choose_points
from .templates.vdla.template import Kernel, template_of
from .templates.vdla.workload import Workload

MOST_KERNELS, MOST_INSTRUCTIONS = 256, 20_000
"""Largest number of kernels and of instructions of a network that is simulated to choose knobs: 0.03 s of simulation at
most. In larger networks small nodes matter little.
"""

Points = Mapping[str, tuple[Values, ...]]
"""Values of the knobs for every kernel of a node, by the node's name."""


def measured_points(
    config: Config,
    kernels: Mapping[str, Sequence[Kernel]],
    virtual_threads: int,
    program_of: Callable[[Points], Program],
) -> Points:
    """Compares knobs of nodes with several kernels by simulating the whole network. Returns the fastest of these
    choices: the knobs of the templates (empty), an alternative for all such nodes, or each node's best alternative, if
    it has one. Returns an empty mapping also for large networks, and with one virtual thread.

    `kernels`: the kernels of all nodes. `virtual_threads`: largest number of copies of a buffer. `program_of` links a
    program from the knobs of all nodes, with an instruction group for each node; the program's constants may be zeros.
    Tuning records are ignored. Raises UnfitNodeError."""
    if virtual_threads == 1 or sum(len(several) for several in kernels.values()) > MOST_KERNELS:
        return {}
    nodes = {
        name: several
        for name, several in kernels.items()
        if len(several) > 1 and all(kernel.series is None for kernel in several)
    }
    if not nodes:
        return {}
    plain = choose_points(config, kernels, {}, virtual_threads)
    others = [
        choice
        for choice in _other_choices(config, nodes, virtual_threads)
        if any(own != plain[name] for name, own in choice.items())
    ]
    if not others or len((first := program_of(plain)).instructions) > MOST_INSTRUCTIONS:
        return {}
    choices: list[Points] = [{}, *others]
    measured = [
        cycles_by_group(first),
        *(cycles_by_group(program_of({**plain, **other})) for other in others),
    ]
    best = np.argmin(np.array([layers for _, layers in measured]), axis=0)
    mixed = {
        name: choices[int(best[number])][name]
        for number, name in enumerate(first.groups)
        if name in nodes and best[number]
    }
    cycles = [total for total, _ in measured]
    if mixed and mixed not in choices:
        choices.append(mixed)
        cycles.append(cycles_by_group(program_of({**plain, **mixed}))[0])
    return choices[int(np.argmin(cycles))]


def _other_choices(
    config: Config, nodes: Mapping[str, Sequence[Kernel]], virtual_threads: int
) -> list[Points]:
    """At most two alternative choices of knobs for all `nodes`: knobs without double buffering; and the knobs that
    would be best if the batch of each kernel were multiplied by the number of the node's kernels, with at most
    `virtual_threads` copies of each buffer. A choice is left out if no knobs fit some kernel.
    """

    @cache
    def alone(workload: Workload) -> Values:
        return template_of(workload).default_for(config, workload, 1)

    @cache
    def in_series(workload: Workload, count: int) -> Values:
        own = workload.template == "conv2d"
        # Whole batches of the machine: adjacent images are one fill.
        batch = ceil_div(workload.batch, config.batch) * config.batch * count
        series = replace(workload, batch=batch, own_weights=own)
        return template_of(workload).default_in_series(config, workload, series, virtual_threads)

    found: list[Points] = []
    with suppress(EmptySpaceError):
        found.append(
            {name: tuple([alone(kernel.workload) for kernel in several]) for name, several in nodes.items()}
        )
    with suppress(EmptySpaceError):
        found.append(
            {
                name: tuple([in_series(kernel.workload, len(several)) for kernel in several])
                for name, several in nodes.items()
            }
        )
    return found


def cycles_by_group(program: Program) -> tuple[int, NDArray[np.int64]]:
    """Returns (total cycles of a program, cycles of each instruction group). The cycles of a group are those from the
    previous group's last store to its own last store.
    """
    result = simulate(program.config, program.instructions, program.image, data=False)
    stores = (np.asarray(program.instructions)[:, 0] & np.uint64(7)) == Opcode.STORE
    stores &= program.group_of >= 0
    last = np.zeros(len(program.groups), np.int64)
    np.maximum.at(last, program.group_of[stores], result.end[stores])
    return result.cycles, np.diff(np.maximum.accumulate(last), prepend=0)

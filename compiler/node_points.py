"""Chooses knobs for nodes with several kernels, in small networks, by simulated cycles of the whole network. (The cost
model estimates each kernel alone.)

The kernels of a node, such as the phases of a transposed convolution or the borders of a pool, overlap: while one
computes, the next one loads. Double buffering within a kernel hides the kernel's own loads, but takes more
instructions. Simulation finds out whether double buffering saves time when kernels overlap.
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
"""Largest numbers of kernels and of instructions in a network that is simulated to choose knobs. The simulation takes
at most 0.03 s. In larger networks small nodes matter little.
"""

Points = Mapping[str, tuple[Values, ...]]
"""Values of the knobs for every kernel of a node, by the node's name."""


def measured_points(
    config: Config,
    kernels: Mapping[str, Sequence[Kernel]],
    virtual_threads: int,
    program_of: Callable[[Points], Program],
) -> Points:
    """Compares knobs of nodes with several kernels by simulating the whole network. Returns the fastest of three
    choices: the templates' knobs (an empty mapping), one alternative for all these nodes, or the best alternative of
    each node that has one. For large networks, and with one virtual thread, returns an empty mapping.

    `kernels`: the kernels of all nodes. `virtual_threads`: largest number of copies of a buffer. `program_of` links a
    program from the knobs of all nodes, with an instruction group for each node; the program's constants may be zeros.
    Tuning records are ignored. Raises UnfitNodeError.
    """
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
    """At most two other choices of knobs for all `nodes`. One has no double buffering. The other is computed as if the
    batch of each kernel were multiplied by the number of the node's kernels, with at most `virtual_threads` copies of
    each buffer. A choice is left out if no knobs fit one of the kernels.
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
    """Returns (total cycles of a program, cycles of each instruction group). The cycles of a group end with the group's
    last store, and begin with the last store of the group before.
    """
    result = simulate(program.config, program.instructions, program.image, data=False)
    stores = (np.asarray(program.instructions)[:, 0] & np.uint64(7)) == Opcode.STORE
    stores &= program.group_of >= 0
    last = np.zeros(len(program.groups), np.int64)
    np.maximum.at(last, program.group_of[stores], result.end[stores])
    return result.cycles, np.diff(np.maximum.accumulate(last), prepend=0)

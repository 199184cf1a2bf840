"""Hardware that would help a network: single changes of a machine, each with exact cycles and the area that it adds.

The changes are each extension that the machine lacks (with the extensions that it needs), each scratchpad, the chain
memory (on-chip memory that keeps a layer's output for the next layer) and the bus at twice their size. The network is
compiled and simulated on every changed machine, so the cycles are those of the changed machine's own run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vdla.isa.config import Config
from vdla.isa.errors import ConfigError
from vdla.isa.extensions import EXTENSION_TABLE, EXTENSIONS, with_what_they_need
from vdla.util.errors import UserError

from ..technology.components import Components
from .evaluate import Figures, evaluate
from .networks import Network

LEAST_SAVED = 0.03
"""Default share of the cycles that a change must save to be listed."""
CHAIN_BYTES = (16 * 1024, 128 * 1024, 1024 * 1024)
"""Sizes in bytes of the chain memory that are tried for a machine without one."""
DOUBLED = (
    *("inp_buffer_bytes", "wgt_buffer_bytes", "acc_buffer_bytes", "uop_buffer_bytes", "par_buffer_bytes"),
    "chain_buffer_bytes",
)
"""Fields of memories that are doubled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A changed `machine`: its `cycles`, the share of the cycles of the machine before it that it saves, and the square
    millimetres of area that it adds (below 0 if it is smaller). `kind`: the extension or field that differs.
    """

    kind: str
    name: str
    machine: Config
    cycles: int
    saved: float
    added_area: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The changes of a machine that would save cycles of one network, most cycles first.

    `machine`: the machine that the changes start from, with the extensions `needed` added without which it cannot run
    the whole network; `cycles` and `area` (square millimetres) are its own. `steps`: changes one after the other, each
    the one that saves most on the machine of the step before.
    """

    network: str
    machine: Config
    needed: tuple[str, ...]
    cycles: int
    area: float
    changes: tuple[Change, ...]
    steps: tuple[Change, ...]

    @property
    def advised(self) -> Config:
        """The machine of the last step; `machine` without steps."""
        return self.steps[-1].machine if self.steps else self.machine

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary for each change: its `role` ("change" or "step"), name, cycles, share saved, and added area in
        square millimetres.
        """
        return [
            {
                "role": role,
                "name": change.name,
                "cycles": change.cycles,
                "saved": change.saved,
                "added_area_mm2": change.added_area,
            }
            for role, changes in (("change", self.changes), ("step", self.steps))
            for change in changes
        ]

    def document(self) -> dict[str, Any]:
        """The JSON object of `vdla advise --json`."""
        return {
            "network": self.network,
            "machine": self.machine.name,
            "needed_extensions": list(self.needed),
            "cycles": self.cycles,
            "area_mm2": self.area,
            "rows": self.rows(),
        }

    def __str__(self) -> str:
        """The lines that `vdla advise` prints."""
        lines = [f"{self.network} on {self.machine.name}: {self.cycles:,} cycles, {self.area:.2f} mm2"]
        if self.needed:
            lines.insert(0, f"needed to run the whole network: {', '.join(self.needed)}")
        for title, changes in (("alone", self.changes), ("one after the other", self.steps)):
            lines += [f"{title}:"] if changes else []
            lines += [
                f"  {change.name}: {change.cycles:,} cycles, {100 * change.saved:.1f}% fewer, "
                f"{change.added_area:+.2f} mm2"
                for change in changes
            ]
        return "\n".join(lines if self.changes else [*lines, "no change saves enough cycles"])


def advise(config: Config, network: Network, components: Components, least: float = LEAST_SAVED) -> Advice:
    """The changes of a machine that save at least the share `least` of a network's cycles.

    Raises UserError if the machine cannot run the whole network with any extensions.
    """
    needed = needed_extensions(config, network, components)
    machine = _extended(config, needed)
    own = evaluate(machine, [network], components)
    found = [
        change
        for kind, name, changed in changed_machines(machine)
        if (change := _change(kind, name, changed, own, network, components)) and change.saved >= least
    ]
    found.sort(key=lambda change: -change.saved)
    return Advice(
        network=network.name,
        machine=machine,
        needed=needed,
        cycles=own.networks[network.name].cycles,
        area=own.square_millimetres,
        changes=tuple(found),
        steps=tuple(_steps(machine, network, components, least, found)),
    )


def changed_machines(config: Config) -> Iterator[tuple[str, str, Config]]:
    """(kind, description, machine) for every single change of a machine that is legal."""
    for name in EXTENSIONS:
        if name not in config.extensions:
            added = [item for item in _with_needs(name) if item not in config.extensions]
            label = f"extension {name}" + (f" (with {', '.join(added[:-1])})" if len(added) > 1 else "")
            try:
                yield name, label, _extended(config, added)
            except ConfigError:
                continue
    for name in DOUBLED:
        size = getattr(config, name)
        for larger in (2 * size,) if size else CHAIN_BYTES:
            try:
                yield name, f"{name} {size} -> {larger}", replace(config, **{name: larger})
            except ConfigError:
                continue
    width = config.memory.bus_bytes
    try:
        memory = replace(config.memory, bus_bytes=2 * width)
        yield "bus", f"memory.bus_bytes {width} -> {2 * width}", replace(config, memory=memory)
    except ConfigError:
        return


def needed_extensions(config: Config, network: Network, components: Components) -> tuple[str, ...]:
    """Extensions without which a machine cannot run a whole network: a set from which none can be left out.

    Raises UserError if the machine cannot run the network with all extensions that its shape allows.
    """
    if evaluate(config, [network], components).failed is None:
        return ()
    added: list[str] = []
    for name in EXTENSIONS:
        try:
            _extended(config, [*added, name])
        except ConfigError:
            continue
        added += [] if name in config.extensions else [name]
    failed = evaluate(_extended(config, added), [network], components).failed
    if failed is not None:
        raise UserError(f"configuration {config.name}, with every extension that its shape allows: {failed}")
    for name in reversed(added):
        fewer = [item for item in added if item != name]
        if len(with_what_they_need((*config.extensions, *fewer))) < len(config.extensions) + len(fewer):
            continue
        if evaluate(_extended(config, fewer), [network], components).failed is None:
            added = fewer
    return tuple(added)


def _with_needs(name: str) -> list[str]:
    """The extension `name` after the extensions that it needs."""
    needs = EXTENSION_TABLE[name].needs
    return [*([] if needs is None else _with_needs(needs)), name]


def _extended(config: Config, added: Sequence[str]) -> Config:
    """The machine with more extensions, in the order of the table. Raises ConfigError if it is not legal."""
    if not added:
        return config
    return replace(config, extensions=tuple([n for n in EXTENSIONS if n in config.extensions or n in added]))


def _change(
    kind: str, name: str, machine: Config, own: Figures, network: Network, components: Components
) -> Change | None:
    """The change from a machine with the figures `own` to `machine`; None if `machine` cannot run the network."""
    figures = evaluate(machine, [network], components)
    if figures.failed is not None:
        return None
    cycles, before = figures.networks[network.name].cycles, own.networks[network.name].cycles
    return Change(
        kind=kind,
        name=name,
        machine=machine,
        cycles=cycles,
        saved=1 - cycles / before,
        added_area=figures.square_millimetres - own.square_millimetres,
    )


def _steps(
    config: Config, network: Network, components: Components, least: float, first: Sequence[Change]
) -> Iterator[Change]:
    """The best change of the machine, then the best change of the changed machine, and so on, while a change saves at
    least the share `least` of the cycles; `first`: the changes of the machine itself. No kind of change is made twice.
    """
    made: set[str] = set()
    own = evaluate(config, [network], components)
    choices: Sequence[Change] = first
    while choices:
        best = max(choices, key=lambda change: change.saved)
        yield best
        made.add(best.kind)
        own = evaluate(best.machine, [network], components)
        choices = [
            change
            for kind, name, changed in changed_machines(best.machine)
            if kind not in made
            and (change := _change(kind, name, changed, own, network, components))
            and change.saved >= least
        ]

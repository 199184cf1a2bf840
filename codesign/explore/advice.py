"""Changes of a machine that would make a network faster, each with exact cycles, the latency at the changed machine's
clock, and the area that the change adds.

A change adds an extension that the machine lacks (with the extensions that it needs), or doubles the size of a
scratchpad, of the chain memory (on-chip memory that keeps a layer's output for the next layer) or the width of the bus.
A machine without a chain memory gets one, of several sizes (`CHAIN_BYTES`). A fixed memory gets separate data channels
for reads and writes; a DRAM gets twice as many channels. The network is compiled and simulated on every changed
machine, so the cycles are those of the changed machine's own run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vdla.isa.config import Config
from vdla.isa.dram_memory import DRAM
from vdla.isa.errors import ConfigError
from vdla.isa.extensions import EXTENSION_TABLE, EXTENSIONS, with_what_they_need
from vdla.isa.timing import SEPARATE
from vdla.util.errors import UserError

from ..technology.components import Components
from .evaluate import Figures, evaluate, figures_of_machine
from .networks import Network

LEAST_SAVED = 0.03
"""Default share of the latency that a change must save to be listed."""
SOMETHING = 1e-3
"""Least share of the latency that a listed change must save, even if the caller asks for a smaller share."""
CHAIN_BYTES = (16 * 1024, 128 * 1024, 1024 * 1024)
"""Sizes in bytes of the chain memory that are tried for a machine without one."""
DOUBLED = (
    *("inp_buffer_bytes", "wgt_buffer_bytes", "acc_buffer_bytes", "uop_buffer_bytes", "par_buffer_bytes"),
    "chain_buffer_bytes",
)
"""Fields of the configuration with sizes of memories; each size above 0 is doubled in one of the changed machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of a machine, and its effect on the latency of a network and on the area.

    `machine`: the changed machine, on which the network takes `cycles`, or `milliseconds` at this machine's clock.
    Compared with the machine before the change, `saved_cycles` are saved, `saved` is the saved share of the
    milliseconds, and `added_area` the added square millimetres. `saved_cycles` and `added_area` may be below 0.
    """

    name: str
    machine: Config
    cycles: int
    saved_cycles: int
    milliseconds: float
    saved: float
    added_area: float

    def __str__(self) -> str:
        """The line that `vdla advise` and `vdla run --advise` print."""
        return (
            f"{self.name}: {self.cycles:,} cycles ({-self.saved_cycles:+,}), {self.milliseconds:.4g} ms, "
            f"{100 * self.saved:.1f}% less time, {self.added_area:+.3g} mm2"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The changes of a machine that would make one network faster. `changes`: single changes, the greatest saving
    first.

    `needed`: extensions without which the given machine cannot run the whole network; they add `needed_area`.
    `machine`: the given machine with these extensions, from which all changes start; `cycles`, `milliseconds` and
    `area` are its figures. Areas are in square millimetres.

    `steps`: changes to be made one after the other. Each step is the change that saves most on the machine that results
    from the previous steps.
    """

    network: str
    machine: Config
    needed: tuple[str, ...]
    needed_area: float
    least: float
    cycles: int
    milliseconds: float
    area: float
    changes: tuple[Change, ...]
    steps: tuple[Change, ...]

    @property
    def advised(self) -> Config:
        """The machine after all `steps`, called "NAME_advised" if NAME is the name of `machine`; without steps,
        `machine` itself.
        """
        if not self.steps:
            return self.machine
        return replace(self.steps[-1].machine, name=f"{self.machine.name}_advised")

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary for each change, then for each step: its `role` ("change" or "step"), name, cycles, saved
        cycles, milliseconds, saved share of the latency, and added area in square millimetres.
        """
        return [
            {
                "role": role,
                "name": change.name,
                "cycles": change.cycles,
                "saved_cycles": change.saved_cycles,
                "milliseconds": change.milliseconds,
                "saved": change.saved,
                "added_area_mm2": change.added_area,
            }
            for role, changes in (("change", self.changes), ("step", self.steps))
            for change in changes
        ]

    def document(self) -> dict[str, Any]:
        """The JSON object of `vdla advise --json`, and of the field `advice` of `vdla run --advise --json`."""
        return {
            "network": self.network,
            "machine": self.machine.name,
            "needed_extensions": list(self.needed),
            "needed_area_mm2": self.needed_area,
            "cycles": self.cycles,
            "milliseconds": self.milliseconds,
            "area_mm2": self.area,
            "rows": self.rows(),
        }

    def __str__(self) -> str:
        """The lines that `vdla advise` prints."""
        with_needed = f" with {', '.join(self.needed)}" if self.needed else ""
        lines = [
            f"{self.network} on {self.machine.name}{with_needed}: {self.cycles:,} cycles, {self.milliseconds:.4g} ms, "
            f"{self.area:.4g} mm2"
        ]
        if self.needed:
            needed = (
                f"needed to run the whole network: {', '.join(self.needed)} ({self.needed_area:+.3g} mm2)"
            )
            lines.insert(0, needed)
        for title, changes in (("alone", self.changes), ("one after the other", self.steps)):
            lines += [f"{title}:"] if changes else []
            lines += [f"  {change}" for change in changes]
        return "\n".join(lines if self.changes else [*lines, self.nothing_helps])

    @property
    def nothing_helps(self) -> str:
        """The line that is printed if there are no `changes`."""
        return f"no change saves {100 * self.least:g}% of the time"


def advise(config: Config, trial: Trial, least: float = LEAST_SAVED, *, with_steps: bool = True) -> Advice:
    """Finds the changes of the machine `config` that make the network of `trial` faster. A change is listed if it
    reduces the latency by at least the share `least`, and by at least the share `SOMETHING`.

    `with_steps`: whether to also search for successive changes (`Advice.steps`). This takes long: for each step, the
    network is compiled for every change of the machine that the previous step gave. Raises UserError if the network
    cannot run as a whole with any set of extensions.
    """
    network, components = trial.network, trial.components
    needed = needed_extensions(config, trial)
    machine = _extended(config, needed)
    own = trial.figures(machine)
    found = helpful(changed_machines(machine), machine, trial, least)
    return Advice(
        network=network.name,
        machine=machine,
        needed=needed,
        needed_area=own.square_millimetres - figures_of_machine(config, components).square_millimetres,
        least=least,
        cycles=own.networks[network.name].cycles,
        milliseconds=trial.milliseconds(machine),
        area=own.square_millimetres,
        changes=tuple(found),
        steps=tuple(_steps(trial, least, found)) if with_steps else (),
    )


def advised_machine(
    config: Config, networks: Sequence[Network], components: Components
) -> tuple[Config, tuple[str, ...]]:
    """Improves a machine for several networks. For the first network, it adds the extensions that the network needs and
    then applies the successive changes (`Advice.steps`) that make the network faster. From the resulting machine it
    continues with the second network, and so on. Returns the last machine, called "NAME_advised" if NAME is the name of
    `config` (without changes, `config` itself), and the names of all changes.

    Raises UserError if some network cannot run as a whole with any set of extensions.
    """
    machine, names = config, list[str]()
    for network in networks:
        found = advise(machine, Trial(network=network, components=components))
        names += [*(f"extension {name}" for name in found.needed), *(step.name for step in found.steps)]
        machine = found.advised
    return (replace(machine, name=f"{config.name}_advised") if names else config), tuple(names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Runs of one network on different machines. The area and clock of a machine are computed from `components`. Each
    machine is evaluated only once.
    """

    network: Network
    components: Components
    known: dict[Config, Figures] = field(default_factory=dict)
    """The figures of each machine that was evaluated."""

    def figures(self, config: Config) -> Figures:
        """The area, clock and cycles of a machine, or the reason why it cannot run the network."""
        if config not in self.known:
            self.known[config] = evaluate(config, [self.network], self.components)
        return self.known[config]

    def runs_on(self, config: Config) -> bool:
        """Whether a machine can run the whole network."""
        return self.figures(config).failed is None

    def milliseconds(self, config: Config) -> float:
        """The latency of the network on a machine that can run it, at the machine's clock."""
        figures = self.figures(config)
        assert figures.clock_mhz is not None
        return figures.networks[self.network.name].cycles / figures.clock_mhz / 1e3


def changed_machines(config: Config) -> Iterator[tuple[str, Config]]:
    """Yields (description of the change, machine) for every legal machine that differs from `config` by one change."""
    for name in EXTENSIONS:
        if name not in config.extensions:
            added = [item for item in _with_needs(name) if item not in config.extensions]
            label = f"extension {name}" + (f" (with {', '.join(added[:-1])})" if len(added) > 1 else "")
            try:
                yield label, _extended(config, added)
            except ConfigError:
                continue
    for name in DOUBLED:
        size = getattr(config, name)
        for larger in (2 * size,) if size else CHAIN_BYTES:
            try:
                yield f"{name} {size} -> {larger}", replace(config, **{name: larger})
            except ConfigError:
                continue
    yield from wider_bus(config)
    yield from _more_channels(config)


def wider_bus(config: Config) -> Iterator[tuple[str, Config]]:
    """Yields the machine with a bus of twice the width, if it is legal, as (description of the change, machine)."""
    width = config.memory.bus_bytes
    try:
        memory = replace(config.memory, bus_bytes=2 * width)
        yield f"memory.bus_bytes {width} -> {2 * width}", replace(config, memory=memory)
    except ConfigError:
        return


def _more_channels(config: Config) -> Iterator[tuple[str, Config]]:
    """Yields (description of the change, machine) for a machine whose memory moves more data at the same time, if this
    machine is legal. A fixed memory gets separate data channels for reads and writes; a DRAM gets twice as many
    channels.
    """
    memory = config.memory
    if memory.kind == DRAM:
        name, before, after = "channels", memory.channels, 2 * memory.channels
    elif memory.data_channels == SEPARATE:
        return
    else:
        name, before, after = "data_channels", memory.data_channels, SEPARATE
    try:
        yield f"memory.{name} {before} -> {after}", replace(config, memory=replace(memory, **{name: after}))
    except ConfigError:
        return


def needed_extensions(config: Config, trial: Trial) -> tuple[str, ...]:
    """Extensions without which a machine cannot run a whole network: a set from which none can be left out.

    Raises UserError if the machine cannot run the network with all extensions that its shape allows.
    """
    if trial.runs_on(config):
        return ()
    added: list[str] = []
    for name in EXTENSIONS:
        try:
            _extended(config, [*added, name])
        except ConfigError:
            continue
        added += [] if name in config.extensions else [name]
    failed = trial.figures(_extended(config, added)).failed
    if failed is not None:
        raise UserError(
            f"configuration {config.name} cannot run the network, even with every extension that its shape allows: "
            f"{failed}"
        )
    for name in reversed(added):
        fewer = [item for item in added if item != name]
        if len(with_what_they_need((*config.extensions, *fewer))) < len(config.extensions) + len(fewer):
            continue
        if trial.runs_on(_extended(config, fewer)):
            added = fewer
    return tuple(added)


def _with_needs(name: str) -> list[str]:
    """All extensions that the extension `name` needs, and `name` last."""
    needs = EXTENSION_TABLE[name].needs
    return [*([] if needs is None else _with_needs(needs)), name]


def _extended(config: Config, added: Sequence[str]) -> Config:
    """The machine `config` with the extensions `added`; raises ConfigError if this machine is not legal."""
    if not added:
        return config
    return replace(config, extensions=tuple([n for n in EXTENSIONS if n in config.extensions or n in added]))


def helpful(
    changed: Iterable[tuple[str, Config]], config: Config, trial: Trial, least: float = LEAST_SAVED
) -> list[Change]:
    """The changes that save at least the share `least`, and at least `SOMETHING`, of the latency of the network on
    `config`; the greatest saving first. `changed`: the machines to try, as (description, machine). `config` must be
    able to run the network.
    """
    found: list[Change] = []
    own, before = trial.figures(config), trial.milliseconds(config)
    cycles_before = own.networks[trial.network.name].cycles
    for name, machine in changed:
        if not trial.runs_on(machine):
            continue
        figures, after = trial.figures(machine), trial.milliseconds(machine)
        if 1 - after / before >= max(least, SOMETHING):
            cycles = figures.networks[trial.network.name].cycles
            change = Change(
                name=name,
                machine=machine,
                cycles=cycles,
                saved_cycles=cycles_before - cycles,
                milliseconds=after,
                saved=1 - after / before,
                added_area=figures.square_millimetres - own.square_millimetres,
            )
            found.append(change)
    return sorted(found, key=lambda change: -change.saved)


def _steps(trial: Trial, least: float, first: Sequence[Change]) -> Iterator[Change]:
    """The change that saves most, then the change that saves most on the changed machine, and so on, while a change
    saves at least the shares `least` and `SOMETHING` of the latency before the change. `first`: the changes of the
    original machine, as `helpful` returns them.
    """
    choices: Sequence[Change] = first
    while choices:
        best = choices[0]
        yield best
        choices = helpful(changed_machines(best.machine), best.machine, trial, least)

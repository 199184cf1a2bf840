"""Cycles, bytes and microjoules of a network on a machine, layer by layer; computed when a report is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vdla.compiler.records.network import Settings
from vdla.compiler.runtime.artifact import Compiled
from vdla.isa.config import Config
from vdla.sim import SimulationResult, simulate

from ...report.account_run import account_layers
from ...report.cycle_breakdown import LayerAccount
from ...report.dram_lines import rows_of_layers
from ...report.traffic import owners
from ...technology.events import Events, count_events
from ..networks import Network
from ..schedules.apply import NO_SETTINGS, compile_with

EnergyModel = Callable[[Config, Events], Mapping[str, float]]
"""Function that returns microjoules by unit, for a machine and its counts of events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFigures:
    """Figures of one layer: `account` has its cycles, causes of stalls and bytes (all exact); `energy` is in
    microjoules by unit.
    """

    account: LayerAccount
    energy: Mapping[str, float]

    @property
    def microjoules(self) -> float:
        """Energy of all units in microjoules."""
        return sum(self.energy.values())


def figures_by_layer(
    machine: Config, network: Network, energy: EnergyModel, schedules: Settings = NO_SETTINGS
) -> tuple[LayerFigures, ...]:
    """Figures of the layers of one launch, in the order of the program. `schedules` are knobs by node; a node without
    an entry has its template's own schedule. Raises UserError if the machine cannot run the network.
    """
    compiled = compile_with(machine, network, schedules)
    program = compiled.program
    return split_by_layer(
        compiled, simulate(machine, program.instructions, program.image, data=False), energy
    )


def split_by_layer(
    compiled: Compiled, simulation: SimulationResult, energy: EnergyModel
) -> tuple[LayerFigures, ...]:
    """The figures of a simulation, split by layer in the order of the program. If the simulator knows the times of a
    DRAM's row activations, each activation counts for the layer during which it happens (`begin` to `end` of the
    layer's account). All other commands are divided by bytes and cycles.
    """
    program = compiled.program
    owner = owners(program)
    whole = count_events(program, simulation)
    busy, commands = whole.busy, whole.dram
    accounts = account_layers(compiled, simulation)
    rows = None if commands is None else rows_of_layers(program, accounts)
    found = []
    for number, account in enumerate(accounts):
        read = {kind: size for kind, size in account.dram.items() if kind != "out"}
        events = replace(
            count_events(program, simulation, owner == number),
            cycles=account.cycles,
            read=read,
            written=account.dram["out"],
            dram=commands
            and commands.share(
                sum(read.values()) / sum(whole.read.values()),
                account.dram["out"] / max(1, whole.written),
                account.cycles / simulation.cycles,
                None if rows is None else rows[number].opened,
            ),
            busy={unit: round(cycles * account.cycles / simulation.cycles) for unit, cycles in busy.items()},
        )
        found.append(LayerFigures(account=account, energy=dict(energy(program.config, events))))
    return tuple(found)


def columns(layers: Sequence[LayerFigures]) -> dict[str, Any]:
    """The layers as columns of JSON values; in the tables of stalls, bytes and energy, columns of zeros are left out.
    Cycles and bytes are exact integers; roofline cycles are rounded to integers.
    """
    causes = dict.fromkeys(cause for layer in layers for cause in layer.account.stalls)
    kinds = dict.fromkeys(kind for layer in layers for kind in layer.account.dram)
    units = dict.fromkeys(unit for layer in layers for unit in layer.energy)
    stalls = {cause: [layer.account.stalls.get(cause, 0) for layer in layers] for cause in causes}
    moved = {kind: [layer.account.dram.get(kind, 0) for layer in layers] for kind in kinds}
    joules = {unit: [rounded(layer.energy.get(unit, 0.0)) for layer in layers] for unit in units}
    return {
        "name": [layer.account.name for layer in layers],
        "op": [layer.account.op for layer in layers],
        "macs": [layer.account.macs for layer in layers],
        "cycles": [layer.account.cycles for layer in layers],
        "roofline": [round(layer.account.roofline_cycles) for layer in layers],
        "bound": [layer.account.bound for layer in layers],
        "gemm": [layer.account.gemm_cycles for layer in layers],
        "compulsory": [layer.account.compulsory_bytes for layer in layers],
        "stalls": {cause: column for cause, column in stalls.items() if any(column)},
        "dram": {kind: column for kind, column in moved.items() if any(column)},
        "energy": {unit: column for unit, column in joules.items() if any(column)},
    }


def rounded(value: float) -> float:
    """`value` rounded to five significant digits, the most that a page shows."""
    return float(f"{value:.5g}")

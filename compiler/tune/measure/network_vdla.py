"""Trials in place: a layer's candidates measured within the whole network, whose layers overlap.

A layer's cycles alone include the wait for its first inputs and its last store. In a network its neighbours hide both,
but the layer may delay its neighbours. The best candidate alone is therefore only a starting point.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from vdla.isa.config import Config
from vdla.isa.program import Program
from vdla.sim import SimulationError, SimulationResult, simulate

from ...codegen.vdla.emit import EmissionError
from ...codegen.vdla.folds import WEIGHTS, FoldedWeights
from ...codegen.vdla.link import LoweredLayer, link
from ...codegen.vdla.link_alone import link_alone
from ...codegen.vdla.placement import PlacementError
from ...graph.cost import roofline_cycles
from ...schedule import LegalityError
from ...templates.space import Values
from ...templates.vdla.legalize import Legalized, network_key
from ...templates.vdla.lower import UnfitNodeError, choose_points, lower_node, network_kernels, workloads_of
from ...templates.vdla.schedule_cache import ScheduleCache
from ...templates.vdla.table import space_of
from ...templates.vdla.template import Kernel
from ...templates.vdla.workload import Workload
from .measure_vdla import ACTIVATIONS
from .node_points import Points, measured_points
from .trial import Result

NOT_RUN = (LegalityError, EmissionError, PlacementError, UnfitNodeError, SimulationError, ValueError)
"""Exceptions of settings that do not work."""
Settings = Mapping[str, Values]
"""Values of the knobs by node; the templates decide for nodes that are missing or have no values."""


class NetworkTrials:
    """Measures a network under different settings; lowered kernels are cached."""

    def __init__(
        self,
        config: Config,
        legalized: Legalized,
        virtual_threads: int = 2,
        kept: ScheduleCache | None = None,
    ) -> None:
        """`kept`: cached kernels of other networks and machines."""
        self._config = config
        self._legalized = legalized
        self._virtual_threads = virtual_threads
        self._kept = ScheduleCache() if kept is None else kept
        self._kernels, self._chained = network_kernels(config, legalized)
        self._lowered: dict[tuple[str, tuple[tuple[str, int], ...] | None], LoweredLayer] = {}
        self.workloads: Mapping[str, Workload] = workloads_of(self._kernels)
        self.key = network_key(legalized, self.workloads)
        self._measured = measured_points(config, self._kernels, virtual_threads, self._program)

    def place(self, node: str) -> dict[str, Any]:
        """The description of the workload of `node` within this network, for records of trials in place."""
        return place_of(self.workloads[node], self.key, node)

    @property
    def roofline_cycles(self) -> float:
        """The sum of the nodes' rooflines, see `graph.cost.roofline_cycles`."""
        return sum(
            roofline_cycles(self._legalized.graph, node, self._config) for node in self._legalized.graph.nodes
        )

    @property
    def bound_cycles(self) -> float:
        """Lower bound of the network's cycles: the sum over nodes of the space's floor, else of the roofline.

        A floor counts products of whole blocks, and bytes that any program moves.
        """
        return sum(
            space_of(self._config, self.workloads[node.name]).floor
            if node.name in self.workloads
            else roofline_cycles(self._legalized.graph, node, self._config)
            for node in self._legalized.graph.nodes
        )

    def cycles(self, settings: Settings) -> int:
        """The cycles of the whole network, timing only."""
        return self.run(settings)[1].cycles

    def run(self, settings: Settings) -> tuple[Program, SimulationResult]:
        """The program of the whole network, its constants zero, and its simulation, timing only."""
        program = self._linked(
            [self._layer(node.name, settings.get(node.name)) for node in self._legalized.graph.nodes]
        )
        return program, simulate(program.config, program.instructions, program.image, data=False)

    def alone(self, node: str, values: Values | None) -> float:
        """The cycles of a node's recorded kernel alone, timing only; infinite for values that do not work.

        None: its template's default. The lowered kernel is cached for the network.
        """
        kernel = next(kernel for kernel in self._kernels[node] if kernel.recorded)
        try:
            points = self._points(node, (kernel,), values)
            layer = lower_node(
                self._config,
                node,
                (kernel,),
                points,
                virtual_threads=self._virtual_threads,
                kept=self._kept,
            )
            weights = FoldedWeights.of(self._config, kernel.constants.get(WEIGHTS))
            program = link_alone(
                self._config,
                layer.kernels[0].kernel,
                ACTIVATIONS,
                kernel.workload.margins,
                weights=weights,
            )
            return float(simulate(self._config, program.instructions, program.image, data=False).cycles)
        except NOT_RUN:
            return math.inf

    def measure(self, settings: Settings, node: str, values: Values | None) -> Result:
        """The network's cycles with `settings` but `values` for `node`; a failed trial if they do not work."""
        started = time.thread_time()
        changed = {name: item for name, item in settings.items() if name != node}
        if values is not None:
            changed[node] = values
        try:
            cycles = float(self.cycles(changed))
        except NOT_RUN as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            return Result(cost=math.inf, error=reason, seconds=time.thread_time() - started)
        return Result(cost=cycles, seconds=time.thread_time() - started)

    def _program(self, points: Points) -> Program:
        """The program of all nodes with these points."""
        return self._linked([self._lowered_at(name, points[name]) for name in self._kernels])

    def _linked(self, layers: Sequence[LoweredLayer]) -> Program:
        return link(
            self._config,
            self._legalized.graph,
            self._legalized.layouts,
            layers,
            chained=self._chained,
            inside=self._legalized.places,
            data=False,
            kept=self._kept.drafts,
        ).program

    def _lowered_at(self, name: str, points: tuple[Values, ...]) -> LoweredLayer:
        return lower_node(
            self._config,
            name,
            self._kernels[name],
            points,
            virtual_threads=self._virtual_threads,
            kept=self._kept,
        )

    def _points(self, name: str, kernels: Sequence[Kernel], values: Values | None) -> tuple[Values, ...]:
        settings = {} if values is None else {name: values}
        # A kernel that is not recorded has its template's default.
        measured = self._measured if len(kernels) == len(self._kernels[name]) else {}
        return choose_points(self._config, {name: kernels}, settings, self._virtual_threads, measured)[name]

    def _layer(self, name: str, values: Values | None) -> LoweredLayer:
        values = values or None
        key = (name, None if values is None else tuple(sorted(values.items())))
        if key not in self._lowered:
            self._lowered[key] = self._lowered_at(name, self._points(name, self._kernels[name], values))
        return self._lowered[key]


def place_of(workload: Workload, network: str, node: str) -> dict[str, Any]:
    """The description of a workload at one node of one network (`legalize.network_key`)."""
    return {**workload.to_dict(), "network": network, "node": spoken(node)}


def spoken(node: str) -> str:
    """A node's name in records: unchanged if it is printable, else with escapes as in JSON."""
    return node if node.isprintable() and node else json.dumps(node)

"""Trials inside a network: to measure a candidate for a layer, the whole network is simulated, in which neighbouring
layers overlap.

The cycles of a layer alone include the wait for its first inputs and for its last store. In a network the neighbouring
layers hide both waits, but the layer may delay its neighbours. The candidate that is best alone is therefore only a
starting point.
"""

from __future__ import annotations

import math
import time
from typing import Any

from vdla.isa.program import Program
from vdla.sim import SimulationError, SimulationResult, simulate

from ...codegen.vdla.errors import EmissionError
from ...codegen.vdla.link import LoweredLayer
from ...codegen.vdla.placement import PlacementError
from ...graph.traffic import roofline_cycles
from ...records.network import Settings, place_of
from ...schedule import LegalityError
from ...templates.columns import Values
from ...templates.vdla.lower import UnfitNodeError
from ...templates.vdla.template import space_of
from ...vdla_stages import AcceleratorNetwork
from .trial import Result

NOT_RUN = (LegalityError, EmissionError, PlacementError, UnfitNodeError, SimulationError, ValueError)
"""Exceptions which mean that the network cannot be compiled or run with some settings of the knobs."""


class NetworkTrials:
    """Measures a network with different knob settings of its nodes; lowered layers are cached."""

    def __init__(self, network: AcceleratorNetwork) -> None:
        self._network = network
        self._layers: dict[tuple[str, tuple[tuple[str, int], ...]], LoweredLayer] = {}
        self.workloads, self.key = network.workloads, network.key

    def place(self, node: str) -> dict[str, Any]:
        """The field `workload` in tuning records of trials that change `node` and simulate the whole network. It is a
        JSON object: the node's workload, with the node's name and the network's key added.
        """
        return place_of(self.workloads[node], self.key, node)

    @property
    def roofline_cycles(self) -> float:
        """The sum of the nodes' roofline bounds in cycles. The bound of a node is the longer of two times: the time of
        its multiplies at full use of the array, and the time of its compulsory bytes on the bus.
        """
        graph = self._network.legalized.graph
        return sum(roofline_cycles(graph, node, self._network.config) for node in graph.nodes)

    @property
    def bound_cycles(self) -> float:
        """Lower bound on the network's cycles: the sum of its nodes' bounds. For a node with knobs, the bound is the
        floor of its knob space. (The floor counts cycles for the array operations of whole blocks, and for the bytes
        that every program moves.) For any other node, the bound is its roofline.
        """
        graph, config = self._network.legalized.graph, self._network.config
        return sum(
            space_of(config, self.workloads[node.name]).floor
            if node.name in self.workloads
            else roofline_cycles(graph, node, config)
            for node in graph.nodes
        )

    def cycles(self, settings: Settings) -> int:
        """The cycles of the whole network, simulated for timing only. Raises the errors of `run`."""
        return self.run(settings)[1].cycles

    def run(self, settings: Settings) -> tuple[Program, SimulationResult]:
        """The program of the whole network with zeros as constants, and its simulation for timing only. Nodes that are
        not in `settings` get default knobs. Raises an error of `NOT_RUN` if the network cannot be compiled or run.
        """
        nodes = self._network.legalized.graph.nodes
        layers = [self._layer(node.name, settings.get(node.name) or {}) for node in nodes]
        program = self._network.linked(layers, data=False).program
        return program, simulate(program.config, program.instructions, program.image, data=False)

    def alone(self, node: str, values: Values | None) -> float:
        """Simulated cycles of one kernel of `node` without the rest of the network. This is the kernel to which the
        node's tuning records apply. Infinite if the kernel cannot be compiled or run with the knobs.

        `values`: the knobs (None: the template's default). The lowered kernel is cached for the network.
        """
        try:
            program = self._network.alone(node, values)
            config = self._network.config
            return float(simulate(config, program.instructions, program.image, data=False).cycles)
        except NOT_RUN:
            return math.inf

    def measure(self, settings: Settings, node: str, values: Values | None) -> Result:
        """The network's cycles with `settings`, but with the knobs `values` for `node` (None: the template's default).
        A failed trial if the network cannot be compiled or run with these knobs.
        """
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

    def _layer(self, node: str, values: Values) -> LoweredLayer:
        key = (node, tuple(sorted(values.items())))
        if key not in self._layers:
            points = self._network.points({node: values}, [node])
            self._layers[key] = self._network.layer(node, points[node])
        return self._layers[key]

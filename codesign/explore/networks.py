"""The networks on which an exploration evaluates machines (accelerator configurations); read once and used for all
machines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path

from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.frontends.onnx.model.read import Source, read_model
from vdla.compiler.graph.abilities import ACCELERATOR, Abilities
from vdla.compiler.graph.graph import Graph
from vdla.compiler.pipeline import accelerator_graph
from vdla.compiler.rewrites.fuse import fuse
from vdla.compiler.templates.vdla.schedule_cache import ScheduleCache
from vdla.isa.config import Config
from vdla.util.errors import UserError

MOST_WEIGHT = 1e9
"""Largest weight of a network; 1 / `MOST_WEIGHT` is the least. The limits keep weighted sums finite."""

MOST_GRAPHS = 8
"""Largest number of graphs of a network that are kept in memory, each with the network's weights."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Network:
    """A network on which an exploration evaluates machines: its fused graph for a machine with all extensions, the
    bytes of its model, and its weight in sums over all networks. `file` is the path of the model, empty if it was no
    file. `schedule_cache` caches kernels that were lowered for one machine, for use on other machines; `graphs` caches
    the latest results of `graph_for`.
    """

    name: str
    graph: Graph
    digest: str
    content: bytes
    weight: float = 1.0
    file: str = ""
    schedule_cache: ScheduleCache = field(default_factory=ScheduleCache)
    graphs: dict[Abilities, Graph] = field(default_factory=dict[Abilities, Graph])

    def graph_for(self, config: Config) -> Graph:
        """The graph, after operator fusion, that `vdla run` compiles for a machine. If an operator needs an extension
        that the machine lacks, the operator is replaced by operators that do without the extension. Raises ModelError
        if an operator cannot be replaced.
        """
        abilities = Abilities.of(config)
        if abilities not in self.graphs:
            graph = accelerator_graph(self.content, config)
            if len(self.graphs) == MOST_GRAPHS:
                self.graphs.pop(next(iter(self.graphs)))
            self.graphs[abilities] = graph
        return self.graphs[abilities]


def load_network(model: Source, *, name: str | None = None, weight: float = 1.0) -> Network:
    """Reads a quantized network on which machines are to be evaluated. `name`: by default the name of the file without
    suffix, "network" for a model that is no file. Raises UserError if weight or model are not valid.
    """
    if not 1 / MOST_WEIGHT <= weight <= MOST_WEIGHT:
        raise UserError(
            f"the weight {weight:g} of a network must be a number from {1 / MOST_WEIGHT:g} to {MOST_WEIGHT:g}"
        )
    label = name or (Path(model).stem if isinstance(model, str | Path) else "network")
    content = read_model(model).whole().SerializeToString(deterministic=True)
    digest = blake2b(content, digest_size=16).hexdigest()
    file = str(model) if isinstance(model, str | Path) else ""
    graph = fuse(import_model(model, abilities=ACCELERATOR))
    return Network(name=label, graph=graph, digest=digest, content=content, weight=weight, file=file)


def load_networks(models: Sequence[tuple[Source, float]]) -> tuple[Network, ...]:
    """Reads several networks with their weights; networks of the same name get numbers ("net-2")."""
    found: list[Network] = []
    for model, weight in models:
        network = load_network(model, weight=weight)
        names = {item.name for item in found}
        name, number = network.name, 2
        while name in names:
            name, number = f"{network.name}-{number}", number + 1
        found.append(replace(network, name=name))
    return tuple(found)

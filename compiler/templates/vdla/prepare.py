"""A fused graph made ready for the accelerator, and what its nodes are to the tuner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b

from vdla.isa.config import Config

from ...graph.fuse import fuse_pool
from ...graph.graph import Graph, reads
from ...graph.layout import Layout, decide_layouts
from ...graph.split_pools import split_max_pools
from .lower import lower_node, takes_patches, takes_pool
from .lower_pools import max_pool_fits
from .workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prepared:
    """A graph in the form that is lowered node by node, and how each of its tensors lies in memory."""

    graph: Graph
    layouts: Mapping[str, Layout]


def prepare(graph: Graph, config: Config, virtual_threads: int) -> Prepared:
    """A fused graph with layouts, pools in their convolutions where that works, and pools cut that do not fit."""
    layouts = decide_layouts(graph, config, lambda node: takes_patches(config, graph, node))
    graph = fuse_pool(
        graph, lambda node, pool: takes_pool(config, graph, layouts, node, pool, virtual_threads)
    )
    graph = split_max_pools(graph, lambda whole, node: max_pool_fits(config, whole, node))
    layouts |= dict.fromkeys(graph.tensors.keys() - layouts.keys(), "blocked")
    return Prepared(graph=graph, layouts=layouts)


def workloads_of(config: Config, prepared: Prepared, virtual_threads: int) -> dict[str, Workload]:
    """The workload of every node that has knobs, by the node's name. Raises NoTileError for one that fits nothing."""
    found: dict[str, Workload] = {}

    def ask(workload: Workload, node: str) -> None:
        found[node] = workload

    for node in prepared.graph.nodes:
        lower_node(
            config, prepared.graph, dict(prepared.layouts), node, virtual_threads=virtual_threads, choose=ask
        )
    return found


def network_key(prepared: Prepared, workloads: Mapping[str, Workload]) -> str:
    """16 hexadecimal digits, equal for networks of the same nodes, read and written alike, whatever their values.

    Knobs found for a node of one in its place serve the other.
    """
    text = repr(
        [(n.name, type(n).__name__, reads(n), n.output, workloads.get(n.name)) for n in prepared.graph.nodes]
    )
    return blake2b(text.encode(), digest_size=8).hexdigest()

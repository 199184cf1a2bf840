"""Records of whole networks: settings of all nodes measured together, and trials of single nodes within the network.

A trial in place is a record of one node (`place_of`) with the network's cost. Compilation applies only records of whole
networks. Their workload is {"template": "network", "network": the network's key}; their knobs, called "node.knob" (node
names by `spoken`), are of all nodes whose knobs the templates do not decide.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from vdla.isa.config import Config

from ..templates.columns import Values
from ..templates.space import EmptySpaceError
from ..templates.vdla.template import space_of
from ..templates.vdla.workload import Workload
from .book import RecordBook
from .record import Description, Record, Task

Settings = Mapping[str, Values]
"""Values of the knobs by node; the templates decide for nodes that are missing or have no values."""
IN_PLACE = "in place"
"""The `strategy` field of records of networks and of nodes in them."""


def network_task(network: str, target: Description) -> Task:
    """The task of the network with key `network` (`AcceleratorNetwork.key`)."""
    return Task(workload={"template": "network", "network": network}, target=target)


def place_of(workload: Workload, network: str, node: str) -> dict[str, Any]:
    """The description of a workload at one node of one network (`AcceleratorNetwork.key`)."""
    return {**workload.to_dict(), "network": network, "node": spoken(node)}


def spoken(node: str) -> str:
    """A node's name in records: unchanged if it is printable, else with escapes as in JSON."""
    return node if node.isprintable() and node else json.dumps(node)


def is_trial_in_place(record: Record) -> bool:
    """Whether a record is of a node in a network: used to resume a search, never applied in compilation."""
    return "node" in record.task.workload


def knobs_of(settings: Settings) -> dict[str, int]:
    """The knobs of a network's record."""
    return {
        f"{spoken(node)}.{knob}": value for node, values in settings.items() for knob, value in values.items()
    }


def legal_settings(
    config: Config, workloads: Mapping[str, Workload], knobs: Mapping[str, int]
) -> dict[str, dict[str, int]] | None:
    """The inverse of `knobs_of`: settings by node from the `knobs` of a network's record; None if they are not legal
    for these nodes.

    Nodes decided by their templates are missing.
    """
    nodes = {spoken(node): node for node in workloads}
    settings: dict[str, dict[str, int]] = {}
    for name, value in knobs.items():
        node, _, knob = name.rpartition(".")
        if node not in nodes:
            return None
        settings.setdefault(nodes[node], {})[knob] = value
    if all(_is_legal(config, workloads[node], values) for node, values in settings.items()):
        return settings
    return None


def best_settings(
    book: RecordBook, config: Config, network: str, workloads: Mapping[str, Workload]
) -> Settings | None:
    """The best known settings of a network that are legal for all its nodes; None if there are none.

    All settings come from one record: settings mixed from several records may be worse than none.
    """
    target = config.described
    for record in book.records.get(network_task(network, target).key, ()):
        settings = legal_settings(config, workloads, record.knobs)
        if settings is not None:
            return settings
    return None


def _is_legal(config: Config, workload: Workload, values: Mapping[str, int]) -> bool:
    try:
        space = space_of(config, workload)
        return bool(space.legal(space.point(values)[None])[0])
    except (ValueError, EmptySpaceError):
        return False


def recorded_settings(
    book: RecordBook, config: Config, network: str, workloads: Mapping[str, Workload]
) -> Settings:
    """Knobs by node: from a record of the network with key `network` as a whole, else from records of each workload.

    Nodes without legal records are missing, or empty: their templates decide.
    """
    settings = best_settings(book, config, network, workloads)
    if settings is not None:
        return settings
    known = {workload: _recorded(book, config, workload) for workload in set(workloads.values())}
    return {node: known[workload] for node, workload in workloads.items()}


def _recorded(book: RecordBook, config: Config, workload: Workload) -> Values:
    target, description = config.described, workload.to_dict()
    if book.lookup(description, target) is None:
        return {}
    try:
        return book.lookup(description, target, space_of(config, workload)) or {}
    except EmptySpaceError:
        return {}

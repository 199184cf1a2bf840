"""Records of whole networks: settings of all nodes measured together, and trials of single nodes within the network.

A trial in place is a measurement of the whole network with other knobs for one node. Its record has the node's workload
(`place_of`) and the network's cost. Compilation applies only records of whole networks. Such a record has the workload
{"template": "network", "network": the network's key}. The record lists knobs under names "node.knob", with the node's
name as `spoken` returns it. Nodes that are not listed have their templates' default knobs.
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
"""Values of the knobs by node. A node that is missing, or has no values, gets its template's default knobs."""
IN_PLACE = "in place"
"""The `strategy` field of tuning records of whole networks, and of trials of a node within its network."""


def network_task(network: str, target: Description) -> Task:
    """The task of the network with key `network` (`AcceleratorNetwork.key`)."""
    return Task(workload={"template": "network", "network": network}, target=target)


def place_of(workload: Workload, network: str, node: str) -> dict[str, Any]:
    """The description of a node's workload for trials in which the whole network is measured. It consists of the fields
    of `workload`, the key of the network (`AcceleratorNetwork.key`), and the node's name.
    """
    return {**workload.to_dict(), "network": network, "node": spoken(node)}


def spoken(node: str) -> str:
    """A node's name in tuning records: unchanged if it is printable, else with escapes as in JSON."""
    return node if node.isprintable() and node else json.dumps(node)


def is_trial_in_place(record: Record) -> bool:
    """Whether a record is a trial of one node that was measured within its network. Such records are used to resume a
    search, and are never applied in compilation.
    """
    return "node" in record.task.workload


def knobs_of(settings: Settings) -> dict[str, int]:
    """The `knobs` field of a whole network's record: `settings` flattened to {"node.knob": value}."""
    return {
        f"{spoken(node)}.{knob}": value for node, values in settings.items() for knob, value in values.items()
    }


def legal_settings(
    config: Config, workloads: Mapping[str, Workload], knobs: Mapping[str, int]
) -> dict[str, dict[str, int]] | None:
    """The inverse of `knobs_of`: returns settings by node from `knobs`, the knobs of a network's record. Returns None
    if the settings are not legal for the nodes in `workloads`.

    Nodes without recorded knobs are missing: they get their templates' defaults.
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
    """The best known settings, legal for all nodes, of the network with key `network`; None if there are none.
    `workloads`: the workload of each node that has knobs.

    All settings come from one tuning record. A mixture of settings from several records may be slower than the
    defaults.
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
    """Knobs by node. They come from a record of the whole network with key `network` or, without such a record, from
    records of the nodes' workloads.

    A node without a legal record is missing in the result, or has an empty entry. It gets its template's default knobs.
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

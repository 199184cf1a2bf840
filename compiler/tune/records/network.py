"""Records of whole networks: the settings of all nodes that were measured together, and trials of one of them.

A trial in its place is a record of its node (`measure.network_vdla.place_of`), whose cost is the network's, whether it
was for the better or not. What is worth applying are records of the network: its workload is {"template": "network",
"network": its key}, its knobs are those of all nodes that are not left to their templates, each as "node.knob" (the
node as `network_vdla.spoken` says it).
"""

from __future__ import annotations

from collections.abc import Mapping

from vdla.isa.config import Config

from ...templates.space import EmptySpaceError
from ...templates.vdla.table import space_of
from ...templates.vdla.workload import Workload
from ..measure.network_vdla import Settings, spoken
from .book import RecordBook
from .record import Description, Record, Task, describe_target

IN_PLACE = "in place"
"""The strategy that records of networks and of nodes in them name."""


def network_task(network: str, target: Description) -> Task:
    """The task of the network with that key (`legalize.network_key`)."""
    return Task(workload={"template": "network", "network": network}, target=target)


def is_trial_in_place(record: Record) -> bool:
    """Whether a record is of a node in a network: for going on with a search, while the network's own are applied."""
    return "node" in record.task.workload


def knobs_of(settings: Settings) -> dict[str, int]:
    """The knobs of a network's record."""
    return {
        f"{spoken(node)}.{knob}": value for node, values in settings.items() for knob, value in values.items()
    }


def legal_settings(
    config: Config, workloads: Mapping[str, Workload], knobs: Mapping[str, int]
) -> dict[str, dict[str, int]] | None:
    """The settings that `knobs_of` made `knobs` of; None where they are not legal for these nodes.

    Nodes that their templates decide are missing.
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
    """The best known settings of a network that are legal for all its nodes; None where there are none.

    They were measured together: single ones of several records may be worse than none.
    """
    target = describe_target(config)
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

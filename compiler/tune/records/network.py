"""Records of whole networks: the settings of all nodes that were measured together, and trials of one of them.

A trial in its place is a record of its node (`measure.network_vdla.place_of`), whose cost is the network's, whether it
was for the better or not. What is worth applying are records of the network: its workload is {"template": "network",
"network": its key}, its knobs are those of all nodes that are not left to their templates, each as "node.knob".
"""

from __future__ import annotations

from collections.abc import Mapping

from vdla.isa.config import Config

from ...templates.schedule_vdla import space_of
from ...templates.workload_vdla import Workload
from ..measure.network_vdla import Settings, place_of
from .book import RecordBook, first_legal
from .record import Description, Record, Task, describe_target

IN_PLACE = "in place"
"""The strategy that records of networks and of nodes in them name."""


def network_task(network: str, target: Description) -> Task:
    """The task of the network with that key (`prepare_vdla.network_key`)."""
    return Task(workload={"template": "network", "network": network}, target=target)


def is_trial_in_place(record: Record) -> bool:
    """Whether a record is of a node in a network: for going on with a search, while the network's own are applied."""
    return "node" in record.task.workload


def knobs_of(settings: Settings) -> dict[str, int]:
    """The knobs of a network's record."""
    return {f"{node}.{knob}": value for node, values in settings.items() for knob, value in values.items()}


def settings_of(knobs: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """The settings of the nodes that `knobs_of` made knobs of; nodes that their templates decide are missing."""
    settings: dict[str, dict[str, int]] = {}
    for name, value in knobs.items():
        node, _, knob = name.rpartition(".")
        settings.setdefault(node, {})[knob] = value
    return settings


def best_settings(
    book: RecordBook, config: Config, network: str, workloads: Mapping[str, Workload]
) -> Settings | None:
    """The best known settings of a network that are legal for all its nodes; None where there are none.

    They were measured together: single ones of several records may be worse than none.
    """
    target = describe_target(config)
    for record in book.records.get(network_task(network, target).key, ()):
        settings = settings_of(record.knobs)
        if settings.keys() <= workloads.keys() and all(
            _is_legal(config, workloads[node], values) for node, values in settings.items()
        ):
            return settings
    return _of_nodes(book, config, network, workloads)


def _is_legal(config: Config, workload: Workload, values: Mapping[str, int]) -> bool:
    space = space_of(config, workload)
    try:
        return bool(space.legal(space.point(values)[None])[0])
    except ValueError:
        return False


def _of_nodes(
    book: RecordBook, config: Config, network: str, workloads: Mapping[str, Workload]
) -> Settings | None:
    """Of records of before networks had any: there are those of trials that made it faster only, the last one best."""
    target = describe_target(config)
    found: dict[str, list[Record]] = {}
    for node, workload in workloads.items():
        task = Task(workload=place_of(workload, network, node), target=target)
        records = [record for record in book.records.get(task.key, ()) if record.compiler is None]
        if records:
            found[node] = records
    if not found:
        return None
    # Settings of one network belong together: those of the search that made it fastest.
    seed = min((records[0].cost or 0.0, records[0].seed) for records in found.values())[1]
    settings = {}
    for node, records in found.items():
        own = [record for record in records if record.seed == seed]
        values = first_legal(own, space_of(config, workloads[node]))
        if values:
            settings[node] = values
    return settings

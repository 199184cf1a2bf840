"""Records applied to the compilation for the accelerator: the knobs of each node of a network."""

from __future__ import annotations

from collections.abc import Mapping

from vdla.isa.config import Config

from ...templates.space import EmptySpaceError, Values
from ...templates.vdla.legalize import Legalized, network_key
from ...templates.vdla.table import space_of
from ...templates.vdla.workload import Workload
from .book import RecordBook
from .network import best_settings
from .record import describe_target


def recorded_settings(
    book: RecordBook, config: Config, legalized: Legalized, workloads: Mapping[str, Workload]
) -> Mapping[str, Values]:
    """Knobs by node: from a record of this network as a whole, else from records of each workload alone.

    Nodes without legal records are missing, or empty: their templates decide.
    """
    settings = best_settings(book, config, network_key(legalized, workloads), workloads)
    if settings is not None:
        return settings
    known = {workload: _recorded(book, config, workload) for workload in set(workloads.values())}
    return {node: known[workload] for node, workload in workloads.items()}


def _recorded(book: RecordBook, config: Config, workload: Workload) -> Values:
    target, description = describe_target(config), workload.to_dict()
    if book.lookup(description, target) is None:
        return {}
    try:
        return book.lookup(description, target, space_of(config, workload)) or {}
    except EmptySpaceError:
        return {}

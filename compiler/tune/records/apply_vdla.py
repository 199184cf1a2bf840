"""Records at compile time: which knobs each node of a network gets."""

from __future__ import annotations

from vdla.isa.config import Config

from ...templates.kernel_vdla import Choose
from ...templates.prepare_vdla import Prepared, network_key, workloads_of
from ...templates.schedule_vdla import space_of
from ...templates.space import Values
from ...templates.tiling import NoTileError
from ...templates.workload_vdla import Workload
from ..measure.network_vdla import place_of
from .book import RecordBook, first_legal
from .record import Task, describe_target


def choose_from(book: RecordBook, config: Config, prepared: Prepared, virtual_threads: int) -> Choose:
    """Knobs by record: of the node in its place in this very network, else of its workload alone.

    Records that are not legal here count for nothing.
    """
    target = describe_target(config)
    try:
        workloads = workloads_of(config, prepared, virtual_threads)
    except NoTileError:
        # A node that does not fit is the compiler's to refuse, with its name.
        return lambda workload, node: None
    network = network_key(prepared, workloads)
    places = {
        node: book.records.get(Task(workload=place_of(workload, network, node), target=target).key, ())
        for node, workload in workloads.items()
    }
    # Settings of one network belong together: those of the search that made it fastest.
    seeds = [(found[0].cost or 0.0, found[0].seed) for found in places.values() if found]
    seed = min(seeds)[1] if seeds else None

    def choose(workload: Workload, node: str) -> Values | None:
        alone = book.records.get(Task(workload=workload.to_dict(), target=target).key, ())
        found = [record for record in places.get(node, ()) if record.seed == seed]
        for records in (found, alone):
            values = first_legal(records, space_of(config, workload)) if records else None
            if values is not None:
                return values or None
        return None

    return choose

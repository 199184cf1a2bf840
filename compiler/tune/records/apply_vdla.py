"""Records at compile time: which knobs each node of a network gets."""

from __future__ import annotations

from vdla.isa.config import Config

from ...templates.space import Values
from ...templates.vdla.kernel import Choose
from ...templates.vdla.prepare import Prepared, network_key, workloads_of
from ...templates.vdla.schedule import space_of
from ...templates.vdla.tiling import NoTileError
from ...templates.vdla.workload import Workload
from .book import RecordBook
from .network import best_settings
from .record import describe_target


def choose_from(book: RecordBook, config: Config, prepared: Prepared, virtual_threads: int) -> Choose:
    """Knobs by record: of all nodes as they were set together in this very network, else of each workload alone.

    Records that are not legal here count for nothing.
    """
    target = describe_target(config)
    try:
        workloads = workloads_of(config, prepared, virtual_threads)
    except NoTileError:
        # A node that does not fit is the compiler's to refuse, with its name.
        return lambda workload, node: None
    settings = best_settings(book, config, network_key(prepared, workloads), workloads)

    def choose(workload: Workload, node: str) -> Values | None:
        if settings is not None:
            return settings.get(node)
        description = workload.to_dict()
        if book.lookup(description, target) is None:
            return None
        return book.lookup(description, target, space_of(config, workload)) or None

    return choose

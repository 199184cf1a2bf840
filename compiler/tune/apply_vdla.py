"""Records at compile time: which knobs each node of a network gets."""

from __future__ import annotations

from vdla.isa.config import Config

from ..templates.kernel_vdla import Choose
from ..templates.prepare_vdla import Prepared, network_key, workloads_of
from ..templates.schedule_vdla import space_of
from ..templates.tiling import NoTileError
from ..templates.workload_vdla import Workload
from .network_vdla import Values, place_of
from .record_book import RecordBook
from .records import describe_target


def choose_from(book: RecordBook, config: Config, prepared: Prepared, virtual_threads: int) -> Choose:
    """Knobs by record: of the node in its place in this very network, else of its workload alone.

    Records that are not legal here count for nothing.
    """
    target = describe_target(config)
    try:
        network = network_key(workloads_of(config, prepared, virtual_threads))
    except NoTileError:
        # A node that does not fit is the compiler's to refuse, with its name.
        return lambda workload, node: None

    def choose(workload: Workload, node: str) -> Values | None:
        space = None
        for description in (place_of(workload, network, node), workload.to_dict()):
            if book.lookup(description, target) is None:
                continue
            space = space_of(config, workload) if space is None else space
            if (values := book.lookup(description, target, space)) is not None:
                return values
        return None

    return choose

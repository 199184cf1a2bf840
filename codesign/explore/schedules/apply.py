"""Converts a design's schedules to settings for compilation, and to tuner records, which the option `--records`
applies.
"""

from __future__ import annotations

from types import MappingProxyType

from vdla.compiler.pipeline import compile_program, network_on
from vdla.compiler.records.book import book_of
from vdla.compiler.records.network import Settings, knobs_of, network_task
from vdla.compiler.records.package_identity import compiler_identity
from vdla.compiler.records.record import Record
from vdla.compiler.runtime.artifact import Compiled
from vdla.compiler.templates.vdla.legalize import legalize
from vdla.isa.config import Config

from ..networks import Network

NO_SETTINGS: Settings = MappingProxyType({})
"""Empty settings (knobs by node): every layer has its template's own schedule."""
STRATEGY = "explore"
"""Name of the strategy in tuner records of a design's schedules."""


def compile_with(config: Config, network: Network, settings: Settings, *, data: bool = True) -> Compiled:
    """The network compiled for a machine. `settings` are knobs by node; a node without an entry has its template's own
    schedule. With `data` False, the memory image has zeros in place of constants, which suffices to simulate the
    timing. Raises UserError.
    """
    records = book_of(tuner_records(config, network, settings, cycles=1)) if settings else None
    graph, cache = network.graph_for(config), network.schedule_cache
    return compile_program(graph, config, data=data, schedule_cache=cache, records=records)


def tuner_records(config: Config, network: Network, settings: Settings, cycles: int) -> list[Record]:
    """Converts `settings` (knobs by node) to a tuner record for the options `vdla run --records` and `vdla compile
    --records`. `cycles`: the network's cycles with these settings. Returns a list of the one record, or an empty list
    if there are no settings.
    """
    if not settings:
        return []
    target = config.described
    key = network_on(config, legalized=legalize(network.graph_for(config), config)).key
    return [
        Record(
            task=network_task(key, target),
            knobs=knobs_of(settings),
            cost=float(cycles),
            trial=0,
            seed=0,
            strategy=STRATEGY,
            elapsed=0.0,
            compiler=compiler_identity("vdla"),
        )
    ]

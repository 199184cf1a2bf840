"""The passes over a float graph, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .assign_layouts import assign_layouts
from .fold_batch_norm import fold_batch_norm
from .fuse import fuse
from .graph import FloatGraph
from .printer import format_graph
from .remove_dead import remove_dead


@dataclass(frozen=True, slots=True)
class GraphPass:
    """A named transformation of float graphs."""

    name: str
    run: Callable[[FloatGraph], FloatGraph]


def graph_passes(lanes: int, *, fusion: bool = True) -> tuple[GraphPass, ...]:
    """What happens to an imported graph, for vectors of `lanes` elements; `fusion` off shows what it is worth."""
    passes = [
        GraphPass("remove-dead", remove_dead),
        GraphPass("fold-batch-norm", fold_batch_norm),
        *([GraphPass("fuse", fuse)] if fusion else []),
        GraphPass("assign-layouts", lambda graph: assign_layouts(graph, lanes)),
        GraphPass("remove-unused", remove_dead),
    ]
    return tuple(passes)


def run_graph_passes(
    graph: FloatGraph,
    passes: tuple[GraphPass, ...],
    dump: Callable[[str, str], None] | None = None,
) -> FloatGraph:
    """The graph after all passes; `dump(name, text)` sees the imported graph and each result."""
    if dump is not None:
        dump("import", format_graph(graph))
    for item in passes:
        result = item.run(graph)
        if dump is not None:
            dump(item.name, "(unchanged)\n" if result is graph else format_graph(result))
        graph = result
    return graph

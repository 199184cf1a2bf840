"""The passes over a graph of real-valued operators, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..graph import Graph
from ..printer import format_graph
from ..remove_dead import remove_dead
from .assign_layouts import assign_layouts
from .crop_windows import crop_windows
from .fold_scale_shift import expand_batch_norm, fold_scale_shift
from .fuse import fuse
from .inline_scalars import inline_scalars
from .join_in_place import join_in_place
from .use_winograd import Tiling, use_winograd


@dataclass(frozen=True, slots=True)
class GraphPass:
    """A named transformation of graphs."""

    name: str
    run: Callable[[Graph], Graph]


def graph_passes(
    lanes: int, *, fusion: bool = True, join: bool = False, tiling: Tiling | None = None
) -> tuple[GraphPass, ...]:
    """What happens to an imported graph, for vectors of `lanes` elements.

    Without `fusion` every operator of the model is a kernel of its own, batch normalization too, and nothing is
    repeated or left out but what no output needs: what fusion is measured against. With `join` (and fusion) tensors
    that are concatenated are computed where they belong. `tiling` chooses convolutions for `use_winograd`.
    """
    fused = [
        GraphPass("fold-scale-shift", fold_scale_shift),
        GraphPass("expand-batch-norm", expand_batch_norm),
        GraphPass("inline-scalars", inline_scalars),
        GraphPass("fuse", fuse),
    ]
    passes = [
        GraphPass("remove-dead", remove_dead),
        GraphPass("crop-windows", crop_windows),
        *(fused if fusion else [GraphPass("expand-batch-norm", expand_batch_norm)]),
        GraphPass("assign-layouts", lambda graph: assign_layouts(graph, lanes)),
        *([] if tiling is None else [GraphPass("use-winograd", lambda graph: use_winograd(graph, tiling))]),
        GraphPass("remove-unused", remove_dead),
        *([GraphPass("join-in-place", join_in_place)] if fusion and join else []),
    ]
    return tuple(passes)


def run_graph_passes(
    graph: Graph,
    passes: tuple[GraphPass, ...],
    dump: Callable[[str, str], None] | None = None,
) -> Graph:
    """The graph after all passes; `dump(name, text)` sees the imported graph and each result."""
    if dump is not None:
        dump("import", format_graph(graph))
    for item in passes:
        result = item.run(graph)
        if dump is not None:
            dump(item.name, "(unchanged)\n" if result is graph else format_graph(result))
        graph = result
    return graph

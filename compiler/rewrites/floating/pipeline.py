"""The rewrites of a graph of real-valued operators, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...graph.graph import Graph
from ...graph.operators import (
    BatchNormalization,
    Concatenate,
    Convolution,
    Elementwise,
    Gather,
    MatrixProduct,
)
from ...graph.printer import format_graph
from ...ir.types import HALVES
from ..driver import Dump, Rewrite, remove_dead, run_rewrites
from .assign_layouts import assign_layouts
from .fuse import fuse

if TYPE_CHECKING:
    from .fuse_attention import Fits
    from .use_winograd import Tiling


@dataclass(frozen=True, slots=True, kw_only=True)
class Vectors:
    """The target of the rewrites: a processor with vectors of `lanes` elements. `tiling` chooses convolutions for
    Winograd's method; None chooses no convolution. `attention` tells whether the target has a kernel for an attention
    of given sizes; None means that it has none. `tied`: a matrix product and an embedding look-up can read the same
    constant. `halves`: kernels that compute in float32 read and store 16-bit floats."""

    lanes: int
    tiling: Tiling | None = None
    attention: Fits | None = None
    tied: bool = False
    halves: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphPasses:
    """The rewrites for one target, in the order in which they run."""

    target: Vectors
    rows: tuple[Rewrite[Vectors], ...]


def graph_passes(
    lanes: int,
    *,
    fusion: bool = True,
    join: bool = False,
    tiling: Tiling | None = None,
    attention: Fits | None = None,
    tied: bool = False,
    halves: bool = False,
) -> GraphPasses:
    """The rewrites of an imported graph, for vectors of `lanes` elements.

    Without `fusion` every operator becomes a kernel, even batch normalization; this is a baseline to measure the gain
    of fusion. With `join` and `fusion`, inputs of concatenations are written directly into the result. `tiling` chooses
    the convolutions that use Winograd's method. `attention` (with `fusion`) chooses the attentions that become one
    node. `tied`: a product and an embedding look-up share one constant. `halves`: float32 kernels read and store 16-bit
    floats."""
    rows = (
        REMOVE_DEAD,
        CROP_WINDOWS,
        *((FOLD_SCALE_SHIFT, EXPAND_BATCH_NORM, INLINE_SCALARS) if fusion else (EXPAND_BATCH_NORM,)),
        *((READ_HALVES,) if halves else ()),
        *((FUSE,) if fusion else ()),
        *(() if attention is None or not fusion else (FUSE_ATTENTION,)),
        *((TIE_WEIGHTS,) if tied else ()),
        ASSIGN_LAYOUTS,
        *(() if tiling is None else (USE_WINOGRAD,)),
        REMOVE_UNUSED,
        *((JOIN_IN_PLACE,) if fusion and join else ()),
    )
    target = Vectors(lanes=lanes, tiling=tiling, attention=attention, tied=tied, halves=halves)
    return GraphPasses(target=target, rows=rows)


def run_graph_passes(graph: Graph, passes: GraphPasses, dump: Dump | None = None) -> Graph:
    """The graph after all passes; `dump(name, text)` receives the imported graph and the result of each pass."""
    if dump is not None:
        dump("import", format_graph(graph))
    return run_rewrites(graph, passes.rows, passes.target, dump)


def _crop_windows(graph: Graph, _: Vectors) -> Graph:
    """The graph after `crop_windows`. (Its module is imported only if a convolution has rows or columns to remove.)"""
    for node in graph.nodes:
        operator = node.operator
        if not isinstance(operator, Convolution) or operator.transposed:
            continue
        if operator.window.has_pad_taps(*graph.data_shape(node)[2:]):
            from ..crop_windows import crop_windows

            return crop_windows(graph)
    return graph


def _fold_scale_shift(graph: Graph, _: Vectors) -> Graph:
    from .fold_scale_shift import fold_scale_shift

    return fold_scale_shift(graph)


def _expand_batch_norm(graph: Graph, _: Vectors) -> Graph:
    from .fold_scale_shift import expand_batch_norm

    return expand_batch_norm(graph)


def _inline_scalars(graph: Graph, _: Vectors) -> Graph:
    from .inline_scalars import inline_scalars

    return inline_scalars(graph)


def _fuse_attention(graph: Graph, target: Vectors) -> Graph:
    from .fuse_attention import fuse_attention

    assert target.attention is not None
    return fuse_attention(graph, target.attention)


def _tie_weights(graph: Graph, _: Vectors) -> Graph:
    from .tie_weights import tie_weights

    return tie_weights(graph)


def _read_halves(graph: Graph, _: Vectors) -> Graph:
    """The graph after `read_halves`. (Its module is imported only if a tensor has 16-bit elements.)"""
    if not _has_halves(graph):
        return graph
    from .read_halves import read_halves

    return read_halves(graph)


def _fuse(graph: Graph, target: Vectors) -> Graph:
    return fuse(graph, halves=target.halves and _has_halves(graph))


def _has_halves(graph: Graph) -> bool:
    return any(tensor.dtype in HALVES for tensor in graph.tensors.values())


def _use_winograd(graph: Graph, target: Vectors) -> Graph:
    from .use_winograd import use_winograd

    assert target.tiling is not None
    return use_winograd(graph, target.tiling)


def _join_in_place(graph: Graph, _: Vectors) -> Graph:
    from .join_in_place import join_in_place

    return join_in_place(graph)


def _row(name: str, function: Callable[[Graph, Vectors], Graph], *roots: type) -> Rewrite[Vectors]:
    return Rewrite(name=name, function=function, roots=roots or None)


REMOVE_DEAD = _row("remove-dead", lambda graph, _: remove_dead(graph))
CROP_WINDOWS = _row("crop-windows", _crop_windows, Convolution)
FOLD_SCALE_SHIFT = _row("fold-scale-shift", _fold_scale_shift, BatchNormalization, Elementwise)
EXPAND_BATCH_NORM = _row("expand-batch-norm", _expand_batch_norm, BatchNormalization)
INLINE_SCALARS = _row("inline-scalars", _inline_scalars, Elementwise)
READ_HALVES = _row("read-halves", _read_halves)
FUSE = _row("fuse", _fuse)
FUSE_ATTENTION = _row("fuse-attention", _fuse_attention, MatrixProduct)
TIE_WEIGHTS = _row("tie-weights", _tie_weights, Gather)
ASSIGN_LAYOUTS = _row("assign-layouts", lambda graph, target: assign_layouts(graph, target.lanes))
USE_WINOGRAD = _row("use-winograd", _use_winograd, Convolution)
REMOVE_UNUSED = _row("remove-unused", lambda graph, _: remove_dead(graph))
JOIN_IN_PLACE = _row("join-in-place", _join_in_place, Concatenate)

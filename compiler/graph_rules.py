"""The requirements of a target on graphs whose nodes become kernels (vector widths, layouts, supported operators)."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .graph.graph import Graph
from .rewrites.floating.use_winograd import Tiling

if TYPE_CHECKING:
    from .rewrites.floating.fuse_attention import Fits
    from .rewrites.floating.pipeline import GraphPasses


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRules:
    """A target's requirements on graphs.

    `lanes`: number of float32 elements in a vector. `channel_block`: a function that maps the number of channels of an
    integer tensor to the number of channels in a block of its memory layout. If `channel_block` is None, the target
    computes in floats even if a model is quantized throughout. `join`: whether inputs of concatenations are written
    directly into the result. `tiling`: function that chooses the convolutions that use Winograd's algorithm.
    `attention`: function that tells for which sizes of attention the target has one kernel (None: for none). `tied`:
    whether products can read transposed weights, so that a product and an embedding look-up can share weights.
    `halves`: whether kernels that compute in float32 read and store 16-bit floats. `recurrent`: the operators among
    LSTM, GRU and RNN whose steps the target computes in one kernel. `check` gets the model's label and its graph, and
    raises ModelError if the target has no code for the graph (None: the target has code for every graph).
    """

    lanes: int
    channel_block: Callable[[int], int] | None = None
    join: bool = False
    tiling: Tiling | None = None
    attention: Fits | None = None
    tied: bool = False
    halves: bool = False
    recurrent: AbstractSet[str] = frozenset({"LSTM"})
    check: Callable[[str, Graph], None] | None = None

    def float_passes(self, *, fusion: bool) -> GraphPasses:
        """The rewrites of an imported graph of floats. Without `fusion` every operator becomes a kernel of its own."""
        from .rewrites.floating.pipeline import graph_passes

        return graph_passes(
            self.lanes,
            fusion=fusion,
            join=self.join,
            tiling=self.tiling,
            attention=self.attention,
            tied=self.tied,
            halves=self.halves,
        )

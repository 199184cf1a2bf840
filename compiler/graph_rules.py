"""The requirements of a target on graphs whose nodes become kernels (vector widths, layouts, supported operators)."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from .graph.errors import ModelError, NodeError
from .graph.floating.use_winograd import Tiling
from .graph.graph import Graph


def _same(error: NodeError) -> ModelError:
    return error


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRules:
    """A target's requirements on graphs.

    `lanes`: float32 elements of a vector. `integer_lanes`: int32 elements of a vector; None: models that are quantized
    throughout are computed in floats too. `join`: whether inputs of concatenations are written directly into the
    result. `tiling`: function that chooses the convolutions that use Winograd's algorithm. `halves`: whether kernels
    that compute in float32 read and store 16-bit floats. `recurrent`: the operators
    among LSTM, GRU and RNN whose steps the target computes in one kernel. `refused` maps an error of the import to the
    error to raise. `check` gets the model's label and its graph, and raises ModelError if the target has no code for
    it (None: the target has code for every graph).
    """

    lanes: int
    integer_lanes: int | None = None
    join: bool = False
    tiling: Tiling | None = None
    halves: bool = False
    recurrent: AbstractSet[str] = frozenset({"LSTM"})
    refused: Callable[[NodeError], ModelError] = _same
    check: Callable[[str, Graph], None] | None = None

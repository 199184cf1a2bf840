"""Drawings of a Pad behind other nodes that move elements. In quantized graphs most of the moves are not quantized, so
that an importer sees a padded view of a tensor.
"""

from __future__ import annotations

from ..builder import Builder
from ..quantized_builder import QuantizedBuilder
from ..tables import Operator
from . import moves, windows

MOVED = 0.7
"""Share of Pads that read a tensor whose elements other nodes moved."""
QUANTIZED = 0.3
"""In quantized graphs, the share of the nodes before a Pad whose results are quantized."""
MOVES = {
    "Slice": moves.cut,
    "Transpose": moves.transpose,
    "Gather": moves.gather,
    "Reshape": moves.reshape,
    "Concat": moves.concat,
    "Split": moves.split,
    "Tile": moves.tile,
    "Expand": moves.expand,
    "Pad": moves.pad,
}
"""For each operator that moves elements, the function that draws a node of this operator."""
POOLS = {"AveragePool": windows.pool, "MaxPool": windows.pool}
REREAD = 0.3
"""One or more nodes come before a Pad, and the first of them reads a quantized tensor. This is the share of these
tensors whose integers are dequantized a second time, with another scale and zero point.
"""
POOLED = 0.3
"""Share of pools among the nodes before a Pad."""


def pad(b: Builder, operator: Operator) -> None:
    """Adds a random Pad in any mode. In most cases, it first adds one to three nodes that move or pool elements; each
    node, and then the Pad, reads the result of the node before.
    """
    if not b.draw.chance(MOVED):
        moves.pad(b, operator)
        return
    usual = b.paired if isinstance(b, QuantizedBuilder) else 0.0
    try:
        if isinstance(b, QuantizedBuilder):
            b.paired = QUANTIZED
            first = b.tensor(ranks=(1, 2, 3, 4, 4, 4), constant=0)
            b.following = b.reread(first) if b.draw.chance(REREAD) else first
        for _ in range(1 + b.draw.below(3)):
            drawings = POOLS if b.draw.chance(POOLED) else MOVES
            name = b.draw.of(list(drawings))
            drawings[name](b, Operator("", name))
            b.following = b.made()[-1].name
        moves.pad(b, operator)
    finally:
        b.following = ""
        if isinstance(b, QuantizedBuilder):
            b.paired = usual

"""Addresses of depthwise weights, counted in rows of weights instead of weight tiles."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...ir.affine import quotient
from ...ir.expr import Const
from ...ir.stmt import Region
from .columns import Access

if TYPE_CHECKING:
    from .emit import LayerEmitter


def rows_of_weights(emitter: LayerEmitter, weight: Region) -> Access:
    """The access to depthwise weights, with addresses that count machine rows instead of weight tiles. A machine row is
    min(block_in, block_out) weights that the array multiplies with one input vector. A row of the buffer may consist of
    several machine rows.
    """
    config, buffer = emitter.config, weight.buffer
    parts = config.position_outputs
    if parts == 1:
        return whole_rows(emitter, weight)
    # A row of the buffer is several machine rows.
    *outer, last = weight.starts
    part = quotient(last, config.block_out)
    if part is None:
        raise ValueError(
            f"an access to {buffer.name} does not begin at a multiple of {config.block_out} elements of a row"
        )
    apart = replace(buffer, shape=(*buffer.shape[:-1], parts, config.block_out))
    extents = (*weight.extents[:-1], Const(1), Const(config.block_out))
    region = Region(buffer=apart, starts=(*outer, part, Const(0)), extents=extents)
    return emitter.access(region, element_dimensions=1, least=(parts, config.block_out))


def whole_rows(emitter: LayerEmitter, weight: Region) -> Access:
    """The access to depthwise weights, with addresses that count rows of the buffer `weight` (its last dimension)
    instead of weight tiles. Each weight tile counts as `Config.whole_tile_rows` rows, even if the buffer has fewer
    rows.
    """
    return emitter.access(weight, element_dimensions=1, least=(emitter.config.whole_tile_rows,))

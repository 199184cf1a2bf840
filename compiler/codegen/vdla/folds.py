"""Weights for arrays that fold (extension `fold`): the value of register FOLD, and the parts of weight tiles that do
not consist of padding only.

Programs have whole tiles, [block_out][block_in]. A machine that folds multiplies a tile in `Config.tile_parts` steps.
Each step multiplies one part of the tile: some of the inputs, for some of the lanes (isa/README.md). Register FOLD
selects the shape of the parts. Each kernel gets the shape for which the fewest parts contain weights. Operations on
parts without weights are left out.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vdla.isa.config import Config

from ...graph.layout import Constant, Form, pack_weight
from ...graph.special_weights import pack_patch_weight, pack_spread_weight
from ...ir.expr import Expr
from ...ir.simplify import simplify
from ...ir.stmt import Copy, Intrinsic, Program, Region
from ...ir.visit import free_vars, walk
from .columns import Column, Environment, Evaluator, Rows, evaluator
from .machine import kernel_fields

if TYPE_CHECKING:
    from .link import LoweredKernel, LoweredLayer

WEIGHTS = "W"
"""The name of the program parameter with a kernel's weights."""

_OF_PRODUCTS = frozenset({pack_weight, pack_spread_weight, pack_patch_weight})
"""Packing functions of weights that GEMM multiplies. Constants with other packing functions are depthwise weights, or
not weights at all.
"""


def fold_tiles(config: Config, tiles: NDArray[np.int8], shape: int) -> NDArray[np.int8]:
    """Rearranges whole tiles [..., block_out, block_in] to the machine's [..., tile_parts, columns, block_in], for a
    GEMM whose rows work in 2 ** `shape` groups (`shape` is the value of register FOLD). Each group has block_in >>
    `shape` rows, which multiply the same inputs as the other groups' rows, and lanes of its own.

    With shape 0 there is one group, and the memory layout is that of whole tiles.
    """
    groups, lanes, inputs = 1 << shape, config.tile_parts >> shape, config.block_in >> shape
    split = tiles.reshape(-1, lanes, groups, config.columns, groups, inputs)
    # In a part, each group of rows has its own lanes, and all groups have the same inputs.
    parts = split.transpose(0, 1, 4, 3, 2, 5)
    return parts.reshape(*tiles.shape[:-2], config.tile_parts, config.columns, config.block_in)


@lru_cache(maxsize=64)
def _folded(form: Form, shape: int) -> Form:
    """A packing function that calls `form` and rearranges the resulting tiles for `shape` (`fold_tiles`).
    `Constant.same` compares packing functions by identity, so equal arguments give the same function object.
    """

    def pack(config: Config, *arrays: np.ndarray) -> np.ndarray:
        return fold_tiles(config, form(config, *arrays), shape)

    return pack


@dataclass(frozen=True, slots=True, eq=False)
class FoldedWeights:
    """How the weight tiles of a kernel are cut into parts, which the array multiplies one at a time.

    `shape`: value of register FOLD, which selects the shape of the parts. `used`: bool [..., tile_parts], true for
    parts that contain weights. The leading dimensions of `used` are the dimensions of the array of tiles; the first of
    these dimensions counts blocks of filters.
    """

    shape: int
    used: NDArray[np.bool_]

    @staticmethod
    def of(config: Config, constant: Constant | None) -> FoldedWeights | None:
        """Chooses how to cut the weight tiles of a kernel into parts: the shape of parts for which the fewest parts
        contain weights. Returns None if `constant` does not hold the weights of a GEMM, or if the machine multiplies
        whole tiles (one part for each tile).
        """
        if constant is None or config.tile_parts == 1 or constant.form not in _OF_PRODUCTS:
            return None
        weight, *rest = constant.arrays
        return _fewest_parts(
            kernel_fields(config),
            constant.form,
            weight.shape,
            tuple([tuple(item.tolist()) for item in rest]),
        )

    def constant(self, of: Constant) -> Constant:
        """The constant `of` (a kernel's weights) with its tiles folded to `shape`."""
        return Constant(form=_folded(of.form, self.shape), arrays=of.arrays)

    @property
    def key(self) -> Hashable:
        """The part of the key of the emission cache (cache of emitted instructions) that depends on folding: shape and
        used parts.
        """
        return self.shape, self.used.shape, self.used.tobytes()


@lru_cache(maxsize=512)
def _fewest_parts(
    config: Config, form: Form, weights: tuple[int, ...], more: tuple[tuple[int, ...], ...]
) -> FoldedWeights:
    """Packs weights of shape `weights` by `form`, and chooses the folding for which the fewest parts of tiles contain
    weights. A weight of value 0 counts as a weight; padding of tiles does not. So the choice does not depend on the
    weights' values. `more`: the other arguments of `form`, as nested tuples.
    """
    there = form(config, np.ones(weights, np.int8), *(np.array(item) for item in more))
    shapes = range(config.tile_parts.bit_length())
    found = [np.asarray(fold_tiles(config, there, shape).any(axis=(-2, -1))) for shape in shapes]
    shape = min(shapes, key=lambda shape: int(found[shape].sum()))
    return FoldedWeights(shape, found[shape])


def fold_weights(
    config: Config, layers: Sequence[LoweredLayer]
) -> tuple[Sequence[LoweredLayer], Mapping[tuple[int, int], FoldedWeights]]:
    """The layers with weights rearranged for the extension `fold`, and the `FoldedWeights` of each kernel that has
    weights of a GEMM, by (layer number, kernel number).
    """
    found: dict[tuple[int, int], FoldedWeights] = {}
    changed: list[LoweredLayer] = []
    for number, layer in enumerate(layers):
        kernels: list[LoweredKernel] = []
        for k, kernel in enumerate(layer.kernels):
            own = kernel.constants.get(WEIGHTS)
            weights = FoldedWeights.of(config, own)
            if weights is not None and own is not None:
                found[number, k] = weights
                kernel = replace(kernel, constants={**kernel.constants, WEIGHTS: weights.constant(own)})
            kernels.append(kernel)
        changed.append(replace(layer, kernels=tuple(kernels)))
    return changed, found


class PartsOfTiles:
    """The parts of weight tiles that a chain's GEMM operations multiply: all parts, or only parts that contain weights.

    `count`: number of parts of a whole tile. `shape`: value of register FOLD. `named`: names of the loops whose
    iterations may multiply different parts.
    """

    def __init__(
        self,
        config: Config,
        program: Program,
        weights: FoldedWeights | None,
        leaf: Intrinsic,
        around: AbstractSet[str],
    ) -> None:
        """Finds the parts of tiles that `leaf`, a GEMM of `program` inside the loops `around`, must multiply.
        `weights`: the folding of the kernel's weights (None: shape 0, all parts).

        All parts must be multiplied in three cases: the GEMM's tiles are not the kernel's weights, the loops `around`
        do not determine the multiplied tile, or the weights have a zero point (stored zeros then contribute to the
        sum). Raises ValueError if the GEMM's buffer holds both the kernel's weights and other arrays.
        """
        region = leaf.operands[2]
        loads = [
            item
            for item in walk(program)
            if isinstance(item, Copy) and item.destination.buffer.name == region.buffer.name
        ]
        sources = {item.source.buffer.name for item in loads}
        if WEIGHTS in sources and len(sources) > 1:
            raise ValueError(
                f"{region.buffer.name} must not contain arrays other than the kernel's weights, because tiles of "
                "other arrays differ in shape"
            )
        if WEIGHTS not in sources:
            weights = None
        self.count = config.tile_parts
        self.shape = 0 if weights is None else weights.shape
        self.named: frozenset[str] = frozenset()
        self._place: tuple[Evaluator, ...] = ()
        self._used: NDArray[np.bool_] | None = None
        if weights is None or len(loads) != 1 or dict(leaf.attributes).get("wgt_zero"):
            return
        place = _place(loads[0], region, around)
        if place is None:
            return
        # A program may treat a window's positions as further channels.
        tiles = loads[0].source.buffer.shape[: len(place)]
        if prod(tiles) * self.count != weights.used.size:
            return
        self._used = used = weights.used.reshape(*tiles, self.count)
        self._place = tuple([evaluator(start) for start in place])
        uneven = [d for d in range(len(place)) if (used != used.take([0], axis=d)).any()]
        self.named = frozenset().union(*(free_vars(region.starts[1 + d]) for d in uneven))

    def tile(self, environment: Environment) -> tuple[Column, ...]:
        """Index of the multiplied tile in the array of weight tiles. The tuple has a column (one value for each
        iteration) for each dimension; it is empty if all parts of all tiles are multiplied.
        """
        return tuple([start(environment) for start in self._place])

    def operations(
        self, indices: Sequence[Rows], starting: NDArray[np.bool_], environment: Environment
    ) -> tuple[list[Rows], NDArray[np.bool_]]:
        """Converts micro-ops that multiply whole weight tiles into micro-ops that multiply only the used parts of
        tiles. Returns the new micro-ops in the form of `indices`, and for each of them whether it starts sums.

        `indices`: the given micro-ops as three arrays (accumulator, input, weight tile). `starting`: whether each given
        micro-op starts sums. If a micro-op does, the operations on the first part of the inputs overwrite the sums, and
        the operations on the other parts add to the sums. `environment`: values of the loop variables.
        """
        kept = self._kept(environment, starting)
        dst, src, tile = indices
        parts = tile[:, None] * self.count + np.arange(self.count)
        first, second = (np.broadcast_to(column[:, None], parts.shape)[kept] for column in (dst, src))
        return [first, second, parts[kept]], np.broadcast_to(starting[:, None], parts.shape)[kept]

    def _kept(self, environment: Environment, starting: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Selects, for each operation, the parts of its tile that it multiplies: bool [n, parts].

        An operation in `starting` must overwrite the sums of all lanes, even of lanes that have no weights in the
        operation's tile. So the operation also multiplies the first part of the inputs, for every group of lanes that
        has weights in any tile of the same block of filters. If no operation has a part to multiply, the first
        operation multiplies part 0.
        """
        count = len(starting)
        if self._used is None:
            return np.ones((count, self.count), np.bool_)
        at = tuple([np.broadcast_to(np.asarray(number), (count,)) for number in self.tile(environment)])
        kept = self._used[at]
        # `lanes`: groups of lanes of a block of filters with a used part in any tile.
        groups = 1 << self.shape
        whole = self._used.reshape(len(self._used), -1, self.count // groups, groups)
        lanes = np.repeat(whole.any(axis=(1, 3)), groups, axis=1)
        kept = kept | (starting[:, None] & lanes[at[0]] & (np.arange(self.count) % groups == 0))
        if not kept.any():
            kept[0, 0] = True  # An instruction needs a micro-op; this one adds zeros.
        return kept


def _place(load: Copy, region: Region, around: AbstractSet[str]) -> tuple[Expr, ...] | None:
    """Finds the weight tile that the copy `load` stores in `region` of a scratchpad. Returns one index expression for
    each leading dimension of the kernel's weights.

    Returns None if the tile depends on loops that are not in `around`, for example on loops that load the weights in
    pieces.
    """
    found: list[Expr] = []
    leading = len(load.source.starts) - 2
    for origin, target, start in zip(
        load.source.starts[:leading],
        load.destination.starts[1 : 1 + leading],
        region.starts[1 : 1 + leading],
        strict=True,
    ):
        expr = simplify(origin + start - target)
        if not free_vars(expr) <= around:
            return None
        found.append(expr)
    return tuple(found)

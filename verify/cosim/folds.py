"""Coverage bins of the extension `fold`. With it, the rows of the MAC array are divided into groups (register FOLD),
and each group computes its own lanes of the accumulators.

There are bins for the number of groups, for the effect of the field `overwrite`, and for accumulators that are used
again a few operations after some of their lanes were written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from vdla.isa.config import Config
from vdla.isa.decoding import decode_uops

GROUP = "folds"
MOST_FOLDS = 32
_MODES = ("overwrite of the first part", "overwrite of another part", "accumulate")
_LANES = ("the same lanes", "other lanes", "some of the lanes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """Operations of a matrix instruction in order, as arrays (n,). An operation is one micro-op in one iteration.
    `accumulators`: index of the accumulator that each operation writes; `lanes`: bit set of the parts of this
    accumulator's lanes that the operation writes; `adds`: whether the operation adds to the old value.
    """

    accumulators: NDArray[np.int64]
    lanes: NDArray[np.int64]
    adds: NDArray[np.bool_]

    def last(self, count: int) -> Touched:
        """The last `count` operations of the matrix instruction (`count` is 1 or more), or all if there are fewer. An
        operation is one micro-op in one iteration of the instruction.
        """
        return Touched(
            accumulators=self.accumulators[-count:], lanes=self.lanes[-count:], adds=self.adds[-count:]
        )


def declare(machines: Sequence[Config], distances: Sequence[int]) -> Iterator[tuple[str, str, str | None]]:
    """Declares the bins of this module: (group, bin, reason why no program can hit it, or None). `distances`: numbers
    of operations after which an accumulator is used again.
    """
    most = max((config.tile_parts for config in machines), default=1)
    none = None if most > 1 else "no machine has the extension fold"
    groups = 1
    while groups <= MOST_FOLDS:
        for mode in _MODES:
            alone = groups == 1 and mode == _MODES[1]
            reason = none or ("no array folds so often" if groups > most else None)
            yield GROUP, _shape_bin(groups, mode), "one group takes all inputs" if alone else reason
        groups *= 2
    for lanes, distance in product(_LANES, distances):
        yield GROUP, _reuse_bin(lanes, distance), none


def _shape_bin(groups: int, mode: str) -> str:
    return f"{groups} {'group' if groups == 1 else 'groups'}, {mode}"


def _reuse_bin(lanes: str, distance: int) -> str:
    return f"{lanes} of an accumulator, {distance} operations later"


def touched(
    config: Config,
    registers: Mapping[str, Mapping[str, int]],
    name: str,
    values: Mapping[str, int],
    words: NDArray[np.unsignedinteger],
    accumulators: NDArray[np.int64],
) -> Touched:
    """Finds, for each operation of the matrix instruction `name`, the lanes that it writes, and whether it adds its
    result to the old value of its accumulator. `accumulators` int64 (n,): accumulator of each operation. `words`:
    micro-ops of the instruction. `values`: fields of the instruction. `registers`: configuration registers' fields.
    """
    count = len(accumulators)
    lanes = np.full(count, (1 << config.tile_parts) - 1, np.int64)
    adds = np.full(count, not values["reset"] and not values["overwrite"])
    if name == "GEMM" and not values["reset"]:
        groups = 1 << registers["FOLD"]["shape"]
        parts = _tiles(config, registers["BASE"]["wgt_base"], values, words) % config.tile_parts
        lanes = ((1 << groups) - 1) << parts // groups * groups
        adds = adds | (parts % groups != 0)
    return Touched(accumulators=accumulators, lanes=lanes, adds=adds)


def _tiles(
    config: Config, base: int, values: Mapping[str, int], words: NDArray[np.unsignedinteger]
) -> NDArray[np.int64]:
    """Index of the weight tile that each operation reads, int64 (n,). `base`: field wgt_base of register BASE.
    `values`: fields of the instruction; `words`: its micro-ops.
    """
    y = np.arange(values["iter_out"])[:, None, None]
    x = np.arange(values["iter_in"])[:, None]
    tiles = decode_uops(config, words)[2].astype(np.int64)
    return (base + y * values["wgt_factor_out"] + x * values["wgt_factor_in"] + tiles).reshape(-1)


def shapes(
    registers: Mapping[str, Mapping[str, int]], name: str, values: Mapping[str, int], touched: Touched
) -> Iterator[tuple[str, str]]:
    """The coverage bins that a GEMM hits by its number of row groups (register FOLD) and its field `overwrite`; none
    for other instructions and resets. `registers`: fields of each configuration register; `name`, `values`: format and
    fields of the instruction; `touched`: its operations.
    """
    if name != "GEMM" or values["reset"]:
        return
    groups = 1 << registers["FOLD"]["shape"]
    if not values["overwrite"]:
        yield GROUP, _shape_bin(groups, _MODES[2])
        return
    for adds in np.unique(touched.adds).tolist():
        yield GROUP, _shape_bin(groups, _MODES[adds])


def used_again(before: Touched | None, now: Touched, distances: Sequence[int]) -> Iterator[tuple[str, str]]:
    """The bins for pipeline hazards: an operation of `now` adds to an accumulator that an operation of `now`, or of the
    instruction `before`, wrote a few operations (`distances`) earlier, so that the written values are still in the
    pipeline. There is a bin for each distance, and for whether the earlier operation wrote the same lanes, other lanes,
    or some of the lanes.
    """
    both = [now] if before is None else [before, now]
    accumulators, lanes, adds = (
        np.concatenate([getattr(item, field) for item in both]) for field in ("accumulators", "lanes", "adds")
    )
    first = len(accumulators) - len(now.accumulators)
    for distance in distances:
        later = np.arange(max(first, distance), len(accumulators))
        later = later[adds[later] & (accumulators[later] == accumulators[later - distance])]
        own, earlier = lanes[later], lanes[later - distance]
        for name, there in zip(
            _LANES, (own == earlier, own & earlier == 0, (own != earlier) & (own & earlier != 0)), strict=True
        ):
            if there.any():
                yield GROUP, _reuse_bin(name, distance)

"""Finds and skips the taps (positions in the window) of convolutions and pools that read only pads.

For a tile of output positions, live taps read the input; dead taps read only pads and can be skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....ir.expr import Binary, Const, Select
from ....ir.named_nodes import find_statement
from ....ir.stmt import Copy, For, Program, Reduce
from ....ir.visit import free_vars, loops, walk, walk_expr
from ....schedule import Schedule
from ..loops import peel_ends
from .stages import Sum, padded_read

LEAST_DEAD = 0.08
"""Least share of products with pads at which skipping these products saves more time than the branches for it cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taps:
    """The taps (positions in the window) along one dimension: `outputs` output positions read `size` input positions,
    with `pad` positions of padding before them. `axle`, `term`: the loops over outputs and over taps.
    """

    axle: str
    term: str
    outputs: int
    size: int
    kernel: int
    stride: int
    dilation: int
    pad: int

    def live(self, tile: int, block: int) -> float:
        """The share of products that is computed with tiles of `tile` outputs in blocks of `block` outputs, when taps
        (rows or columns of the window) that read only pads are skipped; 1 if skipping saves too little.

        A tile computes a tap for all its outputs if the tap reads the input for one of them.
        """
        computed = 0
        for begin in range(0, self.outputs, block):
            end = min(begin + block, self.outputs)
            for first in range(begin, end, tile):
                last = min(first + tile, end) - 1
                taps = sum(
                    first * self.stride + offset < self.size and last * self.stride + offset >= 0
                    for offset in range(-self.pad, self.kernel * self.dilation - self.pad, self.dilation)
                )
                computed += taps * (last - first + 1)
        share = computed / (self.outputs * self.kernel)
        return share if 1 - share >= LEAST_DEAD else 1.0

    def in_ends(self, tile: int) -> bool:
        """Whether only the first and the last tile (of `tile` outputs each) have windows that read pads."""
        reach = self.dilation * (self.kernel - 1) - self.pad
        first_beyond = max(0, -((reach - self.size) // self.stride))
        last = self.outputs - (self.outputs % tile or tile)
        return -(-self.pad // self.stride) <= tile and first_beyond >= last


def taps_of(program: Program, summed: Sum) -> tuple[Taps, ...]:
    """The taps (positions in the window) of a sum that reads a padded copy, one `Taps` for each dimension of the window
    with several outputs; empty for other sums.
    """
    if (found := padded_read(program, summed)) is None:
        return ()
    read, copy = found
    terms = {term.name: term.size for term in summed.terms}
    axles = {axle.inner: axle for axle in summed.axles}
    taps: list[Taps] = []
    for d, steps in enumerate(read.steps):
        moved = [(axles[name], step) for name, step in steps if name in axles]
        own = [(name, step) for name, step in steps if name in terms]
        start = copy.source.starts[d]
        if len(moved) == len(own) == 1 and isinstance(start, Const):
            ((axle, stride),), ((term, dilation),) = moved, own
            taps.append(
                Taps(
                    axle=axle.name,
                    term=term,
                    outputs=axle.size,
                    size=copy.source.buffer.shape[d],
                    kernel=terms[term],
                    stride=stride,
                    dilation=dilation,
                    pad=-int(start.value),
                )
            )
    return tuple(taps)


def skip_dead_taps(
    s: Schedule, taps: Sequence[Taps], tile: Mapping[str, int], block: Mapping[str, int]
) -> None:
    """Adds branches with which a tile skips taps (rows and columns of the window) that read only pads, if this saves
    enough (`Taps.live`). `tile`: for each loop, elements of a tile. `block`: for each loop, tiles of a block (0: all).
    """
    for along in taps:
        size = tile[along.axle]
        if along.live(size, block[along.axle] * size or along.outputs) < 1:
            for loop in _innermost(s, along.term):
                s.skip_pads(loop)


def _innermost(s: Schedule, term: str) -> list[str]:
    """Loops that splits and partial sums made from the reduction loop `term`: names of the loops among these that are
    the innermost loop around a sum of products.
    """
    found: list[str] = []
    for loop in loops(s.program):
        inside, node = "", loop
        while isinstance(node, For):
            if node.name == term or node.name.startswith(f"{term}."):
                inside = node.name
            node = node.body
        if isinstance(node, Reduce) and isinstance(node.value, Binary) and inside == loop.name:
            found.append(inside)
    return found


def inline_producer(s: Schedule, name: str) -> None:
    """Inlines the statement `name`, which pads an input, into the sum: each term tests whether it reads a pad."""
    if isinstance(find_statement(s.program, name), Copy):
        s.expand_copy(name)
    s.compute_inline(name)


def borders(s: Schedule, summed: Sum) -> set[str]:
    """The loops that decide whether a sum's term is a pad: their variables occur in the conditions of the terms."""
    value = next(
        node.value for node in walk(s.program) if isinstance(node, Reduce) and node.name == summed.name
    )
    conditions = [e.condition for e in walk_expr(value) if isinstance(e, Select)]
    return {name for condition in conditions for name in free_vars(condition)}


def peel_borders(s: Schedule, tiles: Sequence[str]) -> None:
    """Separates (peels) the first and the last iteration of the nested loops `tiles` over tiles, so that only the code
    of these iterations tests whether an input element is a pad.
    """
    parts = [""]
    for loop in tiles:
        parts = [f"{part}{end}" for part in parts for end in peel_ends(s, f"{loop}{part}", True, True)]

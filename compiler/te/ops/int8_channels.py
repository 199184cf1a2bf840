"""Programs for quantized tensors that move channels (Concat, Split, channel shuffles, phases) or look up a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...ir.expr import Buffer, Const, Expr, Var, cast
from ...ir.stmt import Assign, Program, Stmt, each, nest, seq
from ...ir.types import DType
from ..blocks import Pair, ceil_div
from ..merge import Shape
from .movement import clamped


def int8_table(*, size: int) -> Program:
    """Y[i] = T[X[i]]: parameters uint8 X [size], T [256], Y [size]; loop i around the statement "map"."""
    x, t, y = (
        Buffer(name=n, shape=(s,), dtype=DType.UINT8) for n, s in (("X", size), ("T", 256), ("Y", size))
    )
    i = Var("i")
    return Program(
        name="int8_table", parameters=(x, t, y), body=each("map", y[i], t[cast(x[i], DType.INT64)])
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """An input of a kernel that joins channels: a tensor in `blocks` blocks of `block` channels."""

    blocks: int
    block: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A move of `blocks` whole blocks. Blocks `source`, `source` + 1, ... of part `part` become blocks `first`, `first`
    + 1, ... of the output.
    """

    first: int
    blocks: int
    part: int
    source: int


def whole_runs(
    sources: Sequence[Pair], channels: Sequence[int], blocks: Sequence[int], block: int
) -> tuple[Run, ...] | None:
    """The moves of whole blocks that make an output in blocks of `block`; None if an output block is not one whole
    block of a part (an input).

    Output channel c is channel `sources`[c][1] of part `sources`[c][0]. `channels`, `blocks`: number of channels and
    block size of each part. The lanes beyond the channels of a last block are zero in all tensors.
    """
    runs: list[Run] = []
    for start in range(0, len(sources), block):
        part, first = sources[start]
        here = sources[start : start + block]
        inside = min(block, channels[part] - first)
        whole = list(here) == [(part, first + i) for i in range(len(here))]
        if not whole or blocks[part] != block or first % block or inside != len(here):
            return None
        source, last = first // block, runs[-1] if runs else None
        if last is not None and (last.part, last.source + last.blocks) == (part, source):
            runs[-1] = Run(first=last.first, blocks=last.blocks + 1, part=part, source=last.source)
        else:
            runs.append(Run(first=start // block, blocks=1, part=part, source=source))
    return tuple(runs)


def int8_blocks(*, batch: int, plane: int, parts: Sequence[Part], runs: Sequence[Run]) -> Program:
    """Y = the blocks of the inputs `parts` that `runs` select, for images of `plane` positions.

    Parameters: uint8 X0, X1, …, one for each part, [batch, blocks of the part, plane * block]; uint8 Y [batch, blocks
    of all runs, plane * block]. For run i, loops n.i (images), o.i (blocks), d.i (bytes of a block) contain the
    statement "move.i".
    """
    width = plane * parts[0].block
    inputs = [
        Buffer(name=f"X{i}", shape=(batch, part.blocks, width), dtype=DType.UINT8)
        for i, part in enumerate(parts)
    ]
    y = Buffer(name="Y", shape=(batch, sum(run.blocks for run in runs), width), dtype=DType.UINT8)
    moves: list[Stmt] = []
    for i, run in enumerate(runs):
        n, o, d = (Var(f"{v}.{i}") for v in ("n", "o", "d"))
        move = Assign.to(f"move.{i}", y[n, o + run.first, d], inputs[run.part][n, o + run.source, d])
        moves.append(nest([(n, batch), (o, run.blocks), (d, width)], move))
    return Program(name="int8_blocks", parameters=(*inputs, y), body=seq(*moves))


def int8_channels(
    *, batch: int, plane: int, parts: Sequence[Part], counts: Sequence[int], channels: int, block: int
) -> Program:
    """Joins channels of several inputs: Y[n, Ii[0, c], p] = Xi[n, Ii[1, c], p] for image n, position p, each input Xi,
    and all c < `counts`[i]. `parts`: the layout of each input. `plane`: number of positions of an image. Y has
    `channels` channels, in blocks of `block`.

    Parameters: for each input i, uint8 Xi [batch, blocks, plane, block], and int64 Ii [2, counts[i]], a table of
    `channel_places`; then uint8 Y [batch, ceil(channels / block), plane, block]. Loops n.i, c.i, p.i contain the
    statement "move.i", which moves input i. Loops n, p, j contain the statement "fill", which writes zeros beyond the
    channels.
    """
    blocks = ceil_div(channels, block)
    y = Buffer(name="Y", shape=(batch, blocks, plane, block), dtype=DType.UINT8)
    parameters: list[Buffer] = []
    moves: list[Stmt] = []
    for i, (part, count) in enumerate(zip(parts, counts, strict=True)):
        x = Buffer(name=f"X{i}", shape=(batch, part.blocks, plane, part.block), dtype=DType.UINT8)
        table = Buffer(name=f"I{i}", shape=(2, count), dtype=DType.INT64)
        n, c, p = (Var(f"{v}.{i}") for v in ("n", "c", "p"))
        to, of = _place(table[0, c], blocks, block), _place(table[1, c], part.blocks, part.block)
        move = Assign.to(f"move.{i}", y[n, to[0], p, to[1]], x[n, of[0], p, of[1]])
        moves.append(nest([(n, batch), (c, count), (p, plane)], move))
        parameters += [x, table]
    if channels % block:
        n, p, j = Var("n"), Var("p"), Var("j")
        at = (n, Const(blocks - 1), p, j + channels % block)
        fill = Assign.to("fill", y[at], Const(0, DType.UINT8))
        moves.append(nest([(n, batch), (p, plane), (j, -channels % block)], fill))
    return Program(name="int8_channels", parameters=(*parameters, y), body=seq(*moves))


def _place(channel: Expr, blocks: int, block: int) -> tuple[Expr, Expr]:
    """(block, lane) of a channel number, clamped to a tensor of `blocks` blocks of `block` channels."""
    inside = clamped(channel, blocks * block)
    return inside // block, inside % block


def int8_interleave(data: Shape, result: Shape, *, factors: Pair, before: Pair, stride: int) -> Program:
    """Puts the outputs of a transposed convolution's phases side by side. Let ry = (y + top) % sy and rx = (x + left) %
    sx. Outputs with equal ry and rx are a phase, whose number is k = ry * sx + rx; X holds the channels of phase k from
    channel k * stride on: Y[n, c, y, x] = X[n, k * stride + c, (y + top) // sy, (x + left) // sx].

    (sy, sx) are the `factors`, (top, left) is `before`. Parameters: uint8 X of shape `data` and uint8 Y of shape
    `result`, both [batch, blocks, height, width, block]. Each phase has a nest of loops n, o, y, x, j around the
    statement "move"; the names of a phase end with its number.
    """
    (sy, sx), (top, left) = factors, before
    x_in, y_out = (
        Buffer(name=n, shape=shape, dtype=DType.UINT8) for n, shape in (("X", data), ("Y", result))
    )
    batch, blocks, oh, ow, block = result
    held = data[-1]
    moves: list[Stmt] = []
    for phase in range(sy * sx):
        # The first row and column of Y in this phase.
        y0, x0 = (phase // sx - top) % sy, (phase % sx - left) % sx
        rows, columns = ceil_div(oh - y0, sy), ceil_div(ow - x0, sx)
        if rows < 1 or columns < 1:
            continue
        n, o, y, x, j = (Var(f"{v}.{phase}") for v in ("n", "o", "y", "x", "j"))
        channel = o * block + j + phase * stride
        at = (channel // held, y + (y0 + top) // sy, x + (x0 + left) // sx, channel % held)
        value = x_in[(n, *at)]
        move = Assign.to(f"move.{phase}", y_out[n, o, y * sy + y0, x * sx + x0, j], value)
        loops = [(n, batch), (o, blocks), (y, rows), (x, columns), (j, block)]
        moves.append(nest(loops, move))
    return Program(name="int8_interleave", parameters=(x_in, y_out), body=seq(*moves))


def channel_places(sources: Sequence[Pair], parts: int) -> list[np.ndarray]:
    """The tables of `int8_channels`: for each of `parts` inputs int64 [2, count], channel numbers in the output and in
    the input.

    Output channel c is channel `sources`[c][1] of part `sources`[c][0]."""
    return [
        np.array([(to, channel) for to, (of, channel) in enumerate(sources) if of == part], np.int64)
        .reshape(-1, 2)
        .T.copy()
        for part in range(parts)
    ]

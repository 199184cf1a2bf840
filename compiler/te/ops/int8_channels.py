"""Moves of channels of quantized tensors, and functions of one tensor as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...ir.expr import Buffer, Const, Expr, Var, cast, maximum, minimum
from ...ir.stmt import Assign, Program, Stmt, nest, seq
from ...ir.types import DType
from ..blocks import Pair, ceil_div
from ..merge import Shape


def int8_table(*, size: int, name: str = "int8_table") -> Program:
    """Y = T[X]: parameters uint8 X [size], T [256], Y [size]; loop i around "map"."""
    x, t, y = (
        Buffer(name=n, shape=(s,), dtype=DType.UINT8) for n, s in (("X", size), ("T", 256), ("Y", size))
    )
    i = Var("i")
    look = Assign(name="map", buffer=y, indices=(i,), value=t[cast(x[i], DType.INT64)])
    return Program(name=name, parameters=(x, t, y), body=nest([(i, size)], look))


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A tensor in blocks of channels: `blocks` blocks of `block` channels."""

    blocks: int
    block: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run: `blocks` blocks of the output from `first` on equal the blocks of part `part` from `source` on."""

    first: int
    blocks: int
    part: int
    source: int


def whole_runs(
    sources: Sequence[Pair], channels: Sequence[int], blocks: Sequence[int], block: int
) -> tuple[Run, ...] | None:
    """The runs of whole blocks of an output in blocks of `block`, whose channel c is channel `sources`[c][1] of part
    `sources`[c][0]; None if it is not made of whole blocks.

    `channels` and `blocks`: those of the parts. Lanes beyond the channels of a last block are zero everywhere.
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


def int8_blocks(
    *,
    batch: int,
    plane: int,
    parts: Sequence[Part],
    runs: Sequence[Run],
    name: str = "int8_blocks",
) -> Program:
    """Y = blocks of the parts: parameters uint8 X0, X1, … [batch, blocks, plane * block] and Y alike.

    Loops n.i, o.i, d.i around "move.i" for each run.
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
        move = Assign(
            name=f"move.{i}",
            buffer=y,
            indices=(n, o + run.first, d),
            value=inputs[run.part][n, o + run.source, d],
        )
        moves.append(nest([(n, batch), (o, run.blocks), (d, width)], move))
    return Program(name=name, parameters=(*inputs, y), body=seq(*moves))


def int8_channels(
    *,
    batch: int,
    plane: int,
    parts: Sequence[Part],
    counts: Sequence[int],
    channels: int,
    block: int,
    name: str = "int8_channels",
) -> Program:
    """Y takes `counts`[i] channels of part i, one by one.

    Parameters uint8 X0, X1, … [batch, blocks, plane, block], int64 I0, I1, … [2, count] (the places of channels in the
    output and in the part), uint8 Y [batch, ceil(channels / block), plane, block], zero beyond the channels. Loops n.i,
    c.i, p.i around "move.i" for each part, and n, p, j around "fill".
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
        move = Assign(name=f"move.{i}", buffer=y, indices=(n, to[0], p, to[1]), value=x[n, of[0], p, of[1]])
        moves.append(nest([(n, batch), (c, count), (p, plane)], move))
        parameters += [x, table]
    if channels % block:
        n, p, j = Var("n"), Var("p"), Var("j")
        at = (n, Const(blocks - 1), p, j + channels % block)
        fill = Assign(name="fill", buffer=y, indices=at, value=Const(0, DType.UINT8))
        moves.append(nest([(n, batch), (p, plane), (j, -channels % block)], fill))
    return Program(name=name, parameters=(*parameters, y), body=seq(*moves))


def _place(channel: Expr, blocks: int, block: int) -> tuple[Expr, Expr]:
    """Block and lane of a channel number from a table, clamped to the tensor."""
    inside = minimum(maximum(channel, 0), blocks * block - 1)
    return inside // block, inside % block


def int8_interleave(
    data: Shape, result: Shape, *, factors: Pair, before: Pair, stride: int, name: str = "int8_interleave"
) -> Program:
    """Y[n, c, y, x] = X[n, phase * stride + c, (y + top) // sy, (x + left) // sx], see `graph.Interleave`.

    Parameters uint8 X of shape `data` [batch, blocks, height, width, block] and Y of shape `result`, which has as many
    dimensions. A nest of loops n, o, y, x, j with the phase behind their names around "move" for each phase.
    """
    (sy, sx), (top, left) = factors, before
    x_in, y_out = (
        Buffer(name=n, shape=shape, dtype=DType.UINT8) for n, shape in (("X", data), ("Y", result))
    )
    batch, blocks, oh, ow, block = result
    held = data[-1]
    moves: list[Stmt] = []
    for phase in range(sy * sx):
        # The first row and column of the phase.
        y0, x0 = (phase // sx - top) % sy, (phase % sx - left) % sx
        rows, columns = ceil_div(oh - y0, sy), ceil_div(ow - x0, sx)
        if rows < 1 or columns < 1:
            continue
        n, o, y, x, j = (Var(f"{v}.{phase}") for v in ("n", "o", "y", "x", "j"))
        channel = o * block + j + phase * stride
        value = x_in[
            n,
            channel // held,
            y + (y0 + top) // sy,
            x + (x0 + left) // sx,
            channel % held,
        ]
        move = Assign(
            name=f"move.{phase}", buffer=y_out, indices=(n, o, y * sy + y0, x * sx + x0, j), value=value
        )
        loops = [(n, batch), (o, blocks), (y, rows), (x, columns), (j, block)]
        moves.append(nest(loops, move))
    return Program(name=name, parameters=(x_in, y_out), body=seq(*moves))


def channel_places(sources: Sequence[Pair], parts: int) -> list[np.ndarray]:
    """For each part int64 [2, count]: the places of its channels in the output, and in the part."""
    return [
        np.array([(to, channel) for to, (of, channel) in enumerate(sources) if of == part], np.int64)
        .reshape(-1, 2)
        .T.copy()
        for part in range(parts)
    ]

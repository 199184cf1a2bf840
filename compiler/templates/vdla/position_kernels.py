"""Kernels that move positions (row, column) of a tensor (for slices, pads and repeated rows), or interpolate between
neighbouring positions.

One store copies a rectangle of positions with equal steps in source and output. Interpolation is a depthwise
convolution for each set of weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from vdla.isa.config import Config

from ...graph.errors import node_error
from ...graph.graph import Node
from ...graph.int8_convolution import Int8Convolution
from ...graph.int8_operators import Positions, Resample
from ...graph.position_boxes import Box, Steps, boxes_of
from ...ir.limits import MOST_RUNS
from ...te.blocks import Blocks, Pair, Window
from ...te.ops.common import Spread
from ...te.post import PLAIN, Post
from .convolution_parts import part_kernel
from .pool import ELEMENTWISE
from .pool_kernels import channels_of_vectors, kernels_of_vectors
from .template import Details, Kernel, Source, byte_of, identity_parameters
from .workload import windowed

if TYPE_CHECKING:
    from .legalize import Legalized


def position_kernels(config: Config, legalized: Legalized, node: Node, operator: Positions) -> list[Kernel]:
    """Kernels that copy rectangles of positions with equal steps; together they cover the output of each image. The
    copied channels (`operator.channels`) must begin at a block boundary.

    Raises NodeError for several images on a machine with `batch` > 1, where the vectors of images alternate in memory,
    and for too many kernels.
    """
    graph = legalized.graph
    if config.batch > 1 and max(graph.tensors[name].nchw[0] for name in (*node.inputs, node.output)) > 1:
        raise node_error(
            f"configuration {config.name}",
            node.members[0],
            node.kind,
            f"moves positions of several images, which is not supported with batch = {config.batch}",
            "set batch to 1 in the configuration",
        )
    shape = graph.tensors[node.output].nchw
    # For each image of each input: (input name, number of the image, positions of its plane).
    images = [
        (name, image, height * width)
        for name in node.inputs
        for batch, _, height, width in (graph.tensors[name].nchw,)
        for image in range(batch)
    ]
    ends = np.cumsum([plane for _, _, plane in images])
    # Images are numbered so far apart that no equal steps lead from one to another.
    apart = 4 * max(plane for _, _, plane in images)
    first = 0 if operator.channels is None else operator.channels[0]
    kernels: list[Kernel] = []
    for image, index in enumerate(operator.index):
        of = np.searchsorted(ends, index, side="right")
        inside = index - np.concatenate([[0], ends])[of]
        for box in boxes_of(np.where(index < 0, -1, of * apart + inside), apart // 2):
            post, source = PLAIN, box.source
            if source is None:
                if operator.fill is None:
                    continue
                post, source = Post(low=operator.fill, high=operator.fill), Steps(start=0, down=0, along=0)
            which, start = divmod(source.start, apart)
            part, number, plane = images[which]
            there = graph.tensors[part].nchw
            for lines in _lines(box, source, start, (shape[2] * shape[3], plane)):
                at, to = lines.source.start, lines.output.start
                offsets = {
                    "X": byte_of(config, there, image=number, channel=first, position=at),
                    "Y": byte_of(config, shape, image=image, position=to),
                }
                kernels += _copies(config, node, part, shape[1], post, lines, offsets)
                _check_count(config, node, kernels)
    return kernels


def _check_count(config: Config, node: Node, kernels: Sequence[Kernel]) -> None:
    if len(kernels) > MOST_RUNS:
        raise node_error(
            f"configuration {config.name}",
            node.members[0],
            node.kind,
            f"moves more than {MOST_RUNS:,} pieces, each of which needs a kernel",
            "export the model for smaller inputs",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """One side (source or output) of a copy: its first position in the plane, and the strides of the copy's rows and
    columns in the plane (`spread`).
    """

    start: int
    spread: Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copy:
    """A copy of `rows` x `columns` positions from one plane to another."""

    rows: int
    columns: int
    source: _Side
    output: _Side


def _lines(box: Box, source: Steps, start: int, planes: tuple[int, int]) -> Iterator[_Copy]:
    """Converts a rectangle of positions into one copy or, if one copy cannot have the rectangle's steps (`_spread`),
    into one copy for each of its rows.

    `start`: first source position in the source's plane; `planes`: positions of an output and of a source plane.
    """
    size, of = planes
    count = (box.rows, box.columns)
    there, here = _spread(box.output, count, size), _spread(source, count, of)
    # Loads can read only whole rows and columns of a plane, no strided ones.
    parts = [(0, box.rows, there, here)]
    if there is None or here is None or here.pitch:
        alone = [Spread(plane=(1, n), steps=(1, s.along)) for n, s in ((size, box.output), (of, source))]
        parts = [(row, 1, *alone) for row in range(box.rows)]
    for row, rows, there, here in parts:
        assert there is not None and here is not None
        yield _Copy(
            rows=rows,
            columns=box.columns,
            output=_Side(start=box.output.start + row * box.output.down, spread=there),
            source=_Side(start=start + row * source.down, spread=here),
        )


def _spread(steps: Steps, count: Pair, plane: int) -> Spread | None:
    """The row and column strides of `count` (rows, columns) positions in an image plane of `plane` positions, if the
    distance from row to row is `steps.down` positions and from column to column `steps.along`. None if a distance is
    negative, or if rows would overlap.
    """
    (rows, columns), down = count, steps.down if count[0] > 1 else 0
    reach = (columns - 1) * steps.along + 1
    if steps.along < 0 or down < 0:
        return None
    if down == 0:
        return Spread(plane=(1, plane), steps=(0, steps.along))
    if down < reach:
        return None
    if plane % down or rows > plane // down:
        return Spread(plane=(1, plane), steps=(0, steps.along), pitch=down)
    return Spread(plane=(plane // down, down), steps=(1, steps.along))


def _copies(
    config: Config,
    node: Node,
    source: str,
    channels: int,
    post: Post,
    part: _Copy,
    offsets: Mapping[str, int],
) -> list[Kernel]:
    """The kernels that copy one rectangle of positions, `part`: one kernel for each output vector of a block of
    channels. `source`: name of the input tensor. `offsets`: bytes of the first copied position in the input ("X") and
    in the output ("Y"). `post`: post-processing of the copied values.
    """
    mine = channels_of_vectors(config, channels)
    (plane, (down, along)) = part.source.spread.plane, part.source.spread.steps
    # Number of rows and columns that are loaded; a step of 0 loads one and reads it repeatedly.
    sizes = [
        (n - 1) * max(step, 1) + 1 for n, step in zip((part.rows, part.columns), (down, along), strict=True)
    ]
    workload = windowed(
        ELEMENTWISE.name,
        (1, mine, sizes[0], sizes[1]),
        mine,
        Window(kernel=(1, 1), strides=(max(down, 1), max(along, 1))),
    )
    whole = replace(workload, height=plane[0], width=plane[1])
    details = Details(
        post=post,
        apart=Blocks.of(config).outputs,
        area=(0, 0, part.rows, part.columns),
        taken=(down, along),
        spread=part.output.spread,
        name=node.name,
    )
    kernel = Kernel(
        workload=workload,
        source=Source(workload=whole, details=details),
        tensors={"X": source, "Y": node.output},
        constants={"P": identity_parameters(config, mine, 0)},
        recorded=False,
        offsets=offsets,
    )
    return kernels_of_vectors(config, kernel)


def resample_kernels(config: Config, legalized: Legalized, node: Node, operator: Resample) -> list[Kernel]:
    """The kernels of a linear interpolation along rows or columns: one for each run of outputs that have the same
    weights and are equal steps apart.
    """
    graph = legalized.graph
    channels, plane = graph.tensors[node.inputs[0]].nchw[1], graph.tensors[node.output].nchw[2:]
    height, width = graph.tensors[node.inputs[0]].nchw[2:]
    kernels: list[Kernel] = []
    for weights in np.unique(operator.weight, axis=0):
        places = np.flatnonzero((operator.weight == weights).all(axis=1))
        used = np.flatnonzero(weights)
        own = weights[used[0] : used[-1] + 1]
        for first, count, step, start, by in _steps(places, operator.first[places] + used[0]):
            along = operator.axis == 1
            kernel = (1, len(own)) if along else (len(own), 1)
            convolution = Int8Convolution(
                weight=np.broadcast_to(own.reshape(1, 1, *kernel), (channels, 1, *kernel)).copy(),
                bias=np.full(channels, operator.bias, np.int32),
                scale=np.full(channels, operator.scale, np.float32),
                window=Window(kernel=kernel, strides=(1, by) if along else (by, 1)),
                pad_value=0,
                post=operator.post,
                groups=channels,
            )
            area = (0, 0, height, count) if along else (0, 0, count, width)
            spread = Spread(plane=plane, steps=(1, step) if along else (step, 1))
            starts = {"X": start * (1 if along else width), "Y": first * (1 if along else plane[1])}
            kernels.append(part_kernel(config, graph, node, convolution, area, spread, starts))
            _check_count(config, node, kernels)
    return kernels


def _steps(places: np.ndarray, sources: np.ndarray) -> Iterator[tuple[int, int, int, int, int]]:
    """Groups outputs of an interpolation along an axis into runs. In a run, the outputs are a constant step apart, and
    so are their sources. Yields (first output, number of outputs, step of outputs, first source, step of sources) of
    each run.

    `places`: indices of the outputs along the axis. `sources`: for each output, the index of its source. Only positive
    steps of sources form a run.
    """
    start = 0
    while start < len(places):
        end, step, by = start + 1, 1, 1
        if end < len(places) and sources[end] > sources[start]:
            step, by = int(places[end] - places[start]), int(sources[end] - sources[start])
            while end < len(places) and (
                (places[end] - places[end - 1], sources[end] - sources[end - 1]) == (step, by)
            ):
                end += 1
        yield int(places[start]), end - start, step, int(sources[start]), by
        start = end

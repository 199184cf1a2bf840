"""Quantities of a machine and its networks, computed without compiling, from which surrogate models predict figures.

Computing them takes several microseconds a layer. They are features of learned models, not bounds or estimates for
users.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.graph.cost import as_convolution, convolution_shape, count_macs
from vdla.compiler.graph.graph import Graph
from vdla.compiler.graph.int8_convolution import Int8Convolution
from vdla.compiler.graph.traffic import input_bytes
from vdla.isa.config import Config
from vdla.isa.timing import bus_cycles

from .networks import Network

Floats = NDArray[np.float64]
QUANTITIES = (
    "array cycles",
    "bus cycles",
    "store cycles",
    "longest of the three by layer",
    "bytes moved",
    "products of whole blocks",
    "multiplies a cycle",
    "bus bytes a multiply, times 4096",
    "input vectors held",
    "weight tiles held",
    "accumulator vectors held",
    "scratchpad bytes",
    "queue and FIFO bytes",
)
"""Names of the quantities, in the order in which `quantities` returns their base-2 logarithms."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layers:
    """The layers of one or several networks as columns: each attribute is an array with one element for each layer.

    Sizes of a layer: `outputs` is the number of output channels, `pixels` the number of output pixels, `read` the
    number of input elements, and `weights` the number of weights. Each output element is a sum of `depth` x `window`
    products: `depth` is the number of input channels, and `window` the number of elements of the kernel window.

    `spread` is False for a depthwise layer, whose output channels each read one of several input channels, so that
    `depth` is 1; it is True for all others. A layer without products has `depth` 0 and no `weights`. `weight`: the
    weight of the layer's network in sums over networks.
    """

    depth: Floats
    window: Floats
    outputs: Floats
    pixels: Floats
    read: Floats
    weights: Floats
    spread: NDArray[np.bool_]
    weight: Floats


def layers_of_networks(networks: Sequence[Network]) -> Layers:
    """The layers of all networks, one after the other."""
    rows = [(*row, network.weight) for network in networks for row in _rows(network.graph)]
    columns = np.array(rows, float).T
    depth, window, outputs, pixels, read, weights, spread, weight = columns
    return Layers(
        depth=depth,
        window=window,
        outputs=outputs,
        pixels=pixels,
        read=read,
        weights=weights,
        spread=spread.astype(bool),
        weight=weight,
    )


def _rows(graph: Graph) -> list[tuple[float, ...]]:
    found: list[tuple[float, ...]] = []
    for node in map(as_convolution, graph.nodes):
        read = sum(prod(graph.tensors[name].shape) for name in node.inputs if name in graph.tensors)
        match node.operator:
            case Int8Convolution(weight=weight) as operator:
                batch, outputs, height, width = convolution_shape(graph, node, operator)
                macs, pixels = count_macs(graph, node), batch * height * width
                window = weight.shape[-1] * weight.shape[-2] if weight.ndim == 4 else 1
                depth = macs / max(1, pixels * outputs * window)
                first = input_bytes(graph, node)
                channels = graph.tensors[node.inputs[0]].nchw[1]
                found.append((depth, window, outputs, pixels, first, weight.size, depth > 1 or channels == 1))
            case _:
                _, channels, height, width = graph.tensors[node.output].nchw
                found.append((0, 1, channels, height * width, read, 0, True))
    return found


def _products(machine: Config, layers: Layers) -> Floats:
    """For each layer, [layers]: the number of vector products (instructions of the array) that compute all output
    channels of one pixel. An array with the extension `fold` can take several shapes; the best shape counts.
    """
    groups = [1 << shape for shape in range(machine.tile_parts.bit_length())]
    found = [
        np.ceil(layers.depth / (machine.block_in // count))
        * np.ceil(layers.outputs / (machine.columns * count))
        for count in groups
    ]
    return np.min(found, axis=0)


def quantities(machine: Config, layers: Layers) -> list[float]:
    """The base-2 logarithms of the `QUANTITIES` of a machine, in their order."""
    rows, columns, batch = machine.block_in, machine.block_out, machine.batch
    blocks_in, blocks_out = np.ceil(layers.depth / rows), np.ceil(layers.outputs / columns)
    steps = np.ceil(layers.pixels / batch)
    array = np.where(layers.spread, _products(machine, layers), blocks_out) * layers.window * steps
    array = np.where(layers.depth > 0, array, 0)
    store = blocks_out * steps * machine.post_passes
    written = blocks_out * columns * layers.pixels
    read = layers.read * np.where(layers.depth > 0, blocks_in * rows / np.maximum(layers.depth, 1), 1)
    weights = np.where(
        layers.spread, blocks_in * blocks_out * layers.window * machine.whole_tile_bytes, layers.weights
    )
    weights = np.where(layers.depth > 0, weights, 0)
    # Half of a scratchpad is in use while the other half is filled. Either the weights stay and inputs are loaded
    # again, or the reverse; sums that do not fit make tiles of both.
    tiles = np.ceil(written * 4 / (machine.acc_buffer_bytes / 2))
    again_read = np.minimum(tiles, np.ceil(weights / (machine.wgt_buffer_bytes / 2)))
    again_weights = np.minimum(tiles, np.ceil(read / (machine.inp_buffer_bytes / 2)))
    loaded = np.minimum(
        read * np.maximum(again_read, 1) + weights, read + weights * np.maximum(again_weights, 1)
    )
    moved = written + loaded
    bus = bus_cycles(machine, loaded, written) / machine.memory.bus_bytes
    longest = np.maximum(np.maximum(array, store), bus)
    scratchpads = sum(getattr(machine, f"{kind}_buffer_bytes") for kind in ("uop", "inp", "wgt", "acc"))
    peak = machine.multiplies_per_cycle
    found = [
        float(layers.weight @ array),
        float(layers.weight @ bus),
        float(layers.weight @ store),
        float(layers.weight @ longest),
        float(layers.weight @ moved),
        float(layers.weight @ array) * peak,
        peak,
        4096 * machine.memory.bus_bytes / peak,
        machine.inp_depth,
        machine.whole_tiles,
        machine.acc_depth,
        scratchpads,
        sum(machine.extra_storage.values()),
    ]
    return [float(np.log2(max(value, 1.0))) for value in found]

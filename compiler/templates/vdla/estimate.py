"""The estimate common to the accelerator's cost models: cycles of a tiled layer, from the work of its units and
buffers.

Constants of the timing contract (hw/README.md) come from `vdla.isa.timing` and the configuration; effects without a
closed form are the constants of `Fitted`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from types import MappingProxyType

import numpy as np

from vdla.isa.config import Config
from vdla.isa.timing import (
    AXI_BOUNDARY,
    BEGIN_DELAY,
    FIFO_LATENCY,
    PRODUCT_CYCLES,
    READ_BURST_BEATS,
    REQUEST_DELAY,
    REQUEST_GAP,
    STEP_LATENCY,
    STORES_IN_FLIGHT,
    WRITE_DELAY,
    post_latency,
)

from ...codegen.vdla.machine import scratchpad_depths
from ..columns import ESTIMATE, Columns, Deferred
from ..space import Axis, CostEstimates
from .features import features
from .tiles import ALWAYS, Tiles, most_instructions
from .workload import LayerShape


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """Constants of the estimate that no rule determines, fitted to simulated cycles.

    `benchmarks/cost_model_vdla.py` fits them to random legal points (settings of the knobs) for layers of published
    networks on several machines. Each layer runs alone. benchmarks/results/cost_model_vdla.json has the errors. If
    tiles are equally fast alone, `traffic` favours tiles with few bus beats: neighbouring layers share the bus.
    """

    sharpness: float = 12.0
    """Exponent of the norm that combines the cycles of concurrent units; at infinity the busiest unit counts alone."""
    step: float = 4.0
    """Cycles that the array's instructions add to each step of a reduction, beyond its products."""
    restart: float = 0.5
    """Share of the memory latency that each load of a fill, except the first load, adds; loads partly overlap."""
    last_store: float = 0.5
    """Share of one tile's store cycles that no other work hides, at the end of a layer."""
    head_start: float = 0.5
    """Delay of a fill, as a share of the time between two fills of any other buffer that is filled more often."""
    first_inputs: float = 0.3
    """Relative increase of the first input fill's exposed cycles: the preceding layer has yet to store the input."""
    traffic: float = 0.01
    """Cycles added for each cycle of the bus, whether or not other work hides it."""


LOAD_LATENCY = REQUEST_DELAY + FIFO_LATENCY + STEP_LATENCY
"""Fixed cycles of a load, without the memory's latency and the transfer of the data."""

FITTED = Fitted()
NO_COLUMNS: Columns = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BufferFill:
    """Fills of one on-chip buffer at many points of a search space, as arrays.

    `size`: elements of the buffer. `fills`: number of fills. `beats`: bus beats of all fills. `copies`: copies of the
    buffer in use. `exposed`: cycles of one fill if no other work hides it, as for the first fill. `loads`: instructions
    of all fills.
    """

    size: np.ndarray
    fills: np.ndarray
    beats: np.ndarray
    copies: np.ndarray
    exposed: np.ndarray
    loads: np.ndarray

    @property
    def loading(self) -> np.ndarray:
        """Cycles that the load unit takes for all fills."""
        return self.fills * self.exposed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TiledWork:
    """Work of the machine's units at many points (settings of the knobs): cycles of each unit alone, instructions,
    buffers.

    `compute`: lower bound on the computing unit's cycles. `traffic`: bus cycles. `loading`, `storing`: cycles of load
    unit and store unit. Array and store unit share `sums_copies` copies of the sums; the array may overwrite a copy
    `store_latency` cycles after its accumulators have been read. `last_beats`: beats of one tile's outputs.
    """

    tiles: Tiles
    buffers: Mapping[str, BufferFill]
    compute: float | np.ndarray
    traffic: np.ndarray
    loading: np.ndarray
    storing: np.ndarray
    store_latency: float
    sums_copies: np.ndarray
    instructions: np.ndarray
    last_beats: np.ndarray

    def quantities(self, config: Config, fitted: Fitted, more: Columns = NO_COLUMNS) -> Columns:
        """Columns for points (settings of the knobs): the estimated cycles, under ESTIMATE, and the features of a
        learned cost model, which include `more`.
        """
        return Deferred(lambda: features(self, more), {ESTIMATE: self.cycles(config, fitted)})

    def cycles(self, config: Config, fitted: Fitted) -> np.ndarray:
        """Estimated cycles of the layer."""
        # A copy of the sums is filled, read, and then free again.
        turns = self.compute + self.storing + self.tiles.count * self.store_latency
        units = self.compute, self.loading, self.storing, self.traffic, turns / self.sums_copies
        busy = together(fitted.sharpness, *units)
        restarts = sum(buffer.loads - buffer.fills for buffer in self.buffers.values())
        busy = busy + fitted.restart * config.memory.read_latency * restarts
        return busy + self._waits(fitted) + fitted.traffic * self.traffic

    def _waits(self, fitted: Fitted) -> np.ndarray:
        """Cycles in which the busiest unit waits: for fills that begin too late, and at the layer's beginning and end.

        A fill begins once one of the buffer's copies is free. Loads keep the program's order, so the lead of a fill
        (the time between its earliest begin and the first use of its data) is also limited by the copies of every
        buffer that is filled more often. If a fill takes longer than its lead, the difference is a wait. Nothing hides
        the first fills and a part of the last store.
        """
        buffers, compute = self.buffers, self.compute
        others = sum(buffer.loading for name, buffer in buffers.items() if name != "data")
        waits = fitted.last_store * self.storing / self.tiles.count + fitted.step * self.tiles.steps
        for name, buffer in buffers.items():
            taken = self.loading - others if name == "data" else buffer.loading
            lead = (buffer.copies - 1) * compute / buffer.fills
            for other in buffers.values():
                ahead = (other.copies - fitted.head_start) * compute / other.fills
                lead = np.where(other.fills > buffer.fills, np.minimum(lead, ahead), lead)
            exposed = buffer.exposed * (1 + fitted.first_inputs if name == "data" else 1)
            waits = waits + (buffer.fills - 1) * np.maximum(0.0, taken / buffer.fills - lead) + exposed
        return waits + self.store_latency


def together(sharpness: float, *units: float | np.ndarray) -> np.ndarray:
    """Cycles of concurrent units: the norm with exponent `sharpness` of the cycles of each unit alone.

    The norm exceeds the maximum if several units are almost equally busy, because they sometimes wait for one another.
    """
    busiest = reduce(np.maximum, units, np.asarray(1.0))
    total = reduce(np.add, [(unit / busiest) ** sharpness for unit in units])
    return busiest * total ** (1 / sharpness)


def fits(config: Config, scope: str, size: np.ndarray, copies: np.ndarray) -> np.ndarray:
    """Whether `copies` of `size` elements fit scratchpad `scope`: bool; several accumulator copies take whole banks."""
    depth = scratchpad_depths(config)[scope]
    if scope == "acc":
        size = np.where(copies > 1, -(-size // config.acc_bank_depth) * config.acc_bank_depth, size)
    return size * copies <= depth


def transfer_cycles(config: Config, beats: np.ndarray, runs: np.ndarray) -> np.ndarray:
    """Cycles to read `beats` from `runs` contiguous runs of DRAM: the bus's cycles, or, if longer, the bursts' latency
    divided by the number of outstanding reads.

    A run is cut into bursts of at most READ_BURST_BEATS beats, and at multiples of AXI_BOUNDARY.
    """
    memory = config.memory
    bursts = runs * np.ceil(beats / runs / READ_BURST_BEATS) + beats * memory.bus_bytes / AXI_BOUNDARY
    waiting = (bursts * memory.read_latency + beats) / memory.outstanding_reads
    return np.maximum(beats, waiting)


def store_reads(config: Config, vectors: np.ndarray, window: int = 1) -> np.ndarray:
    """Cycles in which STORE.POST reads `vectors` windows of `window` accumulator vectors each. A window takes at least
    one cycle for each pass of post-processing (`post_passes`).
    """
    return vectors * max(window, config.post_passes)


def store_cycles(
    config: Config, tiles: Tiles, stores: np.ndarray, reads: np.ndarray, shape: LayerShape
) -> np.ndarray:
    """Cycles of the store unit for `stores` STORE.POST instructions, which read accumulators in `reads` cycles.

    The result is the largest of three: `reads`, the bus, and the latency of bursts; plus cycles for each instruction.
    If a tile is narrower than the output, each of its rows is a burst. If not all vectors of a block are stored, each
    position is a burst. Instructions with operands add their whole latency, because each waits for the end of the one
    before it and for its first operand; other instructions overlap and add a few cycles.
    """
    memory, beyond = config.memory, vector_store_latency(config, shape)
    narrow = shape.images * shape.output_blocks * shape.out_height * tiles.trips["x"]
    bursts = np.where(tiles.trips["x"] == 1, stores, np.maximum(stores, narrow))
    if shape.filters % shape.vectors and not shape.kept:
        apart = shape.images * shape.out_height * shape.out_width
        bursts = bursts + apart
        reads = np.maximum(reads, REQUEST_GAP * apart)
    beats = shape.bus_cycles(config)
    busy = np.maximum(reads, beats)
    if not shape.kept:
        busy = np.maximum(busy, (bursts * memory.write_latency + beats) / memory.outstanding_writes)
    if shape.operand:
        busy = np.maximum(busy, transfer_cycles(config, np.asarray(beats), bursts))
        return stores * (beyond + memory.read_latency) + busy
    between = max(1 + BEGIN_DELAY, 0 if shape.kept else WRITE_DELAY + PRODUCT_CYCLES + 1)
    return np.maximum(busy + stores * between, stores * beyond / STORES_IN_FLIGHT)


def store_latency(config: Config, shape: LayerShape) -> float:
    """Cycles, not included in `store_cycles`, from the last accumulator read of a store to the end of the store."""
    return 0.0 if shape.operand else vector_store_latency(config, shape)


def vector_store_latency(config: Config, shape: LayerShape) -> int:
    """Latency in cycles from the read of a vector to the end of its store: pipeline, FIFO, request and response of its
    burst.

    A vector stored in the chain memory (on-chip memory for tensors between layers) passes through neither FIFO nor bus.
    """
    kept = 0 if shape.kept else FIFO_LATENCY + WRITE_DELAY + config.memory.write_latency
    return post_latency(config) + kept


def array_instructions(
    tiles: Tiles, buffers: Mapping[str, BufferFill], sums_copies: np.ndarray, overwriting: bool
) -> np.ndarray:
    """Number of instructions of the array: one for the products of each step, one for each change of base addresses.

    `buffers`: fills of inputs and weights. `sums_copies`: copies of a tile's accumulators, used in turn. `overwriting`:
    a tile's first step needs one more instruction, which overwrites the accumulators; all others add to them.
    """
    moving = reduce(
        np.logical_or, [(buffer.copies > 1) | (buffer.fills < tiles.steps) for buffer in buffers.values()]
    )
    changes = np.where(moving, tiles.steps, np.where(sums_copies > 1, tiles.count, 1))
    return ALWAYS + tiles.steps + changes + (tiles.count if overwriting else 0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArrayPoints:
    """The work of a layer on the array at many points (settings of the knobs) of its search space.

    `data`, `weights`: fills of the input and weight buffers. `compute`: lower bound on the computing unit's cycles.
    `micro_ops`: number of micro-ops in all micro-op sequences. `limits`: the template's own legality limits. `storing`:
    additional cycles of the store unit, in modes in which this unit may be the busiest (None: no such mode).
    """

    tiles: Tiles
    data: BufferFill
    weights: BufferFill
    compute: float | np.ndarray
    micro_ops: np.ndarray
    limits: Mapping[str, np.ndarray] = field(default_factory=dict)
    storing: np.ndarray | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArrayLayer:
    """A layer as one template computes it on the array: its knobs, and bounds that hold for all their settings.

    `chunks`: axes that cut the reduction. `levels`: innermost loop levels at which data and weights may be filled.
    `products`: lower bound on the array's cycles. `inputs`, `weight_tiles`: least numbers of input vectors and weight
    tiles that a program loads. `data_beats`: lower bound on the bus beats of inputs. `overwriting`: whether a tile
    needs an additional instruction, which overwrites the accumulators in the first step. `points`: the work at many
    points, given by their knob values.
    """

    shape: LayerShape
    chunks: Sequence[Axis] = ()
    levels: tuple[int, int]
    products: float
    inputs: float
    data_beats: float
    weight_tiles: int
    overwriting: bool = True
    points: Callable[[Columns], ArrayPoints]


def array_cost(config: Config, layer: ArrayLayer, values: Columns, fitted: Fitted) -> CostEstimates:
    """Limits, lower bounds, features and estimated cycles of `layer` at the points with the knob values `values`."""
    shape, points = layer.shape, layer.points(values)
    tiles, data, weights = points.tiles, points.data, points.weights
    buffers, sums = {"data": data, "weights": weights}, tiles.sums
    sums_copies = np.minimum(values["sums_copies"], tiles.count)
    instructions = array_instructions(tiles, buffers, sums_copies, layer.overwriting)
    stores = tiles.stores()
    instructions = instructions + stores + data.loads + weights.loads
    instructions = instructions + tiles.parameter_fills(config.par_depth)
    reads = tiles.count * store_reads(config, sums) * shape.share
    storing = store_cycles(config, tiles, stores, reads, shape)
    if points.storing is not None:
        storing = storing + points.storing
    work = TiledWork(
        tiles=tiles,
        buffers=buffers,
        compute=points.compute,
        traffic=shape.bus_cycles(config, data.beats + weights.beats),
        loading=data.loading + weights.loading,
        storing=storing,
        store_latency=store_latency(config, shape),
        sums_copies=sums_copies,
        instructions=instructions,
        last_beats=sums * (1.0 if shape.kept else max(1.0, config.out_bytes / config.memory.bus_bytes)),
    )
    more = {"sums of a tile": sums, "sums copies in use": sums_copies}
    used = {"data_copies": data.copies, "weights_copies": weights.copies, "sums_copies": sums_copies}
    fills = layer.inputs / config.inp_depth + layer.weight_tiles / config.whole_tiles
    most = most_instructions(
        fills + shape.outputs / config.acc_depth,
        shape.images * shape.output_blocks * shape.vectors,
    )

    def effective() -> Columns:
        levels = tiles.effective(values["data_level"], values["weights_level"])
        return {
            **values,
            **levels,
            "data_level": np.maximum(levels["data_level"], layer.levels[0]),
            **used,
        }

    return CostEstimates(
        limits={
            "the input scratchpad": fits(config, "inp", data.size, data.copies),
            "the weight scratchpad": fits(config, "wgt", weights.size, weights.copies),
            "the accumulators": fits(config, "acc", sums, sums_copies),
            "the parameter table": tiles.vectors * tiles.sizes["o"] <= config.par_depth,
            "the micro-op memory": points.micro_ops <= config.uop_depth,
            **points.limits,
        },
        search_limits={"the length of a program": instructions <= most},
        bound=np.maximum(points.compute, work.traffic),
        quantities=work.quantities(config, fitted, more),
        effective=Deferred(effective),
    )

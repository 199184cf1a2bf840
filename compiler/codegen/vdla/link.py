"""Links lowered layers into one program: places tensors in DRAM; emits, orders (by tokens) and encodes instructions."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

import vdla.isa.layout as layout
from vdla.isa.config import Config
from vdla.isa.program import Program, Segment

from ...graph.graph import Graph
from ...graph.layout import Constant, Layout, activation_bytes, pack_operand
from ...graph.memory_plan import Buffer as PlannedBuffer
from ...graph.memory_plan import lifetimes, plan_memory
from ...ir.expr import Buffer
from ...ir.stmt import Program as Kernel
from .emit import Emission, LayerEmitter
from .folds import FoldedWeights, fold_weights
from .machine import DRAM, Batch, array_depths, kernel_fields
from .pads_ahead import pads_ahead
from .placement import (
    ChainBuffer,
    ChainPads,
    DramBuffer,
    MicroOpMemory,
    Place,
    RegisterFile,
    Scratchpads,
    StoreTables,
)
from .program_order import EmissionCache
from .tokens import flags, order, touches

ALIGNMENT = 4096
"""Least alignment of DRAM segments in bytes: AXI bursts never cross a multiple of it."""


def alignment_of(config: Config) -> int:
    """The larger of ALIGNMENT and the bytes of a weight tile; segments begin at multiples of it."""
    return max(ALIGNMENT, config.whole_tile_bytes)


@dataclass(frozen=True, slots=True, eq=False)
class LoweredKernel:
    """A scheduled, lowered kernel. `tensors` and `constants` bind its parameters, by parameter name. `offsets`: bytes
    from the start of a parameter's tensor to the parameter. `key`: programs of kernels with equal keys differ only in
    names (None: no other kernel is known to be equal).
    """

    kernel: Kernel
    tensors: Mapping[str, str]
    constants: Mapping[str, Constant]
    offsets: Mapping[str, int] = field(default_factory=dict[str, int])
    key: Hashable | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LoweredLayer:
    """The kernels of one graph node, which run one after the other."""

    name: str
    kernels: tuple[LoweredKernel, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tensors:
    """The tensors of a legalized `graph`, with the layout of each. `chained`: locations of the tensors that are in the
    chain memory (on-chip memory that keeps a layer's output for the next layer) instead of DRAM. `inside`: for each
    tensor stored within another tensor, (name of the other tensor, byte offset).
    """

    graph: Graph
    layouts: Mapping[str, Layout]
    inside: Mapping[str, tuple[str, int]]
    chained: Mapping[str, ChainBuffer] = field(default_factory=dict[str, ChainBuffer])


@dataclass(frozen=True, slots=True, eq=False)
class Linked:
    """A program and the byte addresses, by name, of its tensors in DRAM."""

    program: Program
    addresses: Mapping[str, int]


@dataclass(slots=True)
class Image:
    """A DRAM image under construction. Segments are aligned to `alignment`; equal constants share a segment."""

    alignment: int
    segments: list[Segment] = field(default_factory=list)
    constants: list[tuple[int, Constant]] = field(default_factory=list)
    size: int = 0
    _known: dict[int, list[tuple[int, Constant]]] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """The byte address at which the next segment begins."""
        return -(-self.size // self.alignment) * self.alignment

    def reserve(self, name: str, kind: str, size: int) -> int:
        """The address of a new segment of `size` bytes, recorded with its `name` and the `kind` of its contents."""
        address = self.end
        self.segments.append(Segment(name=name, kind=kind, address=address, size=size))
        self.size = address + size
        return address

    def constant(self, name: str, constant: Constant, size: int) -> int:
        """The address of a constant of `size` bytes. Adds it to the image as `name` unless an equal one is there."""
        alike = self._known.setdefault(size, [])
        for address, known in alike:
            if constant.same(known):
                return address
        address = self.reserve(name, "constant", size)
        alike.append((address, constant))
        self.constants.append((address, constant))
        return address

    def begin(self, config: Config, activations: tuple[int, int]) -> Emission:
        """Returns a program that only loads micro-ops. These will be placed in the image behind all segments reserved
        so far. `activations`: the byte range of DRAM that the program's stores write.
        """
        emission = Emission(
            config=kernel_fields(config),
            micro_ops=MicroOpMemory(config.uop_depth, layout.uop_dtype(config)),
            scratchpads=Scratchpads(config),
            registers=RegisterFile(),
            tables=StoreTables(config),
            pads=ChainPads(),
            activations=activations,
            granule=config.out_bytes,
            uop_address=self.end,
        )
        emission.start(0)
        return emission

    def finish(self, emission: Emission, group: int, *, data: bool = True) -> np.ndarray:
        """Completes a program by FINISH, which belongs to layer `group`, and returns the memory image, uint8.

        Without `data` the image has zeros in place of constants.
        """
        emission.finish(group)
        pages = range(len(emission.micro_ops.pages))
        micro_ops = np.concatenate([emission.micro_ops.contents(page) for page in pages])
        contents = [(self.reserve("micro-ops", "uop", micro_ops.nbytes), micro_ops)]
        if data:
            contents += [(address, item.packed(emission.config)) for address, item in self.constants]
        memory = np.zeros(self.size, dtype=np.uint8)
        for address, values in contents:
            place = memory[address : address + values.nbytes].view(values.dtype)
            place.reshape(values.shape)[...] = values
        return memory


def link(
    config: Config,
    tensors: Tensors,
    layers: Sequence[LoweredLayer],
    *,
    data: bool = True,
    emission_cache: EmissionCache | None = None,
    image: Image | None = None,
) -> Linked:
    """The program that runs `layers` in order. Without `data` its image has zeros in place of all constants.

    `tensors`: the tensors of the network. `emission_cache`: cache of emitted instructions, read and extended. `image`:
    an empty image to which segments are added (None: a new `Image`).
    """
    image = image or Image(alignment_of(config))
    addresses: dict[tuple[str, int, str], int] = {}
    layers, folded = (layers, {}) if config.tile_parts == 1 else fold_weights(config, layers)
    for layer in layers:
        for k, kernel in enumerate(layer.kernels):
            sizes = {buffer.name: buffer_bytes(buffer) for buffer in kernel.kernel.parameters}
            for name, constant in kernel.constants.items():
                addresses[layer.name, k, name] = image.constant(
                    f"{layer.name}.{k}.{name}", constant, sizes[name]
                )
    as_weights = any("W" in kernel.tensors for layer in layers for kernel in layer.kernels)
    placed, chained = _place_tensors(config, tensors, image, as_weights=as_weights), tensors.chained
    emission = image.begin(config, (placed.low, placed.high))
    ahead = pads_ahead(tensors.graph, layers, chained) if chained else [()] * len(layers)
    for group, layer in enumerate(layers):
        all_places: list[dict[str, Place]] = []
        for k, kernel in enumerate(layer.kernels):
            places: dict[str, Place] = {
                name: DramBuffer(addresses[layer.name, k, name], False) for name in kernel.constants
            }
            for name, tensor in kernel.tensors.items():
                places[name] = chained.get(tensor) or DramBuffer(
                    placed.addresses[tensor] + kernel.offsets.get(name, 0), True
                )
            all_places.append(places)
        weights = [folded.get((group, k)) for k in range(len(layer.kernels))]
        for first, end in _alike(layer.kernels, all_places, weights):
            kernel = layer.kernels[first]
            early = ahead[group] if end == len(layer.kernels) else ()
            emitter = LayerEmitter(
                emission, kernel.kernel, all_places[first:end], group, early, weights[first]
            )
            emitter.run(emission_cache, kernel.key)
    memory = image.finish(emission, max(len(layers) - 1, 0), data=data)
    program = Program(
        config=config,
        instructions=encode(config, emission),
        image=memory,
        segments=tuple(image.segments),
        groups=tuple(layer.name for layer in layers),
        group_of=_groups(emission),
    )
    return Linked(program, placed.addresses)


def _alike(
    kernels: Sequence[LoweredKernel],
    places: Sequence[Mapping[str, Place]],
    weights: Sequence[FoldedWeights | None],
) -> Iterator[tuple[int, int]]:
    """Yields (first, end) of each run of consecutive kernels that differ only in DRAM addresses; `end` is exclusive.
    `places`, `weights`: for each kernel the locations of its parameters and the folding of its weights.
    """

    def kind(number: int) -> Hashable | None:
        of = places[number]
        if kernels[number].key is None or any(isinstance(place, ChainBuffer) for place in of.values()):
            return None
        activations = frozenset(
            name for name, place in of.items() if isinstance(place, DramBuffer) and place.activation
        )
        folded = weights[number]
        return (kernels[number].key, activations, None if folded is None else folded.key)

    if not kernels:
        return
    first, before = 0, kind(0)
    for end in range(1, len(kernels) + 1):
        own = kind(end) if end < len(kernels) else None
        if own is None or own != before:
            yield first, end
            first, before = end, own


def buffer_bytes(buffer: Buffer) -> int:
    """The number of bytes that a parameter takes in the memory image."""
    return prod(buffer.shape) * buffer.dtype.bits // 8


def _groups(emission: Emission) -> np.ndarray:
    """The layer number of each instruction, int32."""
    groups = np.empty(emission.count, dtype=np.int32)
    for batch in emission.batches:
        groups[batch.numbers] = batch.group
    return groups


def encode(config: Config, emission: Emission) -> np.ndarray:
    """The encoded instructions of a complete program, with dependence flags: uint64 (instructions, words)."""
    batches, count = emission.batches, emission.count
    low, high = emission.activations
    sizes = {**array_depths(config), DRAM: -(-(high - low) // emission.granule) + 1}
    words = np.empty((count, config.instruction_words), dtype=np.uint64)
    by_name: dict[str, list[Batch]] = {}
    for batch in batches:
        by_name.setdefault(batch.name, []).append(batch)
    for name, members in by_name.items():
        fields = _together(members)
        numbers = np.concatenate([batch.numbers for batch in members])
        words[numbers] = layout.encode_many(config, name, fields, len(numbers))
    edges = order(touches(batches, count, sizes), token_queue_depth=config.token_queue_depth)
    words[:, 0] |= flags(edges, count)
    return words


def _together(batches: Sequence[Batch]) -> Mapping[str, int | np.ndarray]:
    """The fields of several batches of one format, concatenated; a field that a batch lacks is 0 there."""
    if len(batches) == 1:
        return batches[0].fields
    keys = dict.fromkeys(key for batch in batches for key in batch.fields)
    fields: dict[str, int | np.ndarray] = {}
    for key in keys:
        columns = [batch.fields.get(key, 0) for batch in batches]
        first = columns[0]
        if isinstance(first, int) and all(isinstance(column, int) and column == first for column in columns):
            fields[key] = first
            continue
        dtype = np.uint64 if key == "value" else np.int64
        parts = [np.empty(len(batch.numbers), dtype=dtype) for batch in batches]
        for part, column in zip(parts, columns, strict=True):
            part[:] = column
        fields[key] = np.concatenate(parts)
    return fields


@dataclass(frozen=True, slots=True)
class _Placed:
    addresses: Mapping[str, int]
    low: int
    high: int


def _place_tensors(config: Config, tensors: Tensors, image: Image, *, as_weights: bool) -> _Placed:
    """Assigns DRAM addresses; returns them and the byte range that stores write. Inputs, outputs and constants have
    segments of their own. All others share an arena, except tensors `inside` another tensor or `chained` (on the chip).

    `as_weights`: some tensors are read as weight tiles, so that they begin at multiples of a tile's size.
    """
    graph, inside, layouts = tensors.graph, tensors.inside, tensors.layouts
    sizes = {
        name: activation_bytes(config, tensor.nchw, layouts[name]) for name, tensor in graph.tensors.items()
    }
    addresses: dict[str, int] = {}
    names: set[str] = set()
    for item in graph.inputs:
        # An input that is quantized in two ways is two tensors with one name.
        name = f"{item.name} as {item.tensor}" if item.name in names else item.name
        names.add(item.name)
        addresses[item.tensor] = image.reserve(f"input {name}", "input", sizes[item.tensor])
    for name, values in graph.constants.items():
        tensor = graph.tensors[name]
        constant = Constant(form=pack_operand, arrays=(values.reshape(tensor.nchw),))
        addresses[name] = image.constant(f"constant {name}", constant, sizes[name])
    low = image.end
    for item in graph.outputs:
        if item.tensor not in addresses:
            addresses[item.tensor] = image.reserve(f"output {item.name}", "output", sizes[item.tensor])

    def root(name: str) -> str:
        while name in inside:
            name = inside[name][0]
        return name

    lives = lifetimes(graph, root)
    buffers = [
        PlannedBuffer(name=name, size=sizes[name], first=first, last=last)
        for name, (first, last) in lives.items()
        if name not in addresses and name not in tensors.chained
    ]
    plan = plan_memory(buffers, alignment=image.alignment if as_weights else ALIGNMENT)
    arena = image.reserve("activations", "activation", plan.size)
    addresses |= {name: arena + offset for name, offset in plan.offsets.items()}
    for name in inside:
        at, offset = name, 0
        while at in inside:
            offset += inside[at][1]
            at = inside[at][0]
        addresses[name] = addresses[at] + offset
    return _Placed(addresses, low, max(image.size, low))

"""Random small quantized networks and machines (accelerator configurations), drawn so that they reach the corner cases
of every template.

`network(seed)` and `machine(seed)` give equal results for equal seeds, on any computer.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from vdla.compiler.graph.geometry import average_divisors, output_plane
from vdla.compiler.graph.graph import (
    Graph,
    GraphInput,
    GraphOutput,
    Node,
    Tensor,
    quantized_tensor,
)
from vdla.compiler.graph.int8_convolution import Int8Convolution, Quantization
from vdla.compiler.graph.int8_operators import (
    Channels,
    Int8AveragePool,
    Int8Elementwise,
    Int8MaxPool,
    Int8Operator,
)
from vdla.compiler.graph.interpret import convolution_sums, evaluate
from vdla.compiler.ir.types import DType
from vdla.compiler.te.blocks import Pads, Pair, Window
from vdla.compiler.te.combination import Combination
from vdla.compiler.te.post import Post
from vdla.isa.config import Config, Memory
from vdla.isa.errors import ConfigError

MOST_WORK = 3_000_000
"""Largest number of multiplications of one convolution of a random network, so that the numpy reference stays fast."""


@dataclass(slots=True)
class NetworkBuilder:
    """A graph under construction, together with the values of a sample run, from which the scales of results are
    chosen.
    """

    random: np.random.Generator
    dtype: str = "int8"
    nodes: list[Node] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    values: dict[str, np.ndarray] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)

    def input(self, *shape: int) -> str:
        """Adds an input of the graph with random integers as sample values; returns its name."""
        name = f"input{len(self.inputs)}"
        self.inputs.append(name)
        self._declare(name, shape, self._integers(-128, 128, shape))
        return name

    def constant(self, *shape: int) -> str:
        """Adds a constant tensor of random integers; returns its name."""
        name = f"constant{len(self.constants)}"
        values = self._integers(-128, 128, shape)
        self._declare(name, shape, values)
        self.constants[name] = values
        return name

    def convolution(
        self,
        data: str,
        filters: int,
        kernel: Pair,
        strides: Pair = (1, 1),
        pads: Pads = (0, 0, 0, 0),
        dilations: Pair = (1, 1),
        groups: int = 1,
        per_channel: bool = True,
    ) -> str:
        """Adds a convolution with random weights, sometimes with clamped results as by a ReLU; returns the name of its
        output.
        """
        shape = self.tensors[data].nchw
        window = Window(kernel=kernel, strides=strides, pads=pads, dilations=dilations)
        weight = self._integers(-127, 128, (filters, shape[1] // groups, *kernel))
        zero_in = self.tensors[data].grid.stored_zero_point
        operator = Int8Convolution(
            weight=weight,
            bias=self._integers(-2000, 2000, (filters,), np.int32)
            - zero_in * weight.astype(np.int32).sum(axis=(1, 2, 3), dtype=np.int32),
            scale=np.ones(filters, np.float32),
            window=window,
            groups=groups,
            pad_value=zero_in,
            post=Post(),
        )
        sums = convolution_sums(operator, self._four(data))
        spread = sums.std(axis=(0, 2, 3)) if per_channel else np.full(filters, sums.std())
        scale = (40.0 / np.maximum(spread, 16.0)).astype(np.float32)
        plane = window.outputs(shape[2], shape[3])
        zero = self._zero_point()
        stored = self._stored(zero)
        low = stored if self.random.random() < 0.4 else -128
        operator = replace(operator, scale=scale, post=Post(zero_point=stored, low=low))
        return self._append("conv", operator, (data,), (shape[0], filters, *plane), zero)

    def dense(self, data: str, filters: int) -> str:
        """Adds a fully connected layer, as a convolution whose kernel is the whole plane; returns the name of its
        output.
        """
        _, _, height, width = self.tensors[data].nchw
        return self.convolution(data, filters, (height, width))

    def max_pool(self, data: str, kernel: Pair, strides: Pair, pads: Pads = (0, 0, 0, 0)) -> str:
        """Adds a max-pool; returns the name of its output."""
        shape = self.tensors[data].nchw
        window = Window(kernel=kernel, strides=strides, pads=pads)
        plane = window.outputs(shape[2], shape[3])
        zero = self.tensors[data].grid.zero_point
        return self._append("maxpool", Int8MaxPool(window=window), (data,), (*shape[:2], *plane), zero)

    def average_pool(
        self,
        data: str,
        kernel: Pair,
        strides: Pair,
        pads: Pads = (0, 0, 0, 0),
        count_include_pad: bool = False,
    ) -> str:
        """Adds an average pool, with one scale for each number of elements by which a window's sum is divided; returns
        the name of its output.
        """
        shape = self.tensors[data].nchw
        zero_in = self.tensors[data].grid.stored_zero_point
        window = Window(kernel=kernel, strides=strides, pads=pads)
        divisors = average_divisors((shape[2], shape[3]), window, pads, count_include_pad)
        gain = self.random.choice([1.0, 1.7])
        scales = tuple((int(count), np.float32(gain / count)) for count in np.unique(divisors))
        zero = self._zero_point()
        operator = Int8AveragePool(
            window=window,
            pad_value=zero_in,
            bias=-kernel[0] * kernel[1] * zero_in,
            divisors=divisors,
            scale_by_divisor=scales,
            post=Post(zero_point=self._stored(zero)),
        )
        return self._append("avgpool", operator, (data,), (*shape[:2], *divisors.shape), zero)

    def global_average_pool(self, data: str) -> str:
        """Adds a global average pool: the mean of each channel's plane; returns the name of its output."""
        _, _, height, width = self.tensors[data].nchw
        return self.average_pool(data, (height, width), (1, 1))

    def add(self, a: str, b: str) -> str:
        """Adds an addition of two tensors of one shape; returns the name of its output."""
        combination = Combination(
            kind="add",
            ratio_self=float32(self.random.uniform(0.3, 1.1)),
            ratio_operand=float32(self.random.uniform(0.3, 1.1)),
            offset=float32(self.random.uniform(-20, 20)),
            unsigned=self.dtype == "uint8",
            low=int(self.random.choice([-128, -20])),
        )
        return self._elementwise("add", (a, b), combination, self._zero_point())

    def multiply(self, a: str, b: str) -> str:
        """Adds an element-wise product of two tensors of one shape; returns the name of its output."""
        zero = self._zero_point()
        combination = Combination(
            kind="multiply",
            ratio_self=float32(self.random.uniform(0.005, 0.03)),
            zero_point_self=self.tensors[a].grid.stored_zero_point,
            zero_point_operand=self.tensors[b].grid.stored_zero_point,
            zero_point=self._stored(zero),
            unsigned=self.dtype == "uint8",
        )
        return self._elementwise("multiply", (a, b), combination, zero)

    def rescale(self, a: str) -> str:
        """Adds a node that requantizes a tensor with another scale and clamps it at its zero point, as a ReLU; returns
        the name of its output.
        """
        zero = self._zero_point()
        combination = Combination(
            kind="rescale",
            ratio_self=float32(self.random.uniform(0.4, 1.9)),
            zero_point_self=self.tensors[a].grid.stored_zero_point,
            zero_point=self._stored(zero),
            low=self._stored(zero),
        )
        return self._elementwise("rescale", (a,), combination, zero)

    def channels(self, parts: tuple[str, ...], sources: tuple[Pair, ...]) -> str:
        """Adds a node that gathers channels of tensors with equal batch and plane: output channel c is channel
        `sources`[c][1] of the tensor number `sources`[c][0]. Returns the name of its output.
        """
        batch, _, *plane = self.tensors[parts[0]].shape
        zero = self.tensors[parts[0]].grid.zero_point
        return self._append("channels", Channels(sources=sources), parts, (batch, len(sources), *plane), zero)

    def joined(self, *parts: str) -> str:
        """Adds a concatenation of tensors along channels; returns the name of its output."""
        counts = [self.tensors[name].shape[1] for name in parts]
        return self.channels(parts, tuple((i, c) for i, count in enumerate(counts) for c in range(count)))

    def clip(self, a: str) -> str:
        """Adds a node that clamps a tensor and changes no value inside the bounds; returns the name of its output."""
        zero = self.tensors[a].grid.zero_point
        stored = self._stored(zero)
        combination = Combination(
            kind="rescale",
            ratio_self=1.0,
            zero_point_self=stored,
            zero_point=stored,
            low=stored,
            high=max(stored, 90),
        )
        return self._elementwise("clip", (a,), combination, zero)

    def graph(self, *outputs: str) -> Graph:
        """The graph whose outputs are the named tensors."""
        entries = [self.tensors[name] for name in self.inputs]
        results = [self.tensors[name] for name in outputs]
        integer = DType(self.dtype)
        return Graph(
            name="random",
            inputs=tuple(
                GraphInput(name=t.name, tensor=t.name, shape=t.shape, dtype=integer) for t in entries
            ),
            outputs=tuple(
                GraphOutput(
                    name=f"out{number}",
                    tensor=t.name,
                    shape=t.shape,
                    dtype=integer,
                    quantization=t.quantization,
                )
                for number, t in enumerate(results)
            ),
            nodes=tuple(self.nodes),
            tensors=dict(self.tensors),
            constants=dict(self.constants),
        )

    def _elementwise(self, kind: str, inputs: tuple[str, ...], combination: Combination, zero: int) -> str:
        operator = Int8Elementwise(combination=combination)
        return self._append(kind, operator, inputs, self.tensors[inputs[0]].shape, zero)

    def _append(
        self,
        kind: str,
        operator: Int8Operator,
        inputs: tuple[str, ...],
        shape: tuple[int, ...],
        zero_point: int,
    ) -> str:
        name, output = f"{kind}{len(self.nodes)}", f"t{len(self.nodes)}"
        node = Node(name=name, members=(name,), operator=operator, inputs=inputs, output=output)
        self.nodes.append(node)
        result = evaluate(node, [self.values[name] for name in inputs])
        self._declare(node.output, shape, result.reshape(shape), zero_point)
        return node.output

    def _declare(
        self, name: str, shape: tuple[int, ...], values: np.ndarray, zero_point: int | None = None
    ) -> None:
        zero = self._zero_point() if zero_point is None else zero_point
        quantization = Quantization(
            scale=np.float32(0.05), zero_point=zero, dtype="uint8" if self.dtype == "uint8" else "int8"
        )
        self.tensors[name] = quantized_tensor(name, shape, quantization)
        self.values[name] = values

    def _four(self, name: str) -> np.ndarray:
        return self.values[name].reshape(self.tensors[name].nchw)

    def _zero_point(self) -> int:
        return int(self.random.integers(100, 156)) if self.dtype == "uint8" else 0

    def _stored(self, zero_point: int) -> int:
        return zero_point - (128 if self.dtype == "uint8" else 0)

    def _integers(self, low: int, high: int, shape: tuple[int, ...], dtype: type = np.int8) -> np.ndarray:
        return self.random.integers(low, high, shape).astype(dtype)


def float32(value: float) -> float:
    """The nearest float32 number."""
    return float(np.float32(value))


def builder(seed: int) -> NetworkBuilder:
    """An empty network with a random generator of this seed; odd seeds have asymmetric uint8 activations, even ones
    int8.
    """
    return NetworkBuilder(random=np.random.default_rng(seed), dtype=("int8", "uint8")[seed % 2])


# --- random networks ------------------------------------------------------------------------------------

CHANNELS = (1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 20, 31, 32, 33, 48, 64, 72, 130)
FIRST_CHANNELS = (1, 2, 3, 3, 3, 4, 5, 16, 20, 48, 255, 300)


def network(seed: int) -> Graph:
    """A random network of one to six operators on small inputs, mostly one, sometimes with several outputs; always the
    same for a seed.
    """
    b = builder(seed)
    pick = b.random
    batch = int(pick.choice([1, 1, 1, 2, 3, 4, 5]))
    channels = int(pick.choice(FIRST_CHANNELS))
    side = 9 if channels > 64 else 30
    shape = (batch, channels, int(pick.integers(1, side)), int(pick.integers(1, side)))
    alive = [b.input(*shape)]
    if pick.random() < 0.2:
        alive.append(b.input(*shape))
    if pick.random() < 0.1:
        alive.append(b.input(batch, int(pick.choice(CHANNELS))))
    for _ in range(int(pick.integers(1, 7))):
        data = alive[-1] if pick.random() < 0.7 else str(pick.choice(alive))
        name = _random_node(b, data, alive)
        if name is not None:
            alive.append(name)
    while not b.nodes:
        alive.append(b.clip(alive[0]))
    made = [node.output for node in b.nodes]
    outputs = {made[-1], *(name for name in alive if pick.random() < 0.1)}
    return b.graph(*sorted(outputs))


def _random_node(b: NetworkBuilder, data: str, alive: list[str]) -> str | None:
    pick = b.random
    shape = b.tensors[data].nchw
    alike = [name for name in alive if b.tensors[name].shape == b.tensors[data].shape]
    kind = pick.choice(
        [
            "conv",
            "conv",
            "conv",
            "grouped",
            "dense",
            "max",
            "average",
            "global",
            "pairwise",
            "one",
            "channels",
        ]
    )
    match kind:
        case "conv":
            return _random_convolution(b, data, groups=1)
        case "grouped":
            divisors = [g for g in (2, 4, shape[1]) if shape[1] % g == 0]
            return _random_convolution(b, data, groups=int(pick.choice(divisors or [1])))
        case "dense":
            filters = int(pick.choice([1, 5, 10, 16, 33, 100]))
            return b.dense(data, filters) if b.values[data].size * filters < MOST_WORK else None
        case "max" | "average":
            return _random_pool(b, data, kind)
        case "global":
            return b.global_average_pool(data)
        case "pairwise":
            operation = b.add if pick.random() < 0.7 else b.multiply
            other = b.constant(*b.tensors[data].shape) if pick.random() < 0.2 else str(pick.choice(alike))
            return operation(data, other) if pick.random() < 0.5 else operation(other, data)
        case "channels":
            return _random_channels(b, data, alive)
        case _:
            return b.rescale(data) if pick.random() < 0.6 else b.clip(data)


def _random_channels(b: NetworkBuilder, data: str, alive: list[str]) -> str:
    """Adds a random concatenation, slice, shuffle or gather of channels of `data` and of tensors in `alive` with the
    same batch and plane; returns the name of its output.
    """
    pick = b.random
    batch, channels, *plane = b.tensors[data].shape
    fitting = [n for n in alive if b.tensors[n].shape[0] == batch and b.tensors[n].shape[2:] == (*plane,)]
    parts = (data, *(str(pick.choice(fitting)) for _ in range(int(pick.integers(0, 4)))))
    match pick.choice(["join", "join", "slice", "shuffle", "any"]):
        case "join":
            return b.joined(*parts)
        case "slice":
            first = int(pick.integers(channels))
            taken = range(first, channels, int(pick.choice([1, 1, 1, 2])))
            return b.channels((data,), tuple((0, c) for c in taken))
        case "shuffle":
            return b.channels((data,), tuple((0, int(c)) for c in pick.permutation(channels)))
        case _:
            several = pick.integers(len(parts), size=int(pick.integers(1, 40)))
            return b.channels(
                parts, tuple((int(p), int(pick.integers(b.tensors[parts[p]].shape[1]))) for p in several)
            )


def _random_convolution(b: NetworkBuilder, data: str, groups: int) -> str | None:
    pick = b.random
    shape = b.tensors[data].nchw
    kernels = [
        (1, 1),
        (1, 1),
        (3, 3),
        (3, 3),
        (3, 3),
        (5, 5),
        (7, 7),
        (1, 7),
        (5, 3),
        (2, 2),
        (11, 11),
        (4, 1),
    ]
    kernel = kernels[int(pick.integers(len(kernels)))]
    strides = [(1, 1), (1, 1), (2, 2), (3, 3), (4, 4), (1, 2), (3, 1)][int(pick.integers(7))]
    dilations = [(1, 1), (1, 1), (1, 1), (2, 2), (1, 3), (2, 1)][int(pick.integers(6))]
    largest = int(pick.choice([0, 1, 1, 3, 8, 20]))
    pads = tuple(int(v) for v in pick.integers(0, largest + 1, 4))
    if groups == 1:
        filters = int(pick.choice(CHANNELS))
    else:
        filters = groups * int(pick.choice([1, 1, 2, 3]))
    plane = output_plane(
        (shape[2], shape[3]), kernel, strides, dilations, (pads[0], pads[1], pads[2], pads[3])
    )
    work = (
        shape[0] * filters * shape[1] // groups * kernel[0] * kernel[1] * max(plane[0], 0) * max(plane[1], 0)
    )
    if min(plane) < 1 or work > MOST_WORK:
        return None
    return b.convolution(
        data,
        filters,
        kernel,
        strides,
        (pads[0], pads[1], pads[2], pads[3]),
        dilations,
        groups,
        per_channel=bool(pick.random() < 0.7),
    )


def _random_pool(b: NetworkBuilder, data: str, kind: str) -> str | None:
    pick = b.random
    shape = b.tensors[data].nchw
    kernel = (int(pick.integers(1, 8)), int(pick.integers(1, 8)))
    if pick.random() < 0.5:
        kernel = (kernel[0], kernel[0])
    strides = (int(pick.integers(1, 5)), int(pick.integers(1, 5)))
    pads = tuple(int(pick.integers(0, kernel[axis % 2])) if pick.random() < 0.5 else 0 for axis in range(4))
    pads = (pads[0], pads[1], pads[2], pads[3])
    if min(output_plane((shape[2], shape[3]), kernel, strides, (1, 1), pads)) < 1:
        return None
    if kind == "max":
        return b.max_pool(data, kernel, strides, pads)
    return b.average_pool(data, kernel, strides, pads, count_include_pad=bool(pick.random() < 0.5))


# --- random machines ------------------------------------------------------------------------------------


def machine(seed: int) -> Config:
    """A random valid configuration of the accelerator; some are so small that few layers fit them."""
    random = np.random.default_rng(seed)
    while True:
        try:
            return _machine(random, f"machine{seed}")
        except ConfigError:
            continue


def _machine(random: np.random.Generator, name: str) -> Config:
    def choose(*values: int) -> int:
        return int(random.choice(values))

    batch, block = choose(1, 1, 1, 2, 4), choose(4, 8, 16, 16, 32)
    # The compiler takes arrays that are not square for single images.
    block_out = choose(4, 8, 16, 32) if batch == 1 and random.random() < 0.5 else block
    optional = ("patch", "depthwise") if block == block_out else ("patch",)
    extensions = [item for item in optional if random.random() < 0.8]
    if "depthwise" in extensions and random.random() < 0.5:
        extensions.append("taps")
    if block != block_out and random.random() < 0.5:
        extensions += ["depthwise", "taps"]
    word = batch * max(block, block_out)
    return Config(
        name=name,
        batch=batch,
        block_in=block,
        block_out=block_out,
        uop_buffer_bytes=4 * choose(32, 128, 1024, 8192),
        inp_buffer_bytes=batch * block * choose(32, 128, 1024, 2048),
        wgt_buffer_bytes=block * block_out * choose(8, 64, 256, 1024),
        acc_buffer_bytes=4 * batch * block_out * choose(32, 128, 1024, 2048),
        acc_banks=choose(1, 2, 4, 8, 16),
        par_buffer_bytes=8 * block_out * choose(1, 2, 8, 16),
        command_queue_depth=choose(1, 2, 8, 32),
        token_queue_depth=choose(1, 2, 8, 64),
        fetch_buffer_depth=choose(2, 8, 32),
        extensions=("post", *extensions),
        memory=Memory(bus_bytes=choose(8, 8, 16, 64), read_latency=choose(1, 30, 100)),
        post_lanes=max(1, batch * block_out // choose(1, 1, 2, 4, 8)),
        chain_buffer_bytes=word * choose(0, 0, 64, 1000),
    )

"""Builds small quantized networks node by node; checks and measurements compile them to programs."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.graph.graph import Graph, GraphInput, GraphOutput, Node, Tensor, quantized_tensor
from vdla.compiler.graph.int8_convolution import Int8Convolution, Quantization
from vdla.compiler.graph.int8_operators import (
    Group,
    Int8AveragePool,
    Int8Elementwise,
    Int8MaxPool,
    Int8Operator,
    Products,
    Rows,
)
from vdla.compiler.ir.types import DType
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.combination import Combination
from vdla.compiler.te.post import Post
from vdla.isa.rows import exponentials

QUANTIZATION = Quantization(scale=np.float32(0.05), zero_point=0, dtype="int8")
"""Quantization of every tensor of the networks that `NetworkBuilder` builds."""


@dataclasses.dataclass(slots=True, kw_only=True)
class NetworkBuilder:
    """A graph under construction. `tensors`: tensors by name; at the start, only the graph's inputs."""

    rng: np.random.Generator
    tensors: dict[str, Tensor]
    nodes: list[Node] = dataclasses.field(default_factory=list)

    def add(self, operator: Int8Operator, inputs: tuple[str, ...], shape: tuple[int, ...]) -> str:
        """Adds a node that applies `operator` to the tensors named `inputs`; returns the name of its output, a tensor
        of `shape`.
        """
        name = f"node{len(self.nodes)}"
        node = Node(name=name, members=(name,), operator=operator, inputs=inputs, output=f"t{name}")
        self.nodes.append(node)
        self.tensors[node.output] = quantized_tensor(node.output, shape, QUANTIZATION)
        return node.output

    def convolution(
        self,
        data: str,
        filters: int,
        kernel: int,
        stride: int = 1,
        groups: int = 1,
        weight: NDArray[np.int8] | None = None,
    ) -> str:
        """Adds a convolution of the tensor `data` with `filters` filters of `kernel` x `kernel` weights: `weight`, by
        default uniform random numbers. `stride`: step of the window in both axes; `groups`: groups of channels. Bias
        and scales are random, and results at least 0. Pads `kernel` // 2 zeros on each side if `kernel` is less than
        the height, else nothing. Returns the name of its output.
        """
        batch, channels, height, width = self.tensors[data].nchw
        pad = kernel // 2 if kernel < height else 0
        shape = (filters, channels // groups, kernel, kernel)
        if weight is None:
            weight = self.rng.integers(-127, 128, shape).astype(np.int8)
        operator = Int8Convolution(
            weight=weight,
            bias=self.rng.integers(-2000, 2000, filters).astype(np.int32),
            scale=self.rng.uniform(1e-3, 2e-2, filters).astype(np.float32),
            window=Window(kernel=(kernel, kernel), strides=(stride, stride), pads=(pad, pad, pad, pad)),
            groups=groups,
            pad_value=0,
            post=Post(low=0),
        )
        rows, columns = ((size + 2 * pad - kernel) // stride + 1 for size in (height, width))
        return self.add(operator, (data,), (batch, filters, rows, columns))

    def max_pool(self, data: str, kernel: int, stride: int) -> str:
        """Adds a max pool of the tensor `data` with `kernel` x `kernel` windows, `stride` elements apart, and no
        padding; returns the name of its output.
        """
        batch, channels, height, width = self.tensors[data].nchw
        operator = Int8MaxPool(window=Window(kernel=(kernel, kernel), strides=(stride, stride)))
        rows, columns = ((size - kernel) // stride + 1 for size in (height, width))
        return self.add(operator, (data,), (batch, channels, rows, columns))

    def average_pool(self, data: str) -> str:
        """Adds an average pool over all rows and columns of each channel of `data`; returns the name of its output."""
        batch, channels, height, width = self.tensors[data].nchw
        count = height * width
        operator = Int8AveragePool(
            window=Window(kernel=(height, width)),
            pad_value=0,
            bias=0,
            divisors=np.full((1, 1), count, np.int64),
            scale_by_divisor=((count, np.float32(1 / count)),),
            post=Post(),
        )
        return self.add(operator, (data,), (batch, channels, 1, 1))

    def add_tensors(self, a: str, b: str) -> str:
        """Adds a scaled sum of the tensors `a` and `b`, of equal shape; returns the name of its output."""
        combination = Combination(kind="add", ratio_self=0.7, ratio_operand=0.9, offset=3)
        return self.add(Int8Elementwise(combination=combination), (a, b), self.tensors[a].shape)

    def attention(self, queries: str, keys: str, values: str, zero_points: tuple[int, int]) -> str:
        """Adds an attention of `rows` queries over `positions` keys (sequence elements): scores of `queries` (1, depth,
        rows, 1) and `keys` (1, depth, positions, 1), the softmax of the scores, and its products with `values` (1,
        positions, width, 1). Returns the name of the result, (1, width, rows, 1). `zero_points`: zero points of queries
        and keys.
        """
        depth, rows = self.tensors[queries].nchw[1:3]
        positions, width = self.tensors[values].nchw[1:3]
        one = (Group(image=0, a=(0, 0), b=(0, 0), output=(0, 0)),)
        scores = Products(
            groups=one,
            rows=rows,
            columns=positions,
            depth=depth,
            zero_points=zero_points,
            scale=np.float32(0.003),
            post=Post(zero_point=-5),
        )
        shares = Rows(
            entries=exponentials(0.03),
            bias=np.zeros(1, np.int32),
            scale=np.array([255 / 65536], np.float32),
            post=Post(),
        )
        context = Products(
            groups=one,
            rows=rows,
            columns=width,
            depth=positions,
            zero_points=(0, 0),
            scale=np.float32(0.01),
            post=Post(zero_point=2),
        )
        shape = (1, positions, rows, 1)
        shared = self.add(shares, (self.add(scores, (queries, keys), shape),), shape)
        return self.add(context, (shared, values), (1, width, rows, 1))

    def graph(self, name: str, inputs: tuple[str, ...], last: str) -> Graph:
        """The graph `name` of the nodes added so far, with the input tensors `inputs` and the output tensor `last`."""
        result = self.tensors[last]
        return Graph(
            name=name,
            inputs=tuple(
                GraphInput(name=tensor, tensor=tensor, shape=self.tensors[tensor].shape, dtype=DType.INT8)
                for tensor in inputs
            ),
            outputs=(
                GraphOutput(
                    name="output",
                    tensor=last,
                    shape=result.shape,
                    dtype=DType.INT8,
                    quantization=QUANTIZATION,
                ),
            ),
            nodes=tuple(self.nodes),
            tensors=self.tensors,
            constants={},
        )

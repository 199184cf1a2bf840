"""Writes parts of transformers: seeded weights, and the nodes that exporters write for common parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from vdla.compiler.frontends.onnx.model.builder import OnnxGraph

OPSET = 17
IR_VERSION = 8
DEVIATION = 0.02
"""Standard deviation of weights, as in BERT, GPT-2 and Llama at initialization."""
LEAST = float(np.finfo(np.float32).min)
"""Number that exporters add to the scores of masked tokens: the lowest float32."""

SEQUENCE = "sequence"
"""Symbol for the number of tokens, used if that number is None."""
Size = int | None
Rows = tuple[int, Size]
"""The pair (batch size, number of tokens)."""
End = tuple[int, tuple[Size, ...]]
Ends = Mapping[str, End]
"""Inputs or outputs of a model by tensor name: (ONNX's number of the element type, shape)."""


@dataclass(slots=True, kw_only=True)
class Writer:
    """An ONNX graph under construction. The name of each node and tensor begins with the name of the part of the
    network to which it belongs.
    """

    rng: np.random.Generator
    graph: OnnxGraph = field(default_factory=OnnxGraph)

    def weight(self, name: str, *shape: int, mean: float = 0.0) -> str:
        """Adds a weight of normally distributed numbers with mean `mean` and standard deviation `DEVIATION`, unless the
        name exists; returns its name.
        """
        if name not in self.graph.initializers:
            values = self.rng.standard_normal(shape, np.float32) * np.float32(DEVIATION) + np.float32(mean)
            self.graph.constant(name, values, np.float32)
        return name

    def numbers(self, values: Sequence[int]) -> str:
        """Name of an int64 constant with the list `values`; equal lists share one constant."""
        return self.graph.constant(f"int64_{'_'.join(map(str, values))}", values, np.int64)

    def number(self, value: float) -> str:
        """Name of a float32 constant without dimensions; equal numbers share one constant."""
        return self.graph.constant(f"float_{value!r}", value, np.float32)

    def node(self, operator: str, name: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Adds a node; the node and its output have the name `name`, which is returned."""
        return self.graph.node(operator, name, inputs, name, **attributes)

    def linear(self, name: str, data: str, depth: int, columns: int, *, bias: bool = True) -> str:
        """Adds data @ weight + bias, as MatMul and Add; returns the name of the output. The weight is [depth,
        columns].
        """
        product = self.node(
            "MatMul", f"{name}.product", [data, self.weight(f"{name}.weight", depth, columns)]
        )
        return self.node("Add", name, [self.weight(f"{name}.bias", columns), product]) if bias else product

    def layer_norm(self, name: str, data: str, size: int, epsilon: float) -> str:
        """Adds LayerNormalization over the last dimension, of `size` elements; returns the name of the output."""
        scale, shift = self.weight(f"{name}.weight", size, mean=1.0), self.weight(f"{name}.bias", size)
        return self.node("LayerNormalization", name, [data, scale, shift], axis=-1, epsilon=epsilon)

    def reshape(self, name: str, data: str, shape: Sequence[Size]) -> str:
        """Adds a Reshape to `shape`, of which one size may be None (it follows from the others); returns the name of
        the output.
        """
        return self.node(
            "Reshape", name, [data, self.numbers([-1 if size is None else size for size in shape])]
        )

    def tokens(self, like: str) -> str:
        """Name of a tensor, int64 [1], with the number of tokens of the tensor `like`, [batch, sequence]. Every call
        returns the same tensor, which the first call adds.
        """
        if not any(node.name == "tokens" for node in self.graph.nodes):
            shape = self.node("Shape", "tokens.shape", [like])
            self.node("Slice", "tokens", [shape, *map(self.numbers, ([1], [2], [0]))])
        return "tokens"

    def first(self, name: str, data: str, count: str, axes: Sequence[int]) -> str:
        """Adds a Slice that takes the first `count` elements of the constant `data` along each of `axes`; returns the
        name of the slice's output. `count` is the name of an int64 [1] tensor; the constant must be at least as long as
        any value of `count`.
        """
        for axis in axes:
            begin, where = self.numbers([0]), self.numbers([axis])
            data = self.node("Slice", f"{name}.first{axis}", [data, begin, count, where])
        return data

    def heads(self, name: str, data: str, rows: Rows, heads: int, size: int, *, last: bool = False) -> str:
        """Adds nodes that split heads: [batch, sequence, heads * size] to [batch, heads, sequence, size], or with
        `last` to [batch, heads, size, sequence]. `rows`: (batch, sequence). Returns the name of the output.
        """
        cut = self.reshape(f"{name}.cut", data, (*rows, heads, size))
        return self.node("Transpose", f"{name}.heads", [cut], perm=[0, 2, 3, 1] if last else [0, 2, 1, 3])

    def joined(self, name: str, data: str, rows: Rows, width: int) -> str:
        """Adds nodes that join heads: [batch, heads, sequence, size] to [batch, sequence, width]. `rows`: (batch,
        sequence). Returns the name of the output.
        """
        moved = self.node("Transpose", f"{name}.moved", [data], perm=[0, 2, 1, 3])
        return self.reshape(f"{name}.joined", moved, (*rows, width))

    def finish(self, name: str, inputs: Ends, outputs: Ends) -> onnx.ModelProto:
        """The model of all nodes added so far, with the given inputs and outputs."""
        proto = helper.make_graph(
            self.graph.nodes,
            name,
            [_value_info(name, end) for name, end in inputs.items()],
            [_value_info(name, end) for name, end in outputs.items()],
            list(self.graph.initializers.values()),
        )
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(proto, opset_imports=opsets, ir_version=IR_VERSION, producer_name="vdla")


def _value_info(name: str, end: End) -> onnx.ValueInfoProto:
    dtype, shape = end
    return helper.make_tensor_value_info(name, dtype, [SEQUENCE if size is None else size for size in shape])


def ids(shape: tuple[Size, ...]) -> End:
    """Element type and shape of an int64 input or output: a value of the mapping `Ends`."""
    return TensorProto.INT64, shape


def floats(shape: tuple[Size, ...]) -> End:
    """Element type and shape of a float32 input or output: a value of the mapping `Ends`."""
    return TensorProto.FLOAT, shape

"""A graph under construction: nodes in order, shapes of all tensors, and weights without their random values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike, NDArray
from onnx import TensorProto, helper, numpy_helper

from ..onnx_graph import IR_VERSION, OPSET
from .values import Value, Weight

BIAS_DEVIATION = 0.1
"""Standard deviation of the random biases of layers; a layer's outputs have a standard deviation of about 1."""


class Graph:
    """An ONNX graph under construction. A node gets the name that PyTorch's exporter would give it. The name consists
    of the open scopes (names of modules) and the operator, as in "/layer1/conv1/Conv".

    `width` scales the numbers of channels (`channels`), and `depth` scales the numbers of blocks (`repeats`); tests use
    values below 1 to make networks smaller. `parameters` is the number of parameters that the original has in training.
    This includes the scales and offsets of normalizations that the exporter folds into convolutions. `macs` is the
    number of multiply-adds of all convolutions and matrix products.
    """

    def __init__(self, name: str, *, batch: int = 1, width: float = 1.0, depth: float = 1.0) -> None:
        self.name = name
        self.batch = batch
        self.width = width
        self.depth = depth
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, Weight] = {}
        self.constants: dict[str, NDArray[Any]] = {}
        self.values: dict[str, Value] = {}
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []
        self.parameters = 0
        self.macs = 0
        self._scopes: list[str] = []
        self._names: Counter[str] = Counter()

    # Sizes.

    def channels(self, count: int, multiple: int = 8) -> int:
        """Number of channels of a layer that has `count` channels in the original. With `width` other than 1 the number
        is scaled and rounded to a multiple of `multiple`, at least `multiple`.
        """
        if self.width == 1:
            return count
        return max(multiple, round(count * self.width / multiple) * multiple)

    def repeats(self, count: int) -> int:
        """Number of blocks where the original has `count`: `count` x `depth`, rounded up, at least 1."""
        return count if self.depth == 1 else max(1, math.ceil(count * self.depth))

    # Names.

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Adds `name` to the names of all nodes that are built in the `with` block."""
        self._scopes.append(name)
        try:
            yield
        finally:
            self._scopes.pop()

    def path(self, name: str = "") -> str:
        """The name of a parameter in the open scopes, as PyTorch's state dictionaries name it:
        "layer1.0.conv1.weight".
        """
        return ".".join([*self._scopes, name] if name else self._scopes)

    # Tensors.

    def input(self, name: str, shape: Sequence[int], *, power: float = 1.0, integer: bool = False) -> Value:
        """Adds an input of the model, float32 or (if `integer`) int64, and returns the input. `power`: mean square of
        the input's values.
        """
        value = Value(name, tuple(shape), power, integer)
        self.inputs.append(value)
        self.values[name] = value
        return value

    def output(self, value: Value, name: str) -> None:
        """Makes `value`, which a node of this graph must write, an output of the model called `name`. Earlier nodes
        then read the tensor under the new name; later nodes cannot read `value`.
        """
        for node in self.nodes:
            for names in (node.input, node.output):
                for place, tensor in enumerate(names):
                    if tensor == value.name:
                        names[place] = name
        self.values.pop(value.name)
        renamed = Value(name, value.shape, value.power, value.integer)
        self.values[name] = renamed
        self.outputs.append(renamed)

    def weight(
        self,
        name: str,
        shape: Sequence[int],
        deviation: float,
        *,
        mean: float = 0.0,
        least: float = -np.inf,
        counted: bool = True,
    ) -> Value:
        """Adds a weight with the name `name` in the open scopes: an initializer whose values are drawn when the model
        is made, normal with `mean` and `deviation`, none below `least`. `counted`: whether its elements count in
        `parameters`.
        """
        path = self.path(name)
        assert path not in self.weights, path
        weight = Weight(tuple(shape), deviation, mean, least)
        self.weights[path] = weight
        self.parameters += math.prod(weight.shape) if counted else 0
        return Value(path, weight.shape, deviation**2 + mean**2)

    def constant(self, values: ArrayLike, dtype: Any = np.int64, name: str = "Constant") -> Value:
        """Adds a constant tensor (a shape, an axis or a number) to the graph; returns it."""
        array = np.asarray(values, dtype)
        path = self._unique(name)
        self.constants[path] = array
        return Value(
            path, array.shape, float(np.mean(np.square(array, dtype=np.float64))) if array.size else 1.0
        )

    def node(
        self,
        operator: str,
        inputs: Sequence[Value | None],
        shape: Sequence[int],
        *,
        power: float = 1.0,
        integer: bool = False,
        **attributes: Any,
    ) -> Value:
        """Adds a node with one output, of shape `shape`, int64 if `integer`; returns the output. `power`: estimated
        mean square of the output's values.
        """
        return self.node_of_many(operator, inputs, [shape], power=power, integer=integer, **attributes)[0]

    def node_of_many(
        self,
        operator: str,
        inputs: Sequence[Value | None],
        shapes: Sequence[Sequence[int]],
        *,
        power: float = 1.0,
        integer: bool = False,
        **attributes: Any,
    ) -> list[Value]:
        """Adds a node with one output for each of `shapes`, int64 if `integer`; returns the outputs. `power`: estimated
        mean square of each output's values.
        """
        name = self._unique(operator)
        outputs = [
            Value(f"{name}_output_{place}", tuple(shape), power, integer)
            for place, shape in enumerate(shapes)
        ]
        given = [value.name if value is not None else "" for value in inputs]
        names = [value.name for value in outputs]
        self.nodes.append(helper.make_node(operator, given, names, name=name, **attributes))
        self.values.update(zip(names, outputs, strict=True))
        return outputs

    def _unique(self, operator: str) -> str:
        """A unique name of a node in the exporter's form: the open scopes and the operator, joined by "/"; a repeated
        name gets a number.
        """
        name = "/".join(["", *self._scopes, operator])
        count = self._names[name]
        self._names[name] += 1
        return f"{name}_{count}" if count else name

    # Models.

    def model(self, seed: int) -> onnx.ModelProto:
        """The model (float32, opset 17) with random weights; each weight has its own random stream."""
        drawn = [
            numpy_helper.from_array(weight.draw(np.random.default_rng([seed, place])), name)
            for place, (name, weight) in enumerate(self.weights.items())
        ]
        return self._model([], drawn)

    def outline(self) -> onnx.ModelProto:
        """The model with inputs in place of weights, for callers that need only shapes."""
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, weight.shape)
            for name, weight in self.weights.items()
        ]
        return self._model(inputs, [])

    def _model(
        self, more_inputs: list[onnx.ValueInfoProto], initializers: list[onnx.TensorProto]
    ) -> onnx.ModelProto:
        constants = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        graph = helper.make_graph(
            self.nodes,
            self.name,
            [*map(_info, self.inputs), *more_inputs],
            [_info(value) for value in self.outputs],
            [*initializers, *constants],
        )
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="vdla")
        onnx.checker.check_model(model)
        return model


def _info(value: Value) -> onnx.ValueInfoProto:
    kind = TensorProto.INT64 if value.integer else TensorProto.FLOAT
    return helper.make_tensor_value_info(value.name, kind, value.shape)

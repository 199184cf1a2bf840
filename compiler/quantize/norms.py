"""Finds normalizations that exporters write node by node: their nodes, and the tensor whose rows they normalize.

    match: ReduceMean(Pow(y, 2)) + epsilon -> Sqrt -> Div or Reciprocal and Mul with y [-> Mul gain] [-> Add offset]

where y is the tensor x itself, or x minus its mean: Sub(x, ReduceMean(x)). Only x and the result are quantized. The
tensors in between are not, because 8 bits are too few for a mean of squares.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from .float_model import FloatModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Norm:
    """A normalization of the rows of `data` by `nodes`, in the model's order; the last node computes the result."""

    data: str
    nodes: tuple[onnx.NodeProto, ...]


def find_norms(model: FloatModel) -> dict[str, Norm]:
    """The normalizations that the model writes node by node, by the name of their result."""
    matcher = _Matcher(model)
    found = (matcher.norm(node) for node in model.nodes if node.op_type == "ReduceMean")
    return {norm.nodes[-1].output[0]: norm for norm in found if norm is not None}


class _Matcher:
    def __init__(self, model: FloatModel) -> None:
        self.model = model
        self.producers = model.producers()
        self.readers: dict[str, list[onnx.NodeProto]] = defaultdict(list)
        for node in model.nodes:
            for name in dict.fromkeys(node.input):
                self.readers[name].append(node)
        self.uses = model.uses()
        self.order = {node.output[0]: index for index, node in enumerate(model.nodes)}

    def norm(self, mean: onnx.NodeProto) -> Norm | None:
        """The normalization whose mean of squares the node `mean` computes; None if there is none."""
        squares = self.producers.get(mean.input[0])
        if squares is None or not self._over_rows(mean) or not self._squared(squares):
            return None
        rows, nodes = squares.input[0], [squares, mean]
        root = self._root(mean.output[0], nodes)
        if root is None:
            return None
        name, inverse = root
        last = self._only_reader(name)
        if last is None:
            return None
        divides = last.op_type == "Div" and list(last.input) == [rows, name] and not inverse
        multiplies = last.op_type == "Mul" and set(last.input) == {rows, name} and inverse
        if not divides and not multiplies:
            return None
        nodes.append(last)
        self._gain_and_offset(nodes)
        result = nodes[-1]
        data = self._centred(rows, nodes)
        inner = [name for node in nodes if node is not result for name in node.output]
        if not all(self._inside(name, nodes) for name in inner):
            return None
        return Norm(data=data, nodes=tuple(sorted(nodes, key=lambda node: self.order[node.output[0]])))

    def _squared(self, node: onnx.NodeProto) -> bool:
        if node.op_type == "Mul":
            return node.input[0] == node.input[1]
        return node.op_type == "Pow" and self._number(node.input[1]) == 2

    def _root(self, name: str, nodes: list[onnx.NodeProto]) -> tuple[str, bool] | None:
        """Looks for nodes that compute a square root, or the inverse of a square root, of the tensor `name`, which has
        means of squares. Returns (name of the result, whether it is the inverse), or None if there are no such nodes.

        Appends the matched nodes to `nodes`.
        """
        power, inverse = 1.0, False
        while power != 0.5 or not inverse:
            node = self._only_reader(name)
            if node is None:
                return None
            others = [self._number(other) for other in node.input if other != name]
            match node.op_type, others:
                case "Add", [float(epsilon)] if power == 1 and epsilon >= 0:
                    pass
                case "Sqrt", [] if power == 1:
                    power = 0.5
                case "Pow", [0.5] if power == 1:
                    power = 0.5
                case "Pow", [-0.5] if power == 1:
                    power, inverse = 0.5, True
                case "Reciprocal", [] if power == 0.5:
                    inverse = True
                case "Div", [1.0] if power == 0.5 and node.input[1] == name:
                    inverse = True
                case _:
                    return (name, False) if power == 0.5 else None
            nodes.append(node)
            name = node.output[0]
        return name, True

    def _centred(self, rows: str, nodes: list[onnx.NodeProto]) -> str:
        """Finds the tensor x whose rows are normalized. If `rows` is computed as x - mean(x), returns x and appends the
        nodes of this computation to `nodes`; otherwise returns `rows`.
        """
        sub = self.producers.get(rows)
        if sub is None or sub.op_type != "Sub":
            return rows
        mean = self.producers.get(sub.input[1])
        if mean is None or mean.op_type != "ReduceMean" or not self._over_rows(mean):
            return rows
        if mean.input[0] != sub.input[0]:
            return rows
        nodes += [mean, sub]
        return sub.input[0]

    def _gain_and_offset(self, nodes: list[onnx.NodeProto]) -> None:
        """Looks for a Mul (gain) and an Add (offset) that follow the last of `nodes`, and appends them to `nodes`.
        Their constants must have one number for each element of a row, or a single number.
        """
        for kind in ("Mul", "Add"):
            name = nodes[-1].output[0]
            node = self._only_reader(name)
            if node is None or node.op_type != kind:
                continue
            other = self.model.float_constant(node.input[1] if node.input[0] == name else node.input[0])
            columns = self.model.static_shapes.get(name, (0,))[-1]
            if other is not None and (other.size == 1 or other.shape[-1:] == (columns,) == (other.size,)):
                nodes.append(node)

    def _over_rows(self, node: onnx.NodeProto) -> bool:
        """Whether a ReduceMean reduces the last axis only, and keeps it."""
        shape = self.model.static_shapes.get(node.input[0])
        found = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        axes: Sequence[int] | np.ndarray | None = found.get("axes")
        if len(node.input) > 1 and node.input[1]:
            axes = self.model.constants.get(node.input[1])
        if shape is None or len(shape) < 2 or axes is None or not found.get("keepdims", 1):
            return False
        return [int(axis) % len(shape) for axis in axes] == [len(shape) - 1]

    def _only_reader(self, name: str) -> onnx.NodeProto | None:
        return self.readers[name][0] if self.uses[name] == len(self.readers[name]) == 1 else None

    def _inside(self, name: str, nodes: Sequence[onnx.NodeProto]) -> bool:
        """Whether only `nodes` read a tensor."""
        within = sum(list(node.input).count(name) for node in nodes)
        return within == self.uses[name]

    def _number(self, name: str) -> float | None:
        array = self.model.float_constant(name)
        return float(array.reshape(())) if array is not None and array.size == 1 else None

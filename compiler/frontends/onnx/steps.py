"""Collects the ONNX nodes that replace one node: formulas of simpler operators, or conversions between quantizations.

The nodes are named NODE/OPERATOR_i, as are the nodes of ONNX's own functions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, NoReturn, Protocol, TypeVar

import numpy as np
import onnx
from onnx import helper

from ...graph.errors import AGAIN, NamedNode
from ...graph.graph import Shape, Tensor
from ...ir.types import DType
from .attributes import OnnxNode
from .context import GraphContext

Context = TypeVar("Context")


@dataclass(slots=True, kw_only=True)
class Nodes(Generic[Context]):
    """The list, under construction, of the ONNX nodes that replace one node. `context`: the import for which they are
    written.
    """

    context: Context
    node: OnnxNode
    nodes: list[onnx.NodeProto] = field(default_factory=list)

    @property
    def stem(self) -> str:
        """The first part of the names of new tensors."""
        return self.node.name

    def add(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Adds a node of one output, by default of a new name; returns the output's name. Inputs of the name "" are
        left out."""
        number, given = len(self.nodes), list(inputs)
        while given and not given[-1]:
            given.pop()
        output = output or f"{self.stem}/{operator}_{number}"
        name = f"{self.node.name}/{operator}_{number}"
        self.nodes.append(helper.make_node(operator, given, [output], name=name, **attributes))
        return output

    def input(self, index: int) -> str:
        """Name of the node's input at `index`; "" where it is left out."""
        return self.node.inputs[index] if index < len(self.node.inputs) else ""

    def attributes(self, *without: str) -> dict[str, Any]:
        """The attributes of the node, except those named in `without`."""
        return {name: value for name, value in self.node.attributes.items() if name not in without}


class StepContext(Protocol):
    """The functions of an importer that the code for replacement nodes calls. They give shapes of inputs, store
    constants and raise errors.
    """

    def tensor(self, node: OnnxNode, index: int) -> Tensor: ...  # noqa: D102
    def store(self, name: str, array: np.ndarray) -> str: ...  # noqa: D102
    def fail(self, node: NamedNode, problem: str, way_out: str) -> NoReturn: ...  # noqa: D102
    def refuse(self, node: NamedNode, problem: str, way_out: str = AGAIN) -> NoReturn: ...  # noqa: D102


Storing = TypeVar("Storing", bound=StepContext)


@dataclass(slots=True, kw_only=True)
class Steps(Nodes[Storing]):
    """Replacement nodes that may contain new constants, for an import that knows the shapes of inputs."""

    _constants: dict[tuple[str, Shape, bytes], str] = field(default_factory=dict)

    def add_all(self, operator: str, *inputs: str, count: int, **attributes: Any) -> list[str]:
        """Adds a node of `count` outputs; returns their names."""
        name = f"{self.node.name}/{operator}_{len(self.nodes)}"
        outputs = [f"{name}/{number}" for number in range(count)]
        self.nodes.append(helper.make_node(operator, list(inputs), outputs, name=name, **attributes))
        return outputs

    def constant(self, value: Any, dtype: Any) -> str:
        """Stores `value` as a constant of a numpy dtype; returns its name. Equal constants are stored once."""
        array = np.asarray(value, dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = self.context.store(f"{self.node.name}/constant", array)
        return self._constants[key]

    def like(self, value: float, index: int = 0) -> str:
        """Name of a scalar constant `value` with the dtype of input `index`."""
        return self.constant(value, self.dtype(index).numpy)

    def axes(self, *axes: int) -> str:
        """Name of an int64 constant with the numbers `axes`."""
        return self.constant(axes, np.int64)

    def shape(self, index: int) -> Shape:
        """An input's shape."""
        return self.context.tensor(self.node, index).shape

    def dtype(self, index: int) -> DType:
        """An input's element type."""
        return self.context.tensor(self.node, index).dtype

    def fail(self, problem: str, way_out: str) -> NoReturn:
        """Raises a NodeError about the replaced node."""
        self.context.fail(self.node, problem, way_out)

    def refuse(self, problem: str, way_out: str = AGAIN) -> NoReturn:
        """Raises an InvalidNodeError about the replaced node."""
        self.context.refuse(self.node, problem, way_out)

    def done(self, result: str, index: int = 0) -> None:
        """Makes `result` the output `index` of the replaced node, by adding an Identity; does nothing if this output is
        omitted.
        """
        if index < len(self.node.outputs) and self.node.outputs[index]:
            self.add("Identity", result, output=self.node.outputs[index])


class FloatSteps(Steps[GraphContext]):
    """The ONNX nodes, under construction, that replace one node of a float model."""

    def array(self, index: int, description: str) -> np.ndarray | None:
        """The value of a constant input of the replaced node, None if it is left out; raises NodeError if it is not
        constant. `description`: the input's name in the message.
        """
        return self.context.array(self.node, index, description)

    def number(self, index: int, description: str, default: float) -> float:
        """The number in a constant input of the replaced node, or `default` if the input is left out. Raises NodeError
        if the input is not constant or not one element. `description`: the input's name in messages.
        """
        return self.context.number(self.node, index, description, default)

    def half_type(self) -> DType | None:
        """The first 16-bit float among the dtypes of the replaced node's inputs; None if there is none."""
        return self.context.half_type(self.node)

    def is_constant(self, index: int) -> bool:
        """Whether an input is present and constant."""
        return self.context.is_constant(self.node, index)

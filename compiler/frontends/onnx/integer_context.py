"""The state of one import of an integer graph: bound names, emitted nodes, and errors about nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import ClassVar, NamedTuple, NoReturn

import numpy as np

from ...graph.abilities import PLAIN, Abilities
from ...graph.graph import GraphInput, Shape, Tensor, quantized_tensor, unused
from ...graph.int8_convolution import Quantization
from ...graph.operators import Operator
from ...ir.types import DType
from .attributes import OnnxNode
from .constants import evaluate_node
from .context import GraphContext
from .known_values import Constant, QuantizedConstant
from .operations import Operation
from .values import FloatInput, Integer, Pending, Real, RowStatistic, Value, reshaped

GRIDS = ("QuantizeLinear", "DequantizeLinear")
QUANTIZE = (
    "quantize the model with `vdla quantize --whole` (or onnxruntime.quantization.quantize_static), "
    "or run it as it is with `vdla run --device cpu`"
)
MERGE_PATTERN = (
    "put a QuantizeLinear/DequantizeLinear pair there, as onnxruntime.quantization.quantize_static does"
)


def pending_result(
    node: OnnxNode,
    operation: Operation,
    natural: tuple[int, ...],
    *,
    shape: tuple[int, ...] | None = None,
    view: np.ndarray | None = None,
    before: tuple[str, ...] = (),
) -> Pending:
    """The result of a node as a pending value (`Pending`): `operation` is rounded when the QuantizeLinear that reads it
    is imported.

    `natural`: shape of the operation's own result. `view`: rearrangement of its elements. `shape`: shape of the node's
    result; by default that of `view`, or `natural` without a view. `before`: names of other nodes that the result
    includes.
    """
    seen = natural if view is None else view.shape
    return Pending(
        name=node.outputs[0],
        members=(*before, node.name),
        operation=operation,
        natural=natural,
        shape=seen if shape is None else shape,
        view=view,
    )


class Edges(NamedTuple):
    """Names of the inputs of an operator, and name and shape of its output."""

    inputs: tuple[str, ...]
    output: str
    shape: Shape


@dataclass(slots=True, kw_only=True)
class ImportContext(GraphContext):
    """The state of one call of `import_model`: the integer graph under construction, and the values bound to names.
    `abilities`: capabilities of the target, which decide the nodes that the graph may have. `unscaled`: tensors of
    integer inputs whose scale no node has given yet.
    """

    integer_biases: ClassVar[bool] = True
    """Whether products read int32 biases as integers, without a DequantizeLinear (used by `qlinear`)."""
    abilities: Abilities = PLAIN
    values: dict[str, Value] = field(default_factory=dict)
    """The value bound to each name of the model. (The fields `constants` and `tensors` are of the new graph.)"""
    inputs: list[GraphInput] = field(default_factory=list)
    unscaled: set[str] = field(default_factory=set)
    own_grids: bool = False
    """Whether a result that no QuantizeLinear rounds may get a scale from its bounds (`own_grids`)."""
    views: dict[str, np.ndarray] = field(default_factory=dict)
    masks: dict[FloatInput, Integer] = field(default_factory=dict)
    """For each model input that is a float mask, the quantized tensor that replaces it."""
    model_nodes: Sequence[OnnxNode] = ()
    """The nodes of the model."""
    initializers: frozenset[str] = frozenset()
    """Names of the model's initializers."""
    moved: dict[tuple[str, tuple[int | None, ...], bytes], str] = field(default_factory=dict)
    """Some tensors were made by rearranging the elements of other tensors. This maps (source tensor, shape and integer
    of pads, source indices as bytes) to the name of the new tensor.
    """

    def expand(self, node: OnnxNode) -> bool:
        """Returns False: an integer import replaces no node by others. Raises NodeError for unknown domains."""
        from .integer_importer import refuse_foreign

        refuse_foreign(self, node)
        return False

    def fold(self, node: OnnxNode) -> bool:
        """Evaluates a node with constant inputs only; returns whether it was evaluated. QuantizeLinear,
        DequantizeLinear and If are not evaluated, nor are Transpose and Identity of a quantized constant."""
        if node.op_type in (*GRIDS, "If") or not all(
            self.is_constant(node, index) for index, name in enumerate(node.inputs) if name
        ):
            return False
        if node.op_type in ("Transpose", "Identity") and isinstance(self.value(node, 0), QuantizedConstant):
            return False
        feeds = {name: self.array(node, index, "operand") for index, name in enumerate(node.inputs) if name}
        for name, array in evaluate_node(self, node, feeds, self.opset).items():
            self.values[name] = Constant(array=array)
        return True

    def import_operator(self, node: OnnxNode) -> None:
        """Binds a node's outputs to values, by the first operator table row (`table`) that accepts the node."""
        from .integer_importer import import_operator

        import_operator(self, node)

    def value(self, node: OnnxNode, index: int) -> Value | None:
        """The value bound to input `index`; None where the input is left out."""
        if index >= len(node.inputs) or not node.inputs[index]:
            return None
        name = node.inputs[index]
        if name not in self.values:
            self.refuse(node, f"its input '{name}' is produced by no node before it")
        return self.values[name]

    def bind(self, node: OnnxNode, value: Value) -> None:
        """Binds the node's first output to `value`; raises InvalidNodeError if ONNX inferred another shape."""
        name = node.outputs[0]
        expected = self.static_shapes.get(name)
        if expected is not None and expected != value.shape:
            self.check_shape(node, name, value.shape)
        if isinstance(value, Pending) and value.view is None and prod(value.natural) != prod(value.shape):
            raise AssertionError(f"{node.name} computes {value.natural}, but claims the shape {value.shape}")
        match value:
            case Integer(tensor=own, view=view) | Pending(name=own, view=view) if own == name:
                self.views |= {} if view is None else {name: view}
        self.values[name] = value

    def element_wise(
        self, node: OnnxNode, operation: Operation, data: Real, before: tuple[str, ...] = ()
    ) -> Pending:
        """The result of `operation` on each element of `data`, as a pending value; `before` as in `pending_result`."""
        natural = self.tensors[data.tensor].shape
        return pending_result(node, operation, natural, shape=data.shape, view=data.view, before=before)

    def present(self, node: OnnxNode, index: int) -> Value:
        """The value bound to input `index`; raises InvalidNodeError where it is missing."""
        value = self.value(node, index)
        if value is None:
            self.refuse(node, f"its input {index} is missing")
        return value

    def bind_same(self, node: OnnxNode) -> None:
        """Binds the node's first output to the value of its first input."""
        self.bind(node, self.present(node, 0))

    def bind_array(self, node: OnnxNode, array: np.ndarray) -> None:
        """Binds the node's first output to a known array."""
        self.bind(node, Constant(array=array))

    def tensor(self, node: OnnxNode, index: int) -> Tensor:
        """Describes an input by a Tensor: the model's name and shape, and the dtype of the input's integers (float32 if
        it has none). The Tensor need not be part of the graph. Raises InvalidNodeError if the input is missing.
        """
        value = self.present(node, index)
        match value:
            case Integer(dtype=dtype):
                held = DType(dtype)
            case Constant(array=array):
                held = self.constant_type(node, node.inputs[index], array)
            case _:
                held = DType.FLOAT32
        return Tensor(name=node.inputs[index], shape=value.shape, dtype=held)

    def operand(self, node: OnnxNode, index: int) -> Tensor:
        """Input `index` as the Tensor that the method `tensor` returns (with the model's name and shape). Its dtype is
        not checked, because the functions in `emit.REALIZED` check the dtypes of their operands themselves.
        """
        return self.tensor(node, index)

    def data_operand(self, node: OnnxNode, index: int) -> Tensor:
        """Input `index`, which must be quantized. Raises ModelError for other inputs, and says what they are."""
        from .emit import real_operand

        real_operand(self, node, index, viewed=True)
        return self.tensor(node, index)

    def reordered(self, node: OnnxNode, index: int, order: Callable[[np.ndarray], np.ndarray]) -> str:
        """The name of input `index`, unchanged: integer graphs read quantized weights in the model's own order, so
        `order` is not applied.
        """
        del order
        return node.inputs[index]

    def store(self, name: str, array: np.ndarray) -> str:
        """Binds a constant made at import to an unused name derived from `name`; returns this name."""
        unique = self._unused(name)
        self.values[unique] = Constant(array=array)
        return unique

    def taken(self, name: str) -> np.ndarray:
        """Removes the constant `name`, which `store` bound, and returns its array; the name can be used again."""
        stored = self.values.pop(name)
        assert isinstance(stored, Constant)
        return stored.array

    def is_constant(self, node: OnnxNode, index: int) -> bool:
        """Whether an input is present and constant."""
        return isinstance(self.value(node, index), Constant | QuantizedConstant)

    def _unused(self, name: str) -> str:
        """`name`, with a number appended if the model has a tensor of that name."""
        return unused(name, self.values, self.static_shapes)

    def add(
        self,
        node: OnnxNode,
        operator: Operator,
        inputs: tuple[str, ...],
        shape: Shape,
        *,
        output: str | None = None,
        dtype: DType = DType.FLOAT32,
        beside: Sequence[tuple[Shape, DType]] = (),
    ) -> str:
        """Binds a name to the value that `operator` computes from the values `inputs`; it has this `shape`. Returns the
        name: `output` or, by default, the node's first output. `dtype` is ignored: the value has the inputs' type.
        """
        from .emit import REALIZED

        assert not beside, node.name
        del dtype
        named = output or node.outputs[0]
        made = REALIZED[type(operator).__name__](self, node, operator, Edges(inputs, named, shape))
        assert made.shape == shape, (node.name, made.shape, shape)
        if output is None:
            self.bind(node, made)
        else:
            self.values[output] = made
        return named

    def view(self, node: OnnxNode, tensor: Tensor, shape: Shape, *, output: str | None = None) -> str:
        """Binds the first output, or an unused name derived from `output`, to the elements of `tensor` in another
        shape; returns the name.
        """
        value = self.values[tensor.name]
        if isinstance(value, RowStatistic):
            self.refuse_float(node, node.inputs.index(tensor.name), value)
        made = reshaped(value, shape)
        if output is None:
            self.bind(node, made)
            return node.outputs[0]
        output = self._unused(output)
        self.values[output] = made
        return output

    def bind_view(self, node: OnnxNode, shape: tuple[int, ...]) -> None:
        """Binds the node's first output to its first input, reshaped to `shape`, which has the same size."""
        value = self.present(node, 0)
        match value:
            case QuantizedConstant(axis=int(axis)):
                self.fail(
                    node,
                    f"a reshape of a constant quantized along axis {axis} is not supported",
                    "reshape the constant before it is quantized",
                )
            case Pending(members=members):
                self.bind(node, reshaped(replace(value, members=(*members, node.name)), shape))
            case RowStatistic():
                self.refuse_float(node, 0, value)
            case _:
                self.bind(node, reshaped(value, shape))

    def array(self, node: OnnxNode, index: int, description: str) -> np.ndarray | None:
        """A constant input's real values (None: left out). Raises NodeError, with `description`, for other inputs."""
        value = self.value(node, index)
        match value:
            case None:
                return None
            case Constant() | QuantizedConstant():
                return value.real()
            case _:
                return self.fail(
                    node,
                    f"its {description} '{node.inputs[index]}' is not a constant",
                    "make it an initializer",
                )

    def declare(self, name: str, shape: tuple[int, ...], quantization: Quantization) -> str:
        """Adds a tensor with this `quantization`; returns its name: `name`, with a suffix if `name` is taken."""
        unique = unused(name, self.tensors)
        self.tensors[unique] = quantized_tensor(unique, shape, quantization)
        return unique

    def node_name(self, name: str) -> str:
        """A name for a new node: `name`, with a suffix if another node has it. Later calls do not return it again."""
        unique = unused(name, self.node_names)
        self.node_names.add(unique)
        return unique

    def as_real(self, value: Integer, quantization: Quantization) -> Real:
        """The integer tensor `value` as a real tensor with the scale and zero point of `quantization`. A model input of
        integers has no scale of its own: the first call determines it.
        """
        tensor = self.tensors[value.tensor]
        if value.tensor in self.unscaled:
            self.unscaled.remove(value.tensor)
            self.tensors[value.tensor] = replace(tensor, quantization=quantization)
        return Real(tensor=value.tensor, shape=value.shape, quantization=quantization, view=value.view)

    def is_contiguous(self, data: Real) -> bool:
        """Whether a value consists of all elements of its tensor in the tensor's order. If it has four dimensions, it
        must also have the tensor's shape."""
        return data.view is None and (len(data.shape) != 4 or data.shape == self.tensors[data.tensor].nchw)

    def store_constant(self, name: str, stored: np.ndarray, quantization: Quantization) -> str:
        """Adds a constant tensor of stored int8 values; returns its name."""
        unique = self.declare(name, stored.shape, quantization)
        self.constants[unique] = np.ascontiguousarray(stored, dtype=np.int8)
        return unique

    def refuse_float(self, node: OnnxNode, index: int, value: Value | None) -> NoReturn:
        """Raises ModelError: input `index` is no quantized tensor. The message says what `value` is (None: missing)."""
        from .refusals import refuse_float

        return refuse_float(self, node, index, value)

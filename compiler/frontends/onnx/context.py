"""The state of an import of a float graph: the constants, tensors and nodes added so far, and errors about nodes.

An operator's import function gets the input tensors of an ONNX node from this context, and adds real-valued operators
to the context. In a float graph each added operator becomes a node. In an integer graph
(`integer_context.ImportContext`) it becomes a view, a node, or an operation that the next QuantizeLinear will round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ...graph.budgets import SMALLER, too_large
from ...graph.errors import NodeErrors
from ...graph.graph import Node, Shape, Tensor, unused
from ...graph.operators import Operator, Reshape
from ...ir.types import CODES, HALVES, DType
from .attributes import OnnxNode

TYPES = (
    *("float32", "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "bfloat16", "float64"),
    *CODES,
)
"""Element types that tensors of a graph may have."""


@dataclass(slots=True, kw_only=True)
class GraphContext(NodeErrors):
    """Collects a float graph; used by one call of `import_float_model` and then dropped.

    `input_names`: names of the model's inputs. `body_nodes`: number of nodes of all unrolled loop iterations.
    `renamed`: maps the output of a node that computes nothing to the tensor with the same values. `quantized`: the
    integer dtype of each float32 tensor that holds integer values; `integers`: maps some of these float32 tensors to
    integer tensors with the same values. `recurrent`: the recurrent operators whose steps the target computes in one
    kernel."""

    integer_biases: ClassVar[bool] = False
    """Whether products read int32 biases as integers, without a DequantizeLinear (used by `qlinear`)."""
    opset: int
    static_shapes: dict[str, Shape]
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    quantized: dict[str, str] = field(default_factory=dict)
    integers: dict[str, str] = field(default_factory=dict)
    node_names: set[str] = field(default_factory=set)
    recurrent: AbstractSet[str] = frozenset({"LSTM"})
    input_names: set[str] = field(default_factory=set)
    body_nodes: int = 0

    def expand(self, node: OnnxNode) -> bool:
        """Imports other ONNX nodes in place of a node that is no standard ONNX operator, or that has subgraphs. Returns
        False for other nodes. Raises NodeError for unknown domains."""
        from .float_importer import expand

        return expand(self, node)

    def fold(self, node: OnnxNode) -> bool:
        """Evaluates a node all of whose inputs are constants; returns whether it was evaluated."""
        from .float_importer import fold

        return fold(self, node)

    def import_operator(self, node: OnnxNode) -> None:
        """Adds the graph operators of a node, by the first row of the operator table (`table`) that accepts it."""
        from .float_importer import import_operator

        import_operator(self, node)

    def resolve(self, name: str) -> str:
        """The tensor or constant that the model's name `name` stands for; nodes that compute nothing are skipped."""
        return self.renamed.get(name, name)

    def array(self, node: OnnxNode, index: int, description: str) -> np.ndarray | None:
        """Value of a constant input, None if the input is left out; raises NodeError if it is not constant.
        `description`: the input's name in the message.
        """
        if index >= len(node.inputs) or not node.inputs[index]:
            return None
        name = self.resolve(node.inputs[index])
        if name in self.constants:
            return self.constants[name]
        from .parameters import fail_parameters

        return fail_parameters(self, node, index, description)

    def rank(self, node: OnnxNode, index: int) -> int:
        """Number of dimensions of input `index`; raises InvalidNodeError where it is missing."""
        name = self.resolve(node.inputs[index]) if index < len(node.inputs) else ""
        known = self.constants.get(name)
        return len(self.tensor(node, index).shape) if known is None else known.ndim

    def input_shape(self, node: OnnxNode) -> Shape:
        """The shape of the first input; raises InvalidNodeError where it is missing."""
        return self.tensor(node, 0).shape

    def bind_same(self, node: OnnxNode) -> None:
        """Makes the node's first output another name of its first input, because the values are equal."""
        self.renamed[node.outputs[0]] = self.tensor(node, 0).name

    def bind_view(self, node: OnnxNode, shape: Shape) -> None:
        """Binds the node's first output to a view of its first input: the same elements in another shape."""
        self.view(node, self.tensor(node, 0), shape)

    def bind_array(self, node: OnnxNode, array: np.ndarray) -> None:
        """Binds the node's first output to a constant."""
        self.constants[node.outputs[0]] = array

    def number(self, node: OnnxNode, index: int, description: str, default: float) -> float:
        """The number in a constant input, or `default` if the input is left out. Raises NodeError if the input is not
        constant or not one element. `description`: the input's name in messages."""
        array = self.array(node, index, description)
        if array is None:
            return default
        if array.size != 1:
            self.fail(
                node, f"its {description} must be one number, not {array.size} elements", "give one number"
            )
        return float(array.reshape(-1)[0])

    def reordered(self, node: OnnxNode, index: int, order: Callable[[np.ndarray], np.ndarray]) -> str:
        """Stores a rearranged copy of the constant weight at input `index`; returns the copy's name. The function
        `order` maps the weight's array to the rearranged array."""
        array = self.array(node, index, "weight")
        if array is None:
            self.refuse(node, "its weight is missing")
        return self.store(node.inputs[index], order(array))

    def is_constant(self, node: OnnxNode, index: int) -> bool:
        """Whether an input is present and constant."""
        return index < len(node.inputs) and self.resolve(node.inputs[index]) in self.constants

    def operand(self, node: OnnxNode, index: int) -> Tensor:
        """Input `index` as a graph tensor, constants included; raises NodeError where it is missing or not float32."""
        tensor = self.tensor(node, index)
        if tensor.dtype is not DType.FLOAT32:
            self.fail(
                node,
                f"its input '{node.inputs[index]}' is {tensor.dtype}",
                f"{node.op_type} is computed in float32 only: put a Cast to float32 before it",
            )
        return tensor

    def data_operand(self, node: OnnxNode, index: int) -> Tensor:
        """Input `index` as a tensor of the graph, checked before the node's other inputs and attributes: an integer
        graph requires it to be quantized.
        """
        return self.operand(node, index)

    def tensor(self, node: OnnxNode, index: int) -> Tensor:
        """Input `index`, of any dtype, as a graph tensor, constants included; raises NodeError where it is missing."""
        if index >= len(node.inputs) or not node.inputs[index]:
            self.refuse(node, f"its input {index} is missing")
        name = self.resolve(node.inputs[index])
        if name in self.tensors:
            return self.tensors[name]
        if name not in self.constants:
            self.refuse(node, f"its input '{name}' is produced by no node before it")
        array = self.constants[name]
        dtype = self.constant_type(node, name, array)
        self.tensors[name] = Tensor(name=name, shape=array.shape, dtype=dtype)
        return self.tensors[name]

    def constant_type(self, node: OnnxNode, name: str, array: np.ndarray) -> DType:
        """The dtype of the constant input `name` with value `array`; raises NodeError for types that no graph has."""
        if array.dtype.name not in TYPES:
            self.fail(
                node,
                f"its input '{name}' is a constant of type {array.dtype}, which is not supported",
                f"convert the constant to one of {', '.join(TYPES)}",
            )
        return DType(array.dtype.name)

    def types(self, node: OnnxNode) -> list[DType]:
        """Dtypes of the inputs that are tensors or constants of the graph, in the order of the inputs."""
        found: list[DType] = []
        for name in map(self.resolve, filter(None, node.inputs)):
            if name in self.tensors:
                found.append(self.tensors[name].dtype)
            elif name in self.constants and self.constants[name].dtype.name in TYPES:
                found.append(DType(self.constants[name].dtype.name))
        return found

    def half_type(self, node: OnnxNode) -> DType | None:
        """The first 16-bit float among the dtypes of a node's inputs; None if there is none."""
        return next((dtype for dtype in self.types(node) if dtype in HALVES), None)

    def store(self, name: str, array: np.ndarray) -> str:
        """Adds a constant (float64 as float32); returns its name: `name`, with a number appended if `name` is taken."""
        unique = self._unused(name)
        # The import computes some constants in float64; the graph stores them as float32.
        dtype = np.dtype(np.float32) if array.dtype == np.float64 else array.dtype
        # numpy's ascontiguousarray would add a dimension to a number.
        self.constants[unique] = np.asarray(array, dtype=dtype, order="C")
        self.tensors[unique] = Tensor(name=unique, shape=array.shape, dtype=DType(dtype.name))
        return unique

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
        """Adds a graph node, `operator` on the tensors `inputs`. Its result, of type `dtype`, is the ONNX node's first
        output, or the intermediate tensor `output`. Returns the name of the result. An empty result becomes a constant,
        without a node. Raises NodeError if ONNX inferred another shape. `beside`: shapes and dtypes of the ONNX node's
        second and later outputs, if the graph node computes them, too."""
        if output is None:
            output = node.outputs[0] or self.temporary(node, "output0")
            self.check_shape(node, output, shape)
        self.check_size(node, output, shape, dtype)
        if 0 in shape:
            # An empty tensor is a constant.
            self.constants[output] = np.zeros(shape, dtype.numpy)
            self.tensors[output] = Tensor(name=output, shape=tuple(shape), dtype=dtype)
            return output
        if any(self.tensors[given].size == 0 for given in inputs):
            self.fail(node, "cannot compute on an empty tensor", "remove the node from the model")
        name = unused(node.name, self.node_names)
        self.node_names.add(name)
        self.tensors[output] = Tensor(name=output, shape=tuple(shape), dtype=dtype)
        more = tuple([self._beside(node, number, *kind) for number, kind in enumerate(beside, start=1)])
        self.nodes.append(
            Node(
                name=name,
                members=(node.name,),
                operator=operator,
                inputs=inputs,
                output=output,
                more_outputs=more,
            )
        )
        return output

    def _beside(self, node: OnnxNode, number: int, shape: Shape, dtype: DType) -> str:
        """Declares the tensor of the ONNX node's output `number`; returns its name, a new one for an omitted output."""
        given = node.outputs[number] if number < len(node.outputs) else ""
        name = given or self.temporary(node, f"output{number}")
        self.check_shape(node, name, shape)
        self.check_size(node, name, shape, dtype)
        self.tensors[name] = Tensor(name=name, shape=shape, dtype=dtype)
        return name

    def check_shape(self, node: OnnxNode, output: str, shape: Shape) -> None:
        """Raises InvalidNodeError if ONNX's shape inference gave `output` another shape than `shape`."""
        expected = self.static_shapes.get(output)
        if expected is not None and expected != shape:
            self.refuse(
                node,
                f"its output '{output}' is declared {expected} but computes {shape}",
                "export the model again",
            )

    def check_size(self, node: OnnxNode, output: str, shape: Shape, dtype: DType) -> None:
        """Raises NodeError if a tensor `output` of this shape and dtype is too large. (Its shape may have been unknown
        when the shapes of the model were checked.)
        """
        if problem := too_large(shape, dtype.numpy.itemsize):
            self.fail(node, f"its output '{output}' {problem}", SMALLER)

    def view(self, node: OnnxNode, tensor: Tensor, shape: Shape, *, output: str | None = None) -> str:
        """Binds the node's first output, or the intermediate `output`, to a view of `tensor` in another shape. Returns
        the name of the view, or that of `tensor` if the shape is the same.

        A constant in another shape is a new constant, not a view.
        """
        if output is None and tensor.shape == shape:
            self.renamed[node.outputs[0]] = tensor.name
            return tensor.name
        if tensor.name in self.constants:
            array = self.constants[tensor.name].reshape(shape)
            if output is not None:
                return self.store(output, array)
            self.check_shape(node, node.outputs[0], shape)
            self.bind_array(node, array)
            return node.outputs[0]
        return self.add(node, Reshape(), (tensor.name,), shape, output=output, dtype=tensor.dtype)

    def temporary(self, node: OnnxNode, description: str) -> str:
        """An unused name with `description`, for an intermediate tensor of the nodes that replace one ONNX node."""
        stem = next(name for name in node.outputs if name)
        return self._unused(f"{stem}.{description}")

    def _unused(self, name: str) -> str:
        """`name`, with a number appended if the model or the graph has a tensor of that name."""
        return unused(name, self.constants, self.tensors, self.static_shapes)

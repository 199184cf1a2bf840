"""Graphs under construction, node by node: each tensor has a value and, for each element, a tolerance (`spread`) within
which other values are right, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import defs, helper, numpy_helper

from vdla.compiler.frontends.onnx.attributes import subgraphs

from ..drawing import Draw
from .oracle import IR_VERSION, Engine, NoValueError, element_type, node_run
from .spread import RECURRENT, ROUNDED, Spread, UnstableError, spread_of
from .tables import Operator
from .values import SHAPES, fresh_array

MOST_ELEMENTS = 2048
"""Largest number of elements of a tensor in a random graph."""
MOST_GATED = 1e4
"""Largest input of recurrent layers. A result is a difference of gates; if the gates are large, the difference has few
right digits.
"""
OF_FINITE = (
    ROUNDED
    | RECURRENT
    | {
        *("DynamicQuantizeLSTM", "DynamicQuantizeMatMul"),
        *("MaxPool", "GlobalMaxPool", "MaxRoiPool"),
        *("ArgMax", "ArgMin", "Clip", "Hardmax", "TopK"),
        *("Conv", "ConvTranspose", "LRN"),
    }
)
"""Operators whose result is undefined for inputs that are not finite. There are three reasons. An integer result cannot
be NaN or infinity. NaN has no order and cannot be a bound. And ONNX Runtime treats NaN in its own ways: it ignores NaN
in maxima and in the activations of recurrent layers, and propagates NaN to neighbours in convolutions and in running
sums.
"""
Fit = Callable[[np.ndarray], bool]
Given = str | np.ndarray | Sequence[str] | None
"""An input of a node: a tensor's name, a parameter's value, several names, or None if it is left out."""


class UnfitError(Exception):
    """Raised if an attempt to draw a random node did not give a valid node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A tensor of a graph. `spread`: for each element, the largest distance at which another value is still right.

    `constant`: the value does not depend on inputs of the model. `engine`: name of the oracle that computed the value,
    None for a constant or an input. `held`: drawings use the tensor only by its name and never choose it at random.
    """

    name: str
    array: np.ndarray
    spread: Spread
    constant: bool
    engine: Engine | None = None
    held: bool = False


class Builder:
    """A random graph under construction, which is a valid model after each added node."""

    def __init__(self, draw: Draw, opset: int) -> None:
        self.draw = draw
        self.opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.values: dict[str, Value] = {}
        self.inputs: list[str] = []
        self.reads: set[str] = set()
        self.scales: dict[str, str] = {}
        """Name of the scale of each dequantized tensor, by the tensor's name."""
        self.following = ""
        """The tensor that the next drawn node reads, if its type, rank and value fit; "" for any."""
        self.grids: list[tuple[str, str, str]] = []
        """Quantized tensors of the graph, each as three tensor names: integers, scale, zero point."""

    # --- tensors

    def tensor(
        self,
        dtypes: Sequence[str] = ("float32",),
        *,
        shape: Sequence[int] | None = None,
        ranks: Sequence[int] = (0, 1, 2, 3, 4),
        fit: Fit = lambda array: True,
        constant: float = 0.2,
        old: float = 0.65,
    ) -> str:
        """The name of a tensor of one of `dtypes` and `ranks`: with probability `old` an existing tensor, else a new
        one, which is a constant with probability `constant`. `shape`, if given, is the tensor's shape. `fit`: condition
        on the tensor's value. A tensor that is set as `following` comes first. Raises UnfitError if no value fits.
        """
        if self._follows(dtypes, shape, ranks, fit):
            name, self.following = self.following, ""
            return name
        if self.draw.chance(old):
            names = [
                value.name
                for value in self.values.values()
                if not value.held
                and not value.constant
                and value.array.dtype.name in dtypes
                and (value.array.ndim in ranks if shape is None else value.array.shape == tuple(shape))
                and fit(value.array)
            ]
            if names:
                # Recent tensors are more likely, so that graphs become deep.
                return names[-1] if self.draw.chance(0.4) else self.draw.of(names)
        dtype = self.draw.of(dtypes)
        for _ in range(8):
            array = fresh_array(
                self.draw, dtype, self.draw.of(SHAPES[self.draw.of(ranks)]) if shape is None else shape
            )
            if fit(array):
                return self.new(array, constant=self.draw.chance(constant))
        raise UnfitError("no new value fits")

    def _follows(
        self, dtypes: Sequence[str], shape: Sequence[int] | None, ranks: Sequence[int], fit: Fit
    ) -> bool:
        """Whether the tensor `following`, if one is set, has one of `dtypes`, the shape or one of `ranks`, and fits."""
        if not self.following:
            return False
        array = self.array(self.following)
        sized = array.ndim in ranks if shape is None else array.shape == tuple(shape)
        return sized and array.dtype.name in dtypes and fit(array)

    def new(self, array: np.ndarray | np.generic, *, constant: bool, held: bool = False) -> str:
        """Adds a constant or an input of the model (`constant` decides) with the value `array`; returns its name.
        `held`: drawings never choose the input at random (nor any constant). Raises UnfitError for more than
        MOST_ELEMENTS elements.
        """
        array = np.asarray(array)
        if array.size > MOST_ELEMENTS:
            raise UnfitError(f"{array.size} elements")
        name = f"{'c' if constant else 'x'}{len(self.values)}"
        if not constant:
            self.inputs.append(name)
        self.values[name] = Value(
            name=name, array=array, spread=Spread.none(array), constant=constant, held=held or constant
        )
        return name

    def parameter(self, array: np.ndarray | np.generic, *, run_time: float = 0.03) -> str:
        """Adds a tensor that parametrizes an operator (axes, a shape ...), as a constant or, with probability
        `run_time`, as an input of the model; returns its name.
        """
        return self.new(array, constant=not self.draw.chance(run_time), held=True)

    def array(self, name: str) -> np.ndarray:
        """The value of the tensor `name` for the inputs `feeds`, as computed node by node."""
        return self.values[name].array

    # --- nodes

    def schema(self, name: str) -> defs.OpSchema:
        """The schema of one of ONNX's own operators. Raises UnfitError if the opset does not have it."""
        try:
            schema = defs.get_schema(name, self.opset, "")
        except defs.SchemaError:
            raise UnfitError(f"opset {self.opset} has no {name}") from None
        if schema.deprecated:
            raise UnfitError(f"{name} is deprecated")
        return schema

    def types(self, name: str, formal: int | str) -> list[str]:
        """The types, by numpy's names, that the input `formal` (index or name) of ONNX's operator `name` may have.
        Raises UnfitError if the opset lacks the operator or the input.
        """
        for index, entry in enumerate(self.schema(name).inputs):
            if formal in (index, entry.name):
                return type_names(entry.types)
        raise UnfitError(f"{name} has no input {formal}")

    def apply(
        self, operator: Operator, formals: Mapping[str, Given], *, outputs: int = 1, **attributes: Any
    ) -> list[str]:
        """Adds a node of an operator of ONNX's own domain; returns the names of its outputs.

        `formals`: inputs of the node, by their names in the newest schema; inputs that the graph's opset has as
        attributes become attributes of the same name. Raises UnfitError if the node is not valid.
        """
        schema = self.schema(operator.name)
        names: list[str] = []
        left = dict(formals)
        for formal in schema.inputs:
            given = left.pop(formal.name, None)
            if given is None:
                if formal.option == defs.OpSchema.FormalParameterOption.Single:
                    raise UnfitError(f"opset {self.opset} wants {formal.name}")
                names.append("")
            elif isinstance(given, str):
                names.append(given)
            elif isinstance(given, np.ndarray):
                names.append(self.parameter(given))
            else:
                names.extend(given)
        for name, given in left.items():
            if given is None:
                continue
            if name not in schema.attributes or not isinstance(given, np.ndarray):
                raise UnfitError(f"opset {self.opset} has no {name}")
            attributes[name] = given.tolist()
        return self.node(operator, names, outputs=outputs, **attributes)

    def node(
        self, operator: Operator, inputs: Sequence[str], *, outputs: int = 1, **attributes: Any
    ) -> list[str]:
        """Adds a node of `operator` that reads the tensors named `inputs` in this order ("": left out); returns the
        names of its outputs. `outputs` is the number of outputs. Attributes that are None are left out. Raises
        UnfitError for an invalid node.
        """
        given = list(inputs)
        while given and not given[-1]:
            given.pop()
        if not operator.domain:
            # ONNX Runtime supports some operators in opsets older than their first.
            self.schema(operator.name)
        if any(isinstance(value, list) and not value for value in attributes.values()):
            raise UnfitError("an attribute of no elements has no type")
        number = len(self.nodes)
        names = [f"t{number}_{i}" for i in range(outputs)]
        node = helper.make_node(
            operator.name,
            given,
            names,
            f"n{number}_{operator.name}",
            domain=operator.domain,
            **{name: value for name, value in attributes.items() if value is not None},
        )
        return self.add(node)

    def add(self, node: onnx.NodeProto) -> list[str]:
        """Adds a node and computes the values of its outputs, whose names it returns. Raises UnfitError for a node that
        is invalid or does not suit: it reads only constants, or its results are too large, empty or not finite.
        """
        read = [name for name in dict.fromkeys((*node.input, *outer_names(node))) if name]
        if any(name not in self.values for name in read):
            raise UnfitError("reads what is not there")
        feeds = {name: self.values[name] for name in read}
        constant = all(value.constant for value in feeds.values())
        if constant and feeds and not self.draw.chance(0.1):
            raise UnfitError("has constants alone")
        arrays = {name: value.array for name, value in feeds.items()}
        if node.op_type in OF_FINITE and not all(_finite(array) for array in arrays.values()):
            raise UnfitError("has an input that is not finite")
        if node.op_type in RECURRENT and any(
            np.abs(array).max(initial=0) > MOST_GATED for array in arrays.values()
        ):
            raise UnfitError("its gates cancel each other")
        if node.op_type == "QuantizeLinear" and _overflows(*(arrays[name] for name in node.input[:2])):
            raise UnfitError("its steps are more than its type can count")
        try:
            run = node_run(node, self.opsets, arrays)
            results = run(arrays)
        except NoValueError as error:
            raise UnfitError(str(error)) from None
        outputs = [name for name in node.output if name]
        if len(results) != len(outputs) or any(array.size > MOST_ELEMENTS for array in results):
            raise UnfitError("makes too much")
        empty = not all(array.size for array in results)
        if empty and not self.draw.chance(0.05):
            raise UnfitError("makes nothing")
        if not all(_finite(array) for array in results) and (
            # ONNX Runtime's Softplus, an activation of recurrent layers, overflows where exp does.
            node.op_type in RECURRENT or not self.draw.chance(0.15)
        ):
            raise UnfitError("makes what is not finite")
        try:
            spreads = spread_of(
                run, node, {name: (value.array, value.spread) for name, value in feeds.items()}, results
            )
        except UnstableError as error:
            raise UnfitError(str(error)) from None
        for name, array, spread in zip(outputs, results, spreads, strict=True):
            self.values[name] = Value(
                name=name, array=array, spread=spread, constant=constant, engine=run.engine, held=empty
            )
        self.reads.update(read)
        self.nodes.append(node)
        return outputs

    def drawn(self, attempt: Callable[[], object]) -> bool:
        """Runs `attempt`, which adds nodes; returns whether it did not raise UnfitError. A failed attempt leaves the
        graph unchanged.
        """
        nodes, inputs, grids = len(self.nodes), len(self.inputs), len(self.grids)
        values, reads, scales = dict(self.values), set(self.reads), dict(self.scales)
        try:
            attempt()
        except UnfitError:
            del self.nodes[nodes:], self.inputs[inputs:], self.grids[grids:]
            self.values, self.reads, self.scales = values, reads, scales
            return False
        return True

    # --- the model

    def model(self, outputs: Sequence[str]) -> onnx.ModelProto:
        """The model with the given outputs, without constants and inputs that no node reads."""
        constants = [
            v for v in self.values.values() if v.name in self.reads and v.constant and self._is_leaf(v.name)
        ]
        inputs = [self.values[name] for name in self.inputs if name in self.reads]
        graph = helper.make_graph(
            self.nodes,
            "drawn",
            [_info(value) for value in inputs],
            [_info(self.values[name]) for name in outputs],
            [numpy_helper.from_array(value.array, value.name) for value in constants],
        )
        return helper.make_model(graph, opset_imports=self.opsets, ir_version=IR_VERSION)

    def feeds(self) -> dict[str, np.ndarray]:
        """The arrays of the model's inputs, by name."""
        return {name: self.array(name) for name in self.inputs if name in self.reads}

    def made(self) -> list[Value]:
        """The values that nodes compute (not the model's inputs and given constants), in the order of the nodes."""
        names = [name for node in self.nodes for name in node.output if name]
        return [self.values[name] for name in names]

    def _is_leaf(self, name: str) -> bool:
        return name.startswith("c")


def _info(value: Value) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(value.name, element_type(value.array.dtype), value.array.shape)


def outer_names(node: onnx.NodeProto) -> list[str]:
    """Names of the tensors defined outside of a node that its subgraphs read."""
    found: list[str] = []
    for body in subgraphs(node):
        own = {info.name for info in body.input} | {tensor.name for tensor in body.initializer}
        for inner in body.node:
            found.extend(name for name in (*inner.input, *outer_names(inner)) if name and name not in own)
            own.update(inner.output)
        found.extend(info.name for info in body.output if info.name not in own)
    return found


def _overflows(data: np.ndarray, scale: np.ndarray) -> bool:
    """Whether the largest element of `data` divided by the smallest scale exceeds the range of the type of `data`: the
    result of QuantizeLinear by ONNX's reference implementation is then undefined. False for integers.
    """
    if not data.size or not is_float(data.dtype):
        return False
    steps = np.abs(data.astype(np.float64)).max() / np.abs(scale.astype(np.float64)).min()
    return not steps <= float(ml_dtypes.finfo(data.dtype).max)


def _finite(array: np.ndarray) -> bool:
    return not is_float(array.dtype) or bool(np.isfinite(array.astype(np.float64)).all())


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is a float type, of numpy or ml_dtypes."""
    if dtype.kind == "f":
        return True
    try:
        ml_dtypes.finfo(dtype)
    except ValueError:
        return False
    return True


def type_names(types: Sequence[str] | set[str]) -> list[str]:
    """numpy's names of the tensor types in `types` (ONNX's names), sorted; strings and complex numbers are left out."""
    found = set()
    for entry in types:
        inner = entry.removeprefix("tensor(").removesuffix(")")
        if entry.startswith("tensor(") and inner in NUMPY_NAMES:
            found.add(NUMPY_NAMES[inner])
    return sorted(found)


NUMPY_NAMES: Mapping[str, str] = {
    "float": "float32", "double": "float64", "float16": "float16", "bfloat16": "bfloat16", "bool": "bool",
    **{name: name for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")},
    **{name: name for name in ("int4", "uint4", "int2", "uint2")},
    "float8e4m3fn": "float8_e4m3fn", "float8e5m2": "float8_e5m2",
    "float8e4m3fnuz": "float8_e4m3fnuz", "float8e5m2fnuz": "float8_e5m2fnuz",
}  # fmt: skip
"""numpy's names of types, by ONNX's names."""

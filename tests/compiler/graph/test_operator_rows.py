"""Attributes that nothing reads are refused by name, for every operator of both importers; each row of the operator
table lists what its function reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, get_args

import numpy as np
import onnx
import pytest
from float_networks import FloatNetwork, rounded_network
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi import onnxruntime_pybind11_state as runtime

import vdla
from vdla.compiler.cpu_stages import RECURRENT
from vdla.compiler.frontends.onnx import float_importer, integer_importer, table
from vdla.compiler.frontends.onnx.attributes import (
    CONTRIBUTED,
    CONTRIBUTED_DEFAULTS,
    NO_DEFAULT,
    OnnxNode,
    default_value,
    read_node,
)
from vdla.compiler.frontends.onnx.integer_context import ImportContext
from vdla.compiler.frontends.onnx.operations import Operation
from vdla.compiler.frontends.onnx.operator_rows import Kind, Located, Row
from vdla.compiler.frontends.onnx.values import Value
from vdla.compiler.graph.abilities import EVERYTHING
from vdla.compiler.graph.errors import ModelError, NodeError, NodeErrors

OPSET = 26
FLOAT: tuple[Kind, ...] = ("float", "either", "both", "plain", "steps", "contributed", "control")
FIRST = table.ROWS
WRITTEN = sorted(table.operators("integers"))
ON_FLOATS = sorted(table.operators("quantized", *FLOAT))
ALL = sorted({*WRITTEN, *ON_FLOATS})


def domain_of(operator: str) -> str:
    return CONTRIBUTED if operator in (*WRITTEN, *table.operators("contributed")) else ""


def single(operator: str, domain: str, **attributes: Any) -> onnx.ModelProto:
    """A model of one node, whose input need not be valid for the operator."""
    graph = helper.make_graph(
        [helper.make_node(operator, ["x"], ["y"], "the node", domain=domain, **attributes)],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])],
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIBUTED, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@pytest.mark.parametrize("target", ["llvm", "vdla", "vdla,llvm"])
@pytest.mark.parametrize("operator", ALL)
def test_an_invented_attribute_is_refused(operator: str, target: str) -> None:
    model = single(operator, domain_of(operator), invented=3)
    problem = "has the attribute invented"
    if operator in table.operators("contributed") and target != "llvm":
        refused = "(only processors and GPUs|is quantized dynamically)"
        problem = refused if target == "vdla" else rf"neither target .*{problem}"
    with pytest.raises(vdla.UserError, match=rf"'the node' \({operator}\): {problem}"):
        vdla.compile(model, target=target)


def test_each_row_names_a_function() -> None:
    for rows in table.ROWS.values():
        for row in rows:
            assert isinstance(row.function, Located) and callable(row.function.found())


def test_rows_name_values_that_there_are() -> None:
    behind = {name for rows in table.ROWS.values() for row in rows for name in row.behind}
    assert behind <= {kind.__name__ for kind in (*Operation.__subclasses__(), *get_args(Value))}


@pytest.mark.parametrize("operator", ON_FLOATS)
def test_each_row_refuses_what_it_does_not_read(operator: str) -> None:
    node = read_node(helper.make_node(operator, ["x"], ["y"], "the node", invented=3), 0)
    context = ImportContext(source="model", opset=OPSET, static_shapes={}, abilities=EVERYTHING)
    for row in table.ROWS[operator]:
        assert not row.takes(node, OPSET)
        with pytest.raises(NodeError, match=rf"'the node' \({operator}\): has the attribute invented = 3"):
            row(context, node)


@pytest.mark.parametrize("operator", ALL)
def test_default_values_are_taken_everywhere(operator: str) -> None:
    domain = domain_of(operator)
    defaults = dict(CONTRIBUTED_DEFAULTS) if domain else {}
    if not domain and onnx.defs.has(operator):
        names = onnx.defs.get_schema(operator, OPSET).attributes
        defaults = {name: default_value(operator, domain, name, OPSET) for name in names}
    given = {name: value for name, value in defaults.items() if value is not NO_DEFAULT}
    node = read_node(helper.make_node(operator, ["x"], ["y"], "the node", domain=domain, **given), 0)
    assert all(row.takes(node, OPSET) for row in table.ROWS[operator])


def test_defaults_of_contributed_operators_are_those_of_onnxruntime() -> None:
    found = [
        onnx.AttributeProto.FromString(attribute._default_value).i
        for schema in runtime.get_all_operator_schema()
        if schema.domain == CONTRIBUTED
        for name, attribute in schema.attributes.items()
        if name in CONTRIBUTED_DEFAULTS and schema.name in WRITTEN
    ]
    assert found and set(found) == set(CONTRIBUTED_DEFAULTS.values())


def test_rows_name_attributes_that_there_are() -> None:
    known: dict[str, set[str]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        known.setdefault(schema.name, set()).update(schema.attributes)
    for schema in runtime.get_all_operator_schema():
        known.setdefault(schema.name, set()).update(schema.attributes)
    for operator in ALL:
        for row in table.ROWS[operator]:
            named = {(operator, name) for name in (row.reads or frozenset()) | row.idle}
            # One function reads windows of both.
            there = known[operator].union(
                *(known.get(operator.removeprefix(prefix), ()) for prefix in ("QLinear", "DynamicQuantize"))
            )
            assert named <= {(operator, name) for name in there}


class Recorded(dict[str, Any]):
    """A dict of attributes that records which names are looked up, including missing ones."""

    def __init__(self, entries: Mapping[str, Any], asked: set[str]) -> None:
        super().__init__(entries)
        self.asked = asked

    def get(self, key: str, default: Any = None) -> Any:  # type: ignore[override]
        self.asked.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.asked.add(str(key))
        return super().__contains__(key)

    def __iter__(self) -> Iterator[str]:
        # Without it, `**` of a dictionary asks for no items.
        return super().__iter__()

    def __or__(self, other: Any) -> Recorded:
        return Recorded(dict(self.entries()) | other, self.asked)

    def entries(self) -> Any:
        return super().items()

    def items(self) -> Any:
        self.asked.update(self)
        return super().items()


Asked = dict[tuple[str, int], set[str]]
"""Names that were read, by operator and index of the row among the operator's rows."""


def recorded(row: Row, asked: set[str]) -> Row:
    def function(context: Any, node: OnnxNode) -> Any:
        return row.function(context, replace(node, attributes=Recorded(node.attributes, asked)))

    return replace(row, function=function)


def watch(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Replaces the functions in the importers' table by functions that also note which attributes they read. Returns
    the notes: names of attributes by operator and row. They fill up while models are imported.
    """
    found: Asked = {}
    watched = {
        operator: tuple(
            recorded(row, found.setdefault((operator, number), set())) for number, row in enumerate(rows)
        )
        for operator, rows in table.ROWS.items()
    }
    monkeypatch.setattr(table, "ROWS", watched)
    return found


def compare(asked: Asked, *kinds: Kind) -> None:
    """Asserts that each row of the importers' table with one of `kinds` lists exactly the attributes that its function
    has read. `asked`: the attributes that were read, by row.
    """
    rows = {
        (operator, number): row
        for operator, entry in table.ROWS.items()
        for number, row in enumerate(entry)
        if row.reads is not None and row.kind in kinds
    }
    unread = {key: sorted(row.reads - asked[key]) for key, row in rows.items()}
    unnamed = {key: sorted(asked[key] - row.reads) for key, row in rows.items()}
    assert not {key: names for key, names in unread.items() if names}
    assert not {key: names for key, names in unnamed.items() if names}


def built(
    operator: str,
    *inputs: Any,
    outputs: int = 1,
    opset: int = OPSET,
    outside: tuple[int, ...] | None = None,
    result: tuple[int, ...] | None = None,
    **attributes: Any,
) -> bytes:
    """The bytes of a model of one node. An element of `inputs` is either the shape of a float32 input, or a pair of an
    input's type and shape, or an array, which becomes a constant, or None for an input that is left out. `outputs`:
    number of outputs; `result`: their shape; `outside`: shape of an input of the model named "outside", which the
    subgraphs of the node may read.
    """
    names: list[str] = []
    given: list[onnx.ValueInfoProto] = []
    constants: list[onnx.TensorProto] = []
    for number, entry in enumerate(inputs):
        names.append("" if entry is None else f"i{number}")
        if isinstance(entry, np.ndarray | np.generic):
            constants.append(numpy_helper.from_array(np.asarray(entry), names[-1]))
        elif entry is not None:
            dtype, shape = entry if isinstance(entry[0], str) else ("FLOAT", entry)
            given.append(helper.make_tensor_value_info(names[-1], TensorProto.DataType.Value(dtype), shape))
    if outside is not None:
        given.append(helper.make_tensor_value_info("outside", TensorProto.FLOAT, outside))
    results = [f"o{number}" for number in range(outputs)]
    domain = domain_of(operator)
    node = helper.make_node(operator, names, results, "the node", domain=domain, **attributes)
    ends = [onnx.ValueInfoProto(name=name) for name in results]
    if result is not None:
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, result) for name in results]
    graph = helper.make_graph([node], "net", given, ends, constants)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(CONTRIBUTED, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    return inferred.SerializeToString()


def f(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def i(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def bodies() -> Iterator[bytes]:
    """Yields the bytes of models of If, Loop and Scan."""
    types = {"t": (TensorProto.INT64, []), "c": (TensorProto.BOOL, []), "d": (TensorProto.BOOL, [])}

    def body(*inputs: str, outputs: tuple[str, ...], nodes: list[onnx.NodeProto]) -> onnx.GraphProto:
        def info(name: str) -> onnx.ValueInfoProto:
            return helper.make_tensor_value_info(name, *types.get(name, (TensorProto.FLOAT, [3])))

        return helper.make_graph(nodes, "body", [info(n) for n in inputs], [info(n) for n in outputs])

    for chosen in (True, False):
        branch = body(outputs=("b",), nodes=[helper.make_node("Relu", ["outside"], ["b"])])
        yield built("If", np.array(chosen), outside=(3,), then_branch=branch, else_branch=branch)
    turn = body(
        *("t", "c", "s"),
        outputs=("d", "r"),
        nodes=[helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Relu", ["s"], ["r"])],
    )
    yield built("Loop", np.array(2), np.array(True), (3,), body=turn, result=(3,))
    step = body(
        *("s", "x"),
        outputs=("r", "y"),
        nodes=[helper.make_node("Add", ["s", "x"], ["r"]), helper.make_node("Relu", ["r"], ["y"])],
    )
    yield built("Scan", (3,), (2, 3), outputs=2, num_scan_inputs=1, body=step)


def of_function(place: str) -> Iterator[str]:
    """Names of the operators for which a row of the table names the function at `place` (a text as in `Located`)."""
    return (name for name, rows in FIRST.items() if any(row.function == Located(place) for row in rows))


def float_models() -> Iterator[bytes]:
    """Yields models that together use every row of the importers' tables of float operators. In these models, the
    import function of each row reads all attributes and constant inputs that it can read.
    """
    yield from bodies()
    for shape in ((1, 2, 6, 6), (1, 2, 6, 6, 6)):
        rank = len(shape) - 2
        ones = [1] * rank
        yield built("Conv", shape, f(4, 2, *[3] * rank))
        yield built("ConvTranspose", shape, f(2, 4, *[3] * rank))
        for pool in ("MaxPool", "AveragePool", "LpPool"):
            yield built(pool, shape, kernel_shape=[2] * rank, strides=ones)
    yield built("Gemm", (2, 3), f(4, 3), f(4), transB=1)
    yield built("Gemm", (2, 3), (3, 4))
    yield built("MatMul", (2, 3), f(3, 4))
    for kind, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        # As one kernel, between transpositions, and step by step.
        for variant in ({}, {"layout": 1}, {"clip": 0.5}):
            weights = f(1, gates * 4, 3), f(1, gates * 4, 4)
            yield built(kind, (5, 2, 3), *weights, outputs=2, hidden_size=4, **variant)
    yield built("BatchNormalization", (1, 2, 3, 3), f(2), f(2), f(2), f(2))
    yield built("BatchNormalization", (1, 2, 3, 3), (2,), (2,), (2,), (2,))
    yield built("LayerNormalization", (2, 3), f(3), f(3))
    yield built("LayerNormalization", (2, 3), (3,), (3,))
    yield built("GroupNormalization", (1, 4, 3, 3), f(4), f(4), num_groups=2)
    yield built("MeanVarianceNormalization", (1, 4, 3, 3))
    yield built("InstanceNormalization", (1, 2, 3, 3), f(2), f(2))
    yield built("InstanceNormalization", (1, 2, 3, 3), (2,), (2,))
    for name in ("GlobalMaxPool", "GlobalAveragePool"):
        yield built(name, (1, 2, 3, 3))
        yield built(name, (1, 2, 3, 3, 3))
    yield built("MaxPool", (1, 2, 6, 6), outputs=2, kernel_shape=[2, 2])
    yield built("MaxUnpool", (1, 1, 2, 2), ("INT64", (1, 1, 2, 2)), kernel_shape=[2, 2])
    yield built("Col2Im", (1, 4, 4), i(3, 3), i(2, 2))
    yield built("DFT", (1, 9, 1))
    yield built("DFT", (1, 9, 1), opset=17)
    yield built("STFT", (1, 30, 1), np.int64(3), f(8), onesided=1)
    yield built("EyeLike", (2, 3))
    for mode, more in (
        ("nearest", {"keep_aspect_ratio_policy": "not_larger"}),
        ("cubic", {"antialias": 1}),
        ("linear", {"coordinate_transformation_mode": "tf_crop_and_resize"}),
    ):
        region = np.array([0, 0, -1, 0, 1, 1, 2, 1], np.float32)
        yield built("Resize", (1, 1, 4, 4), region, None, i(1, 1, 6, 6), mode=mode, **more)
    for name in ("CumSum", "CumProd"):
        yield built(name, (2, 3), np.int64(1))
    for name in ("Softmax", "LogSoftmax"):
        yield built(name, (2, 3))
        yield built(name, ("FLOAT16", (2, 3)))
    for name in sorted(table.operators("float", "steps")):
        if name.startswith("Reduce"):
            yield built(name, (2, 3))
    for name in ("ArgMax", "ArgMin", "Hardmax"):
        yield built(name, (2, 3))
    yield built("TopK", (2, 3), i(2), outputs=2)
    yield built("OneHot", ("INT64", (2,)), np.int64(3), f(2))
    yield built("ScatterElements", (2, 3), ("INT64", (1, 3)), (1, 3))
    yield built("ScatterND", (2, 3), ("INT64", (1, 1)), (1, 3))
    for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        yield built(name, ("INT32", (2, 3)), ("INT32", (2, 3)))
    yield built("BitwiseNot", ("INT32", (2, 3)))
    yield built("BitShift", ("UINT32", (2, 3)), ("UINT32", (2, 3)), direction="LEFT")
    yield built("BitCast", (2, 3), to=TensorProto.INT32)
    yield built("Mod", (2, 3), (2, 3), fmod=1)
    yield built("Clip", (2, 3), np.float32(0))
    yield built("Pow", (2, 3), np.float32(2))
    for operator in of_function("float_operators.pointwise:import_unary"):
        yield built(operator, (2, 3))
    for operator in of_function("float_operators.pointwise:import_nary"):
        yield built(operator, (2, 3), (2, 3))
    for operator in ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"):
        yield built(operator, (2, 3), (2, 3))
    for operator in ("And", "Or", "Xor"):
        yield built(operator, ("BOOL", (2, 3)), ("BOOL", (2, 3)))
    yield built("Not", ("BOOL", (2, 3)))
    yield built("IsNaN", (2, 3))
    yield built("IsInf", (2, 3))
    yield built("Where", ("BOOL", (2, 3)), (2, 3), (2, 3))
    yield built("Cast", (2, 3), to=TensorProto.FLOAT8E8M0)
    yield built("CastLike", (2, 3), ("FLOAT8E8M0", (2,)))
    yield built("Transpose", (2, 3))
    for name in ("DepthToSpace", "SpaceToDepth"):
        yield built(name, (1, 4, 2, 2), blocksize=2)
    yield built("Concat", (2, 3), (2, 3), axis=0)
    yield built("Split", (4, 3), outputs=2, split=[1, 3], opset=11)
    yield built("Split", (4, 3), outputs=2, num_outputs=2)
    yield built("Slice", (4, 3), i(0), i(2))
    yield built("Gather", (4, 3), ("INT64", (2,)))
    yield built("GatherElements", (4, 3), ("INT64", (1, 3)))
    yield built("GatherND", (4, 3), ("INT64", (2, 1)))
    yield built("Trilu", (3, 3))
    yield built("Expand", (1, 3), i(2, 3))
    yield built("Pad", (2, 3), i(0, 1, 0, 1))
    yield built("Resize", (1, 2, 3, 3), None, np.array([1, 1, 2, 2], np.float32))
    yield built("GridSample", (1, 2, 3, 3), (1, 2, 2, 2))
    yield built("Flatten", (2, 3))
    yield built("Reshape", (2, 3), i(3, 2))
    for name in ("Squeeze", "Unsqueeze"):
        yield built(name, (1, 3), axes=[0], opset=11)
    for name in ("Identity", "Dropout", "Shape", "Size", "Mean"):
        yield built(name, (2, 3))
    yield built("QuantizeLinear", (2, 3), f(3), np.zeros(3, np.uint8))
    yield built("QuantizeLinear", (2, 3), f())
    yield built("QuantizeLinear", (2, 3), (3,))
    yield built("QuantizeLinear", (2, 3), f(), output_dtype=TensorProto.FLOAT8E4M3FN)
    yield built("GlobalLpPool", (1, 2, 4, 4))
    yield built("LpNormalization", (2, 3))
    yield built("LRN", (1, 4, 3, 3), size=3)
    yield built("ReverseSequence", (4, 2, 3), ("INT64", (2,)))
    yield built("MatMulInteger", ("INT8", (2, 3)), ("INT8", (3, 4)))
    window = {
        "auto_pad": "NOTSET",
        "dilations": [1, 1],
        "kernel_shape": [2, 2],
        "pads": [0] * 4,
        "strides": [1, 1],
    }
    yield built("ConvInteger", ("UINT8", (1, 2, 6, 6)), f(4, 2, 2, 2).astype(np.int8), group=1, **window)
    matrices, scale = [np.ones((1, size, 16), np.int8) for size in (3, 4)], (f(1), np.zeros(1, np.int8))
    nothing = [None] * 5
    yield built(
        "DynamicQuantizeLSTM",
        (5, 2, 3),
        *matrices,
        *nothing,
        *scale,
        *scale,
        hidden_size=4,
        result=(5, 1, 2, 4),
    )
    packed = np.zeros((4, 1, 16), np.uint8)
    given = {"K": 32, "N": 4, "bits": 4, "block_size": 32, "result": (2, 4)}
    yield built("MatMulNBits", (2, 32), packed, f(4), **given)
    yield built("Einsum", (2, 3), (3, 4), equation="ij,jk->ik")
    yield built("DequantizeLinear", ("INT8", (2, 3)), f(3))
    yield rounded_network()


def test_rows_of_the_float_tables_read_what_they_name(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = watch(monkeypatch)
    for model in float_models():
        # One output is of integers, which the last step refuses.
        with suppress(ModelError):
            float_importer.import_float_model(model, recurrent=RECURRENT)
    monkeypatch.undo()
    compare(asked, *FLOAT)


def rounded(net: FloatNetwork, dtype: Any = np.uint8) -> FloatNetwork:
    """Adds QuantizeLinear and DequantizeLinear of the last tensor to the network; returns the network."""
    operands = [net.constant(np.float32(0.05)), net.constant(np.zeros((), dtype))]
    net.add("QuantizeLinear", *operands)
    net.add("DequantizeLinear", *operands)
    return net


def between(
    operator: str, *others: Any, shape: tuple[int, ...] = (1, 4, 6, 6), opset: int = 21, **attributes: Any
) -> bytes:
    """The bytes of a model of one node whose input, of the given `shape`, and output are quantized (QDQ). `others`: the
    node's constant inputs (None: left out); the weights of a Conv, ConvTranspose or Gemm are stored as int8.
    """
    net = rounded(FloatNetwork(*shape, opset=opset))
    data, names = net.last, ["" if other is None else net.constant(other) for other in others]
    if operator in ("Conv", "ConvTranspose", "Gemm"):
        grid = [net.constant(np.float32(0.05)), net.constant(np.zeros((), np.int8))]
        names[0] = net.add("DequantizeLinear", inputs=[net.constant(others[0].astype(np.int8)), *grid])
    net.add(operator, inputs=[data, *names], **attributes)
    if operator == "Split":
        net.nodes[-1].output.append("rest")
    return of_any_shape(rounded(net).model())


def of_any_shape(model: bytes) -> bytes:
    """The bytes of the model, with the shape of its output inferred by ONNX."""
    proto = onnx.load_from_string(model)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    return onnx.shape_inference.infer_shapes(proto, data_prop=True).SerializeToString()


def on_integers(
    operator: str,
    *others: Any,
    result: tuple[int, ...],
    shape: tuple[int, ...] = (1, 4, 6, 6),
    **attributes: Any,
) -> bytes:
    """The bytes of a model of one of ONNX Runtime's operators on integers, between QuantizeLinear and DequantizeLinear.
    `others`: its further constant inputs; `result`: shape of its output.
    """
    net = FloatNetwork(*shape, opset=21)
    grid = [net.constant(np.float32(0.05)), net.constant(np.uint8(0))]
    net.add("QuantizeLinear", *grid)
    net.add(operator, *grid, *[net.constant(other) for other in others], domain=CONTRIBUTED, **attributes)
    net.add("DequantizeLinear", *grid)
    model = onnx.load_from_string(net.model())
    model.opset_import.append(helper.make_opsetid(CONTRIBUTED, 1))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info(net.last, TensorProto.FLOAT, result))
    return model.SerializeToString()


def integer_models() -> Iterator[bytes]:
    """Yields models that together use every row of the importers' tables of integer operators. In these models, the
    import function of each row reads all attributes and constant inputs that it can read.
    """
    yield from bodies()
    yield between("Conv", f(4, 4, 3, 3), kernel_shape=[3, 3])
    yield between("ConvTranspose", f(4, 4, 3, 3), kernel_shape=[3, 3])
    yield between("Gemm", f(3, 4), shape=(2, 3))
    yield between("MaxPool", kernel_shape=[2, 2])
    yield between("AveragePool", kernel_shape=[2, 2])
    yield between("ReduceMean", i(2, 3))
    yield between("ReduceMean", i(2), shape=(1, 4, 6))
    yield between("Transpose", perm=[0, 1, 3, 2])
    yield between("BatchNormalization", f(4), f(4), f(4), f(4))
    yield between("Resize", None, np.array([1, 1, 2, 2], np.float32), mode="nearest")
    yield between("Concat", axis=1)
    yield between("Split", axis=1, num_outputs=2)
    yield between("Gather", i(0), axis=1)
    yield between("GatherElements", np.zeros((1, 1, 1, 1), np.int64), axis=1)
    yield between("GatherND", np.zeros((1, 1), np.int64), batch_dims=1)
    yield between("InstanceNormalization", f(4), f(4))
    for name in ("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceSumSquare"):
        yield between(name, i(2, 3))
        yield between(name)
    yield between("Cast", to=TensorProto.FLOAT)
    yield between("DepthToSpace", blocksize=2)
    yield between("SpaceToDepth", blocksize=2)
    yield between("Pad", i(0, 0, 1, 1, 0, 0, 1, 1))
    yield between("ReduceL2", i(2), shape=(1, 4, 6))
    yield between("Softmax", shape=(2, 8))
    yield between("LayerNormalization", f(8), shape=(2, 8))
    yield between("RMSNormalization", f(8), shape=(2, 8), opset=23)
    for name in ("Softmax", "ReduceMean"):
        yield between(name, shape=(1, 8, 8))
    yield between("ReduceMean")
    masked = rounded(FloatNetwork(1, 8, 8))
    masked.add("Add", masked.constant(np.triu(np.full((8, 8), -1e9, np.float32), 1)))
    masked.add("Softmax", axis=-1)
    yield of_any_shape(rounded(masked).model())
    mean = rounded(FloatNetwork(1, 8, 8))
    mean.add("ReduceMean", axes=[-1])
    mean.add("Cast", to=TensorProto.FLOAT)
    yield of_any_shape(rounded(mean).model())
    weights = (np.ones((4, 4, 3, 3), np.int8), np.float32(0.1), np.int8(0))
    grid = (np.float32(0.1), np.uint8(0))
    yield on_integers("QLinearConv", *weights, *grid, result=(1, 4, 4, 4))
    matrix = (np.ones((4, 5), np.int8), np.float32(0.1), np.int8(0))
    yield on_integers("QGemm", *matrix, np.zeros(5, np.int32), *grid, shape=(2, 4), result=(2, 5))
    yield on_integers("QLinearAveragePool", *grid, kernel_shape=[2, 2], result=(1, 4, 5, 5))


def test_rows_of_the_integer_tables_read_what_they_name(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = watch(monkeypatch)
    for model in integer_models():
        # Some of these nodes are refused for what they are.
        with suppress(ModelError):
            integer_importer.import_model(model, abilities=EVERYTHING)
    monkeypatch.undo()
    compare(asked, "quantized")


@dataclass(slots=True, kw_only=True)
class Writing(NodeErrors):
    """Stand-in for the object that writes a node as a sequence of simpler nodes; every tensor has rank 4."""

    integer_biases: ClassVar[bool] = False
    opset: int

    def rank(self, node: OnnxNode, index: int) -> int:
        return 4


@pytest.mark.parametrize("operator", WRITTEN)
def test_steps_read_what_their_rows_name(operator: str) -> None:
    (row,), asked = table.ROWS[operator], set[str]()
    assert row.reads is not None
    given = {name: {"kernel_shape": [2, 2], "opset": OPSET}.get(name, 1) for name in row.reads}
    made = helper.make_node(operator, [f"i{k}" for k in range(9)], ["y"], "the node", **given)
    steps = recorded(row, asked)(Writing(source="model", opset=OPSET), read_node(made, 0))
    assert asked >= row.reads
    written = {entry.name for step in steps for entry in step.attribute}
    # Steps have `alpha` as a factor of a scale.
    assert written >= row.reads - {"alpha", "axes", "channels_last", "opset"}

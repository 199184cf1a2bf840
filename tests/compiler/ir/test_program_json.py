"""Programs as JSON: every tensor expression is read back as it was, and invalid documents are refused."""

from __future__ import annotations

import copy
import json
import math

import pytest
from campaign import examples
from every_operator import programs
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.compiler.ir.expr import Buffer, Const, Var
from vdla.compiler.ir.node_reader import MOST_DEPTH, MOST_NODES, ProgramFormatError
from vdla.compiler.ir.program_json import program_from_dict, program_to_dict
from vdla.compiler.ir.stmt import Assign, Program, nest
from vdla.compiler.ir.types import DType
from vdla.compiler.te.functions import FUNCTIONS
from vdla.compiler.te.ops.product import Matrices, product
from vdla.compiler.te.ops.reduction import reduction
from vdla.compiler.te.ops.softmax import softmax
from vdla.compiler.te.scalars import argument, gelu, relu

PLAIN = [name for name in programs() if name != "vdla patches"]
SIZES = st.integers(1, 40)


def round_trip(program: Program) -> Program:
    return program_from_dict(json.loads(json.dumps(program_to_dict(program), allow_nan=False)))


@pytest.mark.parametrize("name", PLAIN)
def test_programs_of_all_operators_come_back(name):
    assert round_trip(programs()[name]) == programs()[name]


@settings(max_examples=examples(12), deadline=None)
@given(sizes=st.tuples(SIZES, SIZES, SIZES), axis=st.integers(0, 2), width=st.sampled_from([1, 4, 32]))
def test_programs_of_any_size_come_back(sizes, axis, width):
    rows, depth, columns = sizes
    for program in (
        product(Matrices(rows=rows, depth=depth, columns=columns, batch_x=(2,), batch_w=(1,))),
        softmax(sizes, axis, width=width),
        reduction(sizes, (axis,), "max", width=width),
    ):
        assert round_trip(program) == program


def constants(*values: Const) -> Program:
    """A program whose stored value is the sum of the given constants, in order."""
    y = Buffer(name="Y", shape=(8,), dtype=DType.FLOAT32)
    i = Var("i")
    total = Const(0.0, DType.FLOAT32)
    for value in values:
        total = total + value
    return Program(
        name="row",
        parameters=(y,),
        body=nest([(i, 8)], Assign(name="a", buffer=y, indices=(i,), value=total)),
    )


def test_constants_keep_their_bits():
    values = [0.1, -0.0, 1.0, math.inf, -math.inf, 3.4028234663852886e38, 1e-45]
    program = constants(*[Const(float(DType.FLOAT32.numpy.type(v)), DType.FLOAT32) for v in values])
    assert repr(round_trip(program)) == repr(program)
    (node,) = [n for n in program_to_dict(constants(Const(math.nan, DType.FLOAT32)))["nodes"] if "nan" in n]
    assert node == ["const", "float32", "nan"]


def test_equal_expressions_are_one_node():
    x = Buffer(name="X", shape=(8,), dtype=DType.FLOAT32)
    y = Buffer(name="Y", shape=(8,), dtype=DType.FLOAT32)
    i = Var("i")
    value = x[i]
    for _ in range(4):
        value = gelu(value)
    body = nest([(i, 8)], Assign(name="a", buffer=y, indices=(i,), value=value))
    program = Program(name="chain", parameters=(x, y), body=body)
    # Each gelu reads what is before it twice.
    assert len(program_to_dict(program)["nodes"]) < 40
    assert round_trip(program) == program


def test_what_no_tensor_expression_has_is_not_written():
    with pytest.raises(ValueError, match="Intrinsic cannot be written as JSON"):
        program_to_dict(programs()["vdla patches"])
    with pytest.raises(ValueError, match="not the variable of a loop"):
        program_to_dict(constants(argument(0)))


DOCUMENT = program_to_dict(reduction((3, 4, 10), (1,), "sum"))
"""A valid JSON document of a reduction; its nodes 0 to 2 are loop variables, followed by the load, the condition and
the Reduce.
"""


def changed(**fields) -> dict:
    return {**copy.deepcopy(DOCUMENT), **fields}


def with_node(k: int, node) -> dict:
    document = copy.deepcopy(DOCUMENT)
    document["nodes"][k] = node
    return document


LEAF = ["const", "float32", 1.0]
DOUBLED = [LEAF, *[["+", k, k] for k in range(20)]]
DEEP = [LEAF, *[["cast", "float32", k] for k in range(200)]]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "must be an object"),
        ({}, "'buffers' is missing"),
        (changed(more=1), "'more' is not one of its fields"),
        (changed(name="a b"), "name is 'a b', but must consist of letters"),
        (changed(parameters=0), "parameters is 0, but must be 1 to 3"),
        (changed(parameters=True), "parameters is True"),
        (changed(buffers=[]), "a list of 1 to"),
        (changed(buffers=[["X"]]), r"buffers\[0\] is \['X'\], but must be a list: name, type"),
        (changed(buffers=[["X", "float128", "dram", 3]]), "'float128' must be one of"),
        (changed(buffers=[["X", "float32", "dram", 0]]), "size 0 must be 1 to"),
        (changed(buffers=[["X", "float32", "dram", 1 << 20, 1 << 20]]), "has more than"),
        (changed(nodes=[]), "nodes is a list of 0, but must be a list"),
        (
            changed(nodes=[LEAF] * (MOST_NODES + 1)),
            rf"nodes is a list of {MOST_NODES + 1}, but must be a list of 1 to",
        ),
        (changed(nodes=[LEAF]), "the last node is .*, but must be a statement"),
        (changed(nodes=DOUBLED), rf"nodes\[14\]: the tree has more than {MOST_NODES} nodes"),
        (changed(nodes=DEEP), rf"nodes\[{MOST_DEPTH}\]: the tree is more than {MOST_DEPTH} levels"),
        (with_node(0, 7), r"nodes\[0\]: must be a list that begins with a word"),
        (with_node(0, ["eval", "x"]), r"nodes\[0\]: there is no node 'eval'"),
        (with_node(0, ["var"]), "must have a name after its first word"),
        (with_node(0, ["var", "os.system('x')"]), "must consist of letters, digits"),
        (with_node(0, ["const", "int64", 1.0]), "1.0 is not a value of int64"),
        (with_node(0, ["const", "float32", 0.1]), "0.1 is not a value of float32"),
        (with_node(0, ["const", "float32", "1"]), "'1' is not a value of float32"),
        (with_node(0, ["const", "bool", 1]), "1 is not a value of bool"),
        (with_node(0, ["+", 0, 0]), "0 is not the number of an earlier node"),
        (with_node(1, ["+", 0, -1]), "-1 is not the number of an earlier node"),
        (with_node(1, ["load", 9, 0]), "9 is not the number of a buffer; it must be 0 to 2"),
        (with_node(1, ["seq", 0]), "node 0 must be a statement"),
        (with_node(-1, ["alloc", 2, 0]), "node 0 must be a statement"),
        (with_node(-1, ["seq"]), r"\], but `program_to_dict` writes .* there for the same program"),
        (changed(nodes=[LEAF, ["seq"]]), r"`program_to_dict` writes .* there"),
    ],
)
def test_what_is_no_program_is_refused(document, message):
    with pytest.raises(ProgramFormatError, match=message):
        program_from_dict(document)


def test_programs_are_verified():
    buffers = [[*b[:3], *([2] * len(b[3:]))] for b in DOCUMENT["buffers"]]
    with pytest.raises(ProgramFormatError, match=r"is not a valid program: .*outside"):
        program_from_dict(changed(buffers=buffers))


def test_a_program_has_one_document():
    document = copy.deepcopy(DOCUMENT)
    # An expression that nothing uses, and one that is there twice.
    document["nodes"].insert(len(document["nodes"]) - 1, ["const", "int64", 77])
    with pytest.raises(
        ProgramFormatError, match=r"nodes\[\d+\] is \['const', 'int64', 77\], but `program_to_dict` writes \["
    ):
        program_from_dict(document)


WRONG = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.sampled_from(["", "add", "int64", "X", "for", *FUNCTIONS]),
    st.lists(st.integers(0, 30), max_size=4),
)


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_changed_documents_are_programs_or_refused(data):
    x = programs()[data.draw(st.sampled_from(["softmax", "matmul", "convolution"]))]
    document = program_to_dict(x)
    for _ in range(data.draw(st.integers(1, 2))):
        table = document[data.draw(st.sampled_from(["nodes", "buffers"]))]
        row = table[data.draw(st.integers(0, len(table) - 1))]
        row[data.draw(st.integers(0, len(row) - 1))] = data.draw(WRONG)
    try:
        program = program_from_dict(json.loads(json.dumps(document)))
    except ProgramFormatError:
        return
    assert repr(program_to_dict(program)) == repr(document)


def test_a_fused_program_comes_back():
    from vdla.compiler.te.fusion import with_data, with_result
    from vdla.compiler.te.scalars import ELEMENT

    program = with_result(
        programs()["softmax"], relu(ELEMENT) + argument(3), {3: (3, 1)}, statements=("scale",)
    )
    program = with_data(program, argument(1) * argument(2), {1: (3, 13), 2: (1, 13)})
    assert round_trip(program) == program

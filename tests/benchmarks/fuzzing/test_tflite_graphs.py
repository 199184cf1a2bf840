"""Random TFLite graphs of the fuzz campaign: every operator can be drawn, and wrong results are reported."""

import numpy as np
import pytest

from vdla.benchmarks.fuzzing.drawing import Draw
from vdla.benchmarks.fuzzing.tflite import compared
from vdla.benchmarks.fuzzing.tflite.builder import FORMS, TfliteBuilder
from vdla.benchmarks.fuzzing.tflite.compared import compiled_outcome, operator_problem
from vdla.benchmarks.fuzzing.tflite.drawings import DRAWINGS
from vdla.benchmarks.fuzzing.tflite_graphs import LENGTHS, random_tflite_graph
from vdla.benchmarks.harness.tflite_files import Written
from vdla.compiler.frontends.tflite.rows import ROWS


def graph(index: int) -> Written:
    builder = random_tflite_graph(Draw("tflite_graphs", 5, index), index)
    assert builder is not None
    return builder.model


def test_every_operator_of_the_table_can_be_drawn() -> None:
    assert DRAWINGS.keys() == ROWS.keys()
    for place, kind in enumerate(sorted(ROWS)):
        draw = Draw("graphs", 0, place)
        tries = [TfliteBuilder(draw=draw, form=form) for form in FORMS * 4]
        assert any(
            builder.drawn(DRAWINGS[kind]) and kind in {name for name, *_ in builder.model.operators}
            for builder in tries
        ), kind


def test_equal_numbers_give_equal_files() -> None:
    assert graph(3).content() == graph(3).content() != graph(4).content()


def test_graphs_branch_and_have_several_outputs() -> None:
    models = [graph(index) for index in range(30)]
    sizes = [len(model.operators) for model in models]
    assert min(sizes) == min(LENGTHS) and max(sizes) >= max(LENGTHS)
    assert sum(len(model.outputs) > 1 for model in models) > 10
    read = [[i for _, inputs, *_ in model.operators for i in {*inputs} - {-1}] for model in models]
    assert sum(len(places) > len({*places}) for places in read) > 10


def test_wrong_values_are_told() -> None:
    builder = TfliteBuilder(draw=Draw("graphs", 0, 0), form="int8")
    assert builder.drawn(DRAWINGS["RELU"]) and builder.close()
    assert compiled_outcome(builder, "llvm").verdict == "right"
    (operator,) = builder.model.operators
    values = dict(builder.arrays)
    assert not operator_problem(builder.model, operator, values)
    values[operator[2][0]] = np.bitwise_xor(values[operator[2][0]], np.int8(2))
    assert "up to 2 steps" in operator_problem(builder.model, operator, values)


@pytest.mark.parametrize("kind", ["CONV_2D", "FULLY_CONNECTED"])
def test_hybrid_products_may_differ_by_the_rounding_of_their_data(kind: str) -> None:
    builder = TfliteBuilder(draw=Draw("graphs", 0, 1), form="hybrid")
    assert any(builder.drawn(DRAWINGS[kind]) for _ in range(20)) and builder.close()
    assert compiled_outcome(builder, "llvm").verdict == "right"


@pytest.mark.parametrize("wrong", [0.0, 1.0])
def test_float_outputs_are_compared_relative_to_the_values_before_them(
    monkeypatch: pytest.MonkeyPatch, wrong: float
) -> None:
    """An output of at most 1 that is computed from a value of about 1,000 may differ by 1e-4 between a run with that
    output alone and a run in which all results are outputs; with the further error `wrong`, the verdict is "wrong".
    """
    builder = TfliteBuilder(draw=Draw("graphs", 0, 0), form="float")
    model = builder.model
    x = model.tensor((4,), np.float32, None)
    square, y = (model.tensor((4,), np.float32, None) for _ in range(2))
    model.inputs, model.outputs = [x], [y]
    builder.arrays[x] = np.array([31.6, 5, 1, 2], np.float32)
    model.operators = [("SQUARE", (x,), (square,), "", {}), ("SIN", (square,), (y,), "", {})]
    builder.expected = [np.zeros(4, np.float32)]
    squares = np.square(builder.arrays[x])
    alone, whole = [np.sin(squares) + np.float32(1e-4 + wrong)], [squares, np.sin(squares)]
    monkeypatch.setattr(compared, "outputs_of", lambda model, *_: alone if len(model.outputs) == 1 else whole)
    monkeypatch.setattr(compared, "operator_problem", lambda *_: "")
    assert compiled_outcome(builder, "llvm").verdict == ("wrong" if wrong else "right")

"""Scalar expressions as lists of steps: they are read back as they were, and invalid steps are named."""

from __future__ import annotations

import json
import math

import pytest
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.compiler.ir.expr import Binary, Call, Const, Select
from vdla.compiler.ir.types import DType
from vdla.compiler.te import scalars
from vdla.compiler.te.scalar_steps import MOST_NODES, expression, steps_of

X, Z = scalars.argument(0), scalars.argument(1)


def test_a_shared_subexpression_is_one_step():
    body = scalars.tanh(X * 0.5) + scalars.relu(scalars.tanh(X * 0.5))
    assert steps_of(body) == (
        ("argument", 0),
        ("constant", "0.5"),
        ("*", 0, 1),
        ("tanh", 2),
        ("constant", "0.0"),
        ("max", 3, 4),
        ("+", 3, 5),
    )


def numbers(inner):
    conditions = st.builds(Binary, st.sampled_from(["<", "<=", "==", "!="]), inner, inner)
    conditions |= st.builds(Binary, st.sampled_from(["and", "or"]), conditions, conditions)
    return st.one_of(
        st.builds(Binary, st.sampled_from(["+", "-", "*", "min", "max"]), inner, inner),
        st.builds(Select, conditions, inner, inner),
        st.builds(lambda f, x: Call(f, (x,), DType.FLOAT32), st.sampled_from(["exp", "erf"]), inner),
        st.builds(scalars.divide, inner, inner),
    )


CONSTANTS = st.floats(width=32).map(lambda value: Const(value, DType.FLOAT32))
EXPRESSIONS = st.recursive(st.sampled_from([X, Z]) | CONSTANTS, numbers, max_leaves=12)


@settings(max_examples=examples(40), deadline=None)
@given(body=EXPRESSIONS)
def test_expressions_come_back(body):
    steps = steps_of(body)
    read = tuple(tuple(step) for step in json.loads(json.dumps(steps)))
    # By their text: NaN is unequal to itself.
    assert repr(expression(read)) == repr(body) and steps_of(expression(read)) == steps


def test_long_expressions_are_refused_at_once():
    body = X
    for _ in range(200):
        body = scalars.absolute(body)
    with pytest.raises(ValueError, match=f"more than {MOST_NODES}"):
        steps_of(body)
    doubled = (("argument", 0), *(("+", k, k) for k in range(200)))
    with pytest.raises(ValueError, match=r"step \d+ expands to an expression of \d+ nodes"):
        expression(doubled)


@pytest.mark.parametrize(
    "body", [scalars.argument(0, DType.BOOL), Const(1), X < Z, Call("gamma", (X,), DType.FLOAT32)]
)
def test_other_expressions_have_no_steps(body):
    with pytest.raises(ValueError, match=r"no element-wise step|must have a float32 result"):
        steps_of(body)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((), "must have a float32 result"),
        ((("argument", 0), ("<", 0, 0)), "must have a float32 result"),
        ((("argument", -1),), "step 0 is"),
        ((("argument", True),), "step 0 is"),
        ((("argument", 0), ("exp", 1)), "step 1 is"),
        ((("argument", 0), ("exp", 0, 0)), "step 1 is"),
        ((("argument", 0), ("exp", False)), "step 1 is"),
        ((("argument", 0), ("//", 0, 0)), "step 1 is"),
        ((("argument", 0), ("__import__", 0)), "step 1 is"),
        ((("argument", 0), ("select", 0, 0, 0)), "step 1 is"),
        ((("argument", 0), ("<", 0, 0), ("+", 0, 1)), "step 2 is"),
        ((("argument", 0), ("constant", "0.10"), ("+", 0, 1)), "step 1 has the constant '0.10'"),
        ((("argument", 0), ("constant", "0.1"), ("+", 0, 1)), "is not exactly the text of a float32"),
        ((("argument", 0), ("constant", "x"), ("+", 0, 1)), "step 1 has the constant 'x'"),
        ((("argument", 0), ("argument", 1), ("exp", 0)), "step 1 is used by no other step"),
        ((("argument", 0), ("argument", 0), ("+", 0, 1)), "must differ from each other"),
    ],
)
def test_invalid_steps_are_refused_with_the_reason(steps, message):
    with pytest.raises(ValueError, match=message):
        expression(steps)


def test_constants_keep_their_sign_and_are_numbers_of_all_kinds():
    for value in (-0.0, math.inf, -math.inf, 2.0**-149, 3.4028234663852886e38):
        (step,) = steps_of(Const(value, DType.FLOAT32))
        assert math.copysign(1, expression((step,)).value) == math.copysign(1, value)
        assert expression((step,)).value == value

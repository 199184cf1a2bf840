"""Element-wise operators on CPUs: tensor expressions compared with numpy, kernels compared with both."""

from __future__ import annotations

import math

import numpy as np
import pytest
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import evaluate, run, targets

from vdla.compiler.codegen.cpu.pool import Pool
from vdla.compiler.ir.expr import select
from vdla.compiler.ir.types import DType
from vdla.compiler.te import scalars
from vdla.compiler.te.merge import broadcast, merge_broadcast
from vdla.compiler.te.ops.float_elementwise import float_elementwise
from vdla.compiler.templates.cpu.loops import GRAIN
from vdla.compiler.templates.cpu.lowered import scheduled
from vdla.compiler.templates.cpu.table import CPU
from vdla.compiler.templates.cpu.workload import SketchCpu
from vdla.compiler.tune.measure.reference import expected as reference

X, Z = scalars.argument(0), scalars.argument(1)
ERF = np.vectorize(math.erf, otypes=[float])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


UNARY = {
    "relu": (scalars.relu(X), lambda x: np.maximum(x, 0)),
    "leaky_relu": (scalars.leaky_relu(X, 0.1), lambda x: np.where(x < 0, np.float32(0.1) * x, x)),
    "clip": (scalars.clip(X, -1.0, 2.0), lambda x: np.clip(x, -1, 2)),
    "sigmoid": (scalars.sigmoid(X), sigmoid),
    "tanh": (scalars.tanh(X), np.tanh),
    "exp": (scalars.exp(X), np.exp),
    "log": (scalars.log(X), np.log),
    "sqrt": (scalars.sqrt(X), np.sqrt),
    "negative": (scalars.negative(X), np.negative),
    "absolute": (scalars.absolute(X), np.abs),
    "elu": (scalars.elu(X, 0.5), lambda x: np.where(x < 0, 0.5 * np.expm1(x), x)),
    "hard_sigmoid": (scalars.hard_sigmoid(X), lambda x: np.clip(np.float32(0.2) * x + 0.5, 0, 1)),
    "hard_swish": (scalars.hard_swish(X), lambda x: x * np.clip(x * np.float32(1 / 6) + 0.5, 0, 1)),
    "swish": (scalars.swish(X), lambda x: x * sigmoid(x)),
    "gelu": (scalars.gelu(X), lambda x: 0.5 * x * (1 + ERF(x / math.sqrt(2)))),
    "gelu_tanh": (
        scalars.gelu_tanh(X),
        lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    "softsign": (scalars.softsign(X), lambda x: x / (1 + np.abs(x))),
    "erf": (scalars.erf(X), ERF),
    "square": (scalars.power(X, 2), lambda x: x**2),
    "power": (scalars.power(X, -2.5), lambda x: np.power(x, -2.5)),
}
BINARY = {
    "add": (X + Z, np.add),
    "subtract": (X - Z, np.subtract),
    "multiply": (X * Z, np.multiply),
    "divide": (scalars.divide(X, Z), np.divide),
    "maximum": (scalars.maximum(X, Z), np.maximum),
    "minimum": (scalars.minimum(X, Z), np.minimum),
    "prelu": (scalars.leaky_relu(X, Z), lambda x, z: np.where(x < 0, x * z, x)),
}
SPECIAL = np.array(
    [math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-40, 3e38, -3e38, 1, -1, 100, -100], np.float32
)


def values(shape, seed=0):
    """Random normal float32 values, of which a fifth are special values (SPECIAL)."""
    rng = np.random.default_rng(seed)
    plain = rng.normal(0, 3, shape).astype(np.float32)
    return np.where(rng.random(shape) < 0.2, rng.choice(SPECIAL, shape), plain)


def exact(function, *arrays):
    with np.errstate(all="ignore"):
        return function(*(a.astype(np.float64) for a in arrays)).astype(np.float32)


@pytest.mark.parametrize("target", targets(), ids=lambda t: t.cpu)
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one(name, target):
    body, function = UNARY[name]
    x = values((101,))
    program = float_elementwise([x.shape], body)
    expected = exact(function, x)
    for result in (evaluate(program, {"X0": x}), *run(program, {"X0": x}, scheduled, target)):
        # Where terms cancel (elu, gelu near 0), errors are relative to the terms.
        np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-7)


def test_signs_of_zeros():
    x = np.array([0.0, -0.0], np.float32)
    assert list(np.signbit(evaluate(float_elementwise([(2,)], scalars.negative(X)), {"X0": x}))) == [
        True,
        False,
    ]
    assert not np.signbit(evaluate(float_elementwise([(2,)], scalars.absolute(X)), {"X0": x})).any()


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two(name):
    body, function = BINARY[name]
    x, z = values((7, 1, 9)), values((5, 1), seed=1)
    program = float_elementwise([x.shape, z.shape], body)
    arrays = {"X0": x, "X1": z}
    expected = exact(function, x, z).reshape(program.parameters[-1].shape)
    np.testing.assert_array_equal(evaluate(program, arrays), expected)
    for target in targets():
        (result,) = run(program, arrays, scheduled, target)
        np.testing.assert_array_equal(result, expected)


@st.composite
def broadcast_shapes(draw):
    result = draw(st.lists(st.integers(1, 19), min_size=0, max_size=4))
    shapes = []
    for _ in range(draw(st.integers(1, 3))):
        shape = [draw(st.sampled_from([1, size])) for size in result]
        shapes.append(tuple(shape[draw(st.integers(0, len(shape))) :]))
    return shapes


@settings(max_examples=examples(25), deadline=None)
@given(shapes=broadcast_shapes(), level=st.sampled_from(range(len(targets()))))
def test_any_shapes(shapes, level):
    arrays = {f"X{i}": values(shape, seed=i) for i, shape in enumerate(shapes)}
    body = X
    for i in range(1, len(shapes)):
        body = body * 2.0 + scalars.argument(i)
    program = float_elementwise(shapes, body)
    merged, _ = merge_broadcast(shapes)
    assert np.prod(merged) == np.prod(np.broadcast_shapes(*shapes))
    expected = arrays["X0"]
    with np.errstate(all="ignore"):
        for i in range(1, len(shapes)):
            expected = expected * np.float32(2) + arrays[f"X{i}"]
    expected = np.broadcast_to(expected, np.broadcast_shapes(*shapes)).reshape(merged)
    (result,) = run(program, arrays, scheduled, targets()[level])
    np.testing.assert_array_equal(result, expected)


@settings(max_examples=examples(12), deadline=None)
@given(shapes=broadcast_shapes(), level=st.sampled_from(range(len(targets()))), seed=st.integers(0, 99))
def test_any_point_of_any_shapes(shapes, level, seed):
    body = X
    for i in range(1, len(shapes)):
        body = select(
            body < 0.25, body * 2.0 + scalars.argument(i), scalars.divide(scalars.argument(i), body)
        )
    program, target = float_elementwise(shapes, body), targets()[level]
    workload = SketchCpu(operator="elementwise", expression=program)
    arrays = {f"X{i}": values(p.shape, seed=i) for i, p in enumerate(program.parameters[:-1])}
    own = CPU.space(target, workload)
    point = own.values(own.sample(np.random.default_rng(seed), 1)[0])

    def of_point(target, program, *, parallel):
        return CPU.schedule(target, workload, point, program)

    (result,) = run(program, arrays, of_point, target)
    np.testing.assert_array_equal(result, reference(workload.program(), arrays), err_msg=str(point))


@pytest.mark.parametrize(
    ("shapes", "knobs"),
    [
        ([(9, 7000), (7000,)], {"nest.unroll": 4, "nest.vectors": 2}),
        ([(5, 6, 3000), (6, 1), (5, 1, 3000)], {"nest.unroll": 2}),
        ([(40000, 3), (3,)], {"nest.loop": 1, "nest.vectors": 2}),
    ],
)
def test_points_in_parallel(shapes, knobs):
    body = X * Z + scalars.argument(len(shapes) - 1)
    program, target = float_elementwise(shapes, body), targets()[0]
    workload = SketchCpu(operator="elementwise", expression=program)
    own = CPU.space(target, workload)
    point = {axis.name: axis.values[0] for axis in own.axes} | knobs
    assert own.legal(own.point(point)[None]).all()
    arrays = {f"X{i}": values(p.shape, seed=i) for i, p in enumerate(program.parameters[:-1])}
    s = CPU.schedule(target, workload, point, program)
    assert "parallel" in {a for step in s.trace for a in step.arguments}
    with Pool(2) as pool:
        (result,) = run(program, arrays, lambda *_, **__: s, target, pool)
    np.testing.assert_array_equal(result, reference(workload.program(), arrays))


@pytest.mark.parametrize("name", UNARY)
def test_the_reference_computes_what_the_interpreter_does(name):
    body, _ = UNARY[name]
    x = values((101,))
    program = float_elementwise([(101,)], body)
    np.testing.assert_array_equal(reference(program, {"X0": x}), evaluate(program, {"X0": x}))


@pytest.mark.parametrize(
    "shapes", [[(5 * GRAIN + 3,)], [(9, 7000), (7000,)], [(3, 2, 40000), (2, 1)], [(20000, 3), (3,)]]
)
def test_parallel(shapes):
    arrays = {f"X{i}": values(shape, seed=i) for i, shape in enumerate(shapes)}
    body = X + Z if len(shapes) == 2 else X * X
    program = float_elementwise(shapes, body)
    s = scheduled(targets()[0], program, parallel=True)
    assert "parallel" in {a for step in s.trace for a in step.arguments}
    with Pool(2) as pool, np.errstate(all="ignore"):
        (result,) = run(program, arrays, scheduled, targets()[0], pool)
        expected = arrays["X0"] + arrays["X1"] if len(shapes) == 2 else arrays["X0"] ** 2
    np.testing.assert_array_equal(result, expected.reshape(result.shape))


def test_small_work_is_not_parallel():
    program = float_elementwise([(8, 100), (100,)], X + Z)
    s = scheduled(targets()[0], program, parallel=True)
    assert "parallel" not in {a for step in s.trace for a in step.arguments}


def test_merged_shapes():
    assert merge_broadcast([(2, 3, 4), (2, 3, 4)]) == ((24,), ((24,), (24,)))
    assert merge_broadcast([(1, 8, 5, 5), (8, 1, 1)]) == ((8, 25), ((8, 25), (8, 1)))
    assert merge_broadcast([(1, 1), ()]) == ((1,), ((1,), (1,)))
    with pytest.raises(ValueError, match="do not broadcast"):
        broadcast([(2, 3), (4,)])


def test_inputs_and_results_of_other_types():
    x, z, chosen = values((5, 40)), values((40,), seed=1), np.arange(5)[:, None] % 2 == 0
    shapes = [chosen.shape, x.shape, z.shape]
    where = select(scalars.argument(0, DType.BOOL), scalars.argument(1), scalars.argument(2))
    less = scalars.argument(1) < scalars.argument(2)
    arrays = {"X0": chosen, "X1": x, "X2": z}
    for target in targets():
        (result,) = run(float_elementwise(shapes, where), arrays, scheduled, target)
        np.testing.assert_array_equal(result, np.where(chosen, x, z))
        (result,) = run(float_elementwise(shapes, less), arrays | {"X0": x[:, :1]}, scheduled, target)
        np.testing.assert_array_equal(result, x < z)


def test_inputs_that_are_not_there():
    with pytest.raises(ValueError, match="uses argument1, but there are only 1 inputs"):
        float_elementwise([(3,)], X + Z)


def test_exponents_without_a_short_form():
    with pytest.raises(ValueError, match="cannot be written as a few multiplications"):
        scalars.power(X, 0.3)

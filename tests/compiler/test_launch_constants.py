"""Launches that read equal constants share one array: a weight that several nodes use, and equal initializers."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.cpu_stages import cpu_ahead, cpu_now
from vdla.compiler.kernel_launches import LaunchConstants
from vdla.compiler.pipeline import compile_kernels
from vdla.compiler.schedule.trace import Step


def shared_twice(equal: bool) -> bytes:
    """A model of two products with one weight or, with `equal`, with two initializers of equal bytes, and a softmax
    between them.
    """
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((40, 40)).astype(np.float32)
    names = ("w", "w2") if equal else ("w", "w")
    nodes = [
        helper.make_node("MatMul", ["x", names[0]], ["a"], "first"),
        helper.make_node("Softmax", ["a"], ["b"], "between"),
        helper.make_node("MatMul", ["b", names[1]], ["y"], "second"),
    ]
    io = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (3, 40)) for n in "xy"]
    initializers = [numpy_helper.from_array(weight, name) for name in sorted(set(names))]
    graph = helper.make_graph(nodes, "g", io[:1], io[1:], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def arrays_of(launches):
    return [array for launch in launches for array in launch.constants.values()]


@pytest.mark.parametrize("equal", [False, True], ids=["one", "equal"])
@pytest.mark.parametrize("ahead", [False, True], ids=["now", "ahead"])
def test_a_weight_is_packed_once(equal, ahead):
    model = shared_twice(equal)
    launches = (
        compile_kernels(model, cpu_ahead(host_target())) if ahead else compile_kernels(model, cpu_now())
    ).launches
    arrays = arrays_of(launches)
    assert len(arrays) == 2
    assert len({array.ctypes.data for array in arrays}) == 1


def test_arrays_of_other_bytes_types_or_shapes_stay_apart():
    constants = LaunchConstants(lambda array, shape: array.reshape(shape).copy())
    many = np.arange(3000, dtype=np.float32)
    other = many.copy()
    other[-1] = 0
    cases = [
        ("k", (), many, (3000,)),
        ("l", (), many.copy(), (3000,)),
        ("k", (), other, (3000,)),
        ("o", (), many.view(np.int32), (3000,)),
        ("m", (), many, (30, 100)),
        ("n", (Step(primitive="pack", arguments=("W", ((0, 7),), (1, 0))),), many, (7, 429)),
    ]
    made = [constants.of(key, trace, {"W": a}, {"W": shape})["W"] for key, trace, a, shape in cases]
    assert made[0] is made[1]
    assert len({id(array) for array in made}) == 5
    for (_, _, given, shape), array in zip(cases[:-1], made[:-1], strict=True):
        np.testing.assert_array_equal(array, given.reshape(shape))

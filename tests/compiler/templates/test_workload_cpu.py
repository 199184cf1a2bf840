"""Tuning workloads of CPUs: written as JSON and read back, extracted from networks, whose schedules use the knobs
chosen for them.
"""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest
from float_networks import FloatNetwork
from onnx import TensorProto, helper, numpy_helper

from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.cpu_stages import CpuLowering, cpu_ahead, cpu_now
from vdla.compiler.ir.hash import structural_hash
from vdla.compiler.ir.program_json import program_to_dict
from vdla.compiler.pipeline import compile_kernels, network_workloads
from vdla.compiler.te import scalars
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.ops.blocked_convolution import FloatSums, blocked_convolution
from vdla.compiler.te.ops.convolution import Convolution
from vdla.compiler.te.ops.float_elementwise import float_elementwise
from vdla.compiler.te.ops.float_pool import float_pool
from vdla.compiler.te.ops.product import DOT_INT8, Matrices, product
from vdla.compiler.te.ops.sums import Epilogue
from vdla.compiler.templates.chosen_knobs import ChosenKnobs
from vdla.compiler.templates.cpu.read_workload import workload_from_dict
from vdla.compiler.templates.cpu.table import CPU
from vdla.compiler.templates.cpu.workload import SketchCpu
from vdla.compiler.templates.workload_limits import WorkloadError

PADDED = Window(kernel=(3, 3), pads=(1, 1, 1, 1))
CONVOLUTION = SketchCpu(
    operator="conv2d",
    constants=("W",),
    expression=blocked_convolution(
        Convolution(batch=1, channels=8, height=6, width=7, filters=16, window=PADDED),
        block_in=8,
        block_out=16,
        sums=FloatSums(epilogue=Epilogue(bias=True, activation="relu")),
    ),
)

ADDITION = SketchCpu(
    operator="elementwise",
    expression=float_elementwise(
        [(2, 8, 5, 5), (8, 1, 1)], scalars.gelu(scalars.argument(0) + scalars.argument(1))
    ),
)


SKETCH = SketchCpu(
    operator="conv_transpose",
    constants=("W",),
    expression=blocked_convolution(
        Convolution(batch=1, channels=2, height=2, width=3, filters=4, window=PADDED, transposed=True),
        block_in=2,
        block_out=4,
    ),
)
MATMUL = SketchCpu(
    operator="matmul", expression=product(Matrices(rows=3, depth=4, columns=9, batch_x=(2,), batch_w=(2,)))
)

POOL = SketchCpu(
    operator="pool",
    expression=float_pool((1, 4, 4, 8), Window(kernel=(2, 2)), "average"),
)


@pytest.mark.parametrize(
    "workload",
    [
        SKETCH,
        MATMUL,
        CONVOLUTION,
        SketchCpu(
            operator="dense", constants=("W",), expression=product(Matrices(rows=3, depth=4, columns=5))
        ),
        POOL,
        ADDITION,
    ],
)
def test_workloads_are_json(workload):
    again = workload_from_dict(json.loads(json.dumps(workload.to_dict())))
    assert again == workload
    assert structural_hash(again.program()) == structural_hash(workload.program())
    # Keys of records are made of it: nothing in it is a tuple, which JSON does not have.
    assert json.loads(json.dumps(workload.to_dict())) == workload.to_dict()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"template": "conv3d_cpu"}, "there is no template 'conv3d_cpu' on processors"),
        ({"colour": 1}, "sketch_cpu: colour is not one of its fields"),
        ({"window": None}, "sketch_cpu: window is not one of its fields"),
    ],
)
def test_what_is_no_workload_is_refused_with_its_field(wrong, message):
    with pytest.raises(WorkloadError, match=message):
        workload_from_dict({**CONVOLUTION.to_dict(), **wrong})


def test_what_is_no_program_to_be_tuned_is_refused():
    expression = MATMUL.to_dict()["expression"]
    integers = program_to_dict(product(Matrices(rows=3, depth=4, columns=5), types=DOT_INT8))
    long = [["X", "float32", "dram", 1 << 24], *expression["buffers"][1:]]
    for wrong, message in (
        (
            {"operator": "lstm"},
            "operator has 'lstm'|operator is 'lstm', must be one of conv2d, dense, matmul",
        ),
        ({"constants": ["Y"]}, r"constants \(Y\) must be names among X, W, in this order"),
        ({"constants": [1]}, r"constants is \[1\], must be a list of names"),
        ({"expression": None}, "sketch_cpu: expression is None, but must be an object"),
        ({"expression": {**expression, "buffers": long}}, "expression is not a valid program: dense"),
        ({"expression": integers}, "parameter X is uint8; candidates are timed"),
        ({"expression": {**expression, "parameters": 1}}, "expression is not a valid program"),
    ):
        with pytest.raises(WorkloadError, match=message):
            workload_from_dict({**MATMUL.to_dict(), **wrong})
    # As large as tensors may be, and so much that nobody would wait for it.
    forever = product(Matrices(rows=512, depth=512, columns=512, batch_x=(2048,), batch_w=(2048,)))
    with pytest.raises(WorkloadError, match=r"statements run 2\d* times"):
        workload_from_dict({**MATMUL.to_dict(), "expression": program_to_dict(forever)})


def test_what_no_memory_holds_is_refused():
    huge = Convolution(
        batch=1, channels=1, height=1 << 16, width=1 << 16, filters=1, window=Window(kernel=(1, 1))
    )
    program = blocked_convolution(huge, block_in=1, block_out=1)
    with pytest.raises(WorkloadError, match=r"buffers\[0\] has more than 2147483648 elements"):
        workload_from_dict({**CONVOLUTION.to_dict(), "expression": program_to_dict(program)})


def chain():
    """A model of relu(sigmoid(x) + b) * x with one b for each channel, followed by a transposition, which is no
    element-wise node.
    """
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["s"], "sigmoid"),
        helper.make_node("Add", ["s", "b"], ["t"]),
        helper.make_node("Relu", ["t"], ["r"]),
        helper.make_node("Mul", ["r", "x"], ["m"], "product"),
        helper.make_node("Transpose", ["m"], ["y"], perm=[2, 1, 0]),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", (6, 40, 20)), ("y", (20, 40, 6)))
    ]
    b = numpy_helper.from_array(np.arange(40, dtype=np.float32)[:, None] / 64 - 0.4, "b")
    built = helper.make_model(
        helper.make_graph(nodes, "chain", ends[:1], ends[1:], [b]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=9,
    )
    return built.SerializeToString()


def test_elementwise_nodes_are_workloads_fused_or_not():
    target = host_target()
    apart = [workload for _, workload in network_workloads(CpuLowering(target), chain(), fusion=False)]
    shapes = [[p.shape for p in workload.program().parameters[:-1]] for workload in apart]
    assert shapes == [[(4800,)], [(6, 40, 20), (1, 40, 1)], [(4800,)], [(4800,), (4800,)]]
    ((_, whole),) = network_workloads(CpuLowering(target), chain())
    assert sorted(p.shape for p in whole.program().parameters) == [(1, 40, 1), (6, 40, 20), (6, 40, 20)]
    assert whole.operator == "elementwise"
    x = np.random.default_rng(1).standard_normal((6, 40, 20)).astype(np.float32)
    knobs = ChosenKnobs(
        choose=lambda workload: {
            axis.name: axis.values[-1 if axis.name == "nest.unroll" else 0]
            for axis in CPU.space(target, workload).axes
        }
    )
    with (
        compile_kernels(chain(), cpu_now()) as default,
        compile_kernels(chain(), cpu_now(), knobs=knobs) as tuned,
    ):
        assert knobs.applied == [whole] and not knobs.ignored
        np.testing.assert_array_equal(tuned.run({"x": x})["y"], default.run({"x": x})["y"])
        programs = [
            [structural_hash(launch.kernel.program) for launch in n.launches] for n in (default, tuned)
        ]
    assert [a != b for a, b in zip(*programs, strict=True)].count(True) == 1


def model():
    """A model of a convolution with bias and ReLU, a depthwise convolution, a max-pool and a matrix product."""
    rng = np.random.default_rng(0)
    arrays = {
        "W": rng.standard_normal((16, 8, 3, 3)),
        "B": rng.standard_normal(16),
        "D": rng.standard_normal((16, 1, 3, 3)),
        "M": rng.standard_normal((16 * 3 * 3, 40)),
    }
    nodes = [
        helper.make_node("Conv", ["input", "W", "B"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Conv", ["r", "D"], ["d"], group=16, pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", ["d"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "M"], ["output"]),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, (1, 8, 6, 7))],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, (1, 40))],
        [numpy_helper.from_array(a.astype(np.float32), name) for name, a in arrays.items()],
    )
    built = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return built.SerializeToString()


def test_a_network_takes_the_knobs_that_are_chosen_for_its_workloads():
    target = host_target()
    feeds = {"input": np.random.default_rng(1).standard_normal((1, 8, 6, 7)).astype(np.float32)}
    default = compile_kernels(model(), cpu_now())
    values = {}

    def choose(workload):
        own = CPU.space(target, workload)
        values[workload.operator] = own.values(own.sample(np.random.default_rng(2), 1)[0])
        # One of them has a knob too many.
        wrong = {"width": 1} if workload.operator == "dense" else {}
        return values[workload.operator] | wrong

    knobs = ChosenKnobs(choose=choose)
    tuned = compile_kernels(model(), cpu_now(), knobs=knobs)
    assert values.keys() == {"conv2d", "depthwise", "dense"}
    assert [w.operator for w in knobs.applied] == ["conv2d", "depthwise"]
    assert [(w.operator, why) for w, why in knobs.ignored] == [("dense", "sketch_cpu has no knob width")]
    asked = [*knobs.applied, *(workload for workload, _ in knobs.ignored)]
    assert [workload for _, workload in network_workloads(CpuLowering(target), model())] == asked
    programs = [[structural_hash(launch.kernel.program) for launch in n.launches] for n in (default, tuned)]
    changed = [a != b for a, b in zip(*programs, strict=True)]
    assert sum(changed) == 2
    with default, tuned:
        np.testing.assert_allclose(
            tuned.run(feeds)["output"], default.run(feeds)["output"], rtol=1e-4, atol=1e-4
        )
    ahead = compile_kernels(model(), cpu_ahead(target), knobs=ChosenKnobs(choose=choose))
    assert len(ahead.launches) == len(tuned.launches)


def attention() -> bytes:
    """A model of matrix products, softmax, normalization, an addition, and a transposed convolution."""
    net = FloatNetwork(1, 2, 40, 32)
    net.add("Transpose", perm=[0, 1, 3, 2])
    net.add("MatMul", inputs=["x", net.last])
    net.add("Softmax", net.add("Mul", net.constant(np.float32(0.2))), inputs=[net.last], axis=-1)
    net.add("MatMul", inputs=[net.last, "x"])
    net.add("LayerNormalization", net.weights(32), net.weights(32))
    # The same program twice: W of the first one is known ahead, of the second one it is not.
    other = net.add("Transpose", perm=[0, 1, 3, 2])
    first = net.add("MatMul", inputs=["x", net.weights(1, 2, 32, 40)])
    net.add("Concat", inputs=[first, net.add("MatMul", inputs=["x", other])], axis=1)
    net.add("ConvTranspose", net.weights(4, 16, 2, 2), strides=[2, 2])
    net.shape = (1, 16, 80)
    net.add("ReduceSum", net.constant(np.array([2], np.int64)), keepdims=0)
    return net.model()


def test_whole_programs_without_knobs_take_those_of_rules():
    target, built = host_target(), attention()
    found = [w for _, w in network_workloads(CpuLowering(target), built)]
    own = [w for w in found if isinstance(w, SketchCpu)]
    wanted = [
        "matmul",
        "softmax",
        "matmul",
        "normalization",
        "matmul",
        "matmul",
        "conv_transpose",
        "reduction",
    ]
    assert sorted(w.operator for w in own) == sorted(wanted)
    assert len({w.expression for w in own}) + 1 == len({*own}) == len(own)
    feeds = {"x": np.random.default_rng(1).standard_normal((1, 2, 40, 32)).astype(np.float32)}
    points = {}

    def choose(workload):
        if workload not in points:
            own = CPU.space(target, workload)
            points[workload] = own.values(own.sample(np.random.default_rng(len(points)), 1)[0])
            # Only one of the kernels of that program gets its matrix packed ahead.
            points[workload] |= {"pack.1": 1} if "pack.1" in points[workload] else {}
        return points[workload]

    knobs = ChosenKnobs(choose=choose)
    with (
        compile_kernels(built, cpu_now()) as default,
        compile_kernels(built, cpu_now(), knobs=knobs) as tuned,
    ):
        assert not knobs.ignored and knobs.applied == list(dict.fromkeys(found))
        assert [values["pack.1"] for values in points.values() if "pack.1" in values] == [1, 1]
        wanted, got = (list(network.run(feeds).values()) for network in (default, tuned))
        np.testing.assert_allclose(got[0], wanted[0], rtol=1e-4, atol=1e-4)
    # Records that say so are the template's own choice.
    says_so = ChosenKnobs(choose=lambda _: {})
    assert says_so.build(own[0], partial(CPU.space, target), lambda values: values) is None
    assert not says_so.applied and not says_so.ignored


def test_programs_that_take_no_time_are_not_tuned():
    net = FloatNetwork(1, 4, 4)
    net.add("Softmax", axis=-1)
    assert network_workloads(CpuLowering(host_target()), net.model()) == []

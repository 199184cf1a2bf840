"""Concatenations in float graphs. The tests check concatenations of tensors in channel blocks, and that an input is
computed in place, directly in its part of the result, if that part is contiguous.
"""

from __future__ import annotations

import ctypes
import itertools
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from campaign import representatives
from float_networks import FloatNetwork, relative, runtime

from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.codegen.cpu.memory import aligned_empty
from vdla.compiler.codegen.cpu.one_object import write_shared_library
from vdla.compiler.codegen.cpu.options import parse_target
from vdla.compiler.cpu_stages import cpu_ahead, cpu_now
from vdla.compiler.frontends.onnx.float_importer import import_float_model
from vdla.compiler.graph.storage_plan import find_views
from vdla.compiler.pipeline import compile_kernels
from vdla.compiler.rewrites.floating.pipeline import graph_passes, run_graph_passes
from vdla.compiler.runtime.network_object import emit_network


def branches(*filters: int, batch: int = 1, axis: int = 1) -> FloatNetwork:
    """A network of convolutions of one input, with the given numbers of filters, whose results are concatenated along
    `axis` and convolved again.
    """
    net = FloatNetwork(batch, 3, 6, 5)
    made = []
    for count in filters:
        net.last, net.shape = "x", (batch, 3, 6, 5)
        made.append(net.convolution(count, (3, 3), pads=[1] * 4))
    net.add("Concat", inputs=made, axis=axis)
    shape = [batch, filters[0], 6, 5]
    shape[axis] = sum(filters) if axis == 1 else len(filters) * shape[axis]
    net.shape = tuple(shape)
    net.convolution(8, (1, 1))
    return net


def chain() -> FloatNetwork:
    """A network in which each step concatenates all earlier results and convolves them, like DenseNet."""
    net = FloatNetwork(1, 3, 6, 5)
    made = [net.convolution(32, (3, 3), pads=[1] * 4)]
    for _ in range(3):
        net.shape = (1, 32, 6, 5)
        if len(made) > 1:
            net.add("Concat", inputs=made, axis=1)
            net.shape = (1, 16 + 16 * len(made), 6, 5)
        made.append(net.convolution(16, (3, 3), pads=[1] * 4))
    return net


def twice() -> FloatNetwork:
    """A network in which one concatenation has a tensor twice as an input, and another concatenation has it once,
    beside a constant.
    """
    net = FloatNetwork(1, 32, 4, 4)
    a = net.convolution(16, (1, 1))
    first = net.add("Concat", inputs=[a, "x", a], axis=1)
    constant = net.weights(1, 16, 4, 4)
    net.add("Concat", inputs=[first, a, constant], axis=1)
    net.shape = (1, 96, 4, 4)
    net.convolution(16, (1, 1))
    return net


def views() -> FloatNetwork:
    """A network that transposes, reshapes and concatenates the results of several convolutions, like the heads of
    object detectors.
    """
    net = FloatNetwork(1, 16, 4, 4)
    parts = []
    for filters in (4, 8):
        net.last, net.shape = "x", (1, 16, 4, 4)
        net.convolution(filters, (3, 3), pads=[1] * 4)
        net.add("Transpose", perm=[0, 2, 3, 1])
        parts.append(net.add("Reshape", net.constant(np.array([1, -1, 4]))))
    net.add("Concat", inputs=parts, axis=1)
    net.shape = (1, 48, 4)
    return net


def activated() -> FloatNetwork:
    """A network in which a concatenation is followed by a batch normalization and a Relu."""
    net = branches(32, 24)
    del net.nodes[-1]
    net.last = net.nodes[-1].output[0]
    net.shape = (1, 56, 6, 5)
    net.batch_normalization(56)
    net.add("Relu")
    return net


CASES: list[tuple[Callable[[], FloatNetwork], dict[str, int]]] = [
    (lambda: branches(16, 32, 16), {"Join": 1}),
    (lambda: branches(32, 16, 7), {"Join": 1}),
    (lambda: branches(7, 16, 5), {"Relayout": 5, "Concatenate": 1}),
    (lambda: branches(16, 32, batch=2), {"Concatenate": 1}),
    (lambda: branches(16, 16, axis=2), {"Join": 1}),
    (lambda: branches(19, 19, axis=3), {"Concatenate": 1}),
    (chain, {"Join": 2}),
    (twice, {"Join": 2, "Concatenate": 3}),
    (views, {"Join": 1}),
    (activated, {}),
]


TARGETS = ("llvm", "llvm -mcpu=haswell")


@pytest.mark.parametrize(
    ("case", "target"),
    representatives(
        itertools.product(range(len(CASES)), TARGETS),
        0,
        # By turns, and both where a block of one target is two of the other's.
        always=[*((case, TARGETS[case % 2]) for case in range(len(CASES))), (0, TARGETS[1]), (7, TARGETS[0])],
    ),
)
def test_concatenations(case: int, target: str) -> None:
    build, expected = CASES[case]
    net = build()
    model = net.model()
    x = np.random.default_rng(1).standard_normal(net.input_shape, dtype=np.float32)
    (wanted,) = runtime(model, {"x": x}).values()
    with compile_kernels(model, cpu_now(parse_target(target))) as network:
        (got,) = network.run({"x": x}).values()
        assert relative(got, wanted) <= 1e-5
    passes = graph_passes(16, join=True)
    graph = run_graph_passes(import_float_model(model), passes)
    counts = Counter(type(node.operator).__name__ for node in graph.nodes)
    assert {name: counts[name] for name in expected} == expected


def test_a_chain_of_concatenations_shares_one_buffer() -> None:
    graph = run_graph_passes(import_float_model(chain().model()), graph_passes(16, join=True))
    joins = [node for node in graph.nodes if type(node.operator).__name__ == "Join"]
    assert len({view.root for node in joins for view in [find_views(graph).get(node.output)] if view}) == 1


def test_joined_outputs_of_one_function(tmp_path) -> None:
    net = branches(16, 32)
    del net.nodes[-1]
    net.last, net.shape = net.nodes[-1].output[0], (1, 48, 6, 5)
    model = net.model(**{net.last: net.shape, net.nodes[0].output[0]: (1, 16, 6, 5)})
    x = np.random.default_rng(1).standard_normal(net.input_shape, dtype=np.float32)
    expected = runtime(model, {"x": x})
    code = emit_network(compile_kernels(model, cpu_ahead(host_target())), name="net")
    write_shared_library(code, tmp_path / "libnet.so")
    library = ctypes.CDLL(str(tmp_path / "libnet.so"))
    outputs = {name: np.empty_like(array) for name, array in expected.items()}
    buffers = (ctypes.c_void_p * 3)(*[array.ctypes.data for array in (x, *outputs.values())])
    workspace, scratch = (aligned_empty((1 << 20,), np.dtype(np.uint8)) for _ in range(2))
    library.net(
        buffers, ctypes.c_void_p(workspace.ctypes.data), ctypes.c_void_p(scratch.ctypes.data), None, None
    )
    for name, array in expected.items():
        assert relative(outputs[name], array) <= 1e-5

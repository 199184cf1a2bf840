"""CUDA C++ of the templates' kernels, run on the CPU: every operator, chosen knobs, and whole networks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from cuda_networks import gpu_graph
from cuda_on_host.agreement import Case, agree
from cuda_on_host.networks import run_network
from every_operator import programs
from float_networks import FloatNetwork, inferred_shape, relative, runtime

from vdla.compiler.codegen.cuda.options import parse_target
from vdla.compiler.ir.printer import format_node
from vdla.compiler.ir.stmt import Program
from vdla.compiler.te.ops.float_elementwise import float_elementwise
from vdla.compiler.te.ops.normalization import Normalized
from vdla.compiler.te.ops.product import Matrices, product
from vdla.compiler.te.ops.sums import Epilogue
from vdla.compiler.te.ops.thread_rows import thread_normalize, thread_reduction, thread_softmax
from vdla.compiler.te.ops.tiled_permute import tiled_permute
from vdla.compiler.te.scalars import argument, exp
from vdla.compiler.te.threads import Sharing
from vdla.compiler.templates.gpu import bind_by_name, elementwise, gemv, generic, lstm, movement
from vdla.compiler.templates.gpu.flat import flattened
from vdla.compiler.templates.gpu.tile import Tile, schedule_tile

TARGET = parse_target("cuda -arch=sm_90")


def test_every_operator() -> None:
    """CUDA C++ of every operator's tensor expression, scheduled by the generic template, equals the interpreter;
    operators that only the accelerator computes are left out.
    """
    cases = []
    for name, program in programs().items():
        text = format_node(program)
        if not any(part in text for part in ("requantize", "rescale", "combine", "@ inp")):
            flat = flattened(program)
            cases.append(Case(name=name, program=flat, schedule=generic.schedule(TARGET, flat)))
    assert len(cases) >= 25
    agree(cases, TARGET, orders=2)


# Chosen knobs


def products() -> Iterator[Case]:
    small = {"rows": 32, "columns": 32, "depth": 8, "thread_rows": 4, "thread_columns": 4}
    both = Epilogue(bias=True, operand=True, activation="relu")
    for sizes, changes in (
        ((50, 20, 44), {}),
        ((37, 50, 35), {"stages": 3}),
        ((40, 24, 36), {"rows": 64, "columns": 64, "thread_rows": 8, "row_groups": 2, "stages": 1}),
        ((20, 70, 36), {"splits": 4}),
    ):
        rows, depth, columns = sizes
        tile = Tile(**{**small, **changes})
        turned = depth == 50
        program = product(
            Matrices(
                rows=rows,
                depth=depth,
                columns=columns,
                batch_x=(2,) if turned else (),
                transposed_x=turned,
                transposed_w=turned,
            ),
            staged="by depth",
            epilogue=both,
        )
        yield Case(name=f"{sizes} {tile}", program=program, schedule=schedule_tile(program, tile))
    program = product(Matrices(rows=3, depth=70, columns=20), staged="by depth", epilogue=both)
    knobs = gemv.Knobs(groups=4, members=8, vectors=4, unroll=2)
    yield Case(name="few rows", program=program, schedule=gemv.schedule_rows(program, knobs, ("W",)))
    program = product(Matrices(rows=3, depth=5, columns=6), staged="by depth")
    alone = Tile(rows=4, columns=4, depth=4, thread_rows=4, thread_columns=4)
    yield Case(name="a block of one thread", program=program, schedule=schedule_tile(program, alone))


def rows() -> Iterator[Case]:
    found: list[Program] = []
    for kept in (True, False):
        found.append(thread_softmax((5, 37), -1, Sharing(group=2, lanes=8, kept=kept)))
        found.append(
            thread_softmax((2, 9, 40), 1, Sharing(group=32, lanes=4, columns=True, kept=kept), logarithm=True)
        )
        sizes = Normalized(outer=3, channels=5, size=19, epsilon=1e-5, by="channel")
        found.append(thread_normalize(sizes, Sharing(group=2, lanes=8, kept=kept)))
    found.append(thread_reduction((6, 5, 40), (0, 2), "max", Sharing(group=2, lanes=32)))
    found.append(thread_reduction((2, 3000), (1,), "mean", Sharing(group=8, lanes=16, chunks=9)))
    # Several rows in a warp, the last block with fewer rows; and rows of two warps.
    found.append(thread_softmax((5, 37), -1, Sharing(group=3, lanes=8, kept=True), shuffles=True))
    found.append(thread_softmax((3, 100), -1, Sharing(group=2, lanes=64), shuffles=True))
    for number, program in enumerate(found):
        yield Case(name=f"rows {number}", program=program, schedule=bind_by_name.schedule(TARGET, program))


def others() -> Iterator[Case]:
    program = flattened(float_elementwise([(3, 4, 8), (3, 4, 8)], exp(argument(0)) * argument(1)))
    for knobs in (
        elementwise.Knobs(threads=32, width=4, items=2),
        elementwise.Knobs(threads=8, width=2, items=3),
    ):
        yield Case(name=f"{knobs}", program=program, schedule=elementwise.schedule(TARGET, program, knobs))
    program = tiled_permute((3, 33, 35), (0, 2, 1), rows=8)
    yield Case(name="permutation", program=program, schedule=movement.schedule_tiles(TARGET, program))
    knobs = lstm.Knobs(rows=2, cells=4, slices=2)
    program = lstm.steps(knobs, steps=3, batch=3, hidden=7, directions=("forward", "reverse"))
    yield Case(name="lstm", program=program, schedule=lstm.schedule(TARGET, program, knobs))


def test_chosen_knobs() -> None:
    agree([*products(), *rows(), *others()], TARGET, orders=2)


# Networks


def vision() -> FloatNetwork:
    net = FloatNetwork(1, 5, 14, 13)
    net.convolution(12, (3, 3), pads=[1] * 4)
    net.batch_normalization(12)
    first = net.add("Relu")
    net.convolution(12, (3, 3), pads=[1] * 4)
    net.add("Add", first)
    net.convolution(20, (3, 3), strides=[2, 2], pads=[1] * 4)
    net.add("Clip", net.constant(np.float32(0)), net.constant(np.float32(6)))
    net.convolution(20, (3, 3), pads=[1] * 4, group=20)
    net.convolution(17, (1, 1))
    net.add("HardSwish")
    net.add("ConvTranspose", net.weights(17, 9, 3, 3, deviation=0.1), strides=[2, 2], pads=[1] * 4)
    net.shape = inferred_shape(net)
    net.convolution(12, (5, 2), dilations=[1, 2], group=3)
    net.add("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    pooled = net.last
    net.add("AveragePool", kernel_shape=[3, 3], pads=[1] * 4)
    net.add("Concat", inputs=[pooled, net.last], axis=1)
    sizes = net.constant(np.array([1, 1, 2, 1.5], np.float32))
    net.add("Resize", "", sizes, mode="linear", coordinate_transformation_mode="half_pixel")
    net.add("Pad", net.constant(np.array([0, 0, 1, 2, 0, 0, 0, 1], np.int64)))
    net.add("GlobalAveragePool")
    net.add("Flatten")
    net.add("Gemm", net.weights(24, 31), net.weights(31))
    net.add("Softmax", axis=-1)
    net.shape = inferred_shape(net)
    return net


def sequence() -> FloatNetwork:
    net = FloatNetwork(6, 2, 10)
    net.add(
        "LSTM",
        net.weights(2, 32, 10),
        net.weights(2, 32, 8),
        net.weights(2, 64),
        hidden_size=8,
        direction="bidirectional",
    )
    net.add("Transpose", perm=[2, 0, 1, 3])
    net.add("Reshape", net.constant(np.array([2, 6, 16], np.int64)))
    states = net.last
    keys = net.add("Transpose", perm=[0, 2, 1])
    net.add("MatMul", inputs=[states, keys])
    net.add("Softmax", axis=-1)
    net.add("MatMul", states)
    net.add("LayerNormalization", net.weights(16), net.weights(16))
    net.add("MatMul", net.weights(16, 24, deviation=0.2))
    net.add("Slice", *(net.constant(np.array(v, np.int64)) for v in ([23], [1], [2], [-2])))
    net.add("Gather", net.constant(np.int64(3)), axis=1)
    net.add("ReduceMax", axes=[0])
    net.shape = inferred_shape(net)
    return net


def test_networks() -> None:
    """Runs all kernels of a network in sequence and compares the outputs with ONNX Runtime."""
    for net in (vision(), sequence()):
        model = net.model()
        x = np.random.default_rng(2).standard_normal(net.input_shape, np.float32)
        (result,) = run_network(gpu_graph(model), {"x": x}, TARGET, orders=1).values()
        assert relative(result, runtime(model, {"x": x})[net.last]) < 1e-5

"""Quantized networks on CPUs: bit-equal to the integer graph, for every vector extension of this machine and any number
of threads.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from campaign import examples, representatives
from cross import run_elsewhere
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from vdla.compiler.codegen.cpu.errors import KernelArgumentError, TargetError
from vdla.compiler.codegen.cpu.intrinsics import intrinsics
from vdla.compiler.codegen.cpu.machine import CpuTarget, host_target
from vdla.compiler.codegen.cpu.options import parse_target
from vdla.compiler.codegen.cpu.x86_levels import host_target_at
from vdla.compiler.cpu_stages import cpu_ahead, cpu_now
from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.graph.graph import Graph
from vdla.compiler.graph.host import load_outputs, store_inputs
from vdla.compiler.graph.int8_convolution import Int8Convolution
from vdla.compiler.graph.int8_operators import Int8AveragePool, Int8Elementwise, Int8MaxPool
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.ir import interp
from vdla.compiler.ir.types import DType
from vdla.compiler.pipeline import compile_kernels
from vdla.compiler.rewrites.fuse import fuse
from vdla.compiler.rewrites.fuse_pairs import fuse_pool
from vdla.compiler.rewrites.int8_for_processors import block_of, for_processors
from vdla.compiler.runtime.cpu_network import CpuNetwork
from vdla.compiler.runtime.network_archive import load_network, save_network
from vdla.compiler.runtime.network_object import emit_network
from vdla.compiler.schedule import replay
from vdla.compiler.schedule.pack import pack_arrays
from vdla.compiler.te.functions import FUNCTIONS
from vdla.compiler.templates.cpu.lower_int8 import lower_int8_node

from .random_networks import builder, network

Arrays = Mapping[str, np.ndarray]


def compile_graph(graph: Graph, target: CpuTarget) -> CpuNetwork:
    return compile_kernels(
        for_processors(graph, partial(block_of, lanes=target.lanes(DType.INT32))), cpu_now(target)
    )


def level(name: str) -> CpuTarget:
    try:
        return host_target() if name == "host" else host_target_at(name)
    except TargetError:
        pytest.skip(f"this machine has no {name}")


def inputs_of(graph: Graph) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    limits = {entry.name: np.iinfo(entry.dtype) for entry in graph.inputs}
    return {
        entry.name: rng.integers(limits[entry.name].min, limits[entry.name].max + 1, entry.shape, entry.dtype)
        for entry in graph.inputs
    }


def expected(graph: Graph, arrays: Arrays) -> dict[str, np.ndarray]:
    return load_outputs(graph, interpret(graph, store_inputs(graph, dict(arrays))))


def assert_equal(got: Arrays, wanted: Arrays) -> None:
    assert got.keys() == wanted.keys()
    for name, array in wanted.items():
        assert got[name].dtype == array.dtype
        np.testing.assert_array_equal(got[name], array, err_msg=name)


def all_kinds(seed: int) -> Graph:
    """A graph with every kind of node, with int8 (even seeds) or uint8 activations, and with tensors small enough for
    the loop-IR interpreter.
    """
    b = builder(seed)
    x = b.input(2, 6, 5, 4)
    grouped = b.convolution(x, 8, (3, 2), (1, 1), (1, 0, 2, 1), (2, 1), groups=2)
    deep = b.convolution(grouped, 8, (3, 3), (2, 1), (1, 1, 1, 1), groups=8)
    pointwise = b.convolution(deep, 20, (1, 1))
    other = b.convolution(deep, 20, (1, 1), per_channel=False)
    joined = b.multiply(b.constant(*b.tensors[pointwise].shape), b.add(pointwise, other))
    pooled = b.max_pool(joined, (2, 3), (1, 2), (1, 0, 0, 1))
    mean = b.average_pool(b.rescale(pooled), (2, 2), (1, 1), (1, 1, 0, 0))
    return b.graph(b.dense(mean, 5), b.clip(mean))


@pytest.mark.parametrize(
    ("scheduled", "seed"),
    # Schedules of either type; expressions of the one that has zero points.
    representatives(itertools.product((False, True), (0, 1)), 0, always=[(False, 1), (True, 0), (True, 1)]),
)
def test_loops_mean_what_the_graph_means(seed: int, scheduled: bool) -> None:
    """The loop-IR interpreter's results for every node equal the integer graph: of the tensor expressions or, with
    `scheduled`, of the scheduled programs, which use the dot-product instruction.
    """
    graph = fuse(all_kinds(seed))
    assert {type(node.operator) for node in graph.nodes} == {
        Int8Convolution,
        Int8MaxPool,
        Int8AveragePool,
        Int8Elementwise,
    }
    target = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4")
    ready = for_processors(graph, partial(block_of, lanes=target.lanes(DType.INT32)))
    arrays = inputs_of(graph)
    tensors = dict(arrays)
    tensorized = 0
    for node in ready.nodes:
        step = lower_int8_node(ready, node, node.operator)
        assert step is not None
        program, constants = step.program, dict(step.constants)
        if scheduled:
            schedule = step.schedule(target)
            program, constants = schedule.program, pack_arrays(schedule.trace, constants)
            assert replay(step.program, schedule.trace, intrinsics()).program == program
            tensorized += any(taken.primitive == "tensorize" for taken in schedule.trace)
        shapes = {p.name: p.shape for p in program.parameters}
        given = {p: tensors[name] for p, name in step.tensors.items() if name in tensors} | constants
        given = {p: np.ascontiguousarray(array).reshape(shapes[p]) for p, array in given.items()}
        tensors[step.tensors["Y"]] = interp.interpret(program, given, functions=FUNCTIONS)["Y"]
    assert tensorized == (4 if scheduled else 0)
    got = {
        output.name: tensors[output.tensor].reshape(ready.tensors[output.tensor].shape)
        for output in ready.outputs
    }
    assert_equal(got, expected(graph, arrays))


@pytest.mark.parametrize("name", ["host", "avx512", "avx2", "sse"])
def test_every_kind_of_node_on_every_level(name: str) -> None:
    graph = fuse(all_kinds(1))
    arrays = inputs_of(graph)
    with compile_graph(graph, level(name)) as compiled:
        for threads in (1, 2):
            assert_equal(compiled.run(arrays, threads=threads), expected(graph, arrays))


@settings(max_examples=examples(10), deadline=None, derandomize=True)
@given(st.integers(0, 10_000))
def test_random_networks(seed: int) -> None:
    graph = fuse(network(seed))
    arrays = inputs_of(graph)
    wanted = expected(graph, arrays)
    with compile_graph(graph, host_target()) as compiled:
        for threads in (1, 2):
            assert_equal(compiled.run(arrays, threads=threads), wanted)


@pytest.fixture(scope="module")
def quantized() -> bytes:
    """A quantized model with float32 input in NHWC, a symbolic batch, two convolutions whose results are added, and
    uint8 output.
    """
    rng = np.random.default_rng(0)
    constants: list[onnx.TensorProto] = []

    def constant(name: str, values: npt.ArrayLike, dtype: type) -> str:
        constants.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    scale, zero = constant("s", 0.02, np.float32), constant("z", 117, np.uint8)
    weights = [constant("scales", np.full(9, 0.003), np.float32), constant("zeros", np.zeros(9), np.int8)]

    def convolution(data: str, channels: int, output: str) -> onnx.NodeProto:
        weight = constant(f"{output}.weight", rng.integers(-127, 128, (9, channels, 3, 3)), np.int8)
        inputs = [data, scale, zero, weight, *weights, scale, zero]
        return helper.make_node("QLinearConv", inputs, [output], name=output, pads=[1, 1, 1, 1])

    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        helper.make_node("QuantizeLinear", ["t", scale, zero], ["q"]),
        convolution("q", 5, "a"),
        convolution("a", 9, "b"),
        helper.make_node(
            "QLinearAdd",
            ["a", scale, zero, "b", scale, zero, scale, zero],
            ["y"],
            name="sum",
            domain="com.microsoft",
        ),
    ]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 6, 7, 5])
    result = helper.make_tensor_value_info("y", TensorProto.UINT8, ["n", 9, 6, 7])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "nhwc", [given], [result], constants)
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


def test_model_archive_and_unfused_agree_with_the_interpreter(quantized: bytes, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(0, 1.5, (3, 6, 7, 5)).astype(np.float32)
    wanted = expected(import_model(quantized, batch=3), {"x": x})
    assert wanted["y"].std() > 20
    code = compile_kernels(quantized, cpu_ahead(host_target()), batch=3, dump_passes=tmp_path / "passes")
    save_network(tmp_path / "q.tar", code)
    unfused = compile_kernels(quantized, cpu_now(), batch=3, fusion=False)
    with load_network(tmp_path / "q.tar") as loaded, unfused:
        assert len(loaded.launches) == len(unfused.launches) - 1
        assert ("b", "sum") in [launch.members for launch in loaded.launches]
        assert_equal(loaded.run({"x": x}), wanted)
        assert_equal(unfused.run({"x": x[:, ::-1].copy()[:, ::-1]}), wanted)
        assert loaded.input_types == {"x": np.dtype(np.float32)}
        with pytest.raises(KernelArgumentError, match="input 'x' must be float32, not uint8"):
            loaded.run({"x": x.astype(np.uint8)})
        x[1, 3, 3, 0] = np.nan
        with pytest.raises(KernelArgumentError, match="input 'x' contains NaN"):
            loaded.run({"x": x})
    assert "; b, sum\n" in (tmp_path / "passes" / "01-fuse.txt").read_text(encoding="utf-8")
    (folder,) = (tmp_path / "passes").glob("[0-9]*-a")
    schedule = (folder / "01-schedule.txt").read_text(encoding="utf-8")
    assert ("dot_u8s8_16" in schedule) is host_target().dot_product


@pytest.mark.parametrize(
    ("target", "processor"),
    [
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a53", "cortex-a53"),
        ("llvm -mtriple=riscv64-linux-gnu", "rv64"),
    ],
)
def test_whole_networks_elsewhere(quantized: bytes, target: str, processor: str, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(0, 1.5, (1, 6, 7, 5)).astype(np.float32)
    wanted = expected(import_model(quantized, batch=1), {"x": x})
    code = emit_network(compile_kernels(quantized, cpu_ahead(parse_target(target))), name="net")
    given = {"x": x, "y": np.full_like(wanted["y"], 99)}
    found = run_elsewhere(code, given, tmp_path, processor=processor)
    np.testing.assert_array_equal(found["y"], wanted["y"])


def test_outputs_that_are_constants() -> None:
    b = builder(1)
    x, held = b.input(1, 3, 4, 4), b.constant(1, 2, 2, 2)
    graph = b.graph(b.rescale(x), held, x)
    arrays = inputs_of(graph)
    with compile_graph(graph, host_target()) as compiled:
        assert_equal(compiled.run(arrays), expected(graph, arrays))


def test_a_fused_pool_is_refused() -> None:
    b = builder(0)
    graph = fuse_pool(b.graph(b.max_pool(b.convolution(b.input(1, 3, 6, 6), 4, (3, 3)), (2, 2), (2, 2))))
    with pytest.raises(ValueError, match="already has a fused pool"):
        for_processors(graph, partial(block_of, lanes=16))

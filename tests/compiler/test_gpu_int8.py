"""Quantized networks on GPUs: bit-equal to the integer graph and to processors, small archives."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from archives import members
from campaign import examples, representatives
from fake_gpu import HostDevice
from float_networks import FloatNetwork, inferred_shape, rounded_network
from hypothesis import given, settings
from hypothesis import strategies as st
from onnxruntime.quantization import QuantFormat
from quantizer import quantized
from shipped import shipped

from vdla.compiler import gpu_stages
from vdla.compiler.backends.backend import CompileOptions
from vdla.compiler.backends.cuda import CudaDevice
from vdla.compiler.backends.opencl import BACKEND as opencl
from vdla.compiler.backends.wgsl import BACKEND as wgsl
from vdla.compiler.codegen.cpu.errors import KernelArgumentError
from vdla.compiler.codegen.cuda.machine import GpuTarget, cuda_target
from vdla.compiler.codegen.opencl.machine import opencl_target
from vdla.compiler.codegen.wgsl.machine import wgsl_target
from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.gpu_stages import GpuLowering, channels_last, gpu_ahead, gpu_emulated
from vdla.compiler.graph.graph import Graph
from vdla.compiler.graph.int8_operators import Int8Elementwise, Quantize, Table
from vdla.compiler.pipeline import compile_kernels, import_graph
from vdla.compiler.rewrites.fuse import fuse
from vdla.compiler.rewrites.int8_for_processors import for_processors
from vdla.compiler.runtime.cuda_archive import load_cuda_network, save_cuda_network
from vdla.compiler.runtime.cuda_network import CudaNetwork

from .random_networks import builder, network
from .test_cpu_int8 import all_kinds, assert_equal, expected, inputs_of

CUDA, OPENCL = cuda_target(), opencl_target()
LARGEST_ARCHIVE = 1.1
"""Largest allowed size of a compiled network's archive, divided by the size of its quantized ONNX model."""


@settings(max_examples=examples(8), deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.sampled_from([CUDA, OPENCL]))
def test_random_networks(seed: int, target: GpuTarget) -> None:
    graph = fuse(network(seed))
    arrays = inputs_of(graph)
    with compile_kernels(for_processors(graph, channels_last), gpu_emulated(target)) as compiled:
        assert_equal(compiled.run(arrays), expected(graph, arrays))


@pytest.mark.parametrize("seed", [0, 1])
def test_the_text_of_every_kind_of_node(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CUDA C++ of a graph with every kind of node, int8 (seed 0) or uint8 (seed 1), equals the integer graph."""
    monkeypatch.setattr(gpu_stages, "cached_cubin", lambda source, arch: source.encode())
    graph = fuse(all_kinds(seed))
    arrays = inputs_of(graph)
    code = compile_kernels(for_processors(graph, channels_last), gpu_ahead(CUDA))
    assert "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32" in "".join(m.module.source for m in code.modules)
    with CudaNetwork(code, HostDevice()) as compiled:
        assert_equal(compiled.run(arrays), expected(graph, arrays))


def groups_of(channels: int, filters: int, groups: int) -> Graph:
    b = builder(3)
    x = b.input(2, channels, 7, 6)
    return b.graph(b.convolution(x, filters, (3, 3), (2, 1), (1, 0, 1, 2), groups=groups))


@pytest.mark.parametrize(
    ("channels", "filters", "groups"),
    representatives(
        [(16, 32, 2), (12, 24, 3), (12, 6, 3), (5, 10, 5), (9, 24, 3), (40, 40, 40)],
        0,
        always=[(16, 32, 2), (12, 6, 3), (40, 40, 40)],
    ),
)
def test_groups(channels: int, filters: int, groups: int) -> None:
    """Grouped convolutions on GPUs equal the integer graph bit for bit. The cases include groups that are large enough
    for tensor cores, several groups whose outputs share a 32-bit word, groups that leave lanes unused, and groups of
    one channel.
    """
    graph = groups_of(channels, filters, groups)
    arrays = inputs_of(graph)
    for target in (CUDA, OPENCL):
        with compile_kernels(for_processors(graph, channels_last), gpu_emulated(target)) as compiled:
            assert_equal(compiled.run(arrays), expected(graph, arrays))


def residual() -> FloatNetwork:
    """A network like ResNet: convolutions of 7 x 7 and 3 x 3 with strides, a max-pool, a residual."""
    net = FloatNetwork(1, 3, 17, 17)
    net.convolution(12, (7, 7), strides=[2, 2], pads=[3] * 4)
    net.add("Relu")
    before = net.add("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    net.shape = inferred_shape(net)
    net.convolution(12, (3, 3), pads=[1] * 4)
    net.add("Relu")
    net.convolution(12, (3, 3), pads=[1] * 4)
    net.add("Add", before)
    net.add("Relu")
    net.add("GlobalAveragePool")
    net.shape = (1, 12, 1, 1)
    net.convolution(10, (1, 1))
    return net


def mobile() -> FloatNetwork:
    """A network like MobileNet: inverted bottlenecks of pointwise and depthwise convolutions."""
    net = FloatNetwork(1, 3, 16, 16)
    net.convolution(8, (3, 3), strides=[2, 2], pads=[1] * 4)
    low, high = net.constant(np.float32(0)), net.constant(np.float32(6))
    net.add("Clip", low, high)
    before = net.last
    for stride in (1, 2):
        net.convolution(24, (1, 1))
        net.add("Clip", low, high)
        net.convolution(24, (3, 3), strides=[stride] * 2, pads=[1] * 4, group=24)
        net.add("Clip", low, high)
        net.convolution(8, (1, 1))
        if stride == 1:
            net.add("Add", before)
    return net


def gated() -> FloatNetwork:
    """A network like EfficientNet: x * sigmoid(x), and channels scaled by a function of their means."""
    net = FloatNetwork(1, 3, 12, 12)

    def swish() -> str:
        value = net.last
        net.add("Sigmoid")
        return net.add("Mul", value)

    net.convolution(16, (3, 3), strides=[2, 2], pads=[1] * 4)
    swish()
    net.convolution(16, (5, 5), pads=[2] * 4, group=16)
    data, shape = swish(), net.shape
    net.add("GlobalAveragePool")
    net.shape = (1, 16, 1, 1)
    net.convolution(4, (1, 1))
    swish()
    net.convolution(16, (1, 1))
    gates = net.add("Sigmoid")
    net.add("Mul", inputs=[data, gates])
    net.shape = shape
    net.convolution(12, (1, 1))
    return net


def sample(net: FloatNetwork) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(5).standard_normal(net.input_shape, dtype=np.float32)}


NETWORKS = {"residual": residual, "mobile": mobile, "gated": gated}


@pytest.mark.parametrize(
    ("name", "form"),
    representatives(
        itertools.product(NETWORKS, (QuantFormat.QDQ, QuantFormat.QOperator)),
        0,
        always=[
            ("residual", QuantFormat.QOperator),
            ("mobile", QuantFormat.QDQ),
            ("gated", QuantFormat.QDQ),
        ],
    ),
)
def test_networks_equal_the_processors(name: str, form: QuantFormat, tmp_path: Path) -> None:
    net = NETWORKS[name]()
    model, feeds = quantized(net, tmp_path, form=form), sample(net)
    graph = import_graph(GpuLowering(CUDA).rules, model)
    kinds = {type(node.operator) for node in graph.nodes}
    assert Quantize in kinds and (name != "gated" or {Table, Int8Elementwise} <= kinds)
    with compile_kernels(model, cpu_now()) as processor:
        wanted = processor.run(feeds)
    for target in (CUDA, OPENCL):
        with compile_kernels(model, gpu_emulated(target)) as compiled:
            assert_equal(compiled.run(feeds), wanted)


def test_weights_are_stored_once_as_bytes(tmp_path: Path) -> None:
    """An initializer that two convolutions read is stored once in the archive, with one byte for each weight."""
    net = FloatNetwork(1, 64, 9, 9)
    net.convolution(64, (3, 3), pads=[1] * 4)
    weight = net.nodes[-1].input[1]
    net.add("Relu")
    net.add("Conv", weight, kernel_shape=[3, 3], pads=[1] * 4)
    code = compile_kernels(quantized(net, tmp_path, form=QuantFormat.QDQ), gpu_ahead(CUDA))
    save_cuda_network(tmp_path / "net.tar", code)
    held = len(members(tmp_path / "net.tar")["constants.bin"])
    weights = 64 * 64 * 9
    # The rest are biases and scales.
    assert weights < held < weights + 4096


def test_an_archive_is_as_small_as_the_model(tmp_path: Path) -> None:
    model = shipped("dqn", "u8")
    save_cuda_network(tmp_path / "dqn.tar", compile_kernels(model, gpu_ahead(CUDA)))
    assert (tmp_path / "dqn.tar").stat().st_size < LARGEST_ARCHIVE * len(model)


def test_archives_know_that_a_network_is_quantized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_stages, "cached_cubin", lambda source, arch: source.encode())
    save_cuda_network(tmp_path / "net.tar", compile_kernels(rounded_network(), gpu_ahead(CUDA)))
    feeds = {"x": np.full((2, 8), np.nan, np.float32)}
    device = CudaDevice(text="cuda", gpu=HostDevice(), device="cuda:0")
    with CudaNetwork(load_cuda_network(tmp_path / "net.tar"), device.gpu) as compiled:
        with pytest.raises(KernelArgumentError, match="input 'x' contains NaN"):
            compiled.run(feeds)
        peaks = device.peaks(compiled)
        assert peaks is not None and peaks.operations == CUDA.peak("int8")


def test_models_quantized_in_parts_keep_floats(tmp_path: Path) -> None:
    """A quantized network with a softmax is imported as a float graph, because processors and GPUs have no integer
    softmax.
    """
    net = FloatNetwork(1, 4, 6, 6)
    net.convolution(8, (3, 3))
    net.add("Softmax", axis=1)
    net.convolution(8, (3, 3))
    model, feeds = quantized(net, tmp_path, form=QuantFormat.QDQ), sample(net)
    graph = import_graph(GpuLowering(CUDA).rules, model)
    assert Quantize not in {type(node.operator) for node in graph.nodes}
    with compile_kernels(model, gpu_emulated(CUDA)) as compiled:
        assert compiled.run(feeds)[net.last].shape == net.shape


def test_wgsl_keeps_floats_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "dqn.onnx"
    path.write_bytes(shipped("dqn", "u8"))
    graph = import_graph(GpuLowering(wgsl_target()).rules, path)
    assert Quantize not in {type(node.operator) for node in graph.nodes}
    assert "computed in float32" in str(wgsl.compiler(CompileOptions(target="wgsl")).remark(path))
    assert opencl.compiler(CompileOptions(target="opencl")).remark(path) is None

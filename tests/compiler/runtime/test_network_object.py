"""Whole networks as one C function in an object file, linked for other processors and for this one: the same results as
in Python.
"""

from __future__ import annotations

import subprocess

import numpy as np
import pytest
from cross import run_elsewhere
from float_networks import FloatNetwork, relative, runtime

from vdla.compiler.codegen.cpu.c_driver import driver_text
from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.codegen.cpu.one_object import c_compiler, write_shared_library
from vdla.compiler.codegen.cpu.options import parse_target
from vdla.compiler.cpu_stages import cpu_ahead, cpu_now
from vdla.compiler.pipeline import compile_kernels
from vdla.compiler.runtime.network_object import emit_network

SHAPE = (1, 5, 8, 8)


def model() -> tuple[bytes, list[str]]:
    """A model of a convolution, a Sigmoid and a Softmax; and the names of its outputs, some of which are views, slices,
    inputs or constants.
    """
    net = FloatNetwork(*SHAPE)
    net.convolution(6, (3, 3), pads=[1] * 4)
    first = net.add("Sigmoid")
    flat = net.add("Flatten")
    net.shape = (1, 384)
    last = net.add("Softmax", inputs=[flat], axis=1)
    same = net.add("Identity", inputs=["x"])
    again = net.add("Identity", inputs=[first])
    held = net.add("Identity", inputs=[net.constant(np.array([1.5, -2], np.float32))])
    bounds = [net.constant(np.array([value])) for value in (1, 3, 1)]
    part = net.add("Slice", inputs=["x", *bounds])
    doubled = net.add("Add", part)
    inner = net.add("Slice", inputs=[first, *bounds])
    shapes = {
        part: (1, 2, 8, 8),
        doubled: (1, 2, 8, 8),
        inner: (1, 2, 8, 8),
        first: (1, 6, 8, 8),
        flat: (1, 384),
        last: (1, 384),
        same: SHAPE,
        again: (1, 6, 8, 8),
        held: (2,),
    }
    return net.model(**shapes), list(shapes)


def sample(shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize(
    ("target", "processor"),
    [
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a53", "cortex-a53"),
        ("llvm -mtriple=riscv64-linux-gnu", "rv64"),
        ("llvm -mtriple=wasm32-unknown-unknown -mattr=+simd128", ""),
    ],
)
def test_networks_run_elsewhere(target, processor, tmp_path):
    data, outputs = model()
    code = emit_network(compile_kernels(data, cpu_ahead(parse_target(target))), name="net")
    expected = runtime(data, {"x": sample()})
    arrays = {"x": sample(), **{name: np.full_like(expected[name], 99) for name in outputs}}
    found = run_elsewhere(code, arrays, tmp_path, processor=processor)
    for name in outputs:
        assert relative(found[name], expected[name]) <= 1e-5, name


def test_networks_in_a_shared_library(tmp_path):
    """A C program linked with a network's shared library gives the same outputs as Python. Its arguments are the files
    of inputs and outputs, in order.
    """
    data, outputs = model()
    code = emit_network(compile_kernels(data, cpu_ahead(host_target())), name="net")
    write_shared_library(code, tmp_path / "libnet.so")
    (tmp_path / "net.h").write_text(code.header)
    (tmp_path / "main.c").write_text(driver_text("net", code.modules[0]))
    build = [c_compiler(), "-Wall", "-Werror", "main.c", "libnet.so", "-Wl,-rpath,.", "-o", "main"]
    subprocess.run(build, cwd=tmp_path, check=True)
    sample().tofile(tmp_path / "x.bin")
    with compile_kernels(data, cpu_now()) as network:
        expected = network.run({"x": sample()})
    for name in outputs:
        np.full_like(expected[name], 99).tofile(tmp_path / f"{name}.bin")
    subprocess.run(["./main", *[f"{name}.bin" for name in ["x", *outputs]]], cwd=tmp_path, check=True)
    for name in outputs:
        found = np.fromfile(tmp_path / f"{name}.bin", np.float32).reshape(expected[name].shape)
        np.testing.assert_array_equal(found, expected[name])


def test_equal_networks_give_equal_objects():
    data, _ = model()
    first, second = [
        emit_network(compile_kernels(data, cpu_ahead(host_target())), name="net") for _ in range(2)
    ]
    assert first.data == second.data and first.header == second.header


def test_an_input_handed_through_under_its_own_name():
    net = FloatNetwork(2, 3)
    last = net.add("Relu")
    network = compile_kernels(net.model(**{"x": (2, 3), last: (2, 3)}), cpu_ahead(host_target()))
    names = [p.name for p in emit_network(network, name="net").modules[0].parameters]
    assert names == ["x", "x.out", last]

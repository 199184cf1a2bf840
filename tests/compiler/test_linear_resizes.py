"""Linear resizes of 8-bit images on processors and GPUs: equal to ONNX Runtime, bit for bit."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx
import onnxruntime
import pytest
from campaign import representatives
from fake_gpu import HostDevice
from onnx import helper, numpy_helper

import vdla
from vdla.compiler import gpu_stages
from vdla.compiler.codegen.cuda.machine import GpuTarget, cuda_target
from vdla.compiler.codegen.opencl.machine import opencl_target
from vdla.compiler.codegen.wgsl.machine import wgsl_target
from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.gpu_stages import gpu_ahead, gpu_emulated
from vdla.compiler.graph.abilities import PROCESSOR
from vdla.compiler.graph.int8_operators import Interpolation
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.pipeline import compile_kernels
from vdla.compiler.runtime.cuda_network import CudaNetwork

SIZES = [((9, 7), (18, 14)), ((9, 7), (13, 20)), ((20, 30), (7, 11)), ((5, 6), (5, 40)), ((33, 1), (129, 3))]
GRIDS = {"same": (0.0377, -9, False), "other": (0.0291, 40, False), "clamped": (0.0452, 11, True)}
"""For each test the scale and zero point of the result, and whether a Relu clamps it. The input has those of "same"."""


def resized(shape: list[int], after: list[int], grid: str, dtype: type, coordinates: str) -> onnx.ModelProto:
    """A model of one linear Resize of an image of type `dtype` from `shape` to `after`, between DequantizeLinear and
    QuantizeLinear. `grid`: key of GRIDS; `coordinates`: the attribute coordinate_transformation_mode.
    """
    (scale, zero, _), (own, least, clamped) = GRIDS["same"], GRIDS[grid]
    shift = 0 if dtype is np.int8 else 128
    constants = {
        "sx": np.float32(scale), "zx": dtype(zero + shift), "sy": np.float32(own), "zy": dtype(least + shift),
        "sizes": np.array(after, np.int64),
    }  # fmt: skip
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "sx", "zx"], ["real"]),
        helper.make_node(
            "Resize", ["real", "", "", "sizes"], ["wide"],
            mode="linear", coordinate_transformation_mode=coordinates,
        ),
        helper.make_node("Relu" if clamped else "Identity", ["wide"], ["cut"]),
        helper.make_node("QuantizeLinear", ["cut", "sy", "zy"], ["y"]),
    ]  # fmt: skip
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        nodes, "resized",
        [helper.make_tensor_value_info("x", kind, shape)], [helper.make_tensor_value_info("y", kind, after)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


RESIZES = list(product(SIZES, GRIDS, ["half_pixel", "asymmetric", "align_corners"]))
PAIRS = [case for i, case in enumerate(RESIZES) if (i // 9 + i // 3 + i) % 3 == 0]
"""A third of the resizes, with every pair of a size and a grid, of a size and a rule for coordinates, and of a grid and
a rule.
"""


@pytest.mark.parametrize(("sizes", "grid", "coordinates"), representatives(RESIZES, 5, always=PAIRS))
def test_linear_resizes_equal_onnxruntime(
    sizes: tuple[tuple[int, int], tuple[int, int]], grid: str, coordinates: str
) -> None:
    plane, after = sizes
    rng = np.random.default_rng(0)
    for dtype in (np.int8, np.uint8):
        model = resized([2, 5, *plane], [2, 5, *after], grid, dtype, coordinates)
        limits = np.iinfo(dtype)
        x = rng.integers(limits.min, limits.max + 1, (2, 5, *plane)).astype(dtype)
        (wanted,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
        with vdla.compile(model, target="llvm", cache=False) as network:
            np.testing.assert_array_equal(network.run({"x": x})["y"], wanted)
        graph = import_model(model.SerializeToString(), abilities=PROCESSOR)
        assert Interpolation in {type(node.operator) for node in graph.nodes}
        shift = 0 if dtype is np.int8 else 128
        stored = {entry.tensor: (x.astype(int) - shift).astype(np.int8) for entry in graph.inputs}
        (found,) = interpret(graph, stored).values()
        np.testing.assert_array_equal(found.astype(int) + shift, wanted)


@pytest.mark.parametrize(
    "target", [cuda_target(), opencl_target(), wgsl_target()], ids=lambda t: t.dialect.name
)
def test_linear_resizes_on_gpus_equal_onnxruntime(target: GpuTarget) -> None:
    """A GPU's loops for a linear Resize, emulated on this processor, give ONNX Runtime's bits."""
    model = resized([2, 5, 9, 7], [2, 5, 13, 20], "clamped", np.uint8, "half_pixel").SerializeToString()
    x = np.random.default_rng(0).integers(0, 256, (2, 5, 9, 7)).astype(np.uint8)
    (wanted,) = onnxruntime.InferenceSession(model).run(None, {"x": x})
    with compile_kernels(model, gpu_emulated(target)) as network:
        np.testing.assert_array_equal(network.run({"x": x})["y"], wanted)


def test_the_text_of_a_linear_resize_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """The CUDA C++ of a resize, run by the host's model of a GPU, equals ONNX Runtime."""
    monkeypatch.setattr(gpu_stages, "cached_cubin", lambda source, arch: source.encode())
    model = resized([1, 3, 5, 6], [1, 3, 10, 7], "other", np.int8, "align_corners").SerializeToString()
    x = np.random.default_rng(0).integers(-128, 128, (1, 3, 5, 6)).astype(np.int8)
    (wanted,) = onnxruntime.InferenceSession(model).run(None, {"x": x})
    with CudaNetwork(compile_kernels(model, gpu_ahead(cuda_target())), HostDevice()) as network:
        np.testing.assert_array_equal(network.run({"x": x})["y"], wanted)

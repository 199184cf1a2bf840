"""GridSample, Resize and dilated pools in every mode, compared with ONNX Runtime and ONNX's reference
implementation.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from campaign import representatives
from float_networks import reference, runtime
from onnx import TensorProto, helper, numpy_helper

import vdla
from vdla.compiler.graph.geometry import automatic_pads


def model(
    operator: str, shapes: dict[str, tuple[int, ...]], opset: int, *constants: Any, **attributes: Any
) -> bytes:
    names = ["" if array is None else f"c{number}" for number, array in enumerate(constants)]
    graph = helper.make_graph(
        [helper.make_node(operator, [*shapes, *names], ["y"], "the node", **attributes)],
        "net",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(a, n) for a, n in zip(constants, names, strict=True) if a is not None],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return onnx.shape_inference.infer_shapes(made, data_prop=True).SerializeToString()


def ours(model: bytes, *launches: dict[str, np.ndarray]) -> list[np.ndarray]:
    with vdla.compile(model, target="llvm") as network:
        return [network.run(feeds)["y"].copy() for feeds in launches]


GRIDS = [*itertools.product(("nearest", "linear", "cubic"), ("zeros", "border", "reflection"))]


# Cubic reflections take six seconds to compile. Cubic neighbours run always with other borders, reflections with other
# neighbours.
@pytest.mark.parametrize(
    ("mode", "outside"),
    representatives(GRIDS, 0, always=[grid for grid in GRIDS if grid != ("cubic", "reflection")]),
)
def test_grid_sample_equals_onnx_runtime(mode: str, outside: str) -> None:
    rng = np.random.default_rng(7)
    x = rng.standard_normal((1, 1, 4, 5)).astype(np.float32)
    older = {"linear": "bilinear", "cubic": "bicubic"}
    # Within the image to its outer edges, and far outside.
    inside = rng.uniform(-1, 1, (1, 5, 4, 2)).astype(np.float32)
    launches = [{"x": x, "grid": grid} for grid in (inside, inside * np.float32(3))]
    for corners, opset in ((0, 20), (1, 16)):
        attributes = {"padding_mode": outside, "align_corners": corners}
        name = older.get(mode, mode) if opset == 16 else mode
        grid = {"x": x.shape, "grid": inside.shape}
        made = model("GridSample", grid, opset, mode=name, **attributes)
        newest = model("GridSample", grid, 20, mode=mode, **attributes)
        for feeds, own in zip(launches, ours(made, *launches), strict=True):
            np.testing.assert_allclose(own, runtime(made, feeds)["y"], rtol=0, atol=1e-5)
            # The reference moves places outside to the border before it reads cubic neighbours.
            outside_of_it = feeds is launches[1] or corners
            if not (outside_of_it and (mode, outside) == ("cubic", "border")):
                np.testing.assert_allclose(own, reference(newest, feeds)["y"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("sizes", [(1, 6, 8, 5), (2, 3, 4, 5), (1, 3, 2, 3)])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_any_two_axes_are_resized(mode: str, sizes: tuple[int, ...]) -> None:
    shape = (1, 3, 4, 5)
    x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    for constants in (
        (None, None, np.array(sizes, np.int64)),
        (None, np.array(sizes, np.float32) / np.array(shape, np.float32)),
    ):
        made = model(
            "Resize", {"x": shape}, 19, *constants, mode=mode, coordinate_transformation_mode="asymmetric"
        )
        (own,) = ours(made, {"x": x})
        # ONNX Runtime interpolates rows and columns only.
        if mode == "nearest" or sizes[:2] == (1, 3):
            np.testing.assert_allclose(own, runtime(made, {"x": x})["y"], rtol=0, atol=1e-5)
        np.testing.assert_allclose(own, reference(made, {"x": x})["y"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("operator", ["AveragePool", "MaxPool", "LpPool"])
def test_dilated_pools_pad_what_their_windows_lack(operator: str, mode: str) -> None:
    """By ONNX's specification `auto_pad` takes the dilation into account. ONNX Runtime ignores it, so it gets explicit
    pads.
    """
    x = np.random.default_rng(4).standard_normal((2, 3, 6, 7)).astype(np.float32)
    window: dict[str, Any] = {"kernel_shape": [2, 3], "strides": [1, 2], "dilations": [2, 2]}
    if operator == "AveragePool":
        window["count_include_pad"] = int(mode == "SAME_LOWER")
    pads = automatic_pads(mode, (6, 7), (2, 3), (1, 2), (2, 2))
    expected = runtime(model(operator, {"x": x.shape}, 22, pads=list(pads), **window), {"x": x})["y"]
    assert expected.shape == (2, 3, 6, 4)
    (own,) = ours(model(operator, {"x": x.shape}, 22, auto_pad=mode, **window), {"x": x})
    np.testing.assert_allclose(own, expected, rtol=1e-5, atol=1e-5)

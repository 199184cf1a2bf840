"""Drawings (random nodes) of convolutions, pools and related operators of one to three dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..attributes import random_attributes
from ..builder import Builder, UnfitError
from ..tables import Operator
from ..values import weighted

PADDING = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def window(
    b: Builder, kernel: tuple[int, ...], known: Mapping[str, Any], *, pads: bool = True
) -> dict[str, Any]:
    """Random attributes, by name, of a window of size `kernel`: strides, dilations, and pads or auto_pad; each may be
    missing. `known`: the attributes that the operator has; strides, dilations and auto_pad are left out if the operator
    lacks them. `pads`: whether the result may have the attribute pads.
    """
    found: dict[str, Any] = {}
    rank = len(kernel)
    if "strides" in known and b.draw.chance(0.5):
        found["strides"] = [b.draw.of((1, 1, 2, 3)) for _ in range(rank)]
    if "dilations" in known and b.draw.chance(0.25):
        found["dilations"] = [b.draw.of((1, 1, 2)) for _ in range(rank)]
    how = b.draw.below(10)
    # If a window is narrower than its stride, references crop for SAME, or refuse the node.
    narrow = any(size < stride for size, stride in zip(kernel, found.get("strides", kernel), strict=True))
    if how < 3 and "auto_pad" in known and not narrow:
        found["auto_pad"] = b.draw.of(PADDING)
    elif how < 8 and pads:
        found["pads"] = [b.draw.below(max(2, size)) % max(size, 1) for size in kernel] * 2
        if b.draw.chance(0.4):
            found["pads"][rank:] = [b.draw.below(size) for size in kernel]
    return found


def image(b: Builder, dtypes: tuple[str, ...] = ("float32",)) -> str:
    """The name of a tensor of images (two spatial dimensions) or, rarely, of lines or volumes (one or three)."""
    return b.tensor(dtypes, ranks=b.draw.of(((4,), (4,), (4,), (3,), (5,))), constant=0.05)


def _kernel(b: Builder, array: np.ndarray) -> tuple[int, ...]:
    if b.draw.chance(0.6):
        return (b.draw.of((1, 2, 3, 3)),) * (array.ndim - 2)
    return tuple([1 + b.draw.below(min(4, size + 1)) for size in array.shape[2:]])


def convolution(b: Builder, operator: Operator) -> None:
    """Adds a random Conv or ConvTranspose, as `operator` says, with one group, several, or one for each channel."""
    transposed = operator.name == "ConvTranspose"
    data = image(b, ("float32",) if b.draw.chance(0.9) else ("float16", "float64"))
    array = b.array(data)
    channels, kind = array.shape[1], array.dtype.name
    kernel = _kernel(b, array)
    divisors = [n for n in range(1, channels + 1) if channels % n == 0]
    groups = b.draw.of((1, 1, channels, b.draw.of(divisors)))
    filters = groups * b.draw.of((1, 2, 3, 5, 8)) if groups > 1 else b.draw.of((1, 2, 4, 7, 16))
    shape = (channels, filters // groups, *kernel) if transposed else (filters, channels // groups, *kernel)
    weights = b.tensor([kind], shape=shape, constant=0.85, old=0.1)
    bias = b.tensor([kind], shape=(filters,), constant=0.85) if b.draw.chance(0.5) else None
    attributes = window(b, kernel, b.schema(operator.name).attributes)
    if transposed and b.draw.chance(0.2):
        attributes["output_padding"] = [b.draw.below(2) for _ in kernel]
    if transposed and b.draw.chance(0.15):
        attributes.pop("pads", None)
        attributes["output_shape"] = [
            size * stride + b.draw.below(2)
            for size, stride in zip(
                array.shape[2:], attributes.get("strides", [1] * len(kernel)), strict=True
            )
        ]
    if b.draw.chance(0.5):
        attributes["kernel_shape"] = list(kernel)
    if groups > 1 or b.draw.chance(0.3):
        attributes["group"] = groups
    b.apply(operator, {"X": data, "W": weights, "B": bias}, **attributes)


def integer_convolution(b: Builder, operator: Operator) -> None:
    """Adds a random ConvInteger with or without zero points."""
    data = image(b, ("uint8", "int8"))
    array = b.array(data)
    channels, kernel = array.shape[1], _kernel(b, array)
    groups = b.draw.of((1, 1, channels))
    filters = groups * b.draw.of((1, 2, 4))
    weights = b.tensor(
        [b.draw.of(("uint8", "int8"))], shape=(filters, channels // groups, *kernel), constant=0.85, old=0
    )
    zero = np.asarray(b.draw.below(100), array.dtype) if b.draw.chance(0.6) else None
    other = None
    if zero is not None and b.draw.chance(0.6):
        size = () if b.draw.chance(0.6) else (filters,)
        other = np.asarray(b.draw.rng.integers(0, 5, size), b.array(weights).dtype)
    attributes = window(b, kernel, b.schema("ConvInteger").attributes)
    if groups > 1:
        attributes["group"] = groups
    b.apply(operator, {"x": data, "w": weights, "x_zero_point": zero, "w_zero_point": other}, **attributes)


def pool(b: Builder, operator: Operator) -> None:
    """Adds a random AveragePool, LpPool or MaxPool, as `operator` says; a MaxPool may have indices as second output."""
    types = b.types(operator.name, 0)
    data = image(b, (weighted(b.draw, types),))
    array = b.array(data)
    kernel = tuple([min(k, size + 1) for k, size in zip(_kernel(b, array), array.shape[2:], strict=True)])
    attributes = window(b, kernel, b.schema(operator.name).attributes)
    steps = attributes.get("dilations", [1] * len(kernel))
    if any((k - 1) * d >= size for k, d, size in zip(kernel, steps, array.shape[2:], strict=True)):
        # A window that reads pads alone has the average NaN for ONNX's reference, and 0 for ONNX Runtime.
        attributes.pop("dilations", None)
    others = random_attributes(b, operator, array.ndim, "storage_order")
    outputs = 2 if operator.name == "MaxPool" and b.opset >= 8 and b.draw.chance(0.15) else 1
    if outputs == 2 and b.draw.chance(0.4):
        others["storage_order"] = b.draw.below(2)
    b.apply(operator, {"X": data}, outputs=outputs, kernel_shape=list(kernel), **attributes, **others)


def global_pool(b: Builder, operator: Operator) -> None:
    """Adds a node of the global pool `operator` of images, lines or volumes (two, one or three spatial dimensions)."""
    b.apply(operator, {"X": image(b, ("float32",) if b.draw.chance(0.85) else ("float16", "float64"))})


def max_unpool(b: Builder, operator: Operator) -> None:
    """Adds a random MaxUnpool of the values and indices that a MaxPool computes."""
    data = b.tensor(["float32"], shape=b.draw.of(((1, 2, 4, 4), (1, 1, 6, 4), (2, 2, 4, 6))))
    pooled, indices = b.apply(
        Operator("", "MaxPool"), {"X": data}, outputs=2, kernel_shape=[2, 2], strides=[2, 2]
    )
    shape = np.array(b.array(data).shape, np.int64) if b.draw.chance(0.4) else None
    b.apply(operator, {"X": pooled, "I": indices, "output_shape": shape}, kernel_shape=[2, 2], strides=[2, 2])


def column_to_image(b: Builder, operator: Operator) -> None:
    """Adds a random Col2Im of blocks that overlap or not."""
    planes = (3 + b.draw.below(4), 3 + b.draw.below(4))
    kernel = (1 + b.draw.below(2), 1 + b.draw.below(3))
    attributes = window(b, kernel, b.schema("Col2Im").attributes)
    strides, dilations = attributes.get("strides", [1, 1]), attributes.get("dilations", [1, 1])
    pads = attributes.get("pads", [0] * 4)
    blocks = 1
    for i in range(2):
        count = (planes[i] + pads[i] + pads[i + 2] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1
        if count < 1:
            raise UnfitError("no block fits")
        blocks *= count
    channels = b.draw.of((1, 2, 3)) * kernel[0] * kernel[1]
    data = b.tensor(["float32"], shape=(b.draw.of((1, 2)), channels, blocks))
    b.apply(
        operator,
        {"input": data, "image_shape": np.array(planes, np.int64), "block_shape": np.array(kernel, np.int64)},
        **attributes,
    )


def resize(b: Builder, operator: Operator) -> None:
    """Adds a random Resize in any mode."""
    known = b.schema("Resize").attributes
    data = b.tensor(
        ["float32"] if b.draw.chance(0.85) else ["uint8", "int8", "float16"], ranks=(2, 3, 4, 4, 4, 5)
    )
    array = b.array(data)
    mode = b.draw.of(("nearest", "linear", "nearest", "cubic"))
    attributes: dict[str, Any] = {"mode": mode} if mode != "nearest" or b.draw.chance(0.5) else {}
    along = list(range(max(0, array.ndim - 2), array.ndim)) if b.draw.chance(0.8) else list(range(array.ndim))
    scales = np.ones(array.ndim, np.float32)
    for place in along:
        scales[place] = b.draw.of((2.0, 0.5, 1.0, 3.0, 1.5, 0.7, 2.3))
    formals: dict[str, Any] = {"X": data, "scales": scales}
    if b.opset >= 11:
        modes = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "tf_crop_and_resize"]
        modes += ["half_pixel_symmetric"] if b.opset >= 19 else []
        if b.draw.chance(0.75):
            attributes["coordinate_transformation_mode"] = b.draw.of(modes)
        if mode == "nearest" and b.draw.chance(0.6):
            attributes["nearest_mode"] = b.draw.of(
                ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
            )
        for name, values in (
            ("cubic_coeff_a", (-0.75, -0.5)),
            ("exclude_outside", (0, 1)),
            ("antialias", (0, 1)),
            ("extrapolation_value", (0.0, 1.5)),
        ):
            if name in known and b.draw.chance(0.3) and (name != "exclude_outside" or mode == "cubic"):
                attributes[name] = b.draw.of(values)
        cropped = attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
        if b.draw.chance(0.4):
            sizes = np.array(
                [1 + b.draw.below(9) if i in along else s for i, s in enumerate(array.shape)], np.int64
            )
            del formals["scales"]
            formals |= (
                {"sizes": sizes} if b.opset >= 13 else {"scales": np.zeros(0, np.float32), "sizes": sizes}
            )
            if "keep_aspect_ratio_policy" in known and b.draw.chance(0.3) and not cropped:
                attributes["keep_aspect_ratio_policy"] = b.draw.of(("stretch", "not_larger", "not_smaller"))
        if cropped:
            # ONNX Runtime ignores the region of an axis that keeps its size, and copies the axis.
            lengths = formals["sizes"] if "sizes" in formals else np.floor(scales * array.shape)
            kept = lengths == array.shape
            low = np.where(kept, 0, b.draw.rng.uniform(0, 0.4, array.ndim))
            high = np.where(kept, 1, b.draw.rng.uniform(0.6, 1.2, array.ndim))
            formals["roi"] = np.concatenate([low, high]).astype(np.float32)
        elif b.opset < 13:
            formals["roi"] = np.zeros(0, np.float32)
        if "axes" in known and b.draw.chance(0.3) and "roi" not in formals:
            attributes["axes"] = along
            for name in ("scales", "sizes"):
                if name in formals:
                    formals[name] = formals[name][along]
    b.apply(operator, formals, **attributes)


def grid_sample(b: Builder, operator: Operator) -> None:
    """Adds a random GridSample in any mode, at positions inside and outside of the image."""
    data = b.tensor(["float32"], ranks=(4,))
    batch = b.array(data).shape[0]
    grid = b.draw.rng.uniform(-1.3, 1.3, (batch, 1 + b.draw.below(4), 1 + b.draw.below(4), 2)).astype(
        np.float32
    )
    modes = ("bilinear", "nearest", "bicubic") if b.opset < 20 else ("linear", "nearest", "cubic")
    attributes: dict[str, Any] = {
        name: b.draw.of(values)
        for name, values in (
            ("mode", modes),
            ("padding_mode", ("zeros", "border", "reflection")),
            ("align_corners", (0, 1)),
        )
        if b.draw.chance(0.75)
    }
    b.apply(operator, {"X": data, "grid": b.new(grid, constant=b.draw.chance(0.3))}, **attributes)

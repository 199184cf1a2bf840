"""Table of the networks by name: the functions that build them, the sizes of their images, and the names under which
they are exported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx

from vdla.util.errors import UserError

from .classic import alexnet, densenet121, squeezenet1_1, unet, vgg11
from .convnext import convnext_tiny
from .graph import Graph
from .inception import googlenet, inception_v3
from .mobile import (
    efficientnet_b0,
    mnasnet,
    mobilenet_v2,
    mobilenet_v3_large,
    mobilenet_v3_small,
    mobilenet_v4_small,
    shufflenet_v2,
)
from .residual import regnet_y_400mf, resnet50, resnext50, wide_resnet50
from .segmentation import deeplabv3, lraspp
from .swin import swin_t
from .values import Value
from .vision_transformers import deit_small, mixer, vit_tiny

INPUT, OUTPUT = "x", "y"


@dataclass(frozen=True, slots=True)
class Original:
    """A network: `build` adds it to a graph; `size`: rows and columns of its images; `least`: the least number of rows
    and columns that it accepts.

    Image sizes must be multiples of `multiple`. `exported` is the name under which `benchmarks/outside_networks.py`
    exports the original.
    """

    build: Callable[[Graph, Value], Value]
    exported: str
    size: int = 224
    least: int = 32
    multiple: int = 1


TABLE: dict[str, Original] = {
    "alexnet": Original(alexnet, "alexnet", least=63),
    "vgg11": Original(vgg11, "vgg11"),
    "resnet50": Original(resnet50, "resnet50"),
    "wide_resnet50": Original(wide_resnet50, "wide_resnet50_2"),
    "resnext50": Original(resnext50, "resnext50_32x4d"),
    "squeezenet1_1": Original(squeezenet1_1, "squeezenet1_1"),
    "mobilenet_v2": Original(mobilenet_v2, "mobilenet_v2"),
    "mobilenet_v3_small": Original(mobilenet_v3_small, "mobilenet_v3_small"),
    "mobilenet_v3_large": Original(mobilenet_v3_large, "mobilenet_v3_large"),
    "mobilenet_v4_small": Original(mobilenet_v4_small, "mobilenetv4_conv_small"),
    "efficientnet_b0": Original(efficientnet_b0, "efficientnet_b0"),
    "densenet121": Original(densenet121, "densenet121"),
    "googlenet": Original(googlenet, "googlenet"),
    "inception_v3": Original(inception_v3, "inception_v3", size=299, least=75),
    "shufflenet_v2": Original(shufflenet_v2, "shufflenet_v2_x1_0"),
    "mnasnet": Original(mnasnet, "mnasnet1_0"),
    "regnet_y_400mf": Original(regnet_y_400mf, "regnet_y_400mf"),
    "convnext_tiny": Original(convnext_tiny, "convnext_tiny"),
    "vit_tiny": Original(vit_tiny, "vit_tiny_patch16_224", multiple=16),
    "deit_small": Original(deit_small, "deit_small_patch16_224", multiple=16),
    "swin_t": Original(swin_t, "swin_t"),
    "mixer": Original(mixer, "mixer_s16_224", multiple=16),
    "lraspp": Original(lraspp, "lraspp_mobilenet_v3_large"),
    "deeplabv3": Original(deeplabv3, "deeplabv3_mobilenet_v3_large"),
    "unet": Original(unet, "unet", size=256, multiple=16),
}
NAMES = tuple(TABLE)


def original(name: str) -> Original:
    """The network called `name`. Raises UserError for an unknown name."""
    try:
        return TABLE[name]
    except KeyError:
        raise UserError(f"no network is called {name!r}; choose one of {', '.join(NAMES)}") from None


def describe(
    name: str, *, batch: int = 1, size: int | None = None, width: float = 1.0, depth: float = 1.0
) -> Graph:
    """The network's graph, without random weights. Input: float32 ``x`` [batch, 3, size, size]; output: float32 ``y``.

    `size` is the original's size by default; `width` and `depth` below 1 make copies with fewer channels and blocks.
    Raises UserError for an unknown name and for sizes that the network does not accept.
    """
    network = original(name)
    size = network.size if size is None else size
    if size < network.least or size % network.multiple:
        of = f" a multiple of {network.multiple} and" if network.multiple > 1 else ""
        raise UserError(
            f"{name} does not accept images of {size}x{size}; choose a size that is{of} at least {network.least}"
        )
    if batch < 1 or not 0 < width <= 1 or not 0 < depth <= 1:
        raise UserError(
            f"{name}: batch = {batch}, width = {width:g} and depth = {depth:g}; the batch must be at least 1, width "
            "and depth must be above 0 and at most 1"
        )
    g = Graph(name, batch=batch, width=width, depth=depth)
    g.output(network.build(g, g.input(INPUT, (batch, 3, size, size))), OUTPUT)
    return g


def build_original(
    name: str,
    *,
    batch: int = 1,
    seed: int = 0,
    size: int | None = None,
    width: float = 1.0,
    depth: float = 1.0,
) -> onnx.ModelProto:
    """The float32 model (ONNX opset 17) of network `name`, with weights drawn by `seed`; other arguments are as for
    `describe`. Equal arguments give equal bytes.
    """
    return describe(name, batch=batch, size=size, width=width, depth=depth).model(seed)

"""Workloads as one names them: the layers of the papers, or sizes."""

from __future__ import annotations

import re

from vdla.compiler.te.blocks import Window
from vdla.compiler.templates.workload_vdla import Template, Workload
from vdla.isa.config import Config
from vdla.isa.errors import UserError

from .bench.convolutions import CONVOLUTIONS, DEPTHWISE, same_window

FORMS = (
    "conv2d:NAME (C1 to C12), conv2d:SIZE,CHANNELS,FILTERS,KERNEL,STRIDE, depthwise:NAME (D1 to D9), "
    "depthwise:SIZE,CHANNELS,KERNEL,STRIDE or dense:ROWS,DEPTH,COLUMNS"
)
"""What a workload may be called."""


def accelerator_workload(text: str, config: Config) -> Workload:
    """The int8 workload that `text` names (see FORMS), batch 1, SAME padding, as `config` runs it.

    Raises UserError for other texts.
    """
    operator, sizes = _parse(text)
    match operator:
        case "conv2d":
            size, channels, filters, kernel, stride = sizes
            # A first convolution of few channels reads the image as it is, where the load unit can.
            patches = config.has("patch") and channels < config.block_in
            return _windowed("patch_conv2d" if patches else "conv2d", size, channels, filters, kernel, stride)
        case "depthwise":
            size, channels, kernel, stride = sizes
            template = "depthwise_conv2d" if config.has("depthwise") else "conv2d"
            return _windowed(template, size, channels, channels, kernel, stride)
        case _:
            rows, depth, columns = sizes
            return Workload(template="conv2d", batch=rows, channels=depth, height=1, width=1, filters=columns)


def _windowed(
    template: Template, size: int, channels: int, filters: int, kernel: int, stride: int
) -> Workload:
    window: Window = same_window(size, kernel, stride)
    return Workload(
        template=template,
        batch=1,
        channels=channels,
        height=size,
        width=size,
        filters=filters,
        kernel=window.kernel,
        strides=window.strides,
        pads=window.pads,
    )


def _parse(text: str) -> tuple[str, tuple[int, ...]]:
    """The operator and its sizes."""
    operator, _, rest = text.partition(":")
    if operator == "conv2d" and rest in CONVOLUTIONS:
        return operator, CONVOLUTIONS[rest]
    if operator == "depthwise" and rest in DEPTHWISE:
        size, channels, stride = DEPTHWISE[rest]
        return operator, (size, channels, 3, stride)
    wanted = {"conv2d": 5, "depthwise": 4, "dense": 3}.get(operator)
    if wanted is not None and re.fullmatch(r"[1-9]\d{0,5}(,[1-9]\d{0,5})*", rest):
        sizes = tuple(int(item) for item in rest.split(","))
        if len(sizes) == wanted:
            return operator, sizes
    raise UserError(f"--workload {text}: is no workload; say {FORMS}")

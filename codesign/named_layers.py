"""Layers with names for commands and benchmarks: C1-C12 of ResNet-18 (the TVM paper, Table 2), D1-D9 of MobileNet, and
layers of odd sizes.
"""

from __future__ import annotations

from vdla.compiler.te.blocks import Window

CONVOLUTIONS = {
    "C1": (224, 3, 64, 7, 2),
    "C2": (56, 64, 64, 3, 1),
    "C3": (56, 64, 64, 1, 1),
    "C4": (56, 64, 128, 3, 2),
    "C5": (56, 64, 128, 1, 2),
    "C6": (28, 128, 128, 3, 1),
    "C7": (28, 128, 256, 3, 2),
    "C8": (28, 128, 256, 1, 2),
    "C9": (14, 256, 256, 3, 1),
    "C10": (14, 256, 512, 3, 2),
    "C11": (14, 256, 512, 1, 2),
    "C12": (7, 512, 512, 3, 1),
}
"""Convolutions by name: height and width (equal), channels, filters, kernel, stride."""
OTHER_CONVOLUTIONS = {
    f"{size};{channels}->{filters};{kernel},{stride}": (size, channels, filters, kernel, stride)
    for size, channels, filters, kernel, stride in (
        (112, 16, 32, 1, 1),
        (112, 32, 64, 3, 2),
        (112, 64, 64, 3, 1),
        (56, 128, 128, 1, 1),
        (56, 64, 256, 1, 1),
        (56, 256, 64, 1, 1),
        (55, 48, 48, 3, 1),
        (35, 32, 48, 3, 1),
        (28, 512, 128, 1, 1),
        (28, 128, 512, 1, 1),
        (27, 96, 256, 5, 1),
        (20, 80, 96, 5, 2),
        (16, 512, 512, 3, 1),
        (14, 512, 512, 1, 1),
        (14, 1024, 256, 1, 1),
        (14, 512, 1024, 1, 2),
        (13, 192, 384, 3, 1),
        (9, 96, 96, 3, 1),
        (7, 1024, 1024, 1, 1),
        (7, 512, 2048, 1, 1),
        (7, 2048, 512, 1, 1),
    )
}
"""Convolutions from other networks and with odd sizes; values as in `CONVOLUTIONS`."""
DEPTHWISE = {
    "D1": (112, 32, 1),
    "D2": (112, 64, 2),
    "D3": (56, 128, 1),
    "D4": (56, 128, 2),
    "D5": (28, 256, 1),
    "D6": (28, 256, 2),
    "D7": (14, 512, 1),
    "D8": (14, 512, 2),
    "D9": (7, 1024, 1),
}
"""Depthwise convolutions by name: height and width (equal), channels, stride; the kernel is 3x3."""


def same_window(size: int, kernel: int, stride: int) -> Window:
    """A window with SAME padding: ceil(size / stride) outputs; if the total padding is odd, the larger pad is at the
    end.
    """
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    low, high = total // 2, total - total // 2
    return Window(kernel=(kernel, kernel), strides=(stride, stride), pads=(low, low, high, high))


def even_window(kernel: int, stride: int) -> Window:
    """A window with equal pads on all sides. For odd kernels it gives as many outputs as `same_window` (SAME padding).

    GPU libraries do not support unequal pads: another kernel would have to pad the input first.
    """
    pad = kernel // 2
    return Window(kernel=(kernel, kernel), strides=(stride, stride), pads=(pad, pad, pad, pad))

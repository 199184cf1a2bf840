"""Link one kernel by itself for its timing: a candidate of the tuner needs no network, and no values of constants."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from math import prod

import numpy as np
from numpy.typing import NDArray
from vdla.isa.config import Config

from ...ir.expr import Buffer
from ...ir.stmt import Program as Kernel
from .emit import LayerEmitter
from .link import Image, encode
from .placement import DramBuffer


def link_alone(
    config: Config, kernel: Kernel, activations: AbstractSet[str]
) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
    """The program that runs one lowered kernel once: (n, 2) uint64 instructions, and the uint8 memory image.

    `activations` names the parameters that are tensors of the network; the others are constants. All lie at the
    alignment that `link` gives them, constants first. The image holds micro-ops and zeros: timing depends on nothing
    else, so `simulate(config, *link_alone(...), data=False)` takes the cycles of a network of this one layer.
    Raises PlacementError where the kernel's buffers do not fit a scratchpad.
    """
    image, places = Image(), dict[str, DramBuffer]()
    for buffer in kernel.parameters:
        if buffer.name not in activations:
            places[buffer.name] = DramBuffer(image.reserve(buffer.name, "constant", _bytes(buffer)), False)
    low = image.size
    for buffer in kernel.parameters:
        if buffer.name in activations:
            places[buffer.name] = DramBuffer(image.reserve(buffer.name, "activation", _bytes(buffer)), True)
    emission = image.begin(config, (low, image.size))
    LayerEmitter(emission, kernel, places, 0).run()
    memory = image.finish(emission, 0)
    return encode(emission), memory


def _bytes(buffer: Buffer) -> int:
    return prod(buffer.shape) * buffer.dtype.bits // 8

"""Links a single kernel to a program, so that the tuner can time the kernel. Timing needs neither the rest of the
network nor the values of constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.isa.config import Config

from ...ir.stmt import Program as Kernel
from ...te.blocks import Pads
from ...te.ops.common import CHAIN
from .emit import LayerEmitter
from .folds import FoldedWeights
from .link import Image, alignment_of, buffer_bytes, encode
from .placement import ChainBuffer, DramBuffer, Place

OUTPUT = "Y"
"""The name of the parameter that operators write (`te.ops`)."""
ACTIVATIONS = frozenset("XRY")
"""Names of an operator's parameters that are activations: input X, second operand R, output Y. All other parameters are
constants.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Alone:
    """A program of one kernel: `instructions`, uint64 (n, words); memory `image`, uint8; byte addresses of the kernel's
    parameters.

    Addresses of the `chained` parameters are in the chain memory (on-chip memory between layers), others in DRAM.
    """

    instructions: NDArray[np.uint64]
    image: NDArray[np.uint8]
    addresses: Mapping[str, int]
    chained: AbstractSet[str] = frozenset()


def link_alone(
    config: Config,
    kernel: Kernel,
    activations: AbstractSet[str],
    margins: Pads | None = None,
    *,
    weights: FoldedWeights | None = None,
) -> Alone:
    """The program that runs one lowered kernel once.

    `activations`: names of the parameters that are tensors of the network; all other parameters are constants. In DRAM,
    constants come before activations, and each parameter is aligned as in `link`. Parameters in the chain memory
    (on-chip memory between layers) are adjacent. `margins`: pads around an output in the chain memory. `weights`:
    folding of the kernel's weights (None: all parts of weight tiles are used).

    The image contains micro-ops; all other bytes are zero, in place of the parameters' data. Timing does not depend on
    data, so the program takes as many cycles as a network that consists of this layer. The caller may write data into
    the image. Raises PlacementError if the kernel's buffers do not fit a scratchpad.
    """
    image, places = Image(alignment_of(config)), dict[str, Place]()
    for buffer in kernel.parameters:
        if buffer.name not in activations:
            places[buffer.name] = DramBuffer(
                image.reserve(buffer.name, "constant", buffer_bytes(buffer)), False
            )
    low, chained = image.size, 0
    for buffer in kernel.parameters:
        if buffer.name in activations and buffer.scope == CHAIN:
            around = margins if margins is not None and buffer.name == OUTPUT else (0, 0, 0, 0)
            places[buffer.name] = ChainBuffer(chained, around)
            chained += buffer_bytes(buffer)
        elif buffer.name in activations:
            places[buffer.name] = DramBuffer(
                image.reserve(buffer.name, "activation", buffer_bytes(buffer)), True
            )
    emission = image.begin(config, (low, image.size))
    LayerEmitter(emission, kernel, [places], 0, weights=weights).run()
    memory = image.finish(emission, 0)
    addresses = {name: place.address for name, place in places.items()}
    return Alone(
        instructions=encode(config, emission),
        image=memory,
        addresses=addresses,
        chained={name for name, place in places.items() if isinstance(place, ChainBuffer)},
    )

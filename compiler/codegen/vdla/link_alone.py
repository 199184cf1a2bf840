"""Link one kernel by itself for its timing: a candidate of the tuner needs no network, and no values of constants."""

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
"""The parameter that operators write (`te.ops`)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Alone:
    """A program of one kernel: (n, words) `instructions`, uint8 memory `image`, byte addresses of its parameters.

    Those that are `chained` have theirs in the chain memory.
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

    `activations` names the parameters that are tensors of the network; the others are constants. All lie at the
    alignment that `link` gives them, constants first; those of the chain memory lie there, side by side. `margins` are
    those of an output there, `weights` what a machine that folds knows of the kernel's (None: nothing, so that it takes
    all parts of their tiles). The image holds micro-ops and zeros: timing depends on nothing else, so that without data
    it takes the cycles of a network of this one layer. Values may be put into the image. Raises PlacementError where
    the kernel's buffers do not fit a scratchpad.
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

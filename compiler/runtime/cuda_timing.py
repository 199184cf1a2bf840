"""How long a network of kernels takes: work that is short is repeated within one graph."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from math import ceil
from statistics import median

import numpy as np

from .cuda_network import CudaNetwork

LEAST_MILLISECONDS = 1.0
"""Shorter work is repeated within one graph until it takes so long, so that events' resolution does not count."""
MOST_REPETITIONS = 200
TRIED = 5
"""Runs that tell how often work is to be repeated."""


def repetitions_for(milliseconds: float) -> int:
    """How often work is repeated that takes so long."""
    return max(1, min(MOST_REPETITIONS, ceil(LEAST_MILLISECONDS / max(milliseconds, 1e-4))))


def median_milliseconds(network: CudaNetwork, inputs: Mapping[str, np.ndarray], *, samples: int) -> float:
    """One run's time by the device's clock in the median of `samples` graphs; what fits stays in the level 2 cache.

    Raises as `CudaNetwork.run` does.
    """
    repetitions = repetitions_for(median(network.time(inputs, repeat=TRIED)))
    with closing(network.timer(inputs, repetitions=repetitions)) as timer:
        return median([timer.milliseconds() for _ in range(samples)])

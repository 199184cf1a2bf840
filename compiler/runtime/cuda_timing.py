"""How long a network of kernels takes: work that is short is repeated within one graph."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from math import ceil
from statistics import median

import numpy as np

from .cuda_network import CudaNetwork, NetworkTimer

LEAST_MILLISECONDS = 1.0
"""Shorter work is repeated within one graph until it takes so long, so that events' resolution does not count."""
MOST_REPETITIONS = 200
TRIED = 5
"""Runs that tell how often work is to be repeated."""


def repetitions_for(milliseconds: float) -> int:
    """How often work is repeated that takes so long."""
    return max(1, min(MOST_REPETITIONS, ceil(LEAST_MILLISECONDS / max(milliseconds, 1e-4))))


def repeating_timer(network: CudaNetwork, inputs: Mapping[str, np.ndarray]) -> NetworkTimer:
    """`CudaNetwork.timer` of so many repetitions that resolution does not count; raises as that does."""
    return network.timer(inputs, repetitions=repetitions_for(median(network.time(inputs, repeat=TRIED))))


def median_milliseconds(network: CudaNetwork, inputs: Mapping[str, np.ndarray], *, samples: int) -> float:
    """One run's time by the device's clock in the median of `samples` graphs; what fits stays in the level 2 cache.

    Raises as `CudaNetwork.run` does.
    """
    with closing(repeating_timer(network, inputs)) as timer:
        return median([timer.milliseconds() for _ in range(samples)])

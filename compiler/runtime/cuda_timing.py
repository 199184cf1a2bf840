"""Timing of networks of kernels on GPUs; short work is repeated within one graph."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from math import ceil
from statistics import median

import numpy as np

from .cuda_network import CudaNetwork, NetworkTimer

LEAST_MILLISECONDS = 1.0
"""Least time of a timed graph of launches. The graph repeats shorter work, because the device's timing events have a
limited resolution.
"""
MOST_REPETITIONS = 200
TRIED = 5
"""Number of trial runs whose time determines the number of repetitions."""


def repetitions_for(milliseconds: float) -> int:
    """Number of times that one timed graph must repeat work of `milliseconds`, so that the graph takes at least
    LEAST_MILLISECONDS. The result is from 1 to MOST_REPETITIONS, even if the graph then takes less time.
    """
    return max(1, min(MOST_REPETITIONS, ceil(LEAST_MILLISECONDS / max(milliseconds, 1e-4))))


def repeating_timer(network: CudaNetwork, inputs: Mapping[str, np.ndarray]) -> NetworkTimer:
    """`CudaNetwork.timer` with enough repetitions for the resolution of the device's timing events; raises as `timer`
    does.
    """
    return network.timer(inputs, repetitions=repetitions_for(median(network.time(inputs, repeat=TRIED))))


def median_milliseconds(network: CudaNetwork, inputs: Mapping[str, np.ndarray], *, samples: int) -> float:
    """Median time of one run of the network by the device's clock. A graph of repeated runs is timed `samples` times,
    so the level 2 cache is warm.

    Raises as `CudaNetwork.run` does.
    """
    with closing(repeating_timer(network, inputs)) as timer:
        return median([timer.milliseconds() for _ in range(samples)])

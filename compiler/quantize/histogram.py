"""Chooses the range in which a tensor is quantized, from the tensor's values on calibration data. There are three
methods:

minmax      takes the range from the least to the greatest value
percentile  takes a range that leaves out a given fraction of the values, half of them at either end
mse         takes the range with the least mean square error after quantization: outliers are clipped if a smaller
            range makes the other values more exact
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..graph.int8_convolution import ActivationType
from .scales import activation_quantization

Method = Literal["minmax", "percentile", "mse"]
LEAST_PERCENTILE = 50.0
"""The least percentage of values that the method "percentile" leaves inside a range."""
Range = tuple[float, float]

BINS = 2048
COARSE, FINE = 24, 12
"""The search for an end of a range tries the ends of COARSE steps over the whole range, then the ends of FINE steps
around the best of them.
"""


@dataclass(slots=True, kw_only=True)
class Histogram:
    """Counts of values in `BINS` bins of equal width between `low` and `high`."""

    low: float
    high: float
    counts: NDArray[np.int64]

    @classmethod
    def empty(cls, low: float, high: float) -> Histogram:
        """A histogram for the range from `low` to `high` that has no values yet."""
        return cls(low=low, high=high, counts=np.zeros(BINS, np.int64))

    def add(self, values: NDArray[np.float32]) -> None:
        """Counts `values`. A value outside of the range is counted in the first or the last bin."""
        width = (self.high - self.low) / BINS
        if width <= 0.0:
            self.counts[0] += values.size
            return
        places = (values.astype(np.float64).reshape(-1) - self.low) / width
        self.counts += np.bincount(np.clip(places, 0, BINS - 1).astype(np.int64), minlength=BINS)

    def values(self) -> NDArray[np.float64]:
        """The value that stands for each bin: the bin's middle. For the bin that contains 0 it is 0, since a ReLU gives
        many zeros.
        """
        edges = np.linspace(self.low, self.high, BINS + 1)
        middles = (edges[:-1] + edges[1:]) / 2
        if self.low <= 0.0 <= self.high:
            middles[min(int(np.searchsorted(edges, 0.0, "right")) - 1, BINS - 1)] = 0.0
        return middles


def choose_range(
    histogram: Histogram, method: Method, dtype: ActivationType, *, percentile: float = 99.99
) -> Range:
    """Chooses the range of numbers that `dtype` will represent, for one tensor. `histogram`: the tensor's values on
    calibration data. `percentile`: for the method "percentile", the percentage of the values that are inside the range.
    """
    full = (histogram.low, histogram.high)
    if histogram.high <= histogram.low:
        return full
    match method:
        case "minmax":
            return full
        case "percentile":
            return _percentile(histogram, percentile)
        case "mse":
            return _least_error(histogram, dtype)


def _percentile(histogram: Histogram, percentile: float) -> Range:
    """The range that contains `percentile` percent of the values; half of the remaining values are below it, half
    above. Its ends are borders of bins.
    """
    outside = histogram.counts.sum() * (1.0 - percentile / 100.0) / 2.0
    below, edges = np.cumsum(histogram.counts), np.linspace(histogram.low, histogram.high, BINS + 1)
    first = int(np.searchsorted(below, outside, "right"))
    last = int(np.searchsorted(below, below[-1] - outside, "left"))
    return float(edges[min(first, BINS - 1)]), float(edges[min(last, BINS - 1) + 1])


def _least_error(histogram: Histogram, dtype: ActivationType) -> Range:
    """The range with the least square error after quantization to `dtype`. The search shrinks the two ends of the range
    in turn, twice each. For int8, whose range is symmetric, it shrinks both ends together. If two candidates of the
    coarse grid have equal errors, the larger range is taken.
    """
    values, low, high = histogram.values(), min(histogram.low, 0.0), max(histogram.high, 0.0)
    used = histogram.counts > 0
    values, weights = values[used], histogram.counts[used].astype(np.float64)

    def error(low: float, high: float) -> float:
        quantization = activation_quantization(low, high, dtype)
        scale, zero_point = float(quantization.scale), quantization.zero_point
        limits = (0, 255) if dtype == "uint8" else (-128, 127)
        steps = np.clip(np.rint(values / scale) + zero_point, *limits) - zero_point
        return float(np.dot(weights, (steps * scale - values) ** 2))

    if dtype == "int8":
        # The range of int8 is symmetric: only the larger magnitude matters.
        reach = max(-low, high)
        reach *= _least(lambda part: error(-reach * part, reach * part))
        return max(low, -reach), min(high, reach)
    for _ in range(2):
        if high > 0.0:
            high *= _least(lambda part, low=low, high=high: error(low, high * part))
        if low < 0.0:
            low *= _least(lambda part, low=low, high=high: error(low * part, high))
    return low, high


def _least(error) -> float:
    """The fraction in (0, 1] with the least `error(fraction)`. The search tries a coarse grid of fractions, then a fine
    grid around the best of them.
    """
    step = 1.0 / COARSE
    grid = [1.0 - step * number for number in range(COARSE)]
    best = min(grid, key=error)
    fine = [best + step * (1.0 - 2.0 * number / FINE) for number in range(FINE + 1)]
    return min((best, *(part for part in fine if 0.0 < part <= 1.0)), key=error)

"""The largest relative difference of two outputs, as a number that JSON can represent."""

import json

import numpy as np
import pytest

from vdla.codesign.heterogeneous_run import _relative

LARGEST = float(np.finfo(np.float64).max)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ([1.0, 2.0], [1.0, 4.0], 0.5),
        ([np.nan, 3.0], [np.nan, 4.0], 0.25),
        ([np.inf, 3.0], [np.inf, 4.0], 0.25),
        ([np.nan, 4.0], [1.0, 4.0], LARGEST),
        ([1.0, 4.0], [np.nan, 4.0], LARGEST),
        ([np.inf, 4.0], [-np.inf, 4.0], LARGEST),
        ([np.inf, 4.0], [1.0, 4.0], LARGEST),
    ],
)
def test_relative_differences(ours: list[float], theirs: list[float], expected: float) -> None:
    found = _relative(np.array(ours), np.array(theirs))
    assert found == expected
    json.dumps(found, allow_nan=False)

"""The simulator's counts equal the golden texts.

After an intended change: `PYTHONPATH=tests/helpers python -m tests.sim.counts`, and read the difference.
"""

from __future__ import annotations

import pytest

from .counts import TEXTS


@pytest.mark.parametrize("name", TEXTS.makers)
def test_counts_equal_the_golden_text(name: str):
    assert TEXTS.lines(name) == TEXTS.kept(name)

"""Random programs, machines and operands equal the golden texts.

After an intended change: `PYTHONPATH=tests/helpers python -m tests.verify.draws`, and read the difference.
"""

from __future__ import annotations

import pytest

from .draws import TEXTS


@pytest.mark.parametrize("name", TEXTS.makers)
def test_draws_equal_the_golden_text(name: str):
    assert TEXTS.lines(name) == TEXTS.kept(name)

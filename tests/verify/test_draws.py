"""Random programs, machines and operands are drawn as the kept texts say.

Where a change of them is meant: `PYTHONPATH=tests/helpers python -m tests.verify.draws`, and read the difference.
"""

from __future__ import annotations

import pytest

from .draws import TEXTS


@pytest.mark.parametrize("name", TEXTS.makers)
def test_draws(name: str):
    assert TEXTS.lines(name) == TEXTS.kept(name)

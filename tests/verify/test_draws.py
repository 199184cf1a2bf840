"""Random programs, machines and operands are drawn as the kept texts say.

Where a change of them is meant: `PYTHONPATH=tests/helpers python -m tests.verify.draws`, and read the difference.
"""

from __future__ import annotations

import pytest

from .draws import GOLDEN, TEXTS, text


@pytest.mark.parametrize("name", TEXTS)
def test_draws(name: str):
    assert text(name).splitlines() == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8").splitlines()

"""Tables, options and pictures hold what the kept texts say.

Where a change of them is meant: `PYTHONPATH=tests/helpers python -m tests.codesign.shown`, and read the difference.
"""

from __future__ import annotations

import pytest

from .shown import GOLDEN, TEXTS, text


@pytest.mark.parametrize("name", TEXTS)
def test_shown(name: str):
    assert text(name).splitlines() == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8").splitlines()

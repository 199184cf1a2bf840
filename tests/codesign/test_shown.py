"""Tables, options and pictures equal their golden texts.

After an intended change: `PYTHONPATH=tests/helpers python -m tests.codesign.shown`, and read the difference.
"""

from __future__ import annotations

import pytest

from .shown import TEXTS


@pytest.mark.parametrize("name", TEXTS.makers)
def test_output_equals_the_golden_text(name: str):
    assert TEXTS.lines(name) == TEXTS.kept(name)

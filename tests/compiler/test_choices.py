"""Templates, knobs, changes of layout, schedules and cost models of small networks equal the golden texts.

After an intended change: `PYTHONPATH=tests/helpers python -m tests.compiler.choices`, and read the difference.
"""

from __future__ import annotations

import pytest

from .choices import TEXTS


@pytest.mark.parametrize("name", TEXTS.makers)
def test_choices_equal_the_golden_text(name: str):
    assert TEXTS.lines(name) == TEXTS.kept(name)


def test_every_kept_text_belongs_to_a_network():
    assert TEXTS.names_of_files() == set(TEXTS.makers)

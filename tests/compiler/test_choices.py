"""Templates, knobs, relayouts, schedules and cost models of small networks are those of the kept texts.

Where a change of them is meant: `PYTHONPATH=tests/helpers python -m tests.compiler.choices`, and read the difference.
"""

from __future__ import annotations

import pytest

from .choices import GOLDEN, TEXTS, text


@pytest.mark.parametrize("name", TEXTS)
def test_choices(name: str):
    assert text(name).splitlines() == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8").splitlines()


def test_every_kept_text_belongs_to_a_network():
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(TEXTS)

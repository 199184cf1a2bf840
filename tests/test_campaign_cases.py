"""The choice of the cases that run in `make test`, for tests that run all their cases only in campaigns."""

from typing import Any

import pytest
from campaign import CAMPAIGN, representatives, some


def always(cases: list[Any]) -> list[Any]:
    return [case for case in cases if not hasattr(case, "marks")]


def test_representatives_of_a_sweep() -> None:
    pairs = [(number, str(number)) for number in range(10)]
    cases = representatives(pairs, 3, always=[(7, "7")])
    assert [case.values if hasattr(case, "marks") else case for case in cases] == pairs
    assert len(always(cases)) == 4
    assert (7, "7") in always(cases)
    assert always(cases) == always(representatives(pairs, 3, always=[(7, "7")]))
    with pytest.raises(ValueError, match=r"not among the cases: \[11\]"):
        representatives(range(10), 3, always=[11])


def test_some_within_a_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CAMPAIGN, raising=False)
    few = some("abcdef", 3)
    assert len(few) == 3 and few == sorted(few) == some("abcdef", 3)
    assert some("ab", 3) == ["a", "b"]
    monkeypatch.setenv(CAMPAIGN, "1")
    assert some("abcdef", 3) == list("abcdef")

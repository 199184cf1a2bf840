"""Sweeps too long for `make test`: some of their cases run always, the others with `--campaign` (`make campaign`)."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
CAMPAIGN = "VDLA_CAMPAIGN"
"""The variable that tests/conftest.py sets under --campaign, before it reads the tests."""


def representatives(
    cases: Iterable[Any], count: int, *, always: Iterable[Any] = (), seed: int = 0
) -> list[Any]:
    """`cases` for `pytest.mark.parametrize`: `always` and `count` others by `seed` run always, the rest in campaigns.

    A case is a value, or a tuple of values where the test takes several parameters. Raises ValueError if one of
    `always` is not a case.
    """
    listed, kept = list(cases), list(always)
    if unknown := [case for case in kept if case not in listed]:
        raise ValueError(f"not among the cases: {unknown}")
    others = [index for index, case in enumerate(listed) if case not in kept]
    left_out = set(others) - set(random.Random(seed).sample(others, min(count, len(others))))
    return [_in_campaigns(case) if index in left_out else case for index, case in enumerate(listed)]


def some(cases: Iterable[Any], count: int, *, seed: int = 0) -> list[Any]:
    """For sweeps within one test: all `cases` in campaigns, else `count` of them by `seed`, in their order."""
    listed = list(cases)
    count = in_campaigns(len(listed), count)
    kept = random.Random(seed).sample(range(len(listed)), min(count, len(listed)))
    return [listed[index] for index in sorted(kept)]


def in_campaigns(whole: T, otherwise: T) -> T:
    """`whole` in campaigns, `otherwise` in `make test`: a number of programs, say."""
    return whole if os.environ.get(CAMPAIGN) else otherwise


def fresh_seed(seed: int) -> int:
    """`seed`, in campaigns one that nobody looked at before; name it where the test fails."""
    return in_campaigns(random.SystemRandom().randrange(1 << 32), seed)


def _in_campaigns(case: Any) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.campaign)


def examples(count: int) -> int:
    """How many examples hypothesis tries where campaigns try `count`: a third of them in `make test`."""
    return in_campaigns(count, max(5, count // 3))

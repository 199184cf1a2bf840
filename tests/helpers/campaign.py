"""Sweeps that are too long for `make test`: a part of their cases always runs, the others only with `--campaign` (`make
campaign`).
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
CAMPAIGN = "VDLA_CAMPAIGN"
"""Environment variable that tests/conftest.py sets with --campaign, before it imports the tests."""


def representatives(
    cases: Iterable[Any], count: int, *, always: Iterable[Any] = (), seed: int = 0
) -> list[Any]:
    """Parameters for `pytest.mark.parametrize`: the cases `always` and `count` others, chosen by `seed`, always run;
    the rest only in campaigns.

    A case is a value, or a tuple of values if the test takes several parameters. Raises ValueError if one of `always`
    is not a case.
    """
    listed, kept = list(cases), list(always)
    if unknown := [case for case in kept if case not in listed]:
        raise ValueError(f"not among the cases: {unknown}")
    others = [index for index, case in enumerate(listed) if case not in kept]
    left_out = set(others) - set(random.Random(seed).sample(others, min(count, len(others))))
    return [_in_campaigns(case) if index in left_out else case for index, case in enumerate(listed)]


def some(cases: Iterable[Any], count: int, *, seed: int = 0) -> list[Any]:
    """All `cases` in campaigns, otherwise `count` of them, chosen by `seed`, in their order; for sweeps within one
    test.
    """
    listed = list(cases)
    count = in_campaigns(len(listed), count)
    kept = random.Random(seed).sample(range(len(listed)), min(count, len(listed)))
    return [listed[index] for index in sorted(kept)]


def in_campaigns(whole: T, otherwise: T) -> T:
    """`whole` in campaigns, `otherwise` in `make test`; for example numbers of programs."""
    return whole if os.environ.get(CAMPAIGN) else otherwise


def fresh_seed(seed: int) -> int:
    """`seed` in `make test`, a new random seed in campaigns; a failing test must print the seed."""
    return in_campaigns(random.SystemRandom().randrange(1 << 32), seed)


def _in_campaigns(case: Any) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.campaign)


def examples(count: int) -> int:
    """Number of examples for hypothesis: `count` in campaigns, a third of it (at least 5) in `make test`."""
    return in_campaigns(count, max(5, count // 3))

"""The compiler divides the iterations of one loop of a nest among threads. It chooses the loop by the estimated time of
each choice.
"""

from __future__ import annotations

import pytest

from vdla.compiler.templates.cpu.loops import FORK_CYCLES, TEAMS, team_times

PLENTY = 1e7
"""Cycles of a loop nest, so many that the cost of starting threads is negligible."""


def test_even_shares_take_the_time_of_one_thread_and_its_forks():
    times = team_times({"a": 8, "b": 16}, PLENTY)
    # All forks of the inner loop are paid by every thread.
    mean = sum(TEAMS) / len(TEAMS)
    assert times["a"] == pytest.approx(PLENTY + mean * FORK_CYCLES)
    assert times["b"] == pytest.approx(PLENTY + 8 * mean * FORK_CYCLES)


def test_threads_wait_for_the_longest_share_and_for_what_is_peeled():
    assert team_times({"a": 7}, PLENTY)["a"] > 1.1 * team_times({"a": 8}, PLENTY)["a"]
    # Ten iterations in parallel, then two thirds of one by one thread.
    times = [team * (-(-10 // team) + 2 / 3) / (10 + 2 / 3) for team in TEAMS]
    mean = sum(TEAMS) / len(TEAMS)
    expected = PLENTY * sum(times) / len(TEAMS) + mean * FORK_CYCLES
    assert team_times({"a": 10 + 2 / 3}, PLENTY)["a"] == pytest.approx(expected)


def test_threads_share_an_inner_loop_if_the_outer_has_few_iterations():
    times = team_times({"n": 1, "rows": 28, "columns": 2}, PLENTY)
    assert min(times, key=lambda name: times[name]) == "rows"
    # Where forks cost more than the work, the fewest forks win.
    times = team_times({"n": 3, "rows": 16}, cycles=1000)
    assert min(times, key=lambda name: times[name]) == "n"


def test_what_is_done_ahead_is_shared_with_its_loop_only():
    ahead = {"block": PLENTY / 10}
    assert team_times({"block": 8, "row": 8}, PLENTY, ahead=ahead)["block"] == pytest.approx(
        team_times({"block": 8, "row": 8}, PLENTY)["block"] + PLENTY / 10
    )
    mean = sum(TEAMS) / len(TEAMS)
    assert team_times({"block": 1, "row": 8}, PLENTY, ahead=ahead)["row"] == pytest.approx(
        team_times({"block": 1, "row": 8}, PLENTY)["row"] + mean * PLENTY / 10
    )

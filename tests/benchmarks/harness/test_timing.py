"""Timing of benchmarks (alternating runs, repetitions, medians), on a fake clock that only the runs advance."""

from __future__ import annotations

import pytest

from vdla.codesign.timing import interleaved, median_seconds, ratio, wait_until_idle


class Clock:
    """A fake clock in seconds; only the calls made by `run` advance it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[str] = []

    def __call__(self) -> float:
        return self.now

    def run(self, name: str, *seconds: float):
        left = list(seconds)

        def call() -> None:
            self.calls.append(name)
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return call


def test_runs_take_turns_and_the_first_call_does_not_count() -> None:
    clock = Clock()
    times = interleaved(clock, [clock.run("a", 9.0, 1.0, 2.0, 3.0), clock.run("b", 5.0)], rounds=2)
    # One uncounted call, one that says how often to repeat, then the rounds.
    assert clock.calls == ["a", "a", "b", "b", "a", "b", "a", "b"]
    assert times == [[2.0, 3.0], [5.0, 5.0]]


def test_short_runs_are_repeated_and_their_mean_counts() -> None:
    clock = Clock()
    (times,) = interleaved(clock, [clock.run("a", 0.25)], rounds=1, least=1.0)
    assert times == [0.25] and len(clock.calls) == 2 + 4


def test_runs_with_threads_begin_awake_in_a_process_that_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(
        "vdla.codesign.timing.wait_until_idle", lambda: clock.calls.append("idle"), raising=True
    )
    times = interleaved(clock, [clock.run("a", 2.0), clock.run("b", 1.0)], rounds=1, alone=True)
    assert clock.calls[4:] == ["idle", "a", "a", "idle", "b", "b"]
    assert times == [[2.0], [1.0]]


def test_the_wait_for_an_idle_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    # A process whose threads use every second there is, and one whose threads sleep from the third look on.
    clock, looks = Clock(), []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        clock.now += seconds

    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr("time.perf_counter", clock)
    monkeypatch.setattr("time.process_time", clock)
    wait_until_idle()
    assert 0.9 <= clock.now <= 1.1
    looks.clear()
    monkeypatch.setattr("time.process_time", lambda: min(len(looks), 2) * 0.01)
    wait_until_idle()
    assert len(looks) == 3


def test_ratios_are_taken_round_by_round() -> None:
    # The medians' ratio would be 1.
    assert ratio([1.0, 2.0, 8.0], [4.0, 2.0, 2.0]) == 1.0
    assert ratio([3.0, 2.0, 8.0], [1.0, 2.0, 2.0]) == 3.0
    assert median_seconds(lambda: None, repeat=3) >= 0

"""`make campaign`: selection of steps by name, their results, and the exit code."""

import importlib
import sys

import pytest

from vdla.benchmarks import campaign
from vdla.benchmarks.harness.command_line import parse, run_script


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["campaign.py", *words])
    options = [option.but(known=[step.name for step in campaign.STEPS]) for option in campaign.OPTIONS]
    with pytest.raises(SystemExit) as stop:
        run_script(campaign.__doc__, options, campaign.main)
    return int(stop.value.code or 0)


def test_every_step_is_a_command_of_the_repository() -> None:
    names = [step.name for step in campaign.STEPS]
    assert len(names) == len(set(names))
    assert {"tests", "cosim", "faults", "gpu_faults", "mutations"} <= set(names)
    for step in campaign.STEPS:
        script, *options = step.arguments
        if script != "-m":
            name = script.removeprefix("benchmarks/").removesuffix(".py")
            module = importlib.import_module(f"vdla.benchmarks.{name}")
            assert parse(module.__doc__, module.OPTIONS, options).write


def test_a_step_that_fails_fails_the_campaign(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    steps = tuple(
        campaign.Step(name, "about", ("-c", f"print('in {name}'); raise SystemExit({code})"))
        for name, code in (("one", 0), ("two", 3), ("three", 0))
    )
    written: list[dict[str, object]] = []
    monkeypatch.setattr(campaign, "STEPS", steps)
    monkeypatch.setattr(campaign, "write_results", lambda name, figures: written.append({name: figures}))
    assert run(monkeypatch) == 1
    out = capfd.readouterr().out
    assert all(f"in {step.name}" in out for step in steps)
    assert out.splitlines()[-1] == "2 passed, 1 failed"
    (document,) = written
    assert [row["passed"] for row in document["campaign"]["steps"]] == [True, False, True]  # type: ignore[index]
    # Some of the steps are no campaign to publish.
    assert run(monkeypatch, "three", "one") == 0
    assert capfd.readouterr().out.splitlines()[-1] == "2 passed, 0 failed"
    assert len(written) == 1


def test_an_unknown_step_is_refused(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "cosmi") == 2
    assert (
        "there is no step cosmi; there are tests, cosim, dram_cosim, dram_networks, "
        in capfd.readouterr().err
    )

"""`make campaign`: steps by name, what comes of them, and the exit code."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def campaign(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("campaign_script", ROOT / "benchmarks" / "campaign.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "campaign_script", module)
    spec.loader.exec_module(module)
    return module


def run(campaign: ModuleType, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["campaign.py", *words])
    with pytest.raises(SystemExit) as stop:
        campaign.main()
    return int(stop.value.code or 0)


def test_every_step_is_a_command_of_the_repository(campaign: ModuleType) -> None:
    names = [step.name for step in campaign.STEPS]
    assert len(names) == len(set(names))
    assert {"tests", "cosim", "faults", "gpu_faults", "mutations"} <= set(names)
    for step in campaign.STEPS:
        script, *options = step.arguments
        if script != "-m":
            text = (ROOT / script).read_text(encoding="utf-8")
            assert all(f'"{option}"' in text for option in options if option.startswith("--")), step.name
            assert "--write" in options


def test_a_step_that_fails_fails_the_campaign(
    campaign: ModuleType, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    steps = tuple(
        campaign.Step(name, "about", ("-c", f"print('in {name}'); raise SystemExit({code})"))
        for name, code in (("one", 0), ("two", 3), ("three", 0))
    )
    written: list[dict[str, object]] = []
    monkeypatch.setattr(campaign, "STEPS", steps)
    monkeypatch.setattr(campaign, "write_results", lambda name, figures: written.append({name: figures}))
    assert run(campaign, monkeypatch) == 1
    out = capfd.readouterr().out
    assert all(f"in {step.name}" in out for step in steps)
    assert out.splitlines()[-1] == "2 passed, 1 failed"
    (document,) = written
    assert [row["passed"] for row in document["campaign"]["steps"]] == [True, False, True]  # type: ignore[index]
    # Some of the steps are no campaign to publish.
    assert run(campaign, monkeypatch, "three", "one") == 0
    assert capfd.readouterr().out.splitlines()[-1] == "2 passed, 0 failed"
    assert len(written) == 1


def test_an_unknown_step_is_refused(
    campaign: ModuleType, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(campaign, monkeypatch, "cosmi") == 2
    assert "no step 'cosmi'; steps are tests, cosim, faults" in capfd.readouterr().err

"""Options of every command: -q, -v, --version, shell completion, older option names; and progress notes during long
steps.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import vdla as package
from vdla.codesign.cli import common_flags, output
from vdla.codesign.cli.output import never_silent, note, steps, talk
from vdla.codesign.report.numbers import figure


def test_the_version(vdla) -> None:
    outcome = vdla("--version")
    assert (outcome.code, outcome.out, outcome.err) == (0, f"vdla {package.__version__}\n", "")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("vdla co", {"compile", "compare", "config", "cosim"}),
        ("vdla run --tim", {"--timeline", "--timing-only"}),
    ],
)
def test_shells_complete(vdla, monkeypatch: pytest.MonkeyPatch, words: str, offered: set[str]) -> None:
    monkeypatch.setenv(common_flags.COMPLETE, "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    outcome = vdla()
    assert outcome.code == 0 and set(outcome.out.split()) == offered


@pytest.mark.parametrize("place", ["before", "behind"])
def test_quiet_and_verbose_stand_before_a_command_or_behind_it(vdla, tmp_path: Path, place: str) -> None:
    def err(flag: str) -> str:
        command = ("models", "mlp", "--form", "float", "-o", tmp_path / "m.onnx")
        outcome = vdla(flag, *command) if place == "before" else vdla(*command, flag)
        assert outcome.code == 0
        return outcome.err

    assert err("-q") == "" == err("--quiet")
    assert "..." in err("-v")
    assert not talk.quiet


def test_errors_are_told_quietly_too(vdla) -> None:
    assert vdla("config", "nosuch", "-q").message().startswith("error: ")


def test_older_names_of_options(vdla, tmp_path: Path) -> None:
    for name in ("--timeline", "--trace"):
        for given in ((name, tmp_path / "no" / "x"), (f"{name}={tmp_path}/no/x",)):
            assert "no" in vdla("sim", "--insns", tmp_path / "p.asm", *given).message()
    assert "No such option: --trace" in vdla("config", "--trace", "x").message()


def test_what_takes_long_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "SILENCE", 0.02)
    begun = time.monotonic()
    told = ""
    with steps() as progress:
        progress.begin("compiling the simulator")
        while "compiling the simulator (" not in told and time.monotonic() - begun < 3600:
            time.sleep(0.01)
            told += capsys.readouterr().err
    assert "s so far)" in told
    monkeypatch.setattr(output, "SILENCE", 3600.0)
    with never_silent(lambda: "nothing"):
        note("spoken")
    assert capsys.readouterr().err == "spoken\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (85224.0, "85,224"),
        (7219099, "7,219,099"),
        (85224.25, "85,224"),
        (0.98993, "0.9899"),
        (12.3456, "12.35"),
        (0.0, "0"),
        (1.5e-7, "1.500e-07"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
    ],
)
def test_numbers_as_text(value: float, text: str) -> None:
    assert figure(value) == text

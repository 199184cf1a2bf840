"""The parser that all scripts of benchmarks/ share: values are checked, and a mistake is one line with exit code 2."""

from __future__ import annotations

import importlib
import sys

import pytest

from vdla.benchmarks.harness.command_line import (
    JSON,
    ONLY,
    ROUNDS,
    WRITE,
    Given,
    Option,
    names_of,
    parse,
    run_script,
)
from vdla.benchmarks.harness.results import ROOT
from vdla.util.errors import CodeError, UserError

OPTIONS = (
    names_of(("mlp", "dqn"), "network"),
    ONLY.but(part=True),
    ROUNDS.but(default=3, least=1),
    Option("--in-place", "trials", int, 7, group="search"),
    Option("--files", "of your own", nargs="+", default=(), group="search"),
    JSON,
    WRITE,
)
SCRIPTS = sorted(path.stem for path in (ROOT / "benchmarks").glob("[!_]*.py"))


def test_values_are_those_given_or_the_defaults() -> None:
    assert vars(parse("about", OPTIONS, ["dqn", "--in-place", "2", "--json"])) == {
        "names": ["dqn"],
        "only": (),
        "rounds": 3,
        "in_place": 2,
        "files": (),
        "json": True,
        "write": False,
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--rounds 0", "--rounds 0: at least 1"),
        ("mlp resnet", "there is no network resnet; there are mlp, dqn"),
        ("--only a --write", "--write takes all rows: leave out --only"),
        ("--in-place 3 --files a", "not allowed with argument --in-place"),
    ],
)
def test_mistakes_end_with_2(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        parse("about", OPTIONS, words.split())
    assert stop.value.code == 2 and message in capsys.readouterr().err


def test_a_script_ends_with_what_its_function_returns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(options: Given) -> int:
        raise {"user": UserError, "code": CodeError}[options.what]("no such file")

    monkeypatch.setattr(sys, "argv", ["script.py", "user"])
    options = [Option("what", "kind of error")]
    for main, code in ((fails, 2), (lambda options: True, 1), (lambda options: None, None)):
        with pytest.raises(SystemExit) as stop:
            run_script("about", options, main)
        assert stop.value.code == code
    assert capsys.readouterr().err == "error: no such file\n"
    monkeypatch.setattr(sys, "argv", ["script.py", "code"])
    with pytest.raises(CodeError):
        run_script("about", options, fails)


def test_every_script_explains_its_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    for name in SCRIPTS:
        module = importlib.import_module(f"vdla.benchmarks.{name}")
        assert all(option.help for option in module.OPTIONS), name
        with pytest.raises(SystemExit) as stop:
            parse(module.__doc__, module.OPTIONS, ["--help"])
        assert stop.value.code == 0 and (module.__doc__ or "none").strip() in capsys.readouterr().out, name


def test_no_script_has_a_parser_of_its_own() -> None:
    own = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "benchmarks").rglob("*.py")
        if "ArgumentParser" in path.read_text(encoding="utf-8")
    ]
    assert own == ["benchmarks/harness/command_line.py"]
    for name in SCRIPTS:
        text = (ROOT / "benchmarks" / f"{name}.py").read_text(encoding="utf-8")
        assert text.endswith('if __name__ == "__main__":\n    run_script(__doc__, OPTIONS, main)\n'), name

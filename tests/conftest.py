"""The command line as a test sees it: exit code, standard output and standard error of one call in this process."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from vdla.codesign.cli.main import main


@dataclass(frozen=True, slots=True)
class Outcome:
    code: int
    out: str
    err: str

    def document(self) -> dict[str, Any]:
        """The one JSON object on standard output."""
        assert self.code == 0, self.err
        return json.loads(self.out)

    def message(self) -> str:
        """The one line of a refused call: exit code 2, nothing on standard output, no traceback."""
        assert self.code == 2, (self.code, self.out, self.err)
        assert self.out == ""
        assert self.err.startswith("error: "), self.err
        assert self.err.count("\n") == 1, self.err
        assert "Traceback" not in self.err
        return self.err


Vdla = Callable[..., Outcome]


@pytest.fixture
def vdla(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Vdla:
    def call(*arguments: str | Path) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["vdla", *map(str, arguments)])
        capsys.readouterr()
        code: int | str | None = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code
        captured = capsys.readouterr()
        return Outcome(int(code or 0), captured.out, captured.err)

    return call

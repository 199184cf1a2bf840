"""The code of docs/tutorials/jax.md runs and prints the output that the page shows."""

from pathlib import Path

import pytest
from tutorials import FOLDER, differences, run_page


def test_the_page_shows_the_output_of_its_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (FOLDER / "jax.md").read_text(encoding="utf-8")
    assert not differences("jax.md", run_page("jax.md", page, tmp_path))

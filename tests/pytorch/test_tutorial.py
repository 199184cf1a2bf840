"""The code of docs/tutorials/pytorch.md runs and prints the output that the page shows."""

from pathlib import Path

import pytest
from tutorials import FOLDER, WITH_TORCH, differences, run_page


@pytest.mark.parametrize("name", WITH_TORCH)
def test_the_page_shows_the_output_of_its_code(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert not differences(name, run_page(name, (FOLDER / name).read_text(encoding="utf-8"), tmp_path))

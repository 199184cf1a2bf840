"""The code of docs/tutorials/tensorflow.md runs and prints the output that the page shows."""

from pathlib import Path

import pytest
from tutorials import FOLDER, differences, run_page


@pytest.mark.filterwarnings("ignore")  # TensorFlow and tf2onnx warn about their own code.
def test_the_page_shows_the_output_of_its_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (FOLDER / "tensorflow.md").read_text(encoding="utf-8")
    assert not differences("tensorflow.md", run_page("tensorflow.md", page, tmp_path))

"""Every notebook runs from first cell to last on small parameters; what is committed comes from the full run."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from campaign import representatives
from nbformat import NotebookNode
from run_notebooks import FOLDER, NotebookError, execute, written

# What differs from the committed run: networks and repetitions, not the way through the notebook.
SMALL = {
    "accelerator_and_cpu": {"MODEL": "small_cnn", "REPEAT": 3},
    "exploration": {
        "NETWORKS": ("small_cnn",),
        "BASE": "tiny",
        "FIELDS": {"block_in": [4, 8], "block_out": "block_in", "bus_bytes": [8, 16]},
        "AREA": 0.6,
        "BUDGET": 4,
        "WORKERS": 1,
    },
    "fusion": {"NETWORKS": ("dqn",), "LARGE_BATCH": 2, "ROUNDS": 1},
    "latency_hiding": {
        "MODEL": "small_cnn",
        "CONFIGURATIONS": ("osdi18",),
        "READ_LATENCIES": (60,),
        "BUS_BYTES": (16,),
    },
    "one_convolution": {"HEIGHT": 4, "PROCESSOR": "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3"},
    "tuning": {
        "LAYERS": ("C5", "C12"),
        "PROCESSOR_LAYERS": ("C2",),
        "SAMPLED": ("C5",),
        "POINTS": 8,
        "DRAWS": 4096,
        "AGAIN": ("C5",),
        "AGAIN_TRIALS": 16,
        "NETWORK": "small_cnn",
        "NETWORK_TRIALS": 4,
    },
}
"""By the notebook's name."""
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))


def kept(name: str) -> NotebookNode:
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def pictures(notebook: NotebookNode) -> int:
    """How many outputs are pictures."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return sum("image/png" in output.get("data", {}) for output in outputs)


@pytest.mark.parametrize(
    "name",
    representatives(NAMES, 0, always=["accelerator_and_cpu", "latency_hiding"]),
)
def test_notebook_runs(name: str) -> None:
    notebook = execute(FOLDER / f"{name}.ipynb", SMALL[name])
    # A cell that fails raises; these are the results that a cell could leave out.
    assert pictures(notebook) == pictures(kept(name)) > 0
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert output.get("name") != "stderr", output["text"]


@pytest.mark.parametrize("name", NAMES)
def test_notebook_is_kept_with_the_outputs_of_a_whole_run(name: str) -> None:
    notebook = kept(name)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert (FOLDER / f"{name}.ipynb").read_bytes() == written(notebook), "run: make notebooks"


def test_what_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    cells = [nbformat.v4.new_code_cell("A = 1", metadata={"tags": ["parameters"]})]
    path = tmp_path / "x.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    with pytest.raises(NotebookError, match=r"x\.ipynb has no parameter B; it has A"):
        execute(path, {"B": 2})
    for text, words in (("x" * 400_000, "at most"), (f"{FOLDER}/x", "a place of this machine")):
        with pytest.raises(NotebookError, match=words):
            written(nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text)]))

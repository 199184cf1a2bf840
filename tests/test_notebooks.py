"""Every notebook runs completely and shows the output that it prints; long ones run with small parameters."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from campaign import representatives
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import run_kernel
from nbformat import NotebookNode
from run_notebooks import FOLDER, NotebookError, differences, execute, written

SMALL = {
    "accelerator_and_cpu": {"MODEL": "small_cnn", "REPEAT": 3},
    "exploration": {
        "NETWORKS": ("small_cnn",),
        "BASE": "tiny",
        "FIELDS": {"block_in": [4, 8], "block_out": "block_in", "bus_bytes": [8, 16]},
        "AREA": 0.6,
        "BUDGET": 3,
        "WORKERS": 1,
    },
    "fusion": {"NETWORKS": ("mlp",), "LARGE_BATCH": 2, "ROUNDS": 1},
    "tuning": {
        "LAYERS": ("C12",),
        "SEARCHES": ("evolution", "random+first"),
        "SEEDS": 2,
        "TRIALS": 10,
        "SAMPLED": ("C12",),
        "POINTS": 4,
        "DRAWS": 4096,
        "NETWORK": "mlp",
        "NETWORK_TRIALS": 2,
    },
}
"""Small parameters for `make test` by notebook: fewer or smaller networks and fewer repetitions, without skipping
steps.
"""
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
SHORT = [name for name in NAMES if name not in SMALL]
"""Notebooks that run with their own parameters in `make test`; the others do so only in campaigns."""


def kept(name: str) -> NotebookNode:
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def pictures(notebook: NotebookNode) -> int:
    """Number of outputs that are pictures."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return sum("image/png" in output.get("data", {}) for output in outputs)


def check(notebook: NotebookNode, name: str) -> None:
    """Asserts that an executed notebook has as many pictures as the committed one, and that no cell prints to standard
    error.
    """
    assert pictures(notebook) == pictures(kept(name)) > 0
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert output.get("name") != "stderr", output["text"]


@pytest.fixture(scope="module")
def kernel() -> Iterator[BlockingKernelClient]:
    """A Jupyter kernel shared by all notebooks, since a new one takes three seconds to import the toolkit."""
    environment = os.environ | {"VDLA_QUIET": "1"}
    with run_kernel(kernel_name="python3", extra_arguments=["--log-level=ERROR"], env=environment) as client:
        yield client


@pytest.mark.parametrize("name", SMALL)
def test_notebook_runs(name: str, kernel: BlockingKernelClient, tmp_path: Path) -> None:
    check(execute(FOLDER / f"{name}.ipynb", SMALL[name], kernel=kernel, folder=tmp_path), name)


@pytest.mark.parametrize("name", representatives(NAMES, 0, always=SHORT))
def test_notebook_shows_what_it_prints(name: str, kernel: BlockingKernelClient, tmp_path: Path) -> None:
    notebook = execute(FOLDER / f"{name}.ipynb", kernel=kernel, folder=tmp_path)
    check(notebook, name)
    assert differences(kept(name), notebook) == [], f"run: python notebooks/run_notebooks.py {name}"


def test_differences_are_those_of_cells_that_do_not_measure() -> None:
    def notebook(cycles: int, times: str, source: str = "x") -> NotebookNode:
        cells = [nbformat.v4.new_code_cell(source) for _ in range(2)]
        cells[0].outputs = [nbformat.v4.new_output("stream", text=f"{cycles:,} cycles\n")]
        cells[1].outputs = [nbformat.v4.new_output("stream", text=times)]
        cells[1].metadata["tags"] = ["measured"]
        return nbformat.reads(written(nbformat.v4.new_notebook(cells=cells)).decode(), as_version=4)

    assert differences(notebook(7_219_099, "1.2 s"), notebook(7_219_099, "3.4 s, so the core wins")) == []
    [found] = differences(notebook(7_221_967, "1.2 s"), notebook(7_219_099, "1.2 s"))
    assert found.startswith("cell 0 shows\n7,221,967 cycles")
    assert differences(notebook(1, ""), notebook(1, "", "y")) == ["the outputs are of other cells"]


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

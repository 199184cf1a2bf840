"""Executes the notebooks of this folder and writes them with their outputs.

    python notebooks/run_notebooks.py [NAME ...]

A notebook has one cell tagged "parameters"; a test executes it with other values, as papermill would: they go into a
cell of their own behind it. What is written holds no times, versions or paths of the machine beyond what cells print.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

from vdla.util.whole_files import write_whole

FOLDER = Path(__file__).parent
LARGEST_BYTES = 300_000
SECONDS_A_CELL = 600


class NotebookError(Exception):
    """A notebook that cannot be committed, or lacks its parameters."""


def execute(path: Path, parameters: Mapping[str, object] | None = None) -> NotebookNode:
    """The notebook at `path` after all its cells ran, with `parameters` in place of its own.

    It runs in an empty folder, so that it cannot depend on where it lies. Raises NotebookError for a parameter that it
    does not have, and nbclient's CellExecutionError, which shows the cell, when one fails.
    """
    notebook = nbformat.read(path, as_version=4)
    if parameters:
        _inject(path, notebook, parameters)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(
            notebook,
            timeout=SECONDS_A_CELL,
            kernel_name="python3",
            extra_arguments=["--log-level=ERROR"],
            resources={"metadata": {"path": folder}},
            record_timing=False,
        ).execute()
    return notebook


def _inject(path: Path, notebook: NotebookNode, parameters: Mapping[str, object]) -> None:
    for index, cell in enumerate(notebook.cells):
        if "parameters" in cell.metadata.get("tags", []):
            assigned = {line.split(" = ")[0] for line in cell.source.splitlines() if " = " in line}
            if unknown := sorted(parameters.keys() - assigned):
                raise NotebookError(
                    f"{path.name} has no parameter {unknown[0]}; it has {', '.join(assigned)}"
                )
            source = "\n".join(f"{name} = {value!r}" for name, value in parameters.items())
            notebook.cells.insert(index + 1, nbformat.v4.new_code_cell(source))
            return
    raise NotebookError(f"{path.name} has no cell tagged parameters")


def written(notebook: NotebookNode) -> bytes:
    """The notebook's file: without what changes from machine to machine. NotebookError for one unfit to be kept."""
    notebook.metadata = NotebookNode(
        kernelspec={"display_name": "Python 3", "language": "python", "name": "python3"},
        language_info={"name": "python"},
    )
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:02d}"
        tags = cell.metadata.get("tags")
        cell.metadata = NotebookNode({"tags": tags} if tags else {})
    content = (nbformat.writes(notebook) + "\n").encode()
    if len(content) > LARGEST_BYTES:
        raise NotebookError(f"{len(content):,} bytes; at most {LARGEST_BYTES:,} are kept")
    for place in {str(FOLDER.parent), os.path.expanduser("~"), tempfile.gettempdir()} - {"/"}:
        if f"{place}/".encode() in content:
            raise NotebookError(f"names {place}, a place of this machine")
    return content


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="without .ipynb; all, unless told")
    there = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
    names = parser.parse_args().names or there
    if unknown := [name for name in names if name not in there]:
        parser.error(f"there is no notebook {unknown[0]}; there are {', '.join(there)}")
    for name in names:
        path = FOLDER / f"{name}.ipynb"
        content = written(execute(path))
        write_whole(path, content)
        print(f"{path.name}: {len(content):,} bytes", flush=True)


if __name__ == "__main__":
    main()

"""Executes the notebooks of this folder and rewrites the notebooks whose stored outputs differ from the new outputs.

    python notebooks/run_notebooks.py [NAME ...] [--all]

A notebook has one cell tagged "parameters". A test executes it with other values, which, as in papermill, go into a new
cell after it. Cells tagged "measured" print times of this machine, or results that depend on its kernels: only the
kinds of their outputs are compared. All other outputs are compared, integers exactly. A written notebook contains no
times, versions or paths of this machine except in printed outputs. With --all every notebook is written; run it on an
idle machine, since two notebooks measure times.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

import nbformat
from jupyter_client.blocking.client import BlockingKernelClient
from nbclient import NotebookClient
from nbformat import NotebookNode

from vdla.benchmarks.harness.shown import fits
from vdla.util.files import write_whole

FOLDER = Path(__file__).parent
LARGEST_BYTES = 300_000
SECONDS_A_CELL = 3600


class NotebookError(Exception):
    """Raised for a notebook that cannot be committed, or that lacks a parameter."""


def execute(
    path: Path,
    parameters: Mapping[str, object] | None = None,
    *,
    kernel: BlockingKernelClient | None = None,
    folder: Path | None = None,
) -> NotebookNode:
    """The notebook at `path` with the outputs of executing all its cells; `parameters` replace its own values.

    `kernel`: client of a running kernel, in which other notebooks may have run; names that they defined are deleted.
    Without it a new kernel is started. The notebook runs in `folder`, by default a new empty folder, so that it cannot
    depend on files beside it. Raises NotebookError for a parameter that the notebook does not have, and nbclient's
    CellExecutionError, which shows the cell, if a cell fails.
    """
    # A kernel that compiles the simulator would say so in the notebook.
    os.environ["VDLA_QUIET"] = "1"
    notebook = nbformat.read(path, as_version=4)
    if parameters:
        _inject(path, notebook, parameters)
    with tempfile.TemporaryDirectory() if folder is None else nullcontext(str(folder)) as place:
        if kernel is not None:
            # All names go; no count of cells, no output.
            begin = f"%reset -f\nimport os\nos.chdir({place!r})\ndel os"
            kernel.execute_interactive(begin, silent=True, store_history=False)
        client = NotebookClient(
            notebook,
            km=None if kernel is None else kernel.parent,
            timeout=SECONDS_A_CELL,
            kernel_name="python3",
            extra_arguments=["--log-level=ERROR"],
            resources={"metadata": {"path": place}},
            record_timing=False,
        )
        client.kc = kernel
        client.execute()
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


def differences(shown: NotebookNode, ran: NotebookNode) -> list[str]:
    """The cells whose outputs in `shown` (the stored notebook) differ from the outputs in `ran` (the executed one),
    each described by a text.
    """
    if shown.metadata.get("sources") != _sources(ran):
        return ["the outputs are of other cells"]
    return [
        f"cell {number} shows\n{before}\nand prints\n{after}"
        for number, (cell, other) in enumerate(zip(shown.cells, ran.cells, strict=True))
        for before, after in [(_outputs(cell), _outputs(other))]
        if not fits(before, after)
    ]


def _sources(notebook: NotebookNode) -> str:
    """SHA-256 of the source of all cells. It is stored in the notebook's metadata, so that outputs of changed cells are
    noticed.
    """
    return hashlib.sha256("\0".join(cell.source for cell in notebook.cells).encode()).hexdigest()


def _outputs(cell: NotebookNode) -> str:
    """The text that a cell prints, with a line for each picture; for a cell tagged "measured", only the kinds of its
    outputs.
    """
    texts = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if "image/png" in data:
            texts.append("a picture")
        elif "measured" in cell.metadata.get("tags", []):
            texts.append(output.output_type)
        else:
            texts.append(output.get("text") or data.get("text/markdown") or data.get("text/plain", ""))
    return "\n".join(texts)


def written(notebook: NotebookNode) -> bytes:
    """The bytes of the notebook's file, without metadata that change from machine to machine. Raises NotebookError if
    the file is too large or contains a path of this machine.
    """
    notebook.metadata = NotebookNode(
        kernelspec={"display_name": "Python 3", "language": "python", "name": "python3"},
        language_info={"name": "python"},
        sources=_sources(notebook),
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
    parser.add_argument("--all", action="store_true", help="write those that show the same, too")
    options = parser.parse_args()
    names = options.names or there
    if unknown := [name for name in names if name not in there]:
        parser.error(f"there is no notebook {unknown[0]}; there are {', '.join(there)}")
    for name in names:
        path = FOLDER / f"{name}.ipynb"
        began = time.monotonic()
        ran = execute(path)
        changed = options.all or bool(differences(nbformat.read(path, as_version=4), ran))
        if changed:
            write_whole(path, written(ran))
        verdict = "written" if changed else "shows what it prints"
        print(f"{path.name}: {verdict} ({time.monotonic() - began:.0f} s)", flush=True)


if __name__ == "__main__":
    main()

"""Runs the code of a page in docs/tutorials, in order, as a reader would type it.

    python tests/helpers/tutorials.py [PAGE ...]       rewrites the outputs in these pages (default: all but ELSEWHERE)

Blocks of `python` share one namespace; blocks of `bash` run in a shell that stops at the first failure. A block after
`<!-- file: NAME -->` is written to that file and not run. A block of `text` after a block that ran is its expected
output, compared by `vdla.benchmarks.harness.shown.fits`: integers exactly; `...` stands for a time. Everything runs in
a new folder.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from vdla.benchmarks.harness.shown import fits

FOLDER = Path(__file__).parents[2] / "docs" / "tutorials"
ELSEWHERE = ("jax.md", "pytorch.md", "tensorflow.md")
"""Pages whose code needs another framework: `make test-jax`, `test-torch` and `test-tensorflow` run them."""
FILE = re.compile(r"<!-- file: (\S+) -->")
PRELOADED = [
    "tutorials",
    "vdla.codesign.api.compilation",
    "vdla.codesign.api.exploration",
    "matplotlib.pyplot",
]
"""Modules that the fork server imports in advance, because most pages need them."""


class TutorialError(Exception):
    """Raised if a block fails; the message has page and line."""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page: its language, its text, the line of its fence (from 1), and the file to which it is
    written (None: it is run).
    """

    language: str
    text: str
    line: int
    file: str | None


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, given as Markdown text, in their order."""
    file = None
    for token in MarkdownIt().parse(page):
        if token.type == "html_block":
            found = FILE.search(token.content)
            file = found[1] if found else None
        elif token.type == "fence":
            assert token.map is not None
            language = token.info.strip().split(" ")[0]
            yield Block(language, token.content, token.map[0] + 1, file)
            file = None


def run_page(name: str, page: str, folder: Path) -> list[tuple[Block, str]]:
    """Runs the blocks of the text `page`, whose file is `name`, in `folder`; returns each block of expected output with
    the text that the block before it printed. Raises TutorialError for a block that fails.
    """
    space: dict[str, Any] = {"__name__": "__main__"}
    printed = None
    outputs = []
    for block in blocks(page):
        place = f"{name}, line {block.line}"
        if block.file is not None:
            (folder / block.file).write_text(block.text, encoding="utf-8")
            printed = None
        elif block.language == "python":
            printed = _run_python(block, place, space)
        elif block.language == "bash":
            printed = _run_shell(block, place, folder)
        elif block.language == "text" and printed is not None:
            outputs.append((block, printed))
            printed = None
        else:
            printed = None
    return outputs


def checked_page(name: str, folder: Path) -> str:
    """Runs the page `name` in `folder` in a new process; returns as text the error of the block that failed, or the
    outputs that differ from those on the page; empty if all is right.

    The process is forked from a server process that has already imported the toolkit, which takes two seconds.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_check_page, args=(name, folder, sender))
    process.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        process.join()
        return f"{name}: the process ended with {process.exitcode}"
    finally:
        process.join()


def _check_page(name: str, folder: Path, sender: Connection) -> None:
    os.chdir(folder)
    try:
        wrong = differences(name, run_page(name, (FOLDER / name).read_text(encoding="utf-8"), folder))
    except TutorialError:
        wrong = [traceback.format_exc()]
    sender.send("\n".join(wrong))


def differences(name: str, outputs: list[tuple[Block, str]]) -> list[str]:
    """A message for each block of expected output in `outputs`, a result of `run_page` for page `name`, that differs
    from the printed output.
    """
    return [
        f"{name}, line {block.line}: the page shows\n{block.text}\nbut this was printed\n{printed}\n"
        f"If that is right now: python tests/helpers/tutorials.py {name}"
        for block, printed in outputs
        if not fits(block.text, printed)
    ]


def _run_python(block: Block, place: str, space: dict[str, Any]) -> str:
    out = io.StringIO()
    try:
        # Lines count as on the page, so that a traceback leads there.
        code = compile("\n" * block.line + block.text, place.split(",")[0], "exec", dont_inherit=True)
        with contextlib.redirect_stdout(out):
            exec(code, space)
    except Exception as error:
        raise TutorialError(f"{place}: {type(error).__name__}: {error}") from error
    return out.getvalue()


def _run_shell(block: Block, place: str, folder: Path) -> str:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", block.text],
        cwd=folder,
        env=os.environ | {"PATH": path, "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise TutorialError(f"{place}: exit code {done.returncode}: {done.stderr or done.stdout}")
    return done.stdout


def rewritten(page: str, outputs: list[tuple[Block, str]]) -> str:
    """The text `page` with the expected outputs replaced by the printed ones. `outputs`: pairs of a block with an
    expected output and the text that was printed. Lines of the page with `...` that still match are kept.
    """
    lines = page.split("\n")
    for block, printed in reversed(outputs):
        patterns = [line for line in block.text.split("\n") if "..." in line]
        shown = []
        for line in printed.rstrip("\n").split("\n"):
            fitting = (one for one in patterns if fits(one, line))
            shown.append(next(fitting, line.rstrip()))
        lines[block.line : block.line + block.text.count("\n")] = shown
    return "\n".join(lines)


def main() -> None:
    """Rewrites the outputs in the pages given on the command line, by default in all pages but ELSEWHERE."""
    for name in sys.argv[1:] or sorted({path.name for path in FOLDER.glob("*.md")} - set(ELSEWHERE)):
        path = FOLDER / Path(name).name
        page = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            after = rewritten(page, run_page(path.name, page, Path(folder)))
        if after != page:
            path.write_text(after, encoding="utf-8")
            print(f"{path.name}: written")


if __name__ == "__main__":
    main()

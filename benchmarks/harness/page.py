"""Tables of the project's pages, made from the committed results of benchmarks.

A page has blocks between `<!-- figures NAME -->` and `<!-- /figures -->`. A block is a table, a list of rows; a row is
a format string and the paths of its figures in the files of results. A row whose file does not exist yet is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vdla.util.errors import UserError

BLOCK = re.compile(r"<!-- figures ([\w-]+) -->\n.*?<!-- /figures -->", re.DOTALL)
Document = Mapping[str, Any]


class PageError(UserError):
    """Raised if a page or a file of results does not fit the tables; the message names block, row and file."""


@dataclass(frozen=True, slots=True)
class Where:
    """A step of a path into a list of objects: selects the object whose `key` has the value `value`."""

    key: str
    value: object


@dataclass(frozen=True, slots=True)
class At:
    """A figure: the value at `path` in benchmarks/results/FILE.json, passed through `then` if given."""

    file: str
    path: tuple[str | Where, ...]
    then: Callable[[Any], Any] | None = None

    def is_in(self, files: Mapping[str, Document]) -> bool:
        """Whether the figure's results file, which must be among `files`, has the figure."""
        try:
            self.value(files)
        except PageError:
            return False
        return True

    def value(self, files: Mapping[str, Document]) -> Any:
        """The value of the figure in its results file. Raises KeyError if the file is not among `files`, PageError if
        it does not have the figure.
        """
        found: Any = files[self.file]
        for step in self.path:
            try:
                found = found[step] if isinstance(step, str) else _item(found, step)
            except (KeyError, TypeError, StopIteration):
                raise PageError(
                    f"{self.file}.json has nothing at {' / '.join(map(str, self.path))}"
                ) from None
        return found if self.then is None else self.then(found)


def at(file: str, *path: str | Where, then: Callable[[Any], Any] | None = None) -> At:
    """The figure (`At`) at `path` in benchmarks/results/FILE.json, passed through `then` if given."""
    return At(file, path, then)


def _item(rows: Sequence[Document], where: Where) -> Document:
    return next(row for row in rows if row[where.key] == where.value)


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a table: the text of the measured quantity, and figures that `template` formats (as `str.format` does).

    `optional`: the row is left out if its results files lack its figures.
    """

    measure: str
    template: str
    figures: tuple[At, ...]
    optional: bool = False

    @property
    def files(self) -> tuple[str, ...]:
        """The names, each once, of the results files that contain the row's figures."""
        return tuple(dict.fromkeys(figure.file for figure in self.figures))

    def is_shown(self, files: Mapping[str, Document]) -> bool:
        """Whether the row is in the table: its results files exist and, for an optional row, have its figures."""
        if not all(name in files for name in self.files):
            return False
        return not self.optional or all(figure.is_in(files) for figure in self.figures)

    def cells(self, files: Mapping[str, Document]) -> tuple[str, str]:
        """The two cells of the row: the measured quantity, and its value from `files` as text. Raises PageError if a
        figure is missing or does not fit the template.
        """
        try:
            return self.measure, self.template.format(*[figure.value(files) for figure in self.figures])
        except (ValueError, IndexError, TypeError) as error:
            raise PageError(f"row {self.measure!r}: {error}") from None


@dataclass(frozen=True, slots=True)
class Table:
    """A table with two columns. `rows`: its rows. `headings`: the headings of the columns. `note`: text before the
    table. `sources`: whether the table is followed by a line for each results file, which states the origin of its
    figures (commit, date, computer).
    """

    rows: tuple[Row, ...]
    headings: tuple[str, str] = ("measure", "value")
    note: str = ""
    sources: bool = True

    def row(self, beginning: str) -> Row:
        """The only row whose text `measure` begins with `beginning`. Raises PageError if there is no such row, or
        several.
        """
        found = [row for row in self.rows if row.measure.startswith(beginning)]
        if len(found) != 1:
            raise PageError(f"{len(found)} rows begin with {beginning!r}, not one")
        return found[0]

    @property
    def files(self) -> tuple[str, ...]:
        """The names, each once, of the results files that contain the table's figures."""
        return tuple(dict.fromkeys(name for row in self.rows for name in row.files))

    def text(self, files: Mapping[str, Document]) -> str:
        """The table in Markdown, with the provenance of its figures."""
        shown = [row for row in self.rows if row.is_shown(files)]
        cells = [row.cells(files) for row in shown]
        lines = [f"| {' | '.join(self.headings)} |", "|---|---|", *(f"| {a} | {b} |" for a, b in cells)]
        read = dict.fromkeys(name for row in shown for name in row.files) if self.sources else {}
        sources = [source(name, files[name]) for name in read]
        parts = [self.note, "\n".join(lines) if cells else "", "\n".join(sources)]
        return "\n\n".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Text:
    """A block of a page whose text a function writes from one results file, in place of a table with rows."""

    file: str
    make: Callable[[Document], str]

    @property
    def files(self) -> tuple[str, ...]:
        """A tuple of one name: the results file from which the block is written."""
        return (self.file,)

    def text(self, files: Mapping[str, Document]) -> str:
        """The block's text in Markdown, empty if its results file does not exist."""
        return self.make(files[self.file]) if self.file in files else ""


Blocks = Mapping[str, Table | Text]


def source(name: str, document: Document) -> str:
    """A line of text with command, commit, date and computer of a file of results."""
    written = document.get("written")
    if written is None:
        when = f", {document['date']}" if "date" in document else ""
        where = f", {document['card']}" if "card" in document else ""
        return (
            f"- benchmarks/results/{name}.json{when}{where}; written before files recorded commit and machine"
        )
    machine, versions = written["machine"], written["versions"]
    peer = f", ONNX Runtime {versions['onnxruntime']}" if "onnxruntime" in versions else ""
    return (
        f"- benchmarks/results/{name}.json: `{written['command']}`, commit {written['commit']}, {written['date']}, "
        f"{machine['processor']}, {machine['cores']} cores{peer}"
    )


def read_files(folder: Path) -> dict[str, Document]:
    """The parsed JSON files of results in a folder, by file name without the ending ".json"."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


def rewritten(page: str, blocks: Blocks, files: Mapping[str, Document]) -> str:
    """Returns `page`, the text of a page, with all of its blocks regenerated from `files`. Raises PageError for an
    unknown block.
    """

    def made(match: re.Match[str]) -> str:
        name = match[1]
        if name not in blocks:
            raise PageError(f"there is no block {name!r}; the blocks are {', '.join(blocks)}")
        return f"<!-- figures {name} -->\n{blocks[name].text(files)}\n<!-- /figures -->"

    return BLOCK.sub(made, page)


def missing(blocks: Blocks, files: Mapping[str, Document]) -> Iterator[str]:
    """Names of the results files that blocks read but that do not exist."""
    wanted = dict.fromkeys(name for block in blocks.values() for name in block.files)
    return (name for name in wanted if name not in files)

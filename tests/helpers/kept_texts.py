"""Kept texts: files beside the tests, which must equal the lines that a function makes today."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class KeptTexts:
    """Texts by name: the files NAME.txt of a folder, and the function that makes the lines of each."""

    folder: Path
    makers: Mapping[str, Callable[[], Iterable[str]]]

    def lines(self, name: str) -> list[str]:
        """The lines of a text as its function makes them today."""
        return "\n".join(self.makers[name]()).split("\n")

    def kept(self, name: str) -> list[str]:
        """The lines of a text in its file."""
        return (self.folder / f"{name}.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")

    def names_of_files(self) -> set[str]:
        """The names of all files in the folder."""
        return {path.stem for path in self.folder.glob("*.txt")}

    def write(self) -> None:
        """Writes all texts anew, and removes files of other names."""
        self.folder.mkdir(exist_ok=True)
        for name in self.names_of_files() - set(self.makers):
            (self.folder / f"{name}.txt").unlink()
        for name in self.makers:
            text = "\n".join(self.lines(name)) + "\n"
            (self.folder / f"{name}.txt").write_text(text, encoding="utf-8")


def number(value: float, digits: int = 6) -> str:
    """A number with so many significant digits: rounding differs between processors in the last ones."""
    return f"{float(value):.{digits}g}"

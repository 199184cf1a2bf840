"""Golden texts: files beside the tests, which must equal the lines that functions generate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class KeptTexts:
    """Golden texts by name: files NAME.txt in a folder, and the function that generates the lines of each."""

    folder: Path
    makers: Mapping[str, Callable[[], Iterable[str]]]

    def lines(self, name: str) -> list[str]:
        """The lines of a text as its function generates them now."""
        return "\n".join(self.makers[name]()).split("\n")

    def kept(self, name: str) -> list[str]:
        """The lines of a text as its file has them."""
        return (self.folder / f"{name}.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")

    def names_of_files(self) -> set[str]:
        """The names of all files in the folder."""
        return {path.stem for path in self.folder.glob("*.txt")}

    def write(self) -> None:
        """Writes all texts to their files, and removes all other files in the folder."""
        self.folder.mkdir(exist_ok=True)
        for name in self.names_of_files() - set(self.makers):
            (self.folder / f"{name}.txt").unlink()
        for name in self.makers:
            text = "\n".join(self.lines(name)) + "\n"
            (self.folder / f"{name}.txt").write_text(text, encoding="utf-8")


def number(value: float, digits: int = 6) -> str:
    """A number as text with `digits` significant digits; further digits may differ between processors."""
    return f"{float(value):.{digits}g}"

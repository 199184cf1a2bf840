"""The console for all output to a terminal: printed text is literal, whatever characters a name contains."""

from __future__ import annotations

from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from vdla.util.printable import printable


class PlainConsole(Console):
    """A console without markup, on which every string, in a cell, a title or alone, is one printable line.

    Text of several lines is printed line by line, or as a `Text` of our own words.
    """

    def __init__(
        self,
        *,
        stderr: bool = False,
        width: int | None = None,
        file: TextIO | None = None,
        color: bool = True,
    ) -> None:
        """`width`: characters a line instead of the terminal's; without `color`, output as to a file."""
        super().__init__(
            stderr=stderr,
            width=width,
            file=file,
            markup=False,
            emoji=False,
            highlight=False,
            color_system="auto" if color else None,
            force_terminal=None if color else False,
        )

    def render_str(self, text: str, **options: Any) -> Text:  # type: ignore[override]
        """Renders a printed string, as the base class does, with unprintable characters replaced."""
        return super().render_str(printable(text), **options)

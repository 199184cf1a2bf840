"""The one door to a terminal: text means itself, whatever a name in it says."""

from __future__ import annotations

from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from vdla.util.printable import printable


class PlainConsole(Console):
    """A console without markup, on which every string, in a cell, a title or alone, is one printable line.

    What has several lines is printed by the line, or is a `Text` of words of our own.
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

"""The console for all output to a terminal: text is printed literally, whatever characters a name contains."""

from __future__ import annotations

from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from vdla.util.printable import printable


class PlainConsole(Console):
    """A console that ignores markup and replaces characters that cannot be printed. Every string, whether printed
    alone, as a title or in a table's cell, becomes a single line.

    To print text of several lines, print each line, or pass an object `Text`.
    """

    def __init__(
        self,
        *,
        stderr: bool = False,
        width: int | None = None,
        file: TextIO | None = None,
        color: bool = True,
    ) -> None:
        """Prints to `file` or, without a file, to standard error (if `stderr`) or standard output. `width`: number of
        characters in a line, by default the terminal's; without `color`, text has no colours, as in a file.
        """
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

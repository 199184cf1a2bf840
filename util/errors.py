"""The exception family that stands for a mistake of the user, not of the toolkit."""

from __future__ import annotations

from collections.abc import Iterable


class UserError(Exception):
    """A mistake in something the user handed in: a file, a model, a configuration or a program.

    The message names the file, node, field or instruction at fault, and what to do. The command line prints it in one
    line, or several mistakes in their `lines`, and exits with 2; users never see a traceback.
    """

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines of the message: one, unless there are several mistakes."""
        return (str(self),)


class LinesError(UserError):
    """Several mistakes, or a mistake with several things to do about it: one line for each."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = tuple(lines)
        super().__init__("\n".join(self._lines))

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines of the message."""
        return self._lines


class CodeError(UserError):
    """A mistake in Python code that uses the toolkit: in a schedule, a loop program, or a program that deadlocks.

    The toolkit schedules its own kernels with the same functions. An error of this class that leaves a command, or a
    kernel that no caller scheduled, is a defect of the toolkit: it keeps its traceback.
    """

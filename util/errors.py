"""Exceptions for mistakes of the user, as opposed to defects of the toolkit."""

from __future__ import annotations

from collections.abc import Iterable


class UserError(Exception):
    """Raised for a mistake in the user's input: a file, a model, a configuration or a program.

    The message names the file, node, field or instruction at fault, and how to correct it. The command line prints the
    `lines` of the error without a traceback and exits with code 2.
    """

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines of the message: a single line, unless there are several mistakes."""
        return (str(self),)


class LinesError(UserError):
    """An error of several lines: one for each mistake, or for each way to correct it."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = tuple(lines)
        super().__init__("\n".join(self._lines))

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines of the message."""
        return self._lines


class CodeError(UserError):
    """Raised for a mistake in Python code that uses the toolkit: in a schedule, a loop program, or a program that
    deadlocks.

    The toolkit schedules its own kernels with the same functions. So an error of this class is a defect of the toolkit
    if it ends a command, or if it is about a kernel that the caller did not schedule. In these cases the command prints
    its traceback.
    """

"""The error that all schedule primitives raise."""

from __future__ import annotations

from vdla.util.errors import CodeError

from ..ir.printer import format_node, underline
from ..ir.stmt import Program


class LegalityError(CodeError):
    """Raised if a primitive would change the program's meaning, or does not apply at the given place.

    A tuner meets this error often, so `str` makes the text only on demand: the reason, then the program with the loop
    or statement `at` underlined.
    """

    def __init__(self, reason: str, program: Program, at: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.program = program
        self.at = at

    def __str__(self) -> str:
        text = underline(self.program, self.at) if self.at else format_node(self.program)
        return f"{self.reason}\n{text}"

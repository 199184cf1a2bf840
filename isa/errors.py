"""Mistakes in configurations, instructions and programs."""

from vdla.util.errors import UserError


class ConfigError(UserError):
    """A configuration whose values are out of range or contradict each other."""


class EncodingError(UserError):
    """A value that does not fit the field it is written to, or bits that are no instruction."""


class ProgramError(UserError):
    """A program with errors found by the static checker, or a program file that is damaged or incomplete."""

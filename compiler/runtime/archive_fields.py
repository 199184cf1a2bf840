"""Fields of an archive's description: type and range of each field are checked where it is read.

A description is untrusted input. Each defect becomes an error of one line that names archive and field.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from vdla.util.errors import UserError
from vdla.util.printable import printable

from ..ir.types import DType

MOST_INTEGER = 2**63 - 1
MOST_DIMENSIONS = 32
_MOST_SHOWN = 60
_T = TypeVar("_T")
_TYPES = tuple(dtype.value for dtype in DType)
_SYMBOL = re.compile(r"[A-Za-z_.][A-Za-z0-9_.$]*")


class ArchiveError(UserError):
    """Raised for a file without code for this machine; the message names file and reason, and says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A value in the JSON description of the archive at `path`. `name` says where in the JSON it is ("": the whole)."""

    path: Path
    name: str
    value: object

    def fail(self, problem: str) -> ArchiveError:
        """Returns (does not raise) the error for this field, with the text `problem`."""
        where = f"description.json: {self.name}" if self.name else "description.json"
        return ArchiveError(printable(f"{self.path}: {where}: {problem}; compile the model again"))

    def at(self, key: str) -> Field:
        """The field `key` of this JSON object. Raises ArchiveError if there is none."""
        entries = self._as(dict, "an object")
        if key not in entries:
            raise self.fail(f"has no {key}")
        return self._inner(f".{key}" if self.name else key, entries[key])

    def find(self, key: str) -> Field | None:
        """The field `key` of this JSON object; None if there is none."""
        return self.at(key) if key in self._as(dict, "an object") else None

    def entries(self) -> dict[str, Field]:
        """The fields of this JSON object by name. Raises ArchiveError for other values."""
        return {
            self._word(key): self._inner(f"[{key!r}]", value)
            for key, value in self._as(dict, "an object").items()
        }

    def items(self) -> list[Field]:
        """The elements of this JSON list. Raises ArchiveError for other values."""
        return [self._inner(f"[{number}]", value) for number, value in enumerate(self._as(list, "a list"))]

    def integer(self, least: int = 0, most: int = MOST_INTEGER) -> int:
        """This field's value, an integer from `least` to `most`. Raises ArchiveError for other values, also for true
        and false.
        """
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.fail(f"is {self._shown()}, not an integer")
        if not least <= value <= most:
            raise self.fail(f"is {self._shown()}, which is not from {least} to {most}")
        return value

    def number(self, least: float = 0) -> float:
        """This field's value, a finite number from `least` to MOST_INTEGER; raises ArchiveError for other values."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fail(f"is {self._shown()}, not a number")
        if not math.isfinite(value) or not least <= value <= MOST_INTEGER:
            raise self.fail(f"is {self._shown()}, which is not from {least} to {MOST_INTEGER}")
        return float(value)

    def boolean(self) -> bool:
        """This field's value, true or false; raises ArchiveError for other values."""
        if not isinstance(self.value, bool):
            raise self.fail(f"is {self._shown()}, not true or false")
        return self.value

    def text(self) -> str:
        """This field's value, a text that can be encoded as UTF-8; raises ArchiveError for other values."""
        return self._word(self._as(str, "text"))

    def symbol(self) -> str:
        """This field's text, a valid function name; raises ArchiveError for other values."""
        if not _SYMBOL.fullmatch(text := self.text()):
            raise self.fail(f"is {self._shown()}, not the name of a function")
        return text

    def matching(self, form: re.Pattern[str], description: str) -> str:
        """This field's value, a text that matches the pattern `form`; `description` is the form's name in messages."""
        if not form.fullmatch(text := self.text()):
            raise self.fail(f"is {self._shown()}, not a {description}")
        return text

    def one_of(self, known: Sequence[str]) -> str:
        """This field's value, a text that is one of `known`; raises ArchiveError for other values."""
        if (text := self.text()) not in known:
            raise self.fail(f"is {self._shown()}, not one of {', '.join(known)}")
        return text

    def element_type(self) -> DType:
        """This field's text as the element type of a tensor; raises ArchiveError for other values."""
        return DType(self.one_of(_TYPES))

    def shape(self) -> tuple[int, ...]:
        """This field's value, an array's shape. Raises ArchiveError for other values. The caller checks the size."""
        sizes = tuple(item.integer() for item in self.items())
        if len(sizes) > MOST_DIMENSIONS:
            raise self.fail(f"has {len(sizes)} dimensions, more than {MOST_DIMENSIONS}")
        return sizes

    def texts(self) -> tuple[str, ...]:
        """This field's value, a list of texts; raises ArchiveError for other values."""
        return tuple(item.text() for item in self.items())

    def among(self, known: Sequence[str]) -> tuple[str, ...]:
        """This field's value, a list of different texts, each of them in `known`; else raises ArchiveError."""
        allowed, seen = set(known), set[str]()
        for item in self.items():
            if (text := item.text()) not in allowed:
                raise item.fail(f"names {item._shown()}, which does not exist")
            if text in seen:
                raise item.fail(f"names {item._shown()} again")
            seen.add(text)
        return tuple(item.text() for item in self.items())

    def _inner(self, name: str, value: object) -> Field:
        return Field(path=self.path, name=self.name + name, value=value)

    def _as(self, kind: type[_T], words: str) -> _T:
        if not isinstance(self.value, kind):
            raise self.fail(f"is {self._shown()}, not {words}")
        return self.value

    def _word(self, text: str) -> str:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise self.fail(f"contains {text!r}, which is not Unicode text") from None
        return text

    def _shown(self) -> str:
        shown = repr(self.value)
        return shown if len(shown) <= _MOST_SHOWN else f"{shown[: _MOST_SHOWN - 1]}…"


def read_fields(path: Path, text: bytes) -> Field:
    """The description whose JSON is `text`. Raises ArchiveError if it is not a JSON object."""
    whole = Field(path=path, name="", value=None)
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise whole.fail(f"is not JSON ({type(error).__name__}: {error})") from None
    if not isinstance(value, dict):
        raise whole.fail("is not a JSON object")
    return Field(path=path, name="", value=value)

"""Reads tables of a flatbuffer; every offset and length is checked before it is followed.

A table begins with the distance back to its vtable. The vtable lists the offset of each field in the table, or 0 for a
field that is left out. For a string, a vector or a table, the field has the distance forward to its data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import FrontendError

PADDING = 8
"""Number of zero bytes that are appended to a file in memory. Thanks to them, the package tflite can read a number at
the file's end without a check of the number's width, which is at most 8 bytes.
"""


def damaged(problem: str) -> FrontendError:
    """The error for a file that is cut off or contradicts itself; `problem` says where."""
    return FrontendError([f"is a damaged TFLite file: {problem}; export or copy it again"])


def require(holds: bool, problem: str) -> None:
    """Raises FrontendError for a damaged file unless `holds` is true; `problem` says what is wrong."""
    if not holds:
        raise damaged(problem)


@dataclass(frozen=True, slots=True)
class Table:
    """The table that begins at byte `place` of `data`. `data` is a file, followed by PADDING zero bytes. Errors call
    the table `name`.

    Methods take fields by number, and raise FrontendError for a field outside of the file.
    """

    data: bytes
    place: int
    name: str

    def span(self, place: int, dtype: str, count: int = 1) -> np.ndarray[Any, Any]:
        """A read-only view of `count` numbers of numpy type `dtype` that begin at byte `place` of the file. Raises
        FrontendError for numbers outside of the file.
        """
        if place < 0:
            raise damaged(f"{self.name} has an offset before the start of the file")
        size = len(self.data) - PADDING
        if place + count * np.dtype(dtype).itemsize > size:
            raise damaged(f"the file ends early: {self.name} is outside of its {size:,} bytes")
        return np.frombuffer(self.data, dtype, count, place)

    def number(self, field: int, dtype: str = "<i4", default: int = 0) -> int:
        """The value of a number field of numpy type `dtype`; `default` if the field is left out."""
        place = self.field(field)
        return default if place is None else int(self.span(place, dtype)[0])

    def field(self, number: int) -> int | None:
        """The byte of the file at which the field `number` begins; None for a field that is left out."""
        vtable = self.place - int(self.span(self.place, "<i4")[0])
        if 6 + 2 * number > self.span(vtable, "<u2")[0]:
            return None
        distance = int(self.span(vtable + 4 + 2 * number, "<u2")[0])
        return self.place + distance if distance else None

    def table(self, field: int, name: str) -> Table | None:
        """The table in a field, called `name` in messages; None if the field is left out."""
        place = self.field(field)
        return None if place is None else Table(self.data, place + int(self.span(place, "<u4")[0]), name)

    def numbers(self, field: int, dtype: str) -> np.ndarray[Any, Any]:
        """The vector of numbers of numpy type `dtype` in a field; a read-only view of the file. Empty if left out."""
        vector = self.table(field, f"a vector of {self.name}")
        if vector is None:
            return np.zeros(0, dtype)
        return vector.span(vector.place + 4, dtype, int(vector.span(vector.place, "<u4")[0]))

    def tables(self, field: int, name: str) -> list[Table]:
        """The vector of tables in a field, called "`name` 0", "`name` 1" ... in messages; empty if left out."""
        vector, distances = self.table(field, name), self.numbers(field, "<u4").tolist()
        start = vector.place + 4 if vector else 0
        return [Table(self.data, start + 4 * i + far, f"{name} {i}") for i, far in enumerate(distances)]

    def text(self, field: int) -> str:
        """The string in a field; empty if the field is left out."""
        try:
            return self.numbers(field, "<u1").tobytes().decode()
        except UnicodeDecodeError:
            raise damaged(f"the name of {self.name} is not UTF-8 text") from None

    def check(self) -> None:
        """Raises FrontendError if a field of the table begins outside of the file."""
        vtable = self.place - int(self.span(self.place, "<i4")[0])
        for number in range(int(self.span(vtable, "<u2")[0]) // 2 - 2):
            self.span(self.field(number) or 0, "<u1")

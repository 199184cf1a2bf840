"""Reads tables of a flatbuffer; every offset and length is checked before it is followed.

A table begins with the distance back to its vtable, which lists the offset of each field in the table, or 0 for a field
that is left out. A field that is a string, a vector or a table holds the distance forward to it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import FrontendError

PADDING = 8
"""Number of zero bytes that are appended to a file in memory. The widest numbers have 8 bytes; the zeros let the reader
take a number at the file's end without a check of its width.
"""


def damaged(problem: str) -> FrontendError:
    """The error for a file that is cut off or contradicts itself; `problem` says where."""
    return FrontendError([f"is a damaged TFLite file: {problem}; export or copy it again"])


@dataclass(frozen=True, slots=True)
class Table:
    """The table that begins at byte `place` of `data`, a file followed by PADDING zero bytes; errors call it `name`.

    Methods take fields by number, and raise FrontendError for a field outside of the file.
    """

    data: bytes
    place: int
    name: str

    @property
    def size(self) -> int:
        """Length of the file in bytes, without the padding."""
        return len(self.data) - PADDING

    def early_end(self, part: str) -> FrontendError:
        """The error for a `part` of the model that reaches beyond the end of the file."""
        return damaged(f"the file ends early: {part} is outside of its {self.size:,} bytes")

    def read(self, form: str, place: int) -> int:
        """The number at byte `place` of the file, in the format `form` of `struct` ("<i"). Raises FrontendError outside
        of the file.
        """
        if place < 0:
            raise damaged(f"{self.name} has an offset before the start of the file")
        if place + struct.calcsize(form) > self.size:
            raise self.early_end(self.name)
        return struct.unpack_from(form, self.data, place)[0]

    def field(self, number: int) -> int | None:
        """The byte at which a field begins; None for a field that is left out."""
        vtable = self.place - self.read("<i", self.place)
        if 6 + 2 * number > self.read("<H", vtable):
            return None
        distance = self.read("<H", vtable + 4 + 2 * number)
        return self.place + distance if distance else None

    def number(self, number: int, form: str = "<i", default: int = 0) -> int:
        """The value of field `number`, in the format `form` of `struct`; `default` if the field is left out."""
        place = self.field(number)
        return default if place is None else self.read(form, place)

    def table(self, number: int, name: str) -> Table | None:
        """The table in field `number`, called `name` in messages; None if the field is left out."""
        place = self.field(number)
        return None if place is None else Table(self.data, place + self.read("<I", place), name)

    def vector(self, number: int, size: int) -> tuple[int, int]:
        """Returns (first byte, number of elements) of the vector in field `number`, whose elements have `size` bytes;
        (0, 0) if the field is left out.
        """
        place = self.field(number)
        if place is None:
            return 0, 0
        start = place + self.read("<I", place)
        count = self.read("<I", start)
        if start + 4 + count * size > self.size:
            raise self.early_end(f"a vector of {self.name}")
        return start + 4, count

    def numbers(self, number: int, dtype: str) -> np.ndarray[Any, Any]:
        """The vector of numbers of numpy type `dtype` in field `number`, as a read-only view of the file; empty if left
        out.
        """
        start, count = self.vector(number, np.dtype(dtype).itemsize)
        return np.frombuffer(self.data, dtype, count, start)

    def tables(self, number: int, name: str) -> list[Table]:
        """The vector of tables in field `number`, called "`name` 0", "`name` 1" ... in messages; empty if left out."""
        start, count = self.vector(number, 4)
        places = range(start, start + 4 * count, 4)
        return [Table(self.data, at + self.read("<I", at), f"{name} {i}") for i, at in enumerate(places)]

    def text(self, number: int) -> str:
        """The string in field `number`; empty if the field is left out."""
        start, count = self.vector(number, 1)
        try:
            return self.data[start : start + count].decode()
        except UnicodeDecodeError:
            raise damaged(f"the name of {self.name} is not UTF-8 text") from None

    def check(self, most: int) -> None:
        """Raises FrontendError unless each field begins at least `most` bytes before the end of `data`."""
        vtable = self.place - self.read("<i", self.place)
        for number in range(self.read("<H", vtable) // 2 - 2):
            if (place := self.field(number)) is not None and place + most > len(self.data):
                raise self.early_end(self.name)

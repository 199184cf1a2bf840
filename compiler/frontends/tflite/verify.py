"""Checks a flatbuffer before anything in it is followed: every offset, length and text that `model` reads.

A flatbuffer consists of tables. A table begins with the distance to its vtable, which lists the place of each field in
the table, or 0 for a field that is left out; strings, vectors and other tables are fields that hold a distance forward.
The fields of the tables and their numbers are those of TensorFlow's schema.fbs.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ..errors import FrontendError

DAMAGED = "is a damaged TFLite file"
AGAIN = "export or copy it again"
_MOST_VISITS = 4_000_000
"""Largest number of tables that are visited: vectors may name the same table many times."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A field that is a number of `size` bytes in the table."""

    size: int


@dataclass(frozen=True, slots=True)
class Vector:
    """A field that is a vector of numbers of `size` bytes."""

    size: int


@dataclass(frozen=True, slots=True)
class Text:
    """A field that is a UTF-8 string."""


@dataclass(frozen=True, slots=True)
class Child:
    """A field that is a table, or with `many` a vector of tables; fields by number, with `open` also unknown ones."""

    fields: Mapping[int, Kind] = field(default_factory=dict)
    many: bool = False


Kind = Scalar | Vector | Text | Child

_NUMBERS = Vector(4)
_QUANTIZATION = {2: _NUMBERS, 3: Vector(8), 4: Scalar(1), 6: Scalar(4)}
_TENSOR = {
    0: _NUMBERS,
    1: Scalar(1),
    2: Scalar(4),
    3: Text(),
    4: Child(_QUANTIZATION),
    5: Scalar(1),
    6: Child(),
}
_OPERATOR = {0: Scalar(4), 1: _NUMBERS, 2: _NUMBERS, 3: Scalar(1), 4: Child()}
_SUBGRAPH = {
    0: Child(_TENSOR, many=True),
    1: _NUMBERS,
    2: _NUMBERS,
    3: Child(_OPERATOR, many=True),
    4: Text(),
}
_SIGNATURE = {2: Text(), 4: Scalar(4)}
_MODEL = {
    0: Scalar(4),
    1: Child({0: Scalar(1), 1: Text(), 2: Scalar(4), 3: Scalar(4)}, many=True),
    2: Child(_SUBGRAPH, many=True),
    4: Child({0: Vector(1), 1: Scalar(8), 2: Scalar(8)}, many=True),
    7: Child(_SIGNATURE, many=True),
}
VECTORS: Mapping[str, Mapping[int, Kind]] = MappingProxyType(
    {"ReshapeOptions": {0: _NUMBERS}, "SqueezeOptions": {0: _NUMBERS}}
)
"""Fields that are vectors, of the options that have some; all other options consist of numbers."""
LARGEST_SCALAR = 8
"""Bytes of the widest number of an operator's options."""


def check_file(data: bytes) -> None:
    """Raises FrontendError unless all tables of a TFLite model lie inside of the file `data`."""
    walk = _Walk(data)
    walk.table(walk.forward(0, "the model"), _MODEL, "the model")


def check_options(data: bytes, place: int, name: str) -> None:
    """Raises FrontendError unless the options table called `name` at byte `place` lies inside of the file."""
    _Walk(data).table(place, VECTORS.get(name, {}), name)


@dataclass(slots=True)
class _Walk:
    data: bytes
    visits: int = 0

    def fail(self, where: str) -> FrontendError:
        return FrontendError([f"{DAMAGED}: {where} lies outside of its {len(self.data):,} bytes; {AGAIN}"])

    def number(self, form: str, place: int, where: str) -> int:
        if place < 0 or place + struct.calcsize(form) > len(self.data):
            raise self.fail(where)
        return struct.unpack_from(form, self.data, place)[0]

    def forward(self, place: int, where: str) -> int:
        """The byte to which the distance stored at `place` leads."""
        return place + self.number("<I", place, where)

    def vector(self, place: int, size: int, where: str) -> tuple[int, int]:
        """(first byte, number of elements) of the vector whose distance is stored at `place`."""
        start = self.forward(place, where)
        count = self.number("<I", start, where)
        if start + 4 + count * size > len(self.data):
            raise self.fail(where)
        return start + 4, count

    def table(self, place: int, fields: Mapping[int, Kind], where: str) -> None:
        """Checks the table at `place` and everything in `fields`; `where` names it in messages."""
        self.visits += 1
        if self.visits > _MOST_VISITS:
            raise FrontendError([f"{DAMAGED}: it has more than {_MOST_VISITS:,} tables; {AGAIN}"])
        vtable = place - self.number("<i", place, where)
        size, inside = self.number("<H", vtable, where), self.number("<H", vtable + 2, where)
        if size < 4 or size % 2 or vtable + size > len(self.data) or place + inside > len(self.data):
            raise self.fail(where)
        entries = struct.unpack_from(f"<{size // 2 - 2}H", self.data, vtable + 4)
        if max(entries, default=0) >= max(inside, 1):
            raise self.fail(where)
        for number, kind in fields.items():
            if number < len(entries) and entries[number]:
                self.check(place + entries[number], kind, f"{where}, field {number}")

    def check(self, place: int, kind: Kind, where: str) -> None:
        """Checks a field of a table that begins at `place`."""
        match kind:
            case Scalar(size=size):
                if place + size > len(self.data):
                    raise self.fail(where)
            case Vector(size=size):
                self.vector(place, size, where)
            case Text():
                start, count = self.vector(place, 1, where)
                try:
                    self.data[start : start + count].decode()
                except UnicodeDecodeError:
                    raise FrontendError([f"{DAMAGED}: {where} is no UTF-8 text; {AGAIN}"]) from None
            case Child(fields=fields, many=False):
                self.table(self.forward(place, where), fields, where)
            case Child(fields=fields):
                start, count = self.vector(place, 4, where)
                for index in range(count):
                    self.table(self.forward(start + 4 * index, where), fields, f"{where}[{index}]")

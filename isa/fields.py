"""Bit fields of instructions, micro-ops and registers; packs values into fields and unpacks them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .errors import EncodingError
from .opcodes import Unit
from .widths import WORD_BITS

if TYPE_CHECKING:
    from .config import Config


@dataclass(frozen=True, slots=True)
class Field:
    """A bit field: `width` bits, the lowest of which is bit `low`; two's complement if `signed`. If `extension` is not
    None, the field must be 0 on machines without this extension.
    """

    name: str
    low: int
    width: int
    signed: bool = False
    extension: str | None = None

    @property
    def high(self) -> int:
        """The number of the field's highest bit."""
        return self.low + self.width - 1

    @property
    def minimum(self) -> int:
        """The smallest value of the field."""
        return -(1 << (self.width - 1)) if self.signed else 0

    @property
    def maximum(self) -> int:
        """The largest value of the field."""
        return (1 << (self.width - 1)) - 1 if self.signed else (1 << self.width) - 1


def pack(start: int, *items: tuple[str, int]) -> tuple[Field, ...]:
    """Unsigned fields `items` (name, width) from bit `start` on; no field crosses from one 64-bit word to the next."""
    fields, low = [], start
    for name, width in items:
        if low // WORD_BITS != (low + width - 1) // WORD_BITS:
            low = -(-low // WORD_BITS) * WORD_BITS
        fields.append(Field(name, low, width))
        low += width
    return tuple(fields)


def absent(config: Config, fields: Sequence[Field]) -> tuple[Field, ...]:
    """The members of `fields` that must be 0 in programs for `config`, because it lacks their extension."""
    return tuple([item for item in fields if item.extension is not None and not config.has(item.extension)])


def _any_value(config: Config) -> Mapping[str, int]:
    return {}


def _too_large(config: Config, value: int) -> str:
    return "is too large"


@dataclass(frozen=True, slots=True)
class Register:
    """A configuration register of a unit, zero at launch. `extension`: the optional hardware that has the register;
    None if every machine accepts it. `most(config)`: the largest legal value, by name, of each field whose width would
    allow larger values. `refusal(config, value)`: end of the error message for a larger value.
    """

    name: str
    unit: Unit
    index: int
    fields: tuple[Field, ...]
    extension: str | None = None
    most: Callable[[Config], Mapping[str, int]] = _any_value
    refusal: Callable[[Config, int], str] = _too_large

    def absent(self, config: Config) -> tuple[Field, ...]:
        """The fields that must be 0 in programs for `config` because their extension is missing."""
        return absent(config, self.fields)


def pack_fields(where: str, fields: tuple[Field, ...], values: Mapping[str, int]) -> int:
    """The integer whose `fields` have the `values` (default 0). Raises EncodingError, which names `where`."""
    left, word = dict(values), 0
    for item in fields:
        value = left.pop(item.name, 0)
        if not item.minimum <= value <= item.maximum:
            raise EncodingError(
                f"{where}: {item.name} = {value} does not fit {item.width} bits ({item.minimum}..{item.maximum})"
            )
        word |= (value & ((1 << item.width) - 1)) << item.low
    if left:
        raise EncodingError(f"{where} has no field {next(iter(left))!r}")
    return word


def unpack_fields(fields: tuple[Field, ...], word: int) -> dict[str, int]:
    """The value of each of `fields` in the integer `word`."""
    values = {}
    for item in fields:
        value = word >> item.low & ((1 << item.width) - 1)
        if item.signed and value >> (item.width - 1):
            value -= 1 << item.width
        values[item.name] = value
    return values


def pack_columns(
    where: str, fields: Mapping[str, Field], columns: Mapping[str, np.ndarray], words: int = 1
) -> list[np.ndarray]:
    """Packs `columns`, n values for each field, into `words` uint64 arrays (n,). EncodingErrors begin with `where`."""
    items: list[Field] = []
    for key in columns:
        if key not in fields:
            raise EncodingError(f"{where} has no field {key!r}; it has {', '.join(fields)}")
        items.append(fields[key])
    # A field of 64 bits may have any uint64 value, which may not fit int64; its range is not checked.
    values = np.array([column.astype(np.int64) for column in columns.values()])
    least = np.array([-(1 << 63) if item.width == 64 else item.minimum for item in items])[:, None]
    most = np.array([(1 << 63) - 1 if item.width == 64 else item.maximum for item in items])[:, None]
    if ((values < least) | (values > most)).any():
        _refuse_columns(where, fields, columns)
    masks = np.array([(1 << item.width) - 1 for item in items], dtype=np.uint64)[:, None]
    shifts = np.array([item.low % 64 for item in items], dtype=np.uint64)[:, None]
    placed = (values.view(np.uint64) & masks) << shifts
    word = np.array([item.low // 64 for item in items])
    return [np.bitwise_or.reduce(placed[word == number], axis=0) for number in range(words)]


def _refuse_columns(where: str, fields: Mapping[str, Field], columns: Mapping[str, np.ndarray]) -> None:
    for key, values in columns.items():
        item = fields[key]
        wrong = np.flatnonzero((values < item.minimum) | (values > item.maximum))
        if wrong.size:
            raise EncodingError(
                f"{where} number {wrong[0]}: {key} = {values[wrong[0]]} does not fit {item.width} bits "
                f"({item.minimum}..{item.maximum})"
            )


def extract(words: np.ndarray, item: Field) -> np.ndarray:
    """Field `item` of each instruction in `words`, uint64 (n, words), as int64 (n,); uint64 for a field of 64 bits."""
    mask = np.uint64((1 << item.width) - 1)
    raw = words[:, item.low // 64] >> np.uint64(item.low % 64) & mask
    if item.width == 64:
        return raw
    values = raw.astype(np.int64)
    if item.signed:
        values -= (values >> (item.width - 1)) << item.width
    return values

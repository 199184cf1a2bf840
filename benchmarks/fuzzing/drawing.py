"""Random numbers of one fuzzing case, and random values, including special values that often cause errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")

INTEGERS = (
    0,
    1,
    -1,
    2,
    3,
    5,
    7,
    16,
    255,
    2**16,
    2**31 - 1,
    2**31,
    -(2**31),
    2**32,
    2**40,
    2**62,
    -(2**63),
    2**63 - 1,
)
FLOATS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1e-45,
    1e-38,
    1e30,
    1e38,
    3.4e38,
    float("inf"),
    float("-inf"),
    float("nan"),
)
TEXTS = (
    "",
    "[/x]",
    "[bold]x",
    "\x1b[31mred",
    "two\nlines",
    "\u202edlrow",
    "a" * 300,
    "../../x",
    "/dev/zero",
    "SAME_UPPER",
    "SAME_LOWER",
    "VALID",
    "NOTSET",
    "reflect",
    "wrap",
    "edge",
    "linear",
    "cubic",
    "nearest",
    "floor",
    "align_corners",
    "CRD",
    "bidirectional",
    "{}%s",
)


class Draw:
    """The random generator of one fuzzing case; its numbers depend only on kind, seed and index of the case."""

    def __init__(self, kind: str, seed: int, index: int) -> None:
        self.rng = np.random.default_rng([*kind.encode(), seed, index])

    def chance(self, probability: float) -> bool:
        """A random bool: True with the given probability."""
        return bool(self.rng.random() < probability)

    def below(self, count: int) -> int:
        """A random int from 0 to `count` - 1."""
        return int(self.rng.integers(count))

    def of(self, choices: Sequence[T]) -> T:
        """A random element of `choices`."""
        return choices[self.below(len(choices))]

    def integer(self) -> int:
        """A random integer: mostly from -2 to 6, otherwise one of the extreme values `INTEGERS`."""
        return self.below(9) - 2 if self.chance(0.6) else self.of(INTEGERS)

    def float(self) -> float:
        """A random float: normally distributed, or one of the special values `FLOATS`."""
        return float(np.float32(self.rng.normal())) if self.chance(0.4) else self.of(FLOATS)

    def shape(self, ranks: Sequence[int] = (0, 1, 2, 3, 4, 5), greatest: int = 6) -> tuple[int, ...]:
        """A random shape with one of `ranks` and sizes from 1 to `greatest`."""
        return tuple([1 + self.below(greatest) for _ in range(self.of(ranks))])


def damaged(draw: Draw, content: bytes) -> bytes:
    """`content` with one to three random damages: bytes changed, removed, repeated or inserted, or the end cut off."""
    data = bytearray(content)
    for _ in range(1 + draw.below(3)):
        if not data:
            return bytes(data)
        at = draw.below(len(data))
        match draw.below(6):
            case 0:
                data[at] = draw.below(256)
            case 1:
                data[at] ^= 1 << draw.below(8)
            case 2:
                del data[at:]
            case 3:
                del data[at : at + 1 + draw.below(16)]
            case 4:
                data[at:at] = bytes(draw.below(256) for _ in range(1 + draw.below(8)))
            case _:
                data[at:at] = data[at : at + 1 + draw.below(64)]
    return bytes(data)

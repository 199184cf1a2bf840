"""Random values for attributes with the same meaning in all operators, by attribute name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ..drawing import Draw
from .builder import Builder, UnfitError
from .oracle import element_type
from .tables import Operator

Drawer = Callable[[Draw, int], Any]
"""Function that draws a random value of an attribute, from the random generator of the fuzzing case and the rank of the
node's first input.
"""


def axis(draw: Draw, rank: int) -> int:
    """A random axis of a tensor with `rank` dimensions, from -rank to rank - 1. Raises UnfitError for rank 0."""
    if not rank:
        raise UnfitError("there is no axis")
    return draw.below(2 * rank) - rank


def axes(draw: Draw, rank: int, *, count: int | None = None) -> list[int]:
    """`count` different axes (None: a random number, at least one) of a tensor with `rank` dimensions in random order,
    some of them negative, counted from the back.
    """
    count = (1 + draw.below(rank) if rank else 0) if count is None else count
    return [int(a) - rank * draw.chance(0.4) for a in draw.rng.permutation(rank)[:count]]


def _bit(draw: Draw, _: int) -> int:
    return draw.below(2)


def _real(draw: Draw, _: int) -> float:
    return float(
        np.float32(draw.of((0.5, 1.0, 0.01, 2.0, float(draw.rng.normal()), abs(float(draw.rng.normal())))))
    )


def _epsilon(draw: Draw, _: int) -> float:
    return draw.of((1e-5, 1e-3, 1e-6, 0.1))


ATTRIBUTES: Mapping[str, Drawer] = MappingProxyType(
    {
        "axis": axis,
        **dict.fromkeys(("alpha", "beta", "gamma", "lambd", "bias"), _real),
        **dict.fromkeys(
            ("keepdims", "select_last_index", "noop_with_empty_axes", "exclusive", "reverse", "sorted", "largest"), _bit
        ),
        **dict.fromkeys(("fmod", "upper", "detect_negative", "detect_positive", "onesided", "inverse"), _bit),
        **dict.fromkeys(("input_forget", "linear_before_reset", "storage_order", "allowzero"), _bit),
        **dict.fromkeys(("count_include_pad", "ceil_mode", "align_corners", "saturate", "is_causal"), _bit),
        "epsilon": _epsilon,
        "momentum": lambda draw, _: draw.of((0.9, 0.5)),
        "p": lambda draw, _: 1 + draw.below(2),
        "ratio": lambda draw, _: draw.of((0.0, 0.5)),
        "seed": lambda draw, _: draw.below(5),
        "stash_type": lambda draw, _: 1,
        "training_mode": lambda draw, _: 0,
        "approximate": lambda draw, _: draw.of(("none", "tanh")),
        "direction": lambda draw, _: draw.of(("LEFT", "RIGHT")),
        "start": lambda draw, rank: draw.below(2 * rank + 3) - rank - 1,
        "end": lambda draw, rank: draw.below(2 * rank + 3) - rank - 1,
        "k": lambda draw, _: draw.below(7) - 3,
        "round_mode": lambda draw, _: draw.of(("up", "down", "nearest")),
        "reduction": lambda draw, _: draw.of(("none", "add", "mul", "max", "min")),
    }
)  # fmt: skip
"""Functions that draw an attribute's value, by attribute name, for attributes that mean the same in all operators. They
are used unless the drawing (function that adds a random node) of an operator sets the attribute itself.
"""
CHANCE = 0.5
"""Probability that a random node has an optional attribute."""


def random_attributes(b: Builder, operator: Operator, rank: int, *without: str) -> dict[str, Any]:
    """Draws random attributes for one of ONNX's own operators; returns their values by name. The operator's inputs have
    `rank` dimensions, which limits values such as an axis.

    Required attributes always get a value, optional ones with probability CHANCE. Attributes that are named in
    `without`, and attributes without a generator in `ATTRIBUTES`, never get a value.
    """
    found: dict[str, Any] = {}
    for name, attribute in sorted(b.schema(operator.name).attributes.items()):
        if name in without or name not in ATTRIBUTES:
            continue
        if attribute.required or b.draw.chance(CHANCE):
            found[name] = ATTRIBUTES[name](b.draw, rank)
    return found


def type_number(name: str) -> int:
    """ONNX's number (TensorProto.DataType) of a type of numpy or ml_dtypes."""
    import ml_dtypes

    return element_type(np.dtype(name) if name in np.sctypeDict else np.dtype(getattr(ml_dtypes, name)))

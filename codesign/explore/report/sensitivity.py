"""Sensitivity of each metric (latency, area ...) to each field of a space of machines, by an additive model over the
evaluated designs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..space import Value, shown

MOST_LEVELS = 8
"""Largest number of levels of a field in the model; neighbouring values of a field with more values are merged into one
level.
"""
RIDGE = 1e-6
HOW = (
    "the logarithm of the figure is fitted as a sum of one term for each value of each field (least squares over all "
    "designs that ran); share: the part of the variance that is lost without the field; factor: between its best and "
    "its worst value, the others held still; fields that always change together are one, as no design tells them apart"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldEffect:
    """The effect of a field on a figure. `levels` are pairs (value of the field, factor): with this value of the field,
    the model predicts the geometric mean of the figure over all designs, times the factor (and the factors of the other
    fields). `share` is the part, 0 to 1, of the variance of the figure's logarithm that only this field explains.

    Fields that always change together count as one field with a name such as "block_in, block_out". Its values are
    texts such as "8, 16", or a single value if the fields always have equal values.
    """

    field: str
    share: float
    levels: tuple[tuple[int | str, float], ...]

    @property
    def factor(self) -> float:
        """Strength of the field's effect: the largest factor among the `levels`, divided by the smallest."""
        factors = [factor for _, factor in self.levels]
        return max(factors) / min(factors)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """The effects of all fields on a figure of `designs` designs; all fields together explain the share `explained` of
    the figure's variance.
    """

    designs: int
    explained: float
    effects: tuple[FieldEffect, ...]


def sensitivity(
    fields: Mapping[str, Sequence[Value]],
    figure: Sequence[float],
    following: Mapping[str, Sequence[Value]] | None = None,
) -> Sensitivity | None:
    """Effects of `fields` (by name, a value for each design) on the figure `figure`, whose values are positive. The
    effects are fitted as a sum of one term for each field.

    Fields that always change together are one term. `following` are derived fields: a derived field that always changes
    together with one of `fields` belongs to the same term, other derived fields have no term.

    Returns None if there are too few designs to fit all terms, if the figure or all fields are constant, or if a value
    of the figure is not positive.
    """
    values = np.asarray(figure, float)
    if len(values) < 2 or values.min() <= 0:
        return None
    target = np.log(values)
    target -= target.mean()
    total = float(target @ target)
    groups = {name: _levels_of(columns) for name, columns in _together(fields, following or {}).items()}
    terms = sum(len(labels) - 1 for labels, _ in groups.values()) + 1
    if not groups or total < 1e-18 or len(values) < terms + 1:
        return None
    blocks = {name: _indicators(codes, len(labels)) for name, (labels, codes) in groups.items()}
    left, parts = _fit(list(blocks.values()), target)
    effects = []
    for (name, (labels, codes)), part in zip(groups.items(), parts, strict=True):
        others = [block for other, block in blocks.items() if other != name]
        without = _fit(others, target)[0] if others else total
        effects.append(
            FieldEffect(
                field=name,
                share=max(0.0, (without - left) / total),
                levels=tuple(
                    (label, float(np.exp(part[np.flatnonzero(codes == code)[0]])))
                    for code, label in enumerate(labels)
                ),
            )
        )
    effects.sort(key=lambda effect: -effect.share)
    return Sensitivity(designs=len(values), explained=max(0.0, 1 - left / total), effects=tuple(effects))


def _together(
    fields: Mapping[str, Sequence[Value]], following: Mapping[str, Sequence[Value]]
) -> dict[str, list[Sequence[Value]]]:
    """Groups the fields that change between designs. Fields that always change together form one entry, with a name
    such as "block_in, block_out". Returns, for each entry, the columns (one value for each design) of all its fields.

    `fields`: the fields to group, by name. `following`: derived fields. A derived field is added to an entry only if it
    always changes together with the fields of the entry.
    """
    members: dict[tuple[int, ...], list[str]] = {}
    columns = {**fields, **following}
    for name, column in columns.items():
        texts = [shown(value) for value in column]
        first = {text: place for place, text in reversed([*enumerate(texts)])}
        alike = tuple([first[text] for text in texts])
        if len({*texts}) > 1 and (name in fields or alike in members):
            members.setdefault(alike, []).append(name)
    return {", ".join(names): [columns[name] for name in names] for names in members.values()}


def _levels_of(columns: Sequence[Sequence[Value]]) -> tuple[list[int | str], NDArray[np.int64]]:
    """Numbers the values of several fields that change together, so that they count as one field. `columns`: for each
    field, its value in every design. Returns the labels of the distinct combinations of values, and for each design the
    index of its combination. A label lists the values of all fields, or only one value if all fields have the same.
    """
    lead = next((column for column in columns if all(isinstance(v, int) for v in column)), columns[0])
    labels, codes = _levels(lead)
    place = {str(shown(value)): number for number, value in enumerate(lead)}
    if all([*map(shown, column)] == [*map(shown, lead)] for column in columns):
        return labels, codes
    return [", ".join(str(shown(column[place[str(label)]])) for column in columns) for label in labels], codes


def _levels(column: Sequence[Value]) -> tuple[list[int | str], NDArray[np.int64]]:
    """Labels of a field's levels, and the index of each design's level. A level is one value of the field or, if the
    field has many numbers as values, several neighbouring ones; the middle one is then the label.
    """
    texts = [shown(value) for value in column]
    numbers = sorted({text for text in texts if isinstance(text, int)})
    if len(numbers) < len({*texts}):
        names = sorted({str(text) for text in texts})
        return list(names), np.array([names.index(str(text)) for text in texts])
    if len(numbers) <= MOST_LEVELS:
        return list(numbers), np.array([numbers.index(int(text)) for text in texts])
    joined = np.array_split(np.array(numbers), MOST_LEVELS)
    place = {int(value): code for code, group in enumerate(joined) for value in group}
    labels: list[int | str] = [int(group[len(group) // 2]) for group in joined]
    return labels, np.array([place[int(text)] for text in texts])


def _indicators(codes: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """Indicator columns of a linear model, float64 [designs, `count`]: column k is 1 for each design whose entry of
    `codes` is k, else 0; then the column's mean is subtracted.
    """
    block = (codes[:, None] == np.arange(count)).astype(float)
    return block - block.mean(axis=0)


def _fit(
    blocks: Sequence[NDArray[np.float64]], target: NDArray[np.float64]
) -> tuple[float, list[NDArray[np.float64]]]:
    """Fits `target` by all `blocks` of columns (least squares); returns the sum of squared residuals, and the
    contribution of each block to each design.
    """
    matrix = np.hstack(blocks)
    normal = matrix.T @ matrix
    normal[np.diag_indices_from(normal)] += RIDGE * len(target)
    weights = np.linalg.solve(normal, matrix.T @ target)
    edges = np.cumsum([block.shape[1] for block in blocks])[:-1]
    parts = [block @ part for block, part in zip(blocks, np.split(weights, edges), strict=True)]
    rest = target - matrix @ weights
    return float(rest @ rest), parts

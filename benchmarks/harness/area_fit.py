"""Fits the coefficients of the model of area and clock by non-negative least squares to synthesized machines
(accelerator configurations).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from vdla.codesign.technology.cell_features import (
    MEMORY_BITS,
    MODULES,
    PATHS,
    access_features,
    features_of,
    own_features,
)
from vdla.codesign.technology.cell_model import CellModel, access_by_module
from vdla.codesign.technology.memories import Memory, memories_of
from vdla.codesign.technology.register_features import OWN_BITS, names_of, register_features
from vdla.hw.synthesis.cells.sram import Scale
from vdla.hw.synthesis.units import unit_of_path
from vdla.isa.config import Config

from .area_rows import HELD_OUT, Synthesized

Costs = dict[str, dict[str, float]]
_DIGITS = 6
QUANTILE = 0.9
"""Quantile of the errors that is used for intervals of 90%. The errors are those on training machines, each left out of
the fit in turn (jackknife). In practice the intervals cover about this share; for the variant jackknife+ at least 1 - 2
* (1 - QUANTILE) is proved (Barber et al., Annals of Statistics 2021).
"""


def fit_areas(rows: Sequence[Synthesized]) -> Costs:
    """Fits the area of each module to the machines `rows`. The area of one instance is a weighted sum of features
    (numbers computed from a machine's configuration). Returns the weights, in square micrometres per unit of the
    feature, by module and feature; weights of 0 are left out. The fit minimizes relative errors, so that large machines
    do not dominate.

    Modules with memories that may be flip-flops are fitted together: a bit of such a memory has the same area in each
    module.
    """
    shared = {module for module, (_, names) in MODULES.items() if not set(MEMORY_BITS).isdisjoint(names)}
    columns: dict[tuple[str, str], int] = {}
    entries: list[dict[int, float]] = []
    found: Costs = {}
    for module, (_, names) in MODULES.items():
        have = [row for row in rows if module in row.modules]
        values = [row.modules[module][1] / row.modules[module][0] for row in have]
        features = [_features(row, module) for row in have]
        if module not in shared:
            found[module] = _fit(features, values, names)
            continue
        keys = [("", name) if name in MEMORY_BITS else (module, name) for name in names]
        for key in keys:
            columns.setdefault(key, len(columns))
        for one, value in zip(features, values, strict=True):
            entries.append({columns[key]: one[key[1]] / value for key in keys})
    table = np.zeros((len(entries), len(columns)))
    for place, entry in enumerate(entries):
        table[place, list(entry)] = list(entry.values())
    costs = dict(zip(columns, _least_squares(table), strict=True))
    for module in shared:
        together = {
            name: costs[("", name) if name in MEMORY_BITS else (module, name)] for name in MODULES[module][1]
        }
        found[module] = {name: cost for name, cost in together.items() if cost > 0}
    return {module: found[module] for module in MODULES}


def fit_registers(rows: Sequence[Synthesized]) -> Costs:
    """Fits the number of flip-flops of each module, without the bits of its memories, to the machines `rows`. The
    number for one instance is a weighted sum of features (numbers computed from a machine's configuration). Returns the
    weights by module and feature. The fit minimizes relative errors.
    """
    found: Costs = {}
    for module in MODULES:
        have = [row for row in rows if module in row.modules]
        features = [{**_features(row, module), **register_features(row.config)} for row in have]
        values = [
            row.flip_flops[module] / row.modules[module][0] - one[OWN_BITS]
            for row, one in zip(have, features, strict=True)
        ]
        counted = [place for place, value in enumerate(values) if value > 0]
        found[module] = _fit(
            [features[place] for place in counted], [values[place] for place in counted], names_of(module)
        )
    return found


@lru_cache(maxsize=1 << 16)
def _features(row: Synthesized, module: str) -> Mapping[str, float]:
    """The values, by name, of the features that predict the area of a `module` of the machine `row`; cached, because
    the fit is repeated with each machine left out in turn.
    """
    config = row.config
    return features_of(config) | own_features(config, module, memories_of(config))


def fit_paths(rows: Sequence[Synthesized], scale: Scale) -> Costs:
    """Fits the delay of each kind of timing path in PATHS to those machines in `rows` that have such a path. A delay is
    a weighted sum of features (numbers computed from a machine's configuration). Returns the weights, in nanoseconds
    per unit of the feature, by kind of path and feature. `scale`: factors of memory macros' delays.
    """
    found: Costs = {}
    for place, (_, names) in PATHS.items():
        have = [row for row in rows if place in row.ends]

        features = [
            features_of(row.config) | access_features(access_by_module(macros_of(row.config), scale))
            for row in have
        ]
        found[place] = _fit(features, [row.ends[place][0] for row in have], names)
    return found


def _fit(
    features: Sequence[Mapping[str, float]], values: Sequence[float], names: Sequence[str]
) -> dict[str, float]:
    if not values:
        return {}
    table = np.array([[one[name] for name in names] for one in features]) / np.array(values)[:, None]
    costs = _least_squares(table)
    return {name: cost for name, cost in zip(names, costs, strict=True) if cost > 0}


def _least_squares(table: NDArray[np.float64]) -> list[float]:
    """Non-negative coefficients, one for each column of `table`, with which the weighted sum of each row is as close to
    1 as possible (least squares).
    """
    # Columns are scaled to equal size; the solver would treat small ones as zero.
    size = np.maximum(np.abs(table).max(axis=0), 1e-30)
    costs, _ = nnls(table / size, np.ones(len(table)))
    return [float(f"{cost:.{_DIGITS}g}") for cost in costs / size]


def fit(rows: Sequence[Synthesized], head: Mapping[str, Any], scale: Scale) -> CellModel:
    """The area and clock model fitted to the synthesized machines `rows`, without intervals. `head`: the first line of
    their file (library, node); `scale`: factors of memory macros. Raises ValueError if one of the machines is reserved
    for evaluation.
    """
    if any(row.is_reserved for row in rows):
        raise ValueError(
            f"no model may be fitted to draws from {HELD_OUT} on: they are reserved for evaluation"
        )
    return CellModel(
        library=head["library"],
        node_nm=head["node_nm"],
        scale=scale,
        areas=fit_areas(rows),
        registers=fit_registers(rows),
        paths=fit_paths(rows, scale),
        units={module: unit_of_path(module) for module in MODULES},
        logic_ends=(1.0, 1.0),
        path_ends=(1.0, 1.0),
        machines=len(rows),
    )


def predicted(model: CellModel, row: Synthesized) -> tuple[float, float]:
    """The area of logic in square micrometres, and the nanoseconds of the longest path, that `model` predicts for the
    machine `row`.
    """
    paths = model.paths_by_place(row.config, macros_of(row.config))
    return sum(model.logic_by_module(row.config, memories_of(row.config)).values()), max(paths.values())


def macros_of(config: Config) -> list[Memory]:
    """The memories of a machine that are memory macros (not flip-flops)."""
    return [memory for memory in memories_of(config) if memory.is_macro]


def ratios_left_out(
    rows: Sequence[Synthesized], head: Mapping[str, Any], scale: Scale
) -> tuple[list[float], list[float]]:
    """Ratios of measured to predicted logic area, and of measured to predicted longest path, in the order of `rows`;
    each machine is predicted by a model fitted without it. `head`: the first line of the file of machines (library,
    node); `scale`: factors of memory macros.
    """
    logic, path = [], []
    for left_out in rows:
        model = fit([row for row in rows if row is not left_out], head, scale)
        ours = predicted(model, left_out)
        logic.append(left_out.logic / ours[0])
        path.append(left_out.longest / ours[1])
    return logic, path


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """The ends of the conformal interval of the ratio of measured to predicted values, symmetric around 1, from
    `ratios` of machines that were left out of the fit.

    Its half-width is the `QUANTILE` of the errors of the left-out machines, taken at rank QUANTILE * (n + 1) as
    conformal prediction requires for a new machine. A fractional rank is interpolated: rounding it up would cover up to
    2.4% more (for 40 machines).
    """
    far = sorted(abs(ratio - 1) for ratio in ratios)
    width = float(np.interp(QUANTILE * (len(far) + 1), range(1, len(far) + 1), far))
    return 1 - width, 1 + width

"""Coefficients of the model of area and clock, by non-negative least squares on synthesized machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import nnls
from vdla.codesign.technology.cell_features import (
    MODULES,
    PATHS,
    access_features,
    features_of,
    own_features,
)
from vdla.codesign.technology.cell_model import CellModel, access_by_module
from vdla.codesign.technology.memories import memories_of
from vdla.hw.synthesis.cells.sram import Scale
from vdla.hw.synthesis.netlist import unit_of_path

from .area_rows import Synthesized

Costs = dict[str, dict[str, float]]
_DIGITS = 6
COVERED = 0.9


def fit_areas(rows: Sequence[Synthesized]) -> Costs:
    """Square micrometres of one module by feature; a machine counts by its relative error."""
    found: Costs = {}
    for module, (_, names) in MODULES.items():
        have = [row for row in rows if module in row.modules]
        values = [row.modules[module][1] / row.modules[module][0] for row in have]

        def features(row: Synthesized, module: str = module) -> dict[str, float]:
            return features_of(row.config) | own_features(row.config, module, memories_of(row.config))

        found[module] = _fit(have, values, names, features)
    return found


def fit_paths(rows: Sequence[Synthesized], scale: Scale) -> Costs:
    """Nanoseconds of the longest path to each place by feature."""
    found: Costs = {}
    for place, (_, names) in PATHS.items():
        have = [row for row in rows if place in row.ends]

        def features(row: Synthesized) -> dict[str, float]:
            macros = [memory for memory in memories_of(row.config) if memory.is_macro]
            return features_of(row.config) | access_features(access_by_module(macros, scale))

        found[place] = _fit(have, [row.ends[place][0] for row in have], names, features)
    return found


def _fit(
    rows: Sequence[Synthesized],
    values: Sequence[float],
    names: Sequence[str],
    features: Callable[[Synthesized], Mapping[str, float]],
) -> dict[str, float]:
    if not rows:
        return {}
    known = [features(row) for row in rows]
    table = np.array([[one[name] for name in names] for one in known]) / np.array(values)[:, None]
    # Columns of equal size, or the solver takes small ones for nothing.
    size = np.maximum(np.abs(table).max(axis=0), 1e-30)
    costs, _ = nnls(table / size, np.ones(len(values)))
    return {
        name: float(f"{cost:.{_DIGITS}g}") for name, cost in zip(names, costs / size, strict=True) if cost > 0
    }


def fit(rows: Sequence[Synthesized], head: Mapping[str, Any], scale: Scale) -> CellModel:
    """The model without intervals."""
    return CellModel(
        library=head["library"],
        node_nm=head["node_nm"],
        scale=scale,
        areas=fit_areas(rows),
        paths=fit_paths(rows, scale),
        units={module: unit_of_path(module) for module in MODULES},
        logic_ends=(1.0, 1.0),
        path_ends=(1.0, 1.0),
        machines=len(rows),
    )


def predicted(model: CellModel, row: Synthesized) -> tuple[float, float]:
    """Square micrometres of logic, and nanoseconds of the longest path."""
    memories = memories_of(row.config)
    paths = model.paths_by_place(row.config, [memory for memory in memories if memory.is_macro])
    return sum(model.logic_by_module(row.config, memories).values()), max(paths.values())


def ratios_left_out(
    rows: Sequence[Synthesized], head: Mapping[str, Any], scale: Scale
) -> tuple[list[float], list[float]]:
    """Measured over predicted of logic and of the longest path, each machine by a model fitted without it."""
    logic, path = [], []
    for left_out in rows:
        model = fit([row for row in rows if row is not left_out], head, scale)
        ours = predicted(model, left_out)
        logic.append(left_out.logic / ours[0])
        path.append(left_out.longest / ours[1])
    return logic, path


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """The conformal interval of measured over predicted: as far from 1 on both sides as `COVERED` of the machines left
    out are, and one more."""
    far = sorted(abs(ratio - 1) for ratio in ratios)
    place = min(len(far), int(np.ceil(COVERED * (len(far) + 1)))) - 1
    return 1 - far[place], 1 + far[place]

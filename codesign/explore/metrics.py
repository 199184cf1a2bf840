"""Metrics of designs and constraints on them: latency, energy, area, and figures derived from them.

latency, energy, area, edp, cycles, dram, utilization          objectives; utilization is maximized, all else minimized
area<2mm2   latency<=5ms   energy<300uJ   utilization>0.9        constraints
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from vdla.isa.config import Config
from vdla.util.errors import UserError

from ..technology.modelled_energy import energy_interval
from ..technology.rungs import EXACT, TABLE
from .evaluate import Figures

_PREFIXES = {"": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Metric:
    """A kind of figure of a design, in `unit`; `scales` are the units that a constraint may use, as multiples of
    `unit`. `value` computes the figure from a machine, its figures, and the weights of the networks by name. `rung` is
    a text that names the figure's source; empty if the source differs between machines (`Figures.rungs`). `maximize`:
    larger is better. `from_machine`: the figure needs no run of a network.
    """

    name: str
    unit: str
    scales: Mapping[str, float]
    value: Callable[[Config, Figures, Mapping[str, float]], float]
    rung: str = ""
    maximize: bool = False
    from_machine: bool = False

    @property
    def heading(self) -> str:
        """The metric's name with its unit, as the heading of a table's column."""
        return f"{self.name} ({self.unit})" if self.unit else self.name

    @property
    def sign(self) -> float:
        """The factor that turns a value into a value to minimize: 1 or -1."""
        return -1.0 if self.maximize else 1.0


def _sum(figures: Figures, weights: Mapping[str, float], each: Callable[[str], float]) -> float:
    return sum(weights[name] * each(name) for name in figures.networks)


def _cycles(config: Config, figures: Figures, weights: Mapping[str, float]) -> float:
    return _sum(figures, weights, lambda name: figures.networks[name].cycles)


def _latency(config: Config, figures: Figures, weights: Mapping[str, float]) -> float:
    assert figures.clock_mhz is not None
    return 1e3 * (_cycles(config, figures, weights) / (figures.clock_mhz * 1e6))


def _energy(config: Config, figures: Figures, weights: Mapping[str, float]) -> float:
    return _sum(figures, weights, lambda name: figures.networks[name].microjoules)


def _utilization(config: Config, figures: Figures, weights: Mapping[str, float]) -> float:
    roofline = _sum(figures, weights, lambda name: figures.networks[name].roofline_cycles)
    return roofline / _cycles(config, figures, weights)


def _edp(config: Config, figures: Figures, weights: Mapping[str, float]) -> float:
    return _energy(config, figures, weights) * _latency(config, figures, weights)


def _scaled(unit: str, in_base: float) -> dict[str, float]:
    return {f"{prefix}{unit}": factor / in_base for prefix, factor in _PREFIXES.items()}


METRICS: Mapping[str, Metric] = {
    item.name: item
    for item in (
        Metric(name="latency", unit="ms", scales=_scaled("s", 1e-3), value=_latency),
        Metric(name="energy", unit="uJ", scales=_scaled("J", 1e-6), value=_energy),
        Metric(
            name="area",
            unit="mm2",
            scales={"mm2": 1.0, "um2": 1e-6},
            value=lambda config, figures, weights: figures.square_millimetres,
            from_machine=True,
        ),
        Metric(name="edp", unit="uJ ms", scales={}, value=_edp),
        Metric(name="cycles", unit="cycles", rung=EXACT, scales={}, value=_cycles),
        Metric(
            name="dram",
            unit="bytes",
            rung=EXACT,
            scales={"B": 1.0, "KiB": 1024.0, "MiB": 1024.0**2},
            value=lambda config, figures, weights: _sum(
                figures, weights, lambda name: figures.networks[name].dram_bytes
            ),
        ),
        Metric(name="utilization", unit="", rung=EXACT, scales={}, value=_utilization, maximize=True),
    )
}
"""All metrics by name. For several networks, a figure of runs is a sum over the networks, weighted by their weights;
the utilization is a ratio of two such sums.
"""


def intervals_of(figures: Figures, weights: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """90% intervals, by name of a metric, as factors of the metric's value. The intervals of area and latency come from
    the machine's `figures`, the interval of energy from the weighted sum over the networks, and the interval of edp
    from latency and energy. Metrics without an interval have no entry.
    """
    found = dict(figures.intervals)
    if figures.failed is not None or figures.rungs.get("energy") in (None, TABLE):
        return found
    units: dict[str, float] = {}
    for name, run in figures.networks.items():
        for unit, value in run.energy.items():
            units[unit] = units.get(unit, 0.0) + weights[name] * value
    low, high = energy_interval(units)
    fast, slow = found.get("latency", (1.0, 1.0))
    return {**found, "energy": (low, high), "edp": (low * fast, high * slow)}


_CONSTRAINT = re.compile(r"\s*([a-z]+)\s*(<=|>=|<|>)\s*([0-9.]+(?:[eE][-+]?[0-9]+)?)\s*([A-Za-z0-9]*)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """A `limit` on a metric, in the metric's unit. `upper`: the value may be at most the limit; otherwise it must be at
    least the limit.
    """

    text: str
    metric: Metric
    limit: float
    upper: bool

    def excess(self, value: float) -> float:
        """The amount by which a value breaks the constraint, as a fraction of the limit (as an absolute amount if the
        limit is 0). It is 0 or less if the constraint holds.
        """
        over = value - self.limit if self.upper else self.limit - value
        return over / self.limit if self.limit else over


def rungs_of(metrics: Iterable[Metric], figures: Iterable[Figures]) -> dict[str, str]:
    """The source (rung) of each metric by name, over all `figures` that have not failed; different sources are joined
    by "or". Empty texts if all figures failed.
    """
    all_figures = [item for item in figures if item.failed is None]
    return {
        metric.name: " or ".join(
            dict.fromkeys(item.rungs.get(metric.name, metric.rung) for item in all_figures)
        )
        for metric in metrics
    }


def metric_of(name: str) -> Metric:
    """The metric called `name`. Raises UserError for an unknown name."""
    if name not in METRICS:
        raise UserError(f'no figure is called "{name}"; there are {", ".join(METRICS)}')
    return METRICS[name]


def parse_objectives(names: Sequence[str]) -> tuple[Metric, ...]:
    """The metrics with the given names. Raises UserError for no name, an unknown or a repeated name."""
    names = [name.strip() for name in names]
    if not names:
        raise UserError("no objective is named; name at least one, as in latency,energy,area")
    if twice := [name for k, name in enumerate(names) if name in names[:k]]:
        raise UserError(f'the objective "{twice[0]}" is named twice; name it once')
    return tuple(metric_of(name) for name in names)


def parse_constraint(text: str) -> Constraint:
    """A constraint such as "area<2mm2"; a limit without a unit is in the metric's own unit. Raises UserError for
    anything else.
    """
    match = _CONSTRAINT.fullmatch(text)
    if match is None:
        raise UserError(f'"{text}" is not a constraint; write one like "area<2mm2" or "utilization>0.9"')
    metric = metric_of(match[1])
    unit = match[4]
    if unit and unit not in metric.scales and unit != metric.unit:
        units = ", ".join(metric.scales) or "none"
        raise UserError(f'"{text}": {metric.name} has no unit {unit}; there are: {units}')
    try:
        limit = float(match[3]) * metric.scales.get(unit, 1.0)
    except ValueError:
        raise UserError(f'"{text}": {match[3]} is not a number') from None
    if limit == inf:
        raise UserError(f'"{text}": {match[3]} is too large')
    return Constraint(text=text, metric=metric, limit=limit, upper=match[2].startswith("<"))

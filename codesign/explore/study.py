"""An exploration (study): machines (accelerator configurations) of a space are evaluated in batches and recorded; the
machines that no other machine dominates form the front.

A strategy that learns gets all results of a batch before it proposes the next one, so that a study depends only on
space, networks, seed and batch size, not on the number of processes. A continued study proposes the same points again
and finds their records, so nothing is evaluated twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from vdla.isa.config import Config
from vdla.util.errors import UserError
from vdla.util.user_files import make_directory

from ..technology.components import Components
from .evaluate import Figures, study_key
from .front import pareto
from .metrics import Constraint, Metric, intervals_of
from .networks import Network
from .places import HERE, Evaluator, Place, evaluator
from .problem import Observation, Problem
from .records import Known, RecordsFile, read_records
from .schedules.choose import NO_TRIALS, Effort
from .search import strategy_of
from .space import Point, Space, Value

BATCH = 20
"""Number of points of the space that are proposed and evaluated together."""
BATCHES_AT_ONCE = 16
"""Number of batches that are evaluated at a time for a strategy that does not learn. Workers that have finished then
wait for the others only after these batches, not after each batch.
"""
LEAST_TIMEOUT = 1
MOST_TIMEOUT = 86_400
"""Largest time limit for one machine of an exploration, in seconds: a day."""
RECORDS = "records.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Design:
    """A point of the space: its fields, the machine (None if the point is no valid machine) and its figures. `number`
    is its index in the exploration. `objectives` are the values of the study's objectives, None if the machine is not
    valid or cannot run a network. `excess` is the worst constraint's excess over its limit, as a fraction of the limit;
    0 if all constraints hold.
    """

    number: int
    fields: dict[str, Value]
    machine: Config | None
    figures: Figures
    objectives: tuple[float, ...] | None
    excess: float = 0.0

    @property
    def feasible(self) -> bool:
        """Whether the design runs all networks within the constraints."""
        return self.objectives is not None and self.excess <= 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Study:
    """The settings of an exploration: space, networks, objectives, constraints, strategy. `budget` is the largest
    number of points that the strategy proposes, `batch` at a time; `seed` decides its random choices. Machines are
    evaluated at `place`, and each gets the best schedules that `effort` finds. At the end the machines of the Pareto
    front get the schedules of `front_effort`, if it has more trials.
    """

    space: Space
    networks: tuple[Network, ...]
    components: Components
    objectives: tuple[Metric, ...]
    constraints: tuple[Constraint, ...] = ()
    strategy: str = "model"
    budget: int = 100
    seed: int = 0
    batch: int = BATCH
    place: Place = HERE
    effort: Effort = NO_TRIALS
    front_effort: Effort = NO_TRIALS

    def __post_init__(self) -> None:
        if not self.networks:
            raise UserError("give at least one network")
        if self.budget < 1 or self.batch < 1 or self.place.workers < 1:
            raise UserError(
                f"budget = {self.budget}, batch = {self.batch} and workers = {self.place.workers}: each must be at "
                "least 1"
            )
        if self.seed < 0:
            raise UserError(f"seed = {self.seed}; give a number of 0 or more")
        if not LEAST_TIMEOUT <= self.place.timeout <= MOST_TIMEOUT:
            raise UserError(
                f"timeout = {self.place.timeout}; give seconds from {LEAST_TIMEOUT} to {MOST_TIMEOUT:,}"
            )

    @cached_property
    def weights(self) -> dict[str, float]:
        """The weight of each network in sums over the networks, by name."""
        return {network.name: network.weight for network in self.networks}

    @cached_property
    def key(self) -> str:
        """A hash of everything on which the figures (cycles, energy, area) depend, except the machine
        (`evaluate.study_key`); records are stored under this key.
        """
        return study_key(self.networks, self.components, self.effort)

    @property
    def tunes_front(self) -> bool:
        """Whether designs of the Pareto front get more schedule trials than other designs."""
        return self.front_effort.trials > self.effort.trials

    @cached_property
    def front_key(self) -> str:
        """The key under which the figures of front designs are recorded after tuning with the trials of `front_effort`;
        equal to `key` if `front_effort` has no more trials than `effort`.
        """
        if not self.tunes_front:
            return self.key
        return study_key(self.networks, self.components, self.front_effort)

    def machine(self, point: Point) -> Config | str:
        """The machine at a point of the space, or a text with the reason why there is none."""
        try:
            return self.space.machine(point)
        except UserError as error:
            return str(error)

    def value(self, metric: Metric, machine: Config | None, figures: Figures) -> float | None:
        """The value of the metric for a machine with these figures; None if the machine cannot run a network."""
        if machine is None or figures.failed is not None:
            return None
        return metric.value(machine, figures, self.weights)

    def intervals(self, design: Design) -> dict[str, tuple[float, float]]:
        """The 90% confidence intervals of a design's metrics (area, latency, energy, ...), by name of the metric. Each
        interval is (low, high) as factors of the metric's value. A metric without a known interval has no entry.
        """
        return intervals_of(design.figures, self.weights)

    def design(self, number: int, point: Point, machine: Config | None, figures: Figures) -> Design:
        """The design at a `point` of the space, with its number in the exploration, its machine and its figures."""
        try:
            fields = self.space.fields(point)
        except UserError:
            fields = {a.name: a.values[i] for a, i in zip(self.space.axes, point, strict=True)}
        return self.judged(number, fields, machine, figures)

    def judged(
        self, number: int, fields: dict[str, Value], machine: Config | None, figures: Figures
    ) -> Design:
        """The design with the given `figures`, from which its objectives and its excess over the constraints are
        computed. `number`: the design's index in the exploration.
        """
        values = [self.value(metric, machine, figures) for metric in self.objectives]
        objectives = tuple([value for value in values if value is not None])
        if not objectives:
            return Design(number=number, fields=fields, machine=machine, figures=figures, objectives=None)
        limited = [(limit, self.value(limit.metric, machine, figures)) for limit in self.constraints]
        return Design(
            number=number,
            fields=fields,
            machine=machine,
            figures=figures,
            objectives=objectives,
            excess=max([0.0, *(limit.excess(value) for limit, value in limited if value is not None)]),
        )

    @property
    def problem(self) -> Problem:
        """The problem (space, networks, metrics, seed) as the search strategy gets it."""
        return Problem(
            space=self.space,
            networks=self.networks,
            components=self.components,
            objectives=self.objectives,
            constraints=self.constraints,
            seed=self.seed,
        )

    def observation(self, point: Point, design: Design) -> Observation:
        """The result of a design in the form (`Observation`) that the search strategy gets: objectives, and the excess
        over constraints.
        """
        limited = [self.value(limit.metric, design.machine, design.figures) for limit in self.constraints]
        return Observation(
            point=point,
            objectives=self.minimized(design),
            excess=design.excess,
            limited=tuple([value for value in limited if value is not None]),
        )

    def minimized(self, design: Design) -> tuple[float, ...] | None:
        """The objectives of a design, negated if larger is better, so that less is always better. None if the design
        has no objectives, because its machine is not valid or cannot run the networks.
        """
        if design.objectives is None:
            return None
        return tuple([metric.sign * v for metric, v in zip(self.objectives, design.objectives, strict=True)])


@dataclass(frozen=True, kw_only=True, eq=False)
class Exploration:
    """The designs of an exploration in the order of their evaluation. `evaluated` is the number of designs that were
    run; the other designs come from records, or are no valid machines. `interrupted`: whether Ctrl-C ended the search.
    """

    study: Study
    designs: tuple[Design, ...] = field(default_factory=tuple)
    evaluated: int = 0
    interrupted: bool = False

    @cached_property
    def front(self) -> tuple[Design, ...]:
        """The Pareto front: designs that meet the constraints and that no other design dominates, sorted by their first
        objective; of designs with equal objectives only the first.
        """
        feasible = [design for design in self.designs if design.feasible]
        if not feasible:
            return ()
        values = np.array([self.study.minimized(design) for design in feasible])
        _, first = np.unique(values, axis=0, return_index=True)
        unique = np.sort(first)
        best = unique[pareto(values[unique])]
        return tuple(feasible[i] for i in best[np.argsort(values[best, 0], kind="stable")])


def explore(
    study: Study,
    *,
    folder: Path | None = None,
    known: Known | None = None,
    told: Callable[[Exploration], object] | None = None,
    tuning: Callable[[int, int], object] = lambda done, count: None,
) -> Exploration:
    """Evaluates designs until there are as many as the limit in `study` allows, or until the space has no more points.

    Records go to `folder`, which is made if missing; designs with a record there or in `known` are not evaluated again.
    `told` is called with the exploration after every batch. At the end, more schedules are tried for the designs of the
    front; after each of these designs, `tuning` is called with (number of designs done, number of designs in the
    front). KeyboardInterrupt ends the search and returns the exploration so far, marked `interrupted`.
    """
    strategy = strategy_of(study.strategy, study.problem)
    records: Known = dict(known or {})
    designs: list[Design] = []
    evaluated, interrupted = 0, False
    with contextlib.ExitStack() as stack:
        # Missing tools and places raise first, before an empty folder is created.
        run = stack.enter_context(evaluator(study.place, study.networks, study.components))
        file = None
        if folder is not None:
            make_directory(folder)
            file = stack.enter_context(RecordsFile(folder / RECORDS))
            records = {**read_records(folder / RECORDS), **records}

        def keep(key: str, design: Design) -> bool:
            """Records the figures of `design` under `key`, if the design is a valid machine; returns whether the
            figures are new.
            """
            if design.machine is None or (place := (key, design.machine.digest)) in records:
                return False
            records[place] = design.figures
            if file is not None:
                file.append(*place, design.fields, design.figures)
            return True

        try:
            while len(designs) < study.budget:
                at_once = study.batch * (1 if strategy.learns else BATCHES_AT_ONCE)
                points = strategy.ask(min(at_once, study.budget - len(designs)))
                if not points:
                    break
                for done, (point, machine, figures) in enumerate(_figures(study, points, records, run), 1):
                    designs.append(study.design(len(designs), point, machine, figures))
                    evaluated += keep(study.key, designs[-1])
                    if told is not None and (done % study.batch == 0 or done == len(points)):
                        told(Exploration(study=study, designs=tuple(designs), evaluated=evaluated))
                named = zip(points, designs[-len(points) :], strict=True)
                strategy.tell([study.observation(point, design) for point, design in named])
            front = Exploration(study=study, designs=tuple(designs)).front if study.tunes_front else ()
            chosen = [design.machine for design in front if design.machine is not None]
            of_front = _evaluated(study.front_key, chosen, study.front_effort, records, run)
            for done, (design, figures) in enumerate(zip(front, of_front, strict=True), 1):
                keep(study.front_key, replace(design, figures=figures))
                tuning(done, len(front))
        except KeyboardInterrupt:
            interrupted = True
    found = Exploration(study=study, designs=tuple(designs), evaluated=evaluated, interrupted=interrupted)
    return with_tuned_front(found, records)


def with_tuned_front(exploration: Exploration, records: Known) -> Exploration:
    """The exploration after its front was tuned. Designs of the Pareto front get the figures that `records` holds under
    `front_key`, unless the schedules found by tuning make a network slower.
    """
    study = exploration.study
    if not study.tunes_front:
        return exploration
    designs = list(exploration.designs)
    for design in exploration.front:
        assert design.machine is not None
        tuned = records.get((study.front_key, design.machine.digest))
        if tuned is not None and tuned.no_slower_than(design.figures):
            designs[design.number] = study.judged(design.number, design.fields, design.machine, tuned)
    return replace(exploration, designs=tuple(designs))


def _figures(
    study: Study, points: Sequence[Point], records: Known, run: Evaluator
) -> Iterator[tuple[Point, Config | None, Figures]]:
    """Yields (point, machine or None if the point is invalid, figures) in the order of `points`. A point is yielded as
    soon as it and all earlier points are done.
    """
    machines = [study.machine(point) for point in points]
    there = [machine for machine in machines if isinstance(machine, Config)]
    figures = _evaluated(study.key, there, study.effort, records, run)
    for point, machine in zip(points, machines, strict=True):
        if isinstance(machine, Config):
            yield point, machine, next(figures)
        else:
            yield point, None, Figures(failed=machine)


def _evaluated(
    key: str, machines: Sequence[Config], effort: Effort, records: Known, run: Evaluator
) -> Iterator[Figures]:
    """Yields the figures of each machine in order, from the records under `key` or by evaluation. A machine's figures
    are yielded as soon as it and all earlier machines are done.
    """
    missing = {machine.digest: machine for machine in machines if (key, machine.digest) not in records}
    ordered = list(missing.values())
    found: dict[str, Figures] = {}
    with contextlib.closing(run(ordered, effort)) as results:
        for machine in machines:
            known = records.get((key, machine.digest))
            while known is None and machine.digest not in found:
                number, figures = next(results)
                found[ordered[number].digest] = figures
            yield known or found[machine.digest]

"""Search a space of machines (accelerator configurations), or compare two machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from vdla.compiler.frontends.sources import model_source
from vdla.isa.config import PRESETS, Config
from vdla.isa.dram_memory import DRAM
from vdla.util.errors import UserError
from vdla.util.notebook_tables import html_table
from vdla.util.user_files import check_directory

from ..explore.advice import advised_machine
from ..explore.compare import Compared, compare_machines
from ..explore.metrics import parse_constraint, parse_objectives
from ..explore.networks import load_networks
from ..explore.places import TIMEOUT, Place
from ..explore.records import existing_records
from ..explore.report.details import MOST_DESIGNS, details_of
from ..explore.report.saved import Sources, load_exploration, save_study
from ..explore.schedules import FRONT_TRIALS
from ..explore.schedules.choose import Effort
from ..explore.space import load_space, space_of
from ..explore.study import Design, Exploration, Study
from ..explore.study import explore as search
from ..explore.syntheses import read_syntheses, with_syntheses
from ..explore.tables import document, rows
from ..report.frames import data_frame
from ..technology.components import load_components
from .configurations import config as named
from .models import Model

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Explored:
    """The result of a search. Cycles are exact. By default, area, clock and energy are predicted by models that are
    fitted to syntheses and to switching activity. With a table of components, area and energy come from the table.
    `document` and the report name the source of each number.
    """

    exploration: Exploration

    @property
    def front(self) -> tuple[Design, ...]:
        """The designs of the Pareto front: designs that meet the constraints and that no other design dominates. The
        attribute `machine` of a design is its configuration.
        """
        return self.exploration.front

    @property
    def document(self) -> dict[str, Any]:
        """The JSON object of `vdla explore --json`."""
        return document(self.exploration)

    def __repr__(self) -> str:
        study = self.exploration.study
        names = ", ".join(metric.name for metric in study.objectives)
        designs = len(self.exploration.designs)
        return f"<Explored: {designs:,} of {study.space.size:,} designs, {len(self.front):,} on the front of {names}>"

    def _repr_html_(self) -> str:
        study = self.exploration.study
        fields = [axis.name for axis in study.space.axes]
        columns = ["design", *fields, *(metric.heading for metric in study.objectives)]
        rows = [
            [str(design.number)]
            + [design.fields[name] for name in fields]
            + [study.value(metric, design.machine, design.figures) for metric in study.objectives]
            for design in self.front
        ]
        return html_table(repr(self).strip("<>"), columns, rows)

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary for each design: its fields, every metric, whether it meets the constraints, and whether it is
        on the Pareto front.
        """
        return rows(self.exploration)

    def to_dataframe(self) -> pd.DataFrame:
        """`rows` as a pandas DataFrame."""
        return data_frame(self.rows())

    def plot(self) -> Figure:
        """A matplotlib figure of all designs that ran, by their first two objectives (such as latency and area). With a
        single objective, the horizontal axis is the number of the design.
        """
        from ..explore.report.data import Details, exploration_data
        from ..explore.report.pictures import front_figure

        return front_figure(exploration_data(self.exploration, Details()))

    def to_html(self, layers: int = MOST_DESIGNS) -> str:
        """The report as one HTML page that needs no network access. For at most `layers` designs of the Pareto front,
        the page shows the figures of every layer of the networks.
        """
        from ..explore.report.data import exploration_data
        from ..explore.report.page import html

        return html(exploration_data(self.exploration, details_of(self.exploration, most=layers)))

    def save(self, folder: str | Path, layers: int = MOST_DESIGNS) -> tuple[Path, ...]:
        """Writes the files of `vdla explore` into an existing folder and returns the files' paths. For at most `layers`
        designs of the Pareto front, the report shows the figures of every layer of the networks.
        """
        from ..explore.report.write import write_report

        return write_report(self.exploration, Path(folder), layers=layers)


def explore(
    space: str | Path | Mapping[str, Any],
    networks: Model | Sequence[Model | tuple[Model, float]] | Mapping[str | Path, float],
    objectives: str | Sequence[str] = ("latency", "energy", "area"),
    *,
    constraints: str | Sequence[str] = (),
    budget: int = 100,
    strategy: str = "model",
    seed: int = 0,
    batch: int = 20,
    trials: int = 0,
    tune_front: int = FRONT_TRIALS,
    workers: int = 1,
    scheduler: str | None = None,
    timeout: float = TIMEOUT,
    technology: str | Path | None = None,
    folder: str | Path | None = None,
    records: str | Path | Sequence[str | Path] = (),
    from_advice: bool = False,
    told: Callable[[Exploration], object] | None = None,
    tuning: Callable[[int, int], object] = lambda done, count: None,
    notify: Callable[[str], None] | None = None,
) -> Explored:
    """Search a space of machines (accelerator configurations) for the best ones on some quantized networks.

    `space` is a TOML file or the table that such a file holds: {"base": "vta", "fields": {"block_in": [8, 16],
    "block_out": "block_in"}}. `networks` is a model (a path, the bytes of a file, or a ModelProto), several models
    (each with or without a weight, as in ("a.onnx", 2.0)), or weights by file. Objectives are `latency`, `energy`,
    `area`, `edp`, `cycles`, `dram` and `utilization`, constraints such as "area<2mm2". Strategies are "model" (our own,
    guided by learned models of the metrics), Optuna's "nsga2" and "tpe", "random" and "exhaustive"; the first three
    need the extra `explore`. The strategy proposes at most `budget` points of the space, `batch` at a time; `seed`
    decides its random choices.

    Hardware and schedules are searched together with `trials` above 0: on every machine, for each distinct layer, the
    `trials` schedules that the layer's template estimates as fastest are simulated, and the network runs with the best
    ones. At the end, the designs of the front get `tune_front` trials, if that is more than `trials`; then `tuning` is
    called with (number of front designs done, number of front designs). No machine is slower with trials than with the
    templates' own schedules.

    With `from_advice`, `vdla.advise` first improves the base machine of the space for each network in turn, and the
    search starts from the improved machine. Fields that the space itself varies keep the values that the space gives.

    With a `folder` every design is recorded there, and a repeated search continues from the records; `records` are
    record files of other studies; results in these files are used again. With `workers` above 1, that number of
    processes on this computer evaluate machines. With `scheduler`, the address of a dask scheduler ("tcp://HOST:8786",
    extra `tune`), the scheduler's workers evaluate machines. In other processes, a machine that takes longer than
    `timeout` seconds counts as failed. `told` is called with the exploration after every batch. `notify` is called with
    a line of text about the changes of `from_advice`, about a `clock_mhz` without effect, and when nothing has finished
    for a while. Area, clock and energy come from the models that ship with the package, fitted to syntheses and to
    switching activity. With `technology` (the file of a table, or "45nm-published" for the shipped table) area and
    energy come from that table, and the clock is the configuration's. A machine with a DRAM always has the
    configuration's clock. Raises UserError.
    """
    records = _several(records)
    searched = space_of(space) if isinstance(space, Mapping) else load_space(space)
    given = networks.items() if isinstance(networks, Mapping) else _several(networks)
    pairs = [item if isinstance(item, tuple) else (item, 1.0) for item in given]
    loaded = load_networks([(model_source(model).source, weight) for model, weight in pairs])
    components = load_components(technology)
    if from_advice:
        base, changes = advised_machine(searched.base, loaded, components)
        searched = replace(searched, base=base)
        if notify is not None:
            notify(f"the search starts from {base.name}: {', '.join(changes) or 'no change helps'}")
    study = Study(
        space=searched,
        networks=loaded,
        components=components,
        objectives=parse_objectives(objectives.split(",") if isinstance(objectives, str) else objectives),
        constraints=tuple(parse_constraint(text) for text in _several(constraints)),
        strategy=strategy,
        budget=min(budget, searched.size),
        seed=seed,
        batch=batch,
        effort=Effort(trials=trials),
        front_effort=Effort(trials=tune_front),
        place=Place(workers=workers, scheduler=scheduler, timeout=timeout, notify=notify or (lambda _: None)),
    )
    named_fields = {*(axis.name for axis in searched.axes), *searched.derived}
    has_dram = searched.base.memory.kind == DRAM or "kind" in named_fields
    if "clock_mhz" in named_fields and study.components.modelled and not has_dram:
        study.place.notify(
            "clock_mhz does not change the latency: the technology models predict the clock of each machine; "
            "with a table of components as technology, clock_mhz is the clock"
        )
    known = existing_records([Path(path) for path in records])
    place = None if folder is None else Path(folder)
    if place is None:
        return Explored(exploration=search(study, known=known, told=told, tuning=tuning))
    sources = Sources(
        technology=None if technology is None else Path(technology),
        records=tuple(Path(path) for path in records),
    )
    check_directory(place, parents=True)
    saved: list[Path] = []

    def tell(exploration: Exploration) -> None:
        # Not before the search has the folder for itself.
        if not saved:
            saved.append(save_study(place, study, sources))
        if told is not None:
            told(exploration)

    found = search(study, folder=place, known=known, told=tell, tuning=tuning)
    save_study(place, study, sources, found)
    return Explored(exploration=with_syntheses(found, read_syntheses(place)))


def load_study(folder: str | Path, notify: Callable[[str], None] | None = None) -> Explored:
    """The search that `explore(..., folder=...)` recorded in `folder`; nothing is evaluated.

    `notify` is called with a line of text about designs whose records are missing. Raises UserError if no search is
    recorded there, or if networks, table of components or compiler have changed since.
    """
    return Explored(exploration=load_exploration(Path(folder), notify or (lambda _: None)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Comparison:
    """Two machines (accelerator configurations) compared on the same networks. `compared` has the configurations and
    their latency, energy, area and cycles.
    """

    compared: Compared

    @property
    def machines(self) -> tuple[Config, Config]:
        """The configurations of the two compared machines: (first, second)."""
        return self.compared.machines

    @property
    def rows(self) -> Sequence[Mapping[str, Any]]:
        """One dictionary for each figure: the value on both machines, and the ratio of the second value to the first
        (None if the first is 0). The figures are all metrics, the clock, each network's cycles and energy by unit, and
        the area by unit.
        """
        return self.compared.rows

    @property
    def layers(self) -> Sequence[Mapping[str, Any]]:
        """One dictionary for each layer that both machines have: cycles, roofline cycles, DRAM bytes and microjoules on
        both.
        """
        return self.compared.layer_rows

    @property
    def explanation(self) -> Sequence[str]:
        """Sentences on the differences in each network's cycles and energy, and in the area. They state the amount of a
        difference, its causes, and the layers that contribute most.
        """
        return self.compared.sentences

    @property
    def document(self) -> dict[str, Any]:
        """The JSON object of `vdla compare --json`."""
        return {
            "first": self.compared.labels[0],
            "second": self.compared.labels[1],
            "fields": self.compared.fields,
            "explanation": list(self.explanation),
            "rows": list(self.rows),
            "layers": list(self.layers),
        }

    def to_dataframe(self, of: Literal["figures", "layers"] = "figures") -> pd.DataFrame:
        """`rows`, or `layers`, as a pandas DataFrame."""
        return data_frame(self.rows if of == "figures" else self.layers)

    def to_html(self) -> str:
        """Both machines side by side as one HTML page that needs no network access."""
        from ..explore.report.page import html

        return html(self.compared.data())


def compare(
    first: Config | str | Path,
    second: Config | str | Path,
    networks: Model | Sequence[Model],
    *,
    technology: str | Path | None = None,
) -> Comparison:
    """Compare two machines (presets, TOML files or configurations) on quantized networks. The comparison has all
    metrics, cycles and energy of each network and layer, and area and energy of each unit. `technology` is the same as
    for `explore`. Raises UserError if a machine cannot run a network.
    """
    loaded = load_networks([(model_source(model).source, 1.0) for model in _several(networks)])
    if not loaded:
        raise UserError("give at least one network")
    machines = (named(first), named(second))
    files = (_file(first), _file(second))
    return Comparison(compared=compare_machines(machines, loaded, load_components(technology), files))


def _file(machine: Config | str | Path) -> Path | None:
    """The TOML file from which `machine` is read; None for a preset or a configuration."""
    return None if isinstance(machine, Config) or str(machine) in PRESETS else Path(machine)


def _several(items: Model | Sequence[Any]) -> Sequence[Any]:
    """`items` as a sequence: a single model, text or path becomes a list of one."""
    return [items] if isinstance(items, Model) else items

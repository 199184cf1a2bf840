"""Search for faster schedules of a network's layers, or of single workloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.isa.config import Config, load_config
from vdla.util.errors import UserError

from .models import Model, model_file

if TYPE_CHECKING:
    from vdla.compiler.records.book import RecordBook
    from vdla.compiler.tune.search.strategies import StrategyName

    from ..tuning.target import Tunable


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tuned:
    """The result of a tuning run: `records` is the file with every trial, `document` the JSON object of
    `vdla tune --json`.
    """

    records: Path
    document: Mapping[str, Any]

    @property
    def book(self) -> RecordBook:
        """The best record of each workload, for `compile(model, records=...)`."""
        from vdla.compiler.records.book import read_book

        return read_book([self.records])[0]

    @property
    def tasks(self) -> Sequence[Mapping[str, Any]]:
        """One row for each workload: name, unit of cost, cost of the default and of the best schedule, number of
        trials.
        """
        return self.document["tasks"]


def tune(
    subject: Model | Sequence[str],
    target: str = "vdla",
    config: Config | str | Path = "vta",
    *,
    records: str | Path,
    trials: int = 64,
    in_place: int | None = None,
    strategy: StrategyName = "evolution",
    seed: int = 0,
    workers: int = 1,
    timeout: float | None = None,
) -> Tuned:
    """Tune a model (an ONNX file, its bytes or a ModelProto) or workloads by name (["conv2d:C2"]), on the accelerator
    or this processor.

    `records` names a new file to which every trial is written. `trials` is the total number of trials that measure one
    layer alone. The search shares these trials between the layers by expected gain. For a network on the accelerator,
    `in_place` further trials (by default half of `trials`) measure schedules of layers within the whole network. The
    strategy "evolution" learns a model of the cost and needs the extra `tune`; "genetic" and "random" do not.

    `workers` is the number of processes that measure trials; a trial of more than `timeout` seconds (by default 30)
    fails. With 0 workers, this process measures the trials itself, without a time limit. Raises UserError.
    """
    from vdla.compiler.records.files import RecordWriter
    from vdla.compiler.tune.search.cost_model import load_xgboost
    from vdla.compiler.tune.search.strategies import LEARNING

    from ..tuning.options import Options, Watchers, check_numbers
    from ..tuning.session import tune as run_tuner
    from ..tuning.target import Run

    check_numbers(trials=trials, in_place=in_place, seed=seed, workers=workers, timeout=timeout)
    model = subject if isinstance(subject, Model) else None
    names = [] if isinstance(subject, Model) else list(subject)
    if model is None and not names:
        raise UserError(
            "subject is empty; give the file of a model, or a list of workloads such as ['conv2d:C2']"
        )
    file = Path(records)
    if file.exists() and file.stat().st_size:
        raise UserError(f"{file} contains records already; name another file")
    tunable = _tunable(target, config)
    whole = model is not None and tunable.in_place
    options = Options(
        trials=trials,
        in_place=(trials // 2 if in_place is None else in_place) if whole else 0,
        batch=16,
        seed=seed,
        strategy=strategy,
    )
    if strategy in LEARNING:
        load_xgboost()
    with (
        RecordWriter(file) as writer,
        tunable.workers(count=workers, scheduler=None, timeout=timeout, notify=_quiet) as backend,
        nullcontext() if model is None else model_file(model) as path,
    ):
        run = Run(options=options, backend=backend, watchers=Watchers(write=writer.append))
        document = run_tuner(tunable, path, names, run)
    return Tuned(records=file, document=document)


def _tunable(target: str, config: Config | str | Path) -> Tunable[Any]:
    """The tuner's description of the accelerator or the processor that `target` names. Raises UserError for other
    targets.
    """
    if target == "vdla":
        from ..tuning.accelerator import AcceleratorTunable

        return AcceleratorTunable(config if isinstance(config, Config) else load_config(config))
    if target.split()[:1] == ["llvm"]:
        from vdla.compiler.codegen.cpu.options import parse_target

        from ..tuning.processor import ProcessorTunable

        return ProcessorTunable(parse_target(target))
    raise UserError(
        f'target "{target}": vdla.tune takes vdla and llvm; for GPUs run `vdla tune --target cuda`'
    )


def _quiet(_: str) -> None:
    """Ignores a remark of the search (a sentence for users at a terminal)."""

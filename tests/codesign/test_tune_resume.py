"""Resuming the tuning of a whole network after an interruption: the same trials, the same number of them, and the same
chosen settings.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from vdla.codesign import models
from vdla.codesign.tuning.accelerator import AcceleratorTunable, network_trials
from vdla.codesign.tuning.in_place import tune_in_place
from vdla.codesign.tuning.options import Options, Watchers
from vdla.codesign.tuning.session import subjects_of, tune, tune_subjects
from vdla.codesign.tuning.target import Layer, Run
from vdla.compiler.records.book import book_of
from vdla.compiler.records.network import (
    best_settings,
    is_trial_in_place,
    knobs_of,
    legal_settings,
    network_task,
    place_of,
)
from vdla.compiler.records.record import Record, Task
from vdla.compiler.templates.vdla.workload import Workload
from vdla.compiler.tune.measure.backends import InProcess
from vdla.compiler.tune.measure.network_vdla import NetworkTrials
from vdla.compiler.tune.runs.in_place import TuningResult
from vdla.isa.config import load_config

CONFIG = load_config("edge8")
TUNABLE = AcceleratorTunable(CONFIG)
OPTIONS = Options(trials=14, in_place=30, batch=5, seed=1, strategy="random")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "small_cnn.onnx"
    models.write(path, "small_cnn")
    return path


def whole_run(path: Path, known: list[Record], stop: int | None = None) -> tuple[list[Record], dict]:
    written: list[Record] = []

    def write(record: Record) -> None:
        written.append(dataclasses.replace(record, elapsed=0.0))
        if len(written) == stop:
            raise KeyboardInterrupt

    document = {}
    try:
        with InProcess() as backend:
            run = Run(options=OPTIONS, backend=backend, known=known, watchers=Watchers(write=write))
            document = tune(TUNABLE, path, (), run)
    except KeyboardInterrupt:
        pass
    return written, document


@pytest.fixture(scope="module")
def run(path: Path) -> tuple[list[Record], dict]:
    return whole_run(path, [])


def test_every_trial_in_place_is_recorded_and_only_the_network_is_applied(path, run):
    records, document = run
    found = document["network"]
    assert found["outputs_equal"] is True and found["tuned_cycles"] < found["default_cycles"]
    places = [record for record in records if is_trial_in_place(record)]
    assert [record.trial for record in places] == list(range(1, OPTIONS.in_place)) and found["trials"] == 30
    task = network_task(found["key"], CONFIG.described)
    settled = [record for record in records if record.task == task]
    # The network's records are those of the trials that made it faster, and of the beginning.
    best, faster = settled[0].cost, [0]
    assert best <= found["default_cycles"]
    for record in places:
        if record.cost is not None and record.cost < best:
            best = record.cost
            faster.append(record.trial)
    assert [record.trial for record in settled] == faster and settled[-1].cost == found["tuned_cycles"]
    # Applied is the last of them, though trials that were not accepted are the best of their nodes.
    network = network_trials(path, CONFIG)
    workloads = network.workloads
    assert network.key == found["key"]
    applied = best_settings(book_of(records), CONFIG, found["key"], workloads)
    assert (
        applied == legal_settings(CONFIG, workloads, settled[-1].knobs)
        and knobs_of(applied) == settled[-1].knobs
    )
    assert network.cycles(applied) == found["tuned_cycles"]
    # Trials of single nodes are never applied.
    assert best_settings(book_of(places), CONFIG, found["key"], workloads) is None


def test_an_interrupted_run_goes_on_as_if_it_had_not_stopped(path, run):
    records, document = run
    stop = 11  # In a batch of trials alone; the test below stops behind these.
    before, nothing = whole_run(path, [], stop)
    assert before == records[:stop] and nothing == {}
    rest, resumed = whole_run(path, before)
    assert before + rest == records and resumed == document


def test_wherever_trials_in_place_stop_they_go_on(path, run):
    records, document = run
    network = network_trials(path, CONFIG)
    begun = next(k for k, record in enumerate(records) if record.strategy == "in place")
    layers = layers_of(network, records)
    told: list[int] = []
    for stop in (*range(begun, len(records), 13), len(records)):
        placed, rest = in_place(network, layers, records[:stop], resumed=told.append)
        assert rest == records[stop:]
        assert placed.cycles == document["network"]["tuned_cycles"] and placed.trials == 30
    assert told[0] == 0 and told[-1] == 30
    # More trials go on from fewer; a line that is lost costs a trial, and no other is repeated.
    _, rest = in_place(network, layers, records[:begun], dataclasses.replace(OPTIONS, in_place=11))
    assert rest == [record for record in records[begun:] if record.trial < 11]
    lost = [record for record in records if record.trial != 7 or record.strategy != "in place"]
    _, again = in_place(network, layers, lost)
    assert {record.trial for record in again if is_trial_in_place(record)} <= {7}


def layers_of(network: NetworkTrials, records: list[Record]) -> list[Layer[Workload]]:
    with InProcess() as backend:
        subjects = subjects_of(tuple(network.workloads.items()), in_network=True)
        return tune_subjects(TUNABLE, "", subjects, Run(options=OPTIONS, backend=backend, known=records))[1]


def in_place(
    network: NetworkTrials,
    layers: list[Layer[Workload]],
    known: list[Record],
    options: Options = OPTIONS,
    resumed: Callable[[int], None] = lambda _: None,
) -> tuple[TuningResult, list[Record]]:
    """Tunes the layers `layers` by cycles of the whole network `network`. `known`: records of earlier trials, which are
    not measured again. `resumed`: a function that is called with the number of trials taken from `known`. Returns the
    chosen settings and the written records.
    """
    with InProcess() as backend:
        run = Run(options=options, backend=backend, known=known, watchers=Watchers(resumed=resumed))
        placed = tune_in_place(network, layers, TUNABLE.task, CONFIG, run)
    return placed, [dataclasses.replace(record, elapsed=0.0) for record in run.written]


def test_records_that_this_network_cannot_have_are_passed_over(path, run):
    records, document = run
    network = network_trials(path, CONFIG)
    layers = layers_of(network, records)
    begun = next(k for k, record in enumerate(records) if record.strategy == "in place")
    start, first = records[begun : begun + 2]
    node = next(iter(network.workloads))
    foreign = dataclasses.replace(start, knobs={f"{node}.rows": -5})
    far = dataclasses.replace(first, trial=1 << 62)
    for known in ([foreign, *records[begun + 1 :]], [*records[begun : begun + 4], far]):
        placed, _ = in_place(network, layers, known)
        # Where the beginning is not to be had, the best known state is another one.
        assert placed.cycles <= document["network"]["tuned_cycles"] and placed.trials == 30


def test_what_is_best_alone_is_where_a_network_begins_if_it_is_faster_so(path, run):
    network = network_trials(path, CONFIG)
    layers = layers_of(network, run[0])
    placed, rest = in_place(network, layers, [], dataclasses.replace(OPTIONS, in_place=0))
    alone = {
        node: layer.knobs
        for layer in layers
        for node in layer.subject.nodes
        if layer.history.best < TUNABLE.default_cycles(layer.subject.workload)
    }
    assert alone
    assert placed.cycles == min(network.cycles({}), network.cycles(alone)) == rest[0].cost


def test_names_of_nodes_that_cannot_be_printed_are_told_in_escapes():
    settings = {"a\u200bb": {"rows": 2}, "a.b": {"rows": 1}, "": {"rows": 3}}
    assert knobs_of(settings) == {'"a\\u200bb".rows': 2, "a.b.rows": 1, '"".rows': 3}
    shape = Workload(template="elementwise", batch=1, channels=8, height=1, width=1, filters=8)
    task = Task(workload=place_of(shape, "k", "\n"), target=CONFIG.described)
    assert task.workload["node"] == '"\\n"'

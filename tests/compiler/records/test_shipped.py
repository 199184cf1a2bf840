"""The shipped tuning records: still legal, as fast as they state, and never slower than the default schedules."""

from __future__ import annotations

from pathlib import Path

import pytest
from campaign import representatives
from shipped import shipped

from vdla.codesign.named_layers import CONVOLUTIONS, DEPTHWISE
from vdla.codesign.tuning.accelerator import network_trials
from vdla.codesign.workload_names import accelerator_workload
from vdla.compiler.records.book import shipped_book, shipped_files
from vdla.compiler.records.network import best_settings
from vdla.compiler.records.record import Task
from vdla.compiler.tune.measure.measure_vdla import AcceleratorTask, measure
from vdla.isa.config import load_config

LAYERS = [f"conv2d:{name}" for name in CONVOLUTIONS] + [f"depthwise:{name}" for name in DEPTHWISE]
AGAIN = "the compiler changed; make them anew: python benchmarks/shipped_records.py --write"


def test_no_line_is_skipped():
    files = shipped_files()
    assert files and all(skipped.warning is None for _, skipped in files)


@pytest.mark.parametrize(
    ("preset", "layers"),
    [
        ("vta", LAYERS),
        ("osdi18", LAYERS),
        ("edge8", LAYERS),
        # Programs for its small array are long.
        ("tiny", LAYERS[-3:]),
    ],
)
def test_layers_of_the_papers_cost_what_their_records_say(preset: str, layers: list[str]) -> None:
    config = load_config(preset)
    book = shipped_book()
    for name in layers:
        task = AcceleratorTask.of(config, accelerator_workload(name, config))
        key = Task(workload=task.workload.to_dict(), target=config.described).key
        record = book.records[key][0]
        assert not record.knobs or task.space.legal(task.space.point(record.knobs)[None])[0], (name, AGAIN)
        assert measure(task, record.knobs or None).cost == record.cost, (name, AGAIN)
        assert record.cost <= measure(task, None).cost, (name, AGAIN)


@pytest.fixture(scope="module")
def resnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "resnet18.onnx"
    path.write_bytes(shipped("resnet18", "u8"))
    return path


@pytest.mark.parametrize("preset", representatives(["vta", "edge8"], 0, always=["edge8"]))
def test_resnet_is_as_fast_as_its_record_says(preset: str, resnet: Path) -> None:
    config = load_config(preset)
    network, book = network_trials(resnet, config), shipped_book()
    settings = best_settings(book, config, network.key, network.workloads)
    assert settings
    (record, *_) = [
        record
        for records in book.records.values()
        for record in records
        if record.task.workload == {"template": "network", "network": network.key}
        and record.task.target == config.described
    ]
    assert network.cycles(settings) == record.cost < network.cycles({}), AGAIN

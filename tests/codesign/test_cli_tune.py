"""`vdla tune` on the command line: records, resuming, refusals, and the use of its records by `vdla run --records`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from vdla.codesign import models
from vdla.compiler.records.files import RecordWriter, read_records
from vdla.compiler.records.record import Record
from vdla.compiler.tune.measure import dask_workers

LAYER = "conv2d:8,16,32,3,1"


@pytest.fixture
def run(vdla):
    """A function that runs the command line; returns (exit code, standard output, standard error)."""

    def call(*arguments: object) -> tuple[int, str, str]:
        result = vdla(*arguments)
        return result.code, result.out, result.err

    return call


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "small_cnn.onnx"
    models.write(path, "small_cnn")
    return path


def tune(run, path: Path, *arguments: object) -> dict:
    code, out, err = run("tune", "-o", path, "--workers", 0, "--json", *arguments)
    assert code == 0, err
    return json.loads(out)


def test_a_workload_is_tuned_and_resumed(run, tmp_path):
    records = tmp_path / "r.jsonl"
    first = tune(run, records, "--workload", LAYER, "--trials", 12, "--batch", 4, "--config", "tiny")
    (task,) = first["tasks"]
    # Every trial, and beside them the template's own choice.
    assert task["trials"] == 12 == len(records.read_text().splitlines()) - 1
    assert task["floor"] <= task["best"] and task["outputs_equal"] is True
    # Cut in mid-write: the search goes on where it was, as if it had not stopped.
    whole = tune(
        run, tmp_path / "w.jsonl", "--workload", LAYER, "--trials", 20, "--batch", 4, "--config", "tiny"
    )
    lines = records.read_bytes()
    records.write_bytes(lines[:-20])
    code, out, err = run(
        *("tune", "-o", records, "--workload", LAYER, "--trials", 19, "--batch", 4, "--config", "tiny"),
        *("--workers", 0, "--json", "--resume"),
    )
    assert code == 0 and "1 of 13 lines skipped" in err
    (resumed,) = json.loads(out)["tasks"]
    assert resumed["trials"] == 19
    assert whole["tasks"][0]["best"] <= task["best"] and resumed["best"] <= task["best"]


def test_a_search_that_reads_programs_goes_on_as_if_it_had_not_stopped(run, tmp_path):
    arguments = ("--workload", LAYER, "--batch", 4, "--config", "tiny", "--features", "program", "--trials")
    tune(run, tmp_path / "whole.jsonl", *arguments, 8)
    tune(run, tmp_path / "cut.jsonl", *arguments, 4)
    tune(run, tmp_path / "cut.jsonl", *arguments, 8, "--resume")
    whole, cut = (
        [(json.loads(line)["knobs"], json.loads(line)["cost"]) for line in path.read_text().splitlines()]
        for path in (tmp_path / "whole.jsonl", tmp_path / "cut.jsonl")
    )
    assert whole == cut and len(whole) == 9
    # Other workloads' programs are lowered again and teach, so that not even the first batch is random.
    others = ("--workload", "conv2d:4,16,16,3,1", *arguments[2:], 4)
    tune(run, tmp_path / "taught.jsonl", *others, "--transfer", tmp_path / "whole.jsonl")
    tune(run, tmp_path / "untaught.jsonl", *others)
    assert (tmp_path / "taught.jsonl").read_text() != (tmp_path / "untaught.jsonl").read_text()


def test_a_workload_named_twice_is_one(run, tmp_path):
    names = ("--workload", LAYER, "--workload", LAYER)
    document = tune(run, tmp_path / "r.jsonl", *names, "--trials", 6, "--strategy", "random")
    (task,) = document["tasks"]
    assert task["trials"] == 6


def test_the_template_is_recorded_before_any_trial(run, tmp_path):
    """With the template's choice among the records, applying them is never slower than the default, however short the
    search was.
    """
    records = tmp_path / "r.jsonl"
    document = tune(run, records, "--workload", LAYER, "--trials", 2, "--strategy", "random")
    first = json.loads(records.read_text().splitlines()[0])
    assert first["strategy"] == "template" and first["knobs"] == {}
    assert first["cost"] == document["tasks"][0]["default"]


def test_products_of_many_rows_have_a_space(run, tmp_path):
    document = tune(
        run, tmp_path / "r.jsonl", "--workload", "dense:384,256,256", "--trials", 2, "--strategy", "random"
    )
    assert document["tasks"][0]["failed"] == 0


@pytest.mark.parametrize("strategy", ["random", "grid", "genetic", "evolution", "thompson"])
def test_every_strategy_runs(run, tmp_path, strategy):
    document = tune(
        run, tmp_path / "r.jsonl", "--workload", LAYER, "--trials", 12, "--batch", 6, "--strategy", strategy
    )
    assert document["strategy"] == strategy and document["tasks"][0]["trials"] == 12


def test_a_network_is_as_fast_with_its_records_as_tuning_said(run, tmp_path, network):
    records = tmp_path / "r.jsonl"
    document = tune(run, records, network, "--trials", 24, "--in-place", 12, "--config", "vta")
    found = document["network"]
    assert found["tuned_cycles"] <= found["default_cycles"] and found["outputs_equal"] is True
    code, out, err = run("run", network, "--config", "vta", "--records", records, "--json")
    assert code == 0, err
    account = json.loads(out)
    assert account["total"]["cycles"] == found["tuned_cycles"]
    assert account["check"]["max_lsb"] == 0


def test_records_of_others_are_said_and_passed_over(run, tmp_path, network):
    records = tmp_path / "r.jsonl"
    tune(run, records, "--workload", LAYER, "--trials", 4, "--config", "tiny")
    with records.open("ab") as file:
        file.write(b'{"version": 99}\nnot a record\n')
    code, out, err = run("run", network, "--records", records, "--timing-only", "--json")
    assert code == 0 and "2 of 7 lines skipped" in err
    _, plain, _ = run("run", network, "--timing-only", "--json")
    assert json.loads(out)["total"]["cycles"] == json.loads(plain)["total"]["cycles"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name what to tune"),
        (("--workload", "conv2d:C99"), "is not a workload"),
        (("--workload", "gru:3"), "is not a workload"),
        (("--workload", LAYER, "--trials", 0), "trials = 0; give a number from 1 to 10,000,000"),
        (("--workload", LAYER, "--trials", 1 << 70), "trials"),
        (("--workload", LAYER, "--in-place", 1 << 70), "in-place"),
        (("--workload", LAYER, "--batch", 1 << 70), "batch"),
        (("--workload", LAYER, "--patience", 1 << 70), "patience"),
        (("--workload", LAYER, "--workers", 1 << 70), "workers"),
        (("--workload", LAYER, "--seed", 1 << 63), "seed"),
        (("--workload", LAYER, "--timeout", "inf"), "timeout"),
        (("--workload", LAYER, "--timeout", "1e12"), "timeout"),
        (("--workload", LAYER, "--timeout", "nan"), "timeout = nan; give a number from 0.1 to 86,400"),
        (("--workload", "conv2d:1,999999,999999,1,1"), "the weights of 999998000001 elements"),
        (("--workload", LAYER, "--strategy", "luck"), "luck"),
        (("--workload", LAYER, "--config", "nowhere"), "nowhere"),
        (("--workload", LAYER, "--scheduler", "tcp://127.0.0.1:1"), "tcp://127.0.0.1:1"),
        (("nothing.onnx",), "nothing.onnx"),
        (("--workload", LAYER, "--strategy", "grid", "--transfer", __file__), "has no cost model to train"),
        (("--workload", LAYER, "--strategy", "random", "--features", "program"), "leave out --features"),
    ],
)
def test_mistakes_are_told_in_one_line(run, tmp_path, monkeypatch, arguments, message):
    monkeypatch.setattr(dask_workers, "CONNECT_SECONDS", 0.5)
    code, out, err = run("tune", "-o", tmp_path / "r.jsonl", *arguments)
    assert code == 2 and out == "" and message in err
    assert err.startswith("error: ") and len(err.splitlines()) == 1
    assert not (tmp_path / "r.jsonl").exists()


def test_records_are_not_overwritten(run, tmp_path):
    records = tmp_path / "r.jsonl"
    tune(run, records, "--workload", LAYER, "--trials", 4, "--config", "tiny")
    code, _, err = run("tune", "-o", records, "--workload", LAYER, "--trials", 4)
    assert code == 2 and "--resume" in err


def test_ctrl_c_leaves_records_and_says_how_to_go_on(run, tmp_path, monkeypatch):
    records = tmp_path / "r.jsonl"
    arguments = ("--workload", LAYER, "--trials", 9, "--batch", 4, "--config", "tiny", "--strategy", "random")
    with monkeypatch.context() as patch:
        append = RecordWriter.append

        def interrupted(writer: RecordWriter, record: Record) -> None:
            append(writer, record)
            if record.trial == 5:
                raise KeyboardInterrupt

        patch.setattr(RecordWriter, "append", interrupted)
        code, out, err = run("tune", "-o", records, "--workers", 0, *arguments)
    assert code == 130 and out == "" and f"{records} has every finished trial" in err and "--resume" in err
    assert len(records.read_text().splitlines()) == 7
    tune(run, records, *arguments, "--resume")
    tune(run, tmp_path / "w.jsonl", *arguments)
    resumed, whole = (
        [dataclasses.replace(record, elapsed=0.0) for record in read_records(path)[0]]
        for path in (records, tmp_path / "w.jsonl")
    )
    assert resumed == whole and len(whole) == 10

"""Studies whose evaluations run in other processes or on a dask scheduler give the same records, even if a
worker dies.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from dask_cluster import cluster

import vdla
from vdla.codesign import models
from vdla.codesign.explore import places
from vdla.codesign.explore.study import Exploration
from vdla.compiler.tune.measure import dask_workers

SPACE = {
    "base": "tiny",
    "fields": {"block_in": [4, 8], "block_out": "block_in", "inp_buffer_bytes": [128, 512, 1024]},
}
DEADLY = """
import os, signal
from vdla.codesign.explore import worker
evaluate = worker.evaluate
def deadly(machine, *given):
    if machine.block_in == 8:
        os.kill(os.getpid(), signal.SIGKILL)
    return evaluate(machine, *given)
worker.evaluate = deadly
worker.serve(worker.load)
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "mlp.onnx"
    path.write_bytes(models.build("mlp").SerializeToString())
    return path


def test_a_scheduler_whose_worker_dies_gives_the_same_records(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # Results that die with their worker before they are fetched are not waited for; what is only late is asked again.
    monkeypatch.setattr(dask_workers, "PATIENCE", 0.2)
    vdla.explore(SPACE, model, budget=6, batch=2, strategy="random", folder=tmp_path / "here")
    (tmp_path / "cluster").mkdir()
    with cluster(tmp_path / "cluster", 2) as (address, (_, _, second)):

        def told(found: Exploration) -> None:
            second.kill()

        vdla.explore(
            SPACE,
            model,
            budget=6,
            batch=2,
            strategy="random",
            folder=tmp_path / "there",
            scheduler=address,
            told=told,
        )
    expected = (tmp_path / "here" / "records.jsonl").read_bytes()
    assert (tmp_path / "there" / "records.jsonl").read_bytes() == expected


def test_a_machine_that_ends_its_process_is_a_failed_design(model: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(places, "command_of", lambda module: (sys.executable, "-P", "-c", DEADLY))
    fields = {**SPACE["fields"], "inp_buffer_bytes": [128, 1024]}
    space = {"base": "tiny", "fields": fields}
    found = vdla.explore(space, model, budget=4, batch=4, strategy="exhaustive", workers=2).rows()
    assert [row["feasible"] for row in found] == [row["block_in"] == 4 and not row["failed"] for row in found]
    assert all("ended the process" in row["failed"] for row in found if row["block_in"] == 8)


def test_a_scheduler_that_is_not_there_is_one_line(
    vdla, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(dask_workers, "CONNECT_SECONDS", 0.5)
    (tmp_path / "space.toml").write_text('base = "tiny"\n[fields]\nclock_mhz = [50, 100]\n')
    outcome = vdla(
        *("explore", tmp_path / "space.toml", "--network", model, "-o", tmp_path / "out"),
        *("--strategy", "random", "--scheduler", "tcp://127.0.0.1:1"),
    )
    assert outcome.code == 2 and "no scheduler at tcp://127.0.0.1:1" in outcome.err

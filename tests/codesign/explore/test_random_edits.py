"""Files of spaces and of studies, edited at random: each is either accepted, or rejected with one line that states the
error.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random

import pytest
from campaign import in_campaigns
from random_edits import ODD, edited

import vdla
from vdla.codesign import models
from vdla.codesign.api.exploration import Explored
from vdla.codesign.explore.report.saved import load_exploration
from vdla.codesign.explore.space import MACHINE_FIELDS, space_of, without_machine

SPACES, STUDIES = in_campaigns((1000, 300), (20, 12))
"""Numbers of random edits in each of the ten parts into which the tests are divided. SPACES: edits of a file of a
space; STUDIES: edits of a file of a study.
"""
SPACE = {
    "base": "tiny",
    "fields": {
        "block_in": [4, 8],
        "block_out": "block_in",
        "acc_banks": [1, 2, 4],
        "inp_buffer_bytes": {"from": 2048, "to": 16384, "times": 2},
        "load_fifo_bytes": "store_fifo_bytes * 2",
        "store_fifo_bytes": [256, 512],
        "extensions": [["post"], ["post", "depthwise"], []],
    },
    "conditions": ["block_in <= 8", "inp_buffer_bytes * 2 > acc_banks"],
}
WORDS = (
    *ODD,
    *("block_in", "block_in //", "1/0", "block_in / 0", "block_in ** 9999", "not 1", "lambda: 1", "a.b"),
    *("block_in if 1 else 2", '__import__("os")', "block_in[0]", "1 << 99999999", "block_in % 0", "post"),
    *([["post"]], [["post", "post"]], [["nosuch"]], [["post", 1]], [[["post"]]], [{}], ["post", "depthwise"]),
    *(
        {"from": 1},
        {"from": 1, "to": 5, "step": 0},
        {"from": 1, "to": 10**9, "step": 1},
        {"from": 5, "to": 1},
    ),
)


@pytest.mark.parametrize("part", range(10))
def test_edited_spaces_are_accepted_or_refused_in_one_line(part: int) -> None:
    for seed in range(part * SPACES, (part + 1) * SPACES):
        random = Random(seed)
        table = edited(random, SPACE, WORDS, edits=3)
        if isinstance(table.get("fields"), dict) and random.random() < 0.3:
            table["fields"][random.choice(sorted(MACHINE_FIELDS))] = random.choice(WORDS)
        try:
            without_machine(space_of(table))
        except vdla.UserError as error:
            assert "\n" not in str(error), seed
        except Exception as error:
            raise AssertionError(f"seed {seed}: {table}") from error


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("study")
    (place / "mlp.onnx").write_bytes(models.build("mlp").SerializeToString())
    fields = {"acc_banks": [1, 2], "read_latency": [20, 60], "extensions": [["post"], ["post", "depthwise"]]}
    (place / "study").mkdir()
    vdla.explore(
        {"base": "tiny", "fields": fields, "conditions": ["acc_banks < 3"]},
        {str(place / "mlp.onnx"): 2.0},
        constraints="area<2mm2",
        budget=4,
        strategy="random",
        tune_front=0,
        folder=place / "study",
    ).save(place / "study", layers=0)
    return place / "study"


@pytest.mark.parametrize("part", range(10))
def test_edited_studies_are_read_or_refused_in_one_line(part: int, study: Path, tmp_path: Path) -> None:
    for seed in range(part * STUDIES, (part + 1) * STUDIES):
        random, folder = Random(seed), tmp_path / str(seed)
        shutil.copytree(study, folder)
        odd = (*ODD, "area<nan", "area<", "area<1e999mm2", "latency", ["latency"], [[float("inf")] * 3])
        if random.random() < 0.5:
            path = folder / "study.json"
            path.write_text(json.dumps(edited(random, json.loads(path.read_text()), odd)))
        else:
            path = folder / "records.jsonl"
            lines = path.read_text().splitlines()
            number = random.randrange(len(lines))
            lines[number] = json.dumps(edited(random, json.loads(lines[number]), odd))
            path.write_text("\n".join(lines) + "\n")
        try:
            json.dumps(Explored(exploration=load_exploration(folder)).document, allow_nan=False)
        except vdla.UserError as error:
            assert "\n" not in str(error), seed
        except Exception as error:
            raise AssertionError(f"seed {seed}: {path.read_text()}") from error

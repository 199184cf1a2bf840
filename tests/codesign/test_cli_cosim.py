"""`vdla cosim`: its output and its error messages. The comparison itself is tested in tests/hw/test_cosim.py."""

import shlex
from pathlib import Path

import numpy as np
import pytest

from vdla.isa.assembler import assemble
from vdla.isa.config import load_config
from vdla.isa.layout import encode_uops
from vdla.isa.program import bare_program
from vdla.verify.cosim.cases import Launch
from vdla.verify.cosim.compare import Outcome
from vdla.verify.cosim.failure import write_failure
from vdla.verify.random_scratchpads import random_scratchpads


@pytest.mark.system_tools("g++")
def test_a_short_run_in_json(vdla, tmp_path: Path) -> None:
    document = vdla(
        "cosim", "--programs", 6, "--seed", 3, "--config", "tiny", "-o", tmp_path / "m", "--json"
    ).document()
    assert (document["programs"], document["seed"], document["mismatches"]) == (6, 3, 0)
    assert document["instructions"] > 6 * 10 and document["median_instructions"] >= 40
    assert document["timings"] == {
        "fixed latency": 2,
        "random latency": 2,
        "random latency and stalls": 2,
    }
    coverage = document["coverage"]
    assert 0 < coverage["hit"] < coverage["bins"]
    assert len(coverage["empty"]) == coverage["bins"] - coverage["hit"]
    counts = [count for bins in coverage["groups"].values() for count in bins.values()]
    assert len(counts) == coverage["bins"] and sum(count > 0 for count in counts) == coverage["hit"]
    assert coverage["unreachable"] and all(coverage["unreachable"].values())
    assert not (tmp_path / "m").exists()


@pytest.mark.system_tools("g++")
def test_a_short_run_for_people(vdla) -> None:
    outcome = vdla("cosim", "--programs", 2, "--config", "tiny", "--jobs", 1)
    assert outcome.code == 0
    assert outcome.out.startswith("simulator and RTL agree: 2 of 2 programs, every cycle, counter and byte\n")
    assert outcome.err.count("cannot be hit") == 1
    assert "0 mismatches" in outcome.out and "format x tokens" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--programs", 0), "at least 1 program"),
        (("--jobs", 0), "at least 1 process"),
        (("--seed", -1), "--seed -1: must be 0 or more"),
        (("--config", "nosuch"), "nosuch"),
        (("--config", ","), "name at least one"),
        (("--config", "tiny,tiny"), "two configurations are called 'tiny'"),
    ],
)
def test_mistakes_are_told_in_one_line(vdla, arguments: tuple[object, ...], message: str) -> None:
    outcome = vdla("cosim", *arguments)
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1 and message in outcome.err


def test_a_place_that_cannot_be_written_is_refused_first(vdla, tmp_path: Path) -> None:
    outcome = vdla("cosim", "-o", tmp_path / "no" / "where")
    assert outcome.code == 2 and "no directory" in outcome.err


@pytest.mark.parametrize("random_state", [None, 7])
def test_a_mismatch_from_random_scratchpads_can_be_run_again_as_its_report_says(
    vdla, tmp_path: Path, random_state: int | None
) -> None:
    config = load_config("tiny")
    contents = random_scratchpads(config, 4)
    contents["uop"][:4] = encode_uops(config, np.array([2]), np.array([3]), np.array([5])).view(np.uint8)
    text = "ALU uop_end=1 iter_out=1 iter_in=1 alu_opcode=ADD use_imm=1 imm=1\nFINISH\n"
    program = bare_program(config, assemble(text, config), np.zeros(64, np.uint8))
    start = Launch(program=program, scratchpads=contents, random_state=random_state)
    outcome = Outcome(simulated=None, rtl=None, differences=("y",))
    folder = tmp_path / "a mismatch"
    write_failure(folder, "x", config, start, outcome)
    report = (folder / "report.txt").read_text()
    calls = [shlex.split(line)[1:] for line in report.splitlines() if line.startswith("    vdla ")]
    assert [call[:2] for call in calls] == [["sim", "--insns"]] * 2
    assert [vdla(*call, "--json").document()["engine"] for call in calls] == ["cycle", "rtl"]
    assert all(str(folder / "scratchpads.npz") in call for call in calls)
    assert ("random_state=7" in report) == (random_state == 7)


def test_what_a_mismatch_leaves_behind_can_be_simulated(vdla, tmp_path: Path) -> None:
    config = load_config("tiny")
    words = assemble("GEMM uop_end=1 iter_out=1 iter_in=4\nFINISH\n", config)
    program = bare_program(config, words, np.zeros(64, np.uint8))
    start = Launch(program=program, scratchpads=None, random_state=None)
    write_failure(tmp_path / "m", "x", config, start, Outcome(simulated=None, rtl=None, differences=("y",)))
    text = vdla("sim", "--insns", tmp_path / "m" / "program.txt", "--json").document()
    words = vdla(
        "sim",
        *("--insns", tmp_path / "m" / "program.hex", "--memory", tmp_path / "m" / "memory.bin"),
        *("--config", tmp_path / "m" / "config.toml", "--json"),
    ).document()
    assert text == words and text["instructions"] == 2
    outcome = vdla("sim", "--insns", tmp_path / "m" / "program.hex")
    assert outcome.code == 2 and "give the memory image with --memory" in outcome.err

from pathlib import Path

import numpy as np
import pytest

from vdla.isa.config import load_config
from vdla.isa.layout import encode
from vdla.isa.program_file import hex_lines, load_program, read_hex, save_program
from vdla.verify.random_programs import random_config, random_program


@pytest.fixture(params=[1, 2])
def saved(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "random.vdla"
    save_program(random_program(random_config(request.param), request.param), path)
    return path


def test_text_and_binary_round_trip(vdla, saved: Path, tmp_path: Path) -> None:
    text, again = tmp_path / "random.txt", tmp_path / "again.vdla"
    assert vdla("disasm", saved, "-o", text).code == 0
    document = vdla("asm", text, "-o", again, "--json").document()
    assert again.read_bytes() == saved.read_bytes()
    assert document["instructions"] == len(load_program(saved).instructions)
    assert vdla("disasm", saved).out == text.read_text(encoding="utf-8")
    assert vdla("disasm", saved, "--json").document()["text"] == text.read_text(encoding="utf-8")


def test_bare_instructions_round_trip(vdla, saved: Path, tmp_path: Path) -> None:
    text, words = tmp_path / "random.txt", tmp_path / "random.hex"
    assert vdla("disasm", saved, "-o", text).code == 0
    assert vdla("asm", text, "-o", words).code == 0
    program = load_program(saved)
    assert np.array_equal(read_hex(words, program.config), program.instructions)


def test_text_without_configuration_is_for_vta_unless_told(vdla, tmp_path: Path) -> None:
    source, out = tmp_path / "p.txt", tmp_path / "p.vdla"
    source.write_text("LOAD.INP sram_base=1 x_size=1 y_size=1\nFINISH\n", encoding="utf-8")
    assert vdla("asm", source, "-o", out, "--json").document()["config"] == "vta"
    assert vdla("asm", source, "-o", out, "--config", "tiny", "--json").document()["config"] == "tiny"
    assert load_program(out).config == load_config("tiny")


def test_check_finds_nothing_in_a_sound_program(vdla, saved: Path) -> None:
    document = vdla("check", saved, "--json").document()
    assert document["clean"] and not [f for f in document["findings"] if f["severity"] == "error"]
    outcome = vdla("check", saved)
    assert outcome.code == 0 and "nothing wrong" in outcome.err


def test_check_lists_every_finding(vdla, tmp_path: Path) -> None:
    vta = load_config("vta")
    load = {"dram_base": 600, "y_size": 1, "x_size": 1, "x_stride": 1}
    rows = [encode(vta, "LOAD.INP", **load), encode(vta, "LOAD.WGT", **load), encode(vta, "FINISH")]
    program, memory = tmp_path / "p.hex", tmp_path / "m.bin"
    program.write_text(hex_lines(np.array(rows, np.uint64)), encoding="utf-8")
    memory.write_bytes(bytes(4096))
    outcome = vdla("check", program, "--memory", memory, "--json")
    assert outcome.code == 2 and outcome.err == ""
    outcome = vdla("check", program, "--memory", memory)
    assert outcome.code == 2
    lines = outcome.err.splitlines()
    assert len(lines) == 2 and all(
        line.startswith(f"error: {program}: bounds: instruction") for line in lines
    )
    memory.write_bytes(bytes(600 * 256 + 256))
    assert vdla("check", program, "--memory", memory).code == 0

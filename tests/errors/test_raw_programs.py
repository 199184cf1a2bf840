"""Invalid raw programs: `vdla sim` names file and instruction, exits with code 2 or 3, and writes no files."""

from pathlib import Path

import numpy as np
import pytest

from vdla.isa.config import Config, load_config
from vdla.isa.layout import encode
from vdla.isa.program_file import hex_lines

VTA = load_config("vta")
Instruction = tuple[str, dict[str, int]]
FINISH: Instruction = ("FINISH", {})
LOAD = {"dram_base": 0, "y_size": 1, "x_size": 1, "x_stride": 1}


def hex_text(*instructions: Instruction, config: Config = VTA) -> str:
    rows = [encode(config, name, **values) for name, values in instructions]
    return hex_lines(np.array(rows, dtype=np.uint64))


@pytest.fixture
def sim(vdla, tmp_path: Path):
    def call(text: str | bytes, *options: str, memory: int = 8192):
        program, image, out = tmp_path / "prog.hex", tmp_path / "in.bin", tmp_path / "out.bin"
        program.write_bytes(text if isinstance(text, bytes) else text.encode())
        image.write_bytes(bytes(memory))
        before = set(tmp_path.iterdir())
        outcome = vdla("sim", "--insns", program, "--memory", image, "--memory-out", out, *options)
        if outcome.code:
            assert set(tmp_path.iterdir()) == before
        return outcome

    return call


@pytest.mark.parametrize("engine", ["cycle", "reference"])
@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("00000000000100010000000000000181\n", ["instruction 0", "needs the extension 'rows'"]),
        ("00000000000000000000000000000001\n", ["instruction 0", "STORE cannot have memory type 0"]),
        ("000000000000000000000000000003\n", ["prog.hex:1", "32 hexadecimal digits"]),
        (hex_text(FINISH) + "zz" * 16, ["prog.hex:2", "32 hexadecimal digits"]),
        (b"\xff\x00\x01", ["prog.hex", "not a text file"]),
        ("", ["no FINISH"]),
        (hex_text(("LOAD.INP", LOAD)), ["no FINISH"]),
        (hex_text(("LOAD.INP", {**LOAD, "dram_base": 512}), FINISH), ["instruction 0", "dram_base", "8192"]),
        (hex_text(("LOAD.INP", {**LOAD, "sram_base": 2048}), FINISH), ["instruction 0", "sram_base", "2048"]),
        (
            hex_text(("GEMM", {"uop_end": 9000, "iter_out": 1, "iter_in": 1}), FINISH),
            ["instruction 0", "uop"],
        ),
    ],
)
def test_invalid_programs_are_refused(sim, engine: str, text: str | bytes, parts: list[str]) -> None:
    message = sim(text, "--engine", engine).message()
    for part in parts:
        assert part in message


def test_missing_extension(sim, tmp_path: Path) -> None:
    config = tmp_path / "bare.toml"
    config.write_text('name = "bare"\nextensions = []\n', encoding="utf-8")
    text = hex_text(("STORE.POST", {"x_size": 1, "y_size": 1}), FINISH)
    message = sim(text, "--config", str(config)).message()
    assert "'post'" in message and "'bare'" in message and "extensions" in message


@pytest.mark.parametrize("engine", ["cycle", "reference"])
def test_deadlock_exits_3_and_names_who_waits_for_what(sim, engine: str) -> None:
    outcome = sim(hex_text(("GEMM", {"pop_prev": 1}), FINISH), "--engine", engine)
    assert outcome.code == 3 and outcome.out == ""
    assert outcome.err.count("\n") == 1
    for part in ("prog.hex", "compute waits at instruction 0", "token 1 of load->compute"):
        assert part in outcome.err


RACE = hex_text(
    ("LOAD.INP", LOAD),
    ("LOAD.UOP", LOAD),
    ("GEMM", {"uop_end": 1, "iter_out": 1, "iter_in": 1}),
    FINISH,
)


def test_race_names_both_instructions(sim) -> None:
    message = sim(RACE).message()
    assert "race" in message and "instruction 2 (GEMM" in message and "instruction 0 (LOAD.INP" in message
    assert "load->compute" in message


def test_race_may_be_allowed(sim) -> None:
    assert sim(RACE, "--allow-races", "--engine", "reference").code == 0


def test_allowing_races_allows_nothing_else(sim) -> None:
    text = hex_text(("LOAD.INP", {**LOAD, "dram_base": 512}), FINISH)
    assert "dram_base" in sim(text, "--allow-races").message()


def test_missing_files_are_named(vdla, tmp_path: Path) -> None:
    program = tmp_path / "prog.hex"
    message = vdla("sim", "--insns", program, "--memory", tmp_path / "in.bin").message()
    assert "prog.hex" in message
    program.write_text(hex_text(FINISH), encoding="utf-8")
    message = vdla("sim", "--insns", program, "--memory", tmp_path / "in.bin").message()
    assert "in.bin: cannot read the memory image" in message
    (tmp_path / "in.bin").write_bytes(b"")
    out = tmp_path / "missing" / "out.bin"
    message = vdla("sim", "--insns", program, "--memory", tmp_path / "in.bin", "--memory-out", out).message()
    assert "there is no directory" in message


def test_the_reference_has_no_timeline(sim, tmp_path: Path) -> None:
    message = sim(hex_text(FINISH), "--engine", "reference", "--timeline", str(tmp_path / "t")).message()
    assert "--engine cycle" in message

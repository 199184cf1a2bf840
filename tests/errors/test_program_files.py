"""Program files that are invalid or truncated."""

from pathlib import Path

import pytest

from vdla.isa.program_file import save_program
from vdla.verify.random_programs import random_config, random_program


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "random.vdla"
    save_program(random_program(random_config(3), 3), path)
    return path


@pytest.mark.parametrize("command", ["disasm", "check"])
@pytest.mark.parametrize("keep", [0.5, 0.99])
def test_truncated_binary(vdla, saved: Path, command: str, keep: float) -> None:
    content = saved.read_bytes()
    saved.write_bytes(content[: int(len(content) * keep)])
    message = vdla(command, saved).message()
    assert str(saved) in message and "truncated" in message


def test_foreign_bytes(vdla, tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n\xff\xff")
    assert "neither a program file nor text" in vdla("disasm", path).message()


def test_binary_brings_its_own_configuration(vdla, saved: Path) -> None:
    assert "leave out --config" in vdla("check", saved, "--config", "vta").message()


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("GEMN uop_end=1", ["p.txt:2", "GEMN"]),
        ("GEMM uop_edn=1", ["p.txt:2", "uop_edn", "uop_end"]),
        ("GEMM uop_end=99999", ["p.txt:2", "uop_end", "99999"]),
        ("LOAD.INP x_size=abc", ["p.txt:2", "x_size", "abc"]),
    ],
)
def test_assembly_mistakes_name_line_and_field(vdla, tmp_path: Path, line: str, parts: list[str]) -> None:
    source, out = tmp_path / "p.txt", tmp_path / "p.vdla"
    source.write_text(f"# a comment\n{line}\nFINISH\n", encoding="utf-8")
    message = vdla("asm", source, "-o", out).message()
    for part in parts:
        assert part in message
    assert not out.exists() and set(tmp_path.iterdir()) == {source}

"""Inconsistent configurations: each is refused in one line that states the reason and the change to make."""

from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("batch = 3", ["batch = 3", "power of two"]),
        ("batch = 16", ["batch = 16", "1, 2, 4 or 8"]),
        ("block_in = 256", ["block_in = 256", "64 or 128"]),
        ("block_in = 16.5", ["block_in = 16.5", "expected an integer"]),
        ("block_size = 16", ["unknown field block_size", "known are"]),
        ("inp_buffer_bytes = 100", ["inp_buffer_bytes = 100", "a multiple of 16", "96 and 112 are"]),
        ("par_buffer_bytes = 64", ["par_buffer_bytes = 64", "a multiple of 128, the bytes of one element"]),
        ("wgt_buffer_bytes = 256", ["wgt_buffer_bytes = 256", "at least two wgt elements of 256 bytes"]),
        ("acc_buffer_bytes = 16777216", ["acc_buffer_bytes", "16-bit sram_base", "at most"]),
        ("uop_buffer_bytes = 524288", ["uop_buffer_bytes = 524288", "16-bit sram_base", "at most 262144"]),
        ("load_fifo_bytes = 3000", ["load_fifo_bytes = 3000", "power of two"]),
        (
            "load_fifo_bytes = 1048576",
            ["load_fifo_bytes = 1048576", "at most 524288", "leave it out for 1024"],
        ),
        (
            'block_out = 32\nextensions = ["depthwise"]',
            ["depthwise needs block_in = block_out", "leave 'depthwise' out"],
        ),
        ("post_lanes = 3", ["post_lanes = 3", "power of two", "batch * block_out = 16", "leave it out"]),
        ("post_lanes = 32", ["post_lanes = 32", "from 1 to batch * block_out = 16"]),
        ("post_lanes = 0", ["post_lanes = 0", "from 1 to"]),
        ('extensions = ["dropout"]', ["'dropout' is unknown", "post, patch, depthwise"]),
        ("[memory]\nbus_bytes = 12", ["memory.bus_bytes = 12", "8, 16, 32 or 64"]),
        ("[memory]\nread_latency = 0", ["memory.read_latency = 0", "between 1 and"]),
        ("[memory]\nlatency = 1", ["unknown field memory.latency", "read_latency"]),
        ("batch = ", ["not valid TOML"]),
    ],
)
@pytest.mark.parametrize("command", ["config", "isa"])
def test_refused_with_the_reason(vdla, tmp_path: Path, command: str, text: str, parts: list[str]) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text, encoding="utf-8")
    message = (
        vdla("config", file).message() if command == "config" else vdla("isa", "--config", file).message()
    )
    assert str(file) in message
    for part in parts:
        assert part in message


def test_no_such_configuration_names_the_presets(vdla) -> None:
    message = vdla("config", "vtaa", "--json").message()
    assert "vtaa" in message and "vta, osdi18, edge8, tiny" in message


def test_binary_file_is_no_configuration(vdla, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_bytes(b"\xff\xfe\x00")
    assert "not UTF-8 text" in vdla("config", file).message()


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a = " + "[" * 100_000, "nested too deeply"),
        ("block_in = " + "9" * 5_000, "not valid TOML"),
        ("#" * 2**20 + "\n", "larger than"),
    ],
    ids=["nested", "digits", "size"],
)
def test_text_that_no_person_wrote_is_refused(vdla, tmp_path: Path, text: str, part: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text, encoding="utf-8")
    message = vdla("config", file).message()
    assert str(file) in message and part in message
    assert "/dev/zero" in vdla("config", "/dev/zero").message()

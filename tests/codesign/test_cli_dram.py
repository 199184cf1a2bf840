"""The commands on a machine whose memory is a DRAM, and mistakes in its description: one line and exit code 2."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import vdla as api
from vdla.codesign import models
from vdla.hw.harness.engine import simulate_rtl
from vdla.isa import dram_memory
from vdla.isa.config import Config, load_config
from vdla.isa.config_text import toml_text
from vdla.isa.errors import ProgramError
from vdla.isa.program import bare_program
from vdla.isa.program_text import from_text
from vdla.sim import simulate
from vdla.verify.cosim.dram import with_dram

TINY = load_config("tiny")
DDR3 = with_dram(TINY, 100, part="MT41K256M8")
SDR = with_dram(TINY, 100, part="MT48LC4M16", width=64)
SDR_BYTES = 32 << 20
TEXT = """\
.image {size}
LOAD.ACC dram_base=4 y_size=1 x_size=1 x_stride=1
ALU iter_out=1 iter_in=1 alu_opcode=MAX use_imm=1 imm=0 uop_end=1 push_next
STORE.OUT dram_base={last} y_size=1 x_size=1 x_stride=1 pop_prev
FINISH
"""
"""A program with an image of `size` bytes that stores an output vector at the index `last` of the image."""


def written(folder: Path, config: Config, *changes: tuple[str, str]) -> Path:
    """Writes the machine's TOML file to `folder`, with each (old text, new text) of `changes` replaced; returns its
    path.
    """
    text = toml_text(config)
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    path = folder / "machine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def program_text(size: int) -> str:
    return TEXT.format(size=size, last=size // TINY.out_bytes - 1)


def test_the_configuration_shows_the_part(vdla, tmp_path: Path) -> None:
    found = vdla("config", written(tmp_path, DDR3), "--json").document()
    memory = found["fields"]["memory"]
    assert memory["kind"] == "dram" and memory["part"] == "MT41K256M8"


@pytest.mark.system_tools("g++")
def test_cosim_runs_on_the_machine(vdla, tmp_path: Path) -> None:
    machine = written(tmp_path, DDR3)
    found = vdla("cosim", "--config", machine, "--programs", "4", "--jobs", "1", "--json").document()
    assert found["programs"] == 4 and found["mismatches"] == 0


@pytest.mark.system_tools("g++")
def test_a_network_takes_the_same_cycles_on_the_rtl(vdla, tmp_path: Path) -> None:
    model = tmp_path / "small_cnn.onnx"
    model.write_bytes(models.build("small_cnn").SerializeToString())
    machine = written(tmp_path, DDR3)
    on_simulator = vdla("run", model, "--config", machine, "--json").document()
    on_rtl = vdla("run", model, "--config", machine, "--engine", "rtl", "--json").document()
    fixed = vdla("run", model, "--config", "tiny", "--json").document()
    cycles = [found["total"]["cycles"] for found in (on_simulator, on_rtl, fixed)]
    assert cycles[0] == cycles[1] != cycles[2]


def test_a_run_prints_where_the_cycles_go(vdla, tmp_path: Path) -> None:
    model, program = tmp_path / "small_cnn.onnx", tmp_path / "small_cnn.vdla"
    model.write_bytes(models.build("small_cnn").SerializeToString())
    machine = written(tmp_path, DDR3)
    run = ("run", model, "--config", machine)
    found = vdla(*run, "--json", "--program-out", program).document()
    rows, cycles = found["rows"], found["total"]["cycles"]
    assert rows["beats"] + sum(rows["waits"].values()) == cycles
    assert vdla("sim", "--insns", program, "--json").document()["rows"] == rows
    line = f"DRAM: a word is read or written in {rows['beats'] / cycles:.1%} of the cycles; waits: refresh "
    for command in (run, ("sim", "--insns", program)):
        output = vdla(*command).out
        assert line in output and f"{rows['hit_rate']:.1%} in an open row; {rows['opened']:,} rows" in output


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("MT41K256M8", "MT41K256M9", "there is no DRAM part 'MT41K256M9'; give one of IS42S16160, "),
        ('"dram"', '"dram"\nwidth = 16', "give bus_bytes = 16, or another width of data lines"),
        (
            '"dram"',
            '"dram"\nwidth = 24',
            "MT41K256M8: width = 24: give 8, the data lines of one chip, or 2, 4 or 8 times as many",
        ),
        ('"dram"', '"dram"\nchannels = 3', "memory.channels = 3: must be a power of two, 1, 2, 4 or 8"),
        ("jitter = 0", "jitter = 5", "memory.jitter = 5: a DRAM has no random delays; leave it out"),
    ],
)
@pytest.mark.parametrize("command", ["config", "cosim", "run"])
def test_a_mistake_is_one_line(
    vdla, tmp_path: Path, command: str, before: str, after: str, message: str
) -> None:
    machine = written(tmp_path, DDR3, (before, after))
    words = {
        "config": ("config", machine),
        "cosim": ("cosim", "--config", machine),
        "run": ("run", tmp_path / "model.onnx", "--config", machine),
    }
    assert message in vdla(*words[command]).message()


@pytest.mark.parametrize("engine", ["cycle", "rtl"])
def test_a_program_that_the_part_cannot_hold_is_one_line(vdla, tmp_path: Path, engine: str) -> None:
    text = tmp_path / "large.asm"
    text.write_text(program_text(SDR_BYTES))
    found = vdla("sim", "--insns", text, "--config", written(tmp_path, SDR), "--engine", engine)
    assert found.message() == (
        f"error: {text}: the program needs 33,554,496 bytes of memory; MT48LC4M16 with 64 data lines has "
        "33,554,432: choose a larger part\n"
    )


@pytest.mark.parametrize("command", [("run",), ("compile", "--target", "vdla")], ids=["run", "compile"])
def test_a_network_that_the_part_cannot_hold_is_one_line(
    vdla, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    model = tmp_path / "mlp.onnx"
    model.write_bytes(models.build("mlp").SerializeToString())
    monkeypatch.setattr(dram_memory, "capacity", lambda config: 100_000)
    message = vdla(*command, model, "--config", written(tmp_path, DDR3)).message()
    assert "bytes of memory; MT41K256M8 with 8 data lines has 100,000: choose a larger part" in message


def test_both_engines_refuse_a_program_that_the_part_cannot_hold() -> None:
    program = from_text(program_text(SDR_BYTES), "large.asm", DDR3)
    with pytest.raises(ProgramError, match="choose a larger part"):
        simulate(SDR, program.instructions, program.image)
    with pytest.raises(ProgramError, match="choose a larger part"):
        simulate_rtl(SDR, program.instructions, program.image)
    with pytest.raises(ProgramError, match="choose a larger part"):
        bare_program(SDR, program.instructions, program.image)


@pytest.mark.system_tools("g++")
def test_a_program_that_fills_the_part_runs_on_both_engines() -> None:
    program = from_text(program_text(SDR_BYTES - 4096), "full.asm", SDR)
    simulated = simulate(SDR, program.instructions, program.image)
    rtl = simulate_rtl(SDR, program.instructions, program.image)
    assert rtl.cycles == simulated.cycles
    assert simulated.memory is not None
    np.testing.assert_array_equal(rtl.memory, simulated.memory)


def test_a_part_without_an_oracle_is_marked(vdla, tmp_path: Path) -> None:
    wide = TINY.with_memory(replace(TINY.memory, bus_bytes=32))
    machine = written(tmp_path, with_dram(wide, 100, part="LPDDR5-8Gb"))
    text = tmp_path / "small.asm"
    text.write_text(program_text(4096))
    found = vdla("sim", "--insns", text, "--config", machine)
    assert "no RTL confirms these cycles: LiteDRAM has no model of LPDDR5" in found.out
    cosim = ("cosim", "--config", machine, "--programs", "1", "--jobs", "1")
    refused = vdla(*cosim, "--dram", "litedram")
    assert refused.code == 2
    assert (
        "error: LPDDR5-8Gb: LiteDRAM has no model of LPDDR5 to run RTL with; leave out --dram" in refused.err
    )


@pytest.mark.campaign
@pytest.mark.system_tools("g++")
def test_a_part_without_an_oracle_runs_on_the_model(vdla, tmp_path: Path) -> None:
    wide = TINY.with_memory(replace(TINY.memory, bus_bytes=32))
    machine = written(tmp_path, with_dram(wide, 100, part="LPDDR5-8Gb"))
    text = tmp_path / "small.asm"
    text.write_text(program_text(4096))
    found = vdla("sim", "--insns", text, "--config", machine, "--engine", "rtl")
    assert found.code == 0
    assert "because LiteDRAM has no model of LPDDR5" in found.err


def test_the_option_for_the_memory_of_the_rtl_needs_rtl_and_a_dram(vdla, tmp_path: Path) -> None:
    text = tmp_path / "small.asm"
    text.write_text(program_text(4096))
    wrong = vdla("sim", "--insns", text, "--config", "tiny", "--dram", "model")
    assert (wrong.code, wrong.err.strip()) == (
        2, "error: --dram chooses the memory of the RTL; add --engine rtl",
    )  # fmt: skip
    fixed = vdla("cosim", "--config", "tiny", "--programs", "1", "--dram", "model")
    assert (fixed.code, fixed.err.strip()) == (
        2, "error: --dram model: no configuration given has a DRAM (given: tiny); leave out --dram",
    )  # fmt: skip


def test_a_run_tells_row_hits_of_each_layer_and_a_timeline_of_each_bank(vdla, tmp_path: Path) -> None:
    model = tmp_path / "small_cnn.onnx"
    model.write_bytes(models.build("small_cnn").SerializeToString())
    machine = written(tmp_path, DDR3)
    trace = tmp_path / "small.pftrace"
    found = vdla("run", model, "--config", machine, "--json", "--timeline", trace).document()
    hits = [layer["row_hits"] for layer in found["layers"]]
    assert all(0 < share < 1 for share in hits)
    # The whole run's rate is a mean of the layers' rates, by words.
    assert min(hits) < found["rows"]["hit_rate"] < max(hits)
    assert all(f"bank {number}".encode() in trace.read_bytes() for number in range(3))
    assert "row hits" in vdla("run", model, "--config", machine).out
    fixed = vdla("run", model, "--config", "tiny", "--json", "--timeline", trace).document()
    assert all("row_hits" not in layer for layer in fixed["layers"])
    assert b"bank 0" not in trace.read_bytes()


def test_a_run_tells_the_channels_apart(vdla, tmp_path: Path) -> None:
    model, trace = tmp_path / "small_cnn.onnx", tmp_path / "small.pftrace"
    model.write_bytes(models.build("small_cnn").SerializeToString())
    one, two = (with_dram(TINY, 100, part="MT41K256M8", channels=channels) for channels in (1, 2))
    machine = written(tmp_path, two)
    assert "channels = 2" in machine.read_text()
    found = vdla("run", model, "--config", machine, "--json", "--timeline", trace).document()
    rows, cycles = found["rows"], found["total"]["cycles"]
    assert [own["beats"] + sum(own["waits"].values()) for own in rows["channels"]] == [cycles, cycles]
    assert sum(own["beats"] for own in rows["channels"]) == rows["beats"]
    assert all(f"channel {number}, bank 0".encode() in trace.read_bytes() for number in range(2))
    output = vdla("run", model, "--config", machine).out
    for number, own in enumerate(rows["channels"]):
        assert (
            f"DRAM channel {number}: {own['beats']:,} bus words, {own['hit_rate']:.1%} in an open" in output
        )
    alone = vdla("run", model, "--config", written(tmp_path, one), "--json").document()
    assert "channels" not in alone["rows"] and cycles < alone["total"]["cycles"]
    assert dram_memory.capacity(two) == 2 * dram_memory.capacity(one)
    labels = api.simulate(api.compile(models.build("small_cnn"), config=two)).plot("banks").axes[0]
    assert labels.get_yticklabels()[0].get_text() == "channel 0, bank 0"


def test_a_study_varies_the_channels() -> None:
    fields = {"kind": ["dram"], "part": ["MT41K256M8"], "channels": [1, 2]}
    found = api.explore(
        {"base": "tiny", "fields": fields}, [models.build("small_cnn")], strategy="exhaustive", budget=2
    )
    one, two = sorted(found.rows(), key=lambda row: row["channels"])
    assert (one["channels"], two["channels"]) == (1, 2)
    # A second PHY and a router; standby of a second chip.
    assert two["area (mm2)"] - one["area (mm2)"] == pytest.approx(8 * 1.45 / 32 + 0.045, abs=0.01)
    assert two["energy (uJ)"] > one["energy (uJ)"] and two["cycles (cycles)"] < one["cycles (cycles)"]


def test_pictures_of_banks_and_rows() -> None:
    report = api.simulate(api.compile(models.build("small_cnn"), config=DDR3))
    banks = report.plot("banks", first=1000, last=3000).axes[0]
    assert banks.get_xlim() == (1000, 3000) and len(banks.get_yticklabels()) > 2
    rows = report.plot("rows").axes[0]
    assert report.network is not None
    assert [text.get_text() for text in rows.get_yticklabels()] == [
        layer.name for layer in report.network.layers
    ]
    for kind in ("banks", "rows"):
        with pytest.raises(api.UserError, match=f"tiny has no DRAM, so there are no {kind}"):
            api.simulate(api.compile(models.build("small_cnn"), config=TINY)).plot(kind)

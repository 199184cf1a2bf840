"""The commands `vdla rtl` and `vdla sim --engine rtl`."""

import json
import sys
from pathlib import Path

from vdla.hw.control import counter_address
from vdla.hw.counters import COUNTERS
from vdla.isa.config import load_config
from vdla.isa.config_text import toml_text
from vdla.verify.cosim.dram import with_dram

PROGRAM = """\
LOAD.INP y_size=2 x_size=3 x_stride=3 push_next
LOAD.UOP pop_prev y_size=1 x_size=2 x_stride=2
GEMM uop_end=2 iter_out=1 iter_in=1 push_next
STORE.OUT dram_base=64 y_size=1 x_size=1 x_stride=1 pop_prev
FINISH
"""


def test_files_of_a_configuration(vdla, tmp_path: Path) -> None:
    outcome = vdla("rtl", "--config", "tiny", "-o", tmp_path / "rtl", "--json")
    document = outcome.document()
    assert outcome.err.splitlines() == [
        "tiny: elaborating the RTL ...",
        "tiny: writing the Verilog (Yosys) ...",
    ]
    assert sorted(path.name for path in (tmp_path / "rtl").iterdir()) == [
        "vdla.h",
        "vdla.json",
        "vdla.v",
        "vdla.vlt",
    ]
    text = (tmp_path / "rtl" / "vdla.v").read_text()
    assert "module vdla(" in text
    stored = json.loads((tmp_path / "rtl" / "vdla.json").read_text())
    assert stored["digest"] == load_config("tiny").digest == document["digest"]
    assert stored["counters"] == {name: counter_address(name) for name in COUNTERS}
    for port in stored["ports"]:
        assert port["name"] in text
    widths = {port["name"]: port["width"] for port in stored["ports"]}
    assert widths["axi_rdata"] == 8 * load_config("tiny").memory.bus_bytes


def test_a_dram_with_channels_has_the_file_of_a_router(vdla, tmp_path: Path) -> None:
    machine = tmp_path / "machine.toml"
    two = with_dram(load_config("tiny"), 100, part="MT41K256M8", channels=2)
    machine.write_text(toml_text(two), encoding="utf-8")
    assert vdla("rtl", "--config", machine, "-o", tmp_path / "rtl").code == 0
    text = (tmp_path / "rtl" / "axi_router.v").read_text()
    assert "module axi_router(" in text and "channel_1_arvalid" in text and "channel_2_" not in text


def test_the_rtl_and_the_simulator_print_the_same(vdla, tmp_path: Path) -> None:
    (tmp_path / "p.asm").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "in.bin").write_bytes(bytes(range(256)) * 16)
    assert vdla("asm", tmp_path / "p.asm", "--config", "tiny", "-o", tmp_path / "p.hex").code == 0
    documents, memories = [], []
    for engine in ("cycle", "rtl"):
        out = tmp_path / f"{engine}.bin"
        arguments = ["--insns", tmp_path / "p.hex", "--memory", tmp_path / "in.bin", "--memory-out", out]
        document = vdla("sim", "--config", "tiny", *arguments, "--engine", engine, "--json").document()
        assert document.pop("engine") == engine
        documents.append(document)
        memories.append(out.read_bytes())
    assert documents[0] == documents[1]
    assert memories[0] == memories[1]


def test_a_timeline_is_the_simulators(vdla, tmp_path: Path) -> None:
    message = vdla(
        "sim", "--insns", "p.hex", "--memory", "m.bin", "--engine", "rtl", "--timeline", tmp_path / "t"
    ).message()
    assert "--engine cycle" in message


def test_a_missing_extra_says_what_to_install(vdla, tmp_path: Path, monkeypatch) -> None:
    for name in [
        name
        for name in sys.modules
        if name.split(".")[0] == "amaranth" or name.startswith(("vdla.hw", "vdla.codesign.rtl_files"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "amaranth", None)
    message = vdla("rtl", "--config", "tiny", "-o", tmp_path / "rtl").message()
    assert 'pip install "vdla[rtl]"' in message
    assert not (tmp_path / "rtl").exists()

import json
from pathlib import Path

import onnx
import pytest

from vdla.isa.config import PRESETS, load_config


@pytest.mark.parametrize("name", PRESETS)
def test_config_lists_what_follows_and_what_it_costs(vdla, name: str) -> None:
    document = vdla("config", name, "--json").document()
    machine = load_config(name)
    assert document["config"] == name and document["digest"] == machine.digest
    assert document["derived"]["multiplies_per_cycle"] == machine.multiplies_per_cycle
    assert document["derived"]["acc_depth"] == machine.acc_depth
    assert document["extra_storage_total"] == sum(machine.extra_storage.values())
    blocks = {block["name"]: block for block in document["blocks"]}
    assert set(blocks) == {"gemm array", *machine.extensions}
    assert blocks["gemm array"]["multipliers"] == machine.multiplies_per_cycle
    assert blocks["post"]["multipliers"] == 3 * blocks["post"]["lanes"]
    assert blocks["post"]["lanes"] * document["derived"]["post_passes"] == machine.out_bytes
    assert blocks["post"]["lanes"] == (machine.post_lanes or machine.out_bytes)
    assert all(block["ports"] for block in blocks.values())


def test_config_says_which_extensions_the_shape_chose(vdla, tmp_path: Path) -> None:
    wide = tmp_path / "wide.toml"
    wide.write_text('name = "wide"\nblock_in = 8\nblock_out = 32\n')
    document = vdla("config", wide, "--json").document()
    assert document["fields"]["extensions"] == ["post", "patch", "depthwise", "taps"]
    assert document["derived"]["extensions_are"] == "chosen for the shape"
    assert "chosen for the shape" in vdla("config", wide).out
    assert vdla("config", "vta", "--json").document()["derived"]["extensions_are"] == "named"


def test_extra_storage_is_all_in_some_part(vdla) -> None:
    document = vdla("config", "vta", "--json").document()
    of_blocks = sum(block["storage_bytes"] for block in document["blocks"])
    names = ("command queues", "fetch buffer", "load FIFO", "compute FIFO", "store FIFO", "stores in flight")
    assert of_blocks + sum(document["extra_storage"][n] for n in names) == document["extra_storage_total"]


def test_extensions_left_out_cost_nothing(vdla, tmp_path: Path) -> None:
    file = tmp_path / "bare.toml"
    file.write_text('name = "bare"\nextensions = []\n', encoding="utf-8")
    document = vdla("config", file, "--json").document()
    assert document["config"] == "bare"
    assert [block["name"] for block in document["blocks"]] == ["gemm array"]


def test_config_for_people_shows_the_same_values(vdla) -> None:
    outcome = vdla("config", "tiny")
    assert outcome.code == 0
    for word in ("memory.read_latency", "acc_depth", "parameter table", "gemm array", "24 x 24"):
        assert word in outcome.out


NARROW = 'name = "narrow"\nload_fifo_bytes = 1024\n[memory]\nbus_bytes = 64\noutstanding_reads = 1\n'
WARNING = ("load_fifo_bytes = 1024", "8192 would suffice", "memory.outstanding_reads = 1", "2 would suffice")


def test_a_configuration_that_starves_its_bus_gets_one_warning(vdla, tmp_path: Path) -> None:
    file = tmp_path / "narrow.toml"
    file.write_text(NARROW, encoding="utf-8")
    warnings = vdla("config", file, "--json").document()["warnings"]
    (line,) = [line for line in vdla("config", file).out.splitlines() if line.startswith("warning: ")]
    assert line == f"warning: {'; '.join(warnings)}"
    for part in WARNING:
        assert part in line
    for preset in PRESETS:
        assert vdla("config", preset, "--json").document()["warnings"] == []


def test_run_reports_the_warning(vdla, tmp_path: Path) -> None:
    file, net = tmp_path / "narrow.toml", tmp_path / "net.onnx"
    file.write_text(NARROW, encoding="utf-8")
    assert vdla("models", "mlp", "-o", net).code == 0
    document = vdla("run", net, "--config", file, "--timing-only", "--json").document()
    assert len(document["warnings"]) == 2
    out = vdla("run", net, "--config", file, "--timing-only").out
    (line,) = [line for line in out.splitlines() if line.startswith("warning: ")]
    for part in WARNING:
        assert part in line


@pytest.mark.parametrize("kind", ["--header", "--markdown"])
def test_isa_prints_the_reference(vdla, kind: str) -> None:
    outcome = vdla("isa", "--config", "tiny", kind)
    assert outcome.code == 0 and "GEMM" in outcome.out
    document = vdla("isa", "--config", "tiny", kind, "--json").document()
    assert document["text"].strip() == outcome.out.strip()


def test_models_writes_a_model(vdla, tmp_path: Path) -> None:
    file = tmp_path / "net.onnx"
    document = vdla("models", "mlp", "--form", "qop", "--batch", "2", "-o", file, "--json").document()
    assert document["bytes"] == file.stat().st_size
    model = onnx.load(file)
    onnx.checker.check_model(model)
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 2
    first = file.read_bytes()
    assert vdla("models", "mlp", "--form", "qop", "--batch", "2", "-o", file).code == 0
    assert file.read_bytes() == first
    assert vdla("models", "mlp", "--form", "qop", "--batch", "2", "--seed", "1", "-o", file).code == 0
    assert file.read_bytes() != first


def test_help_names_every_command(vdla) -> None:
    outcome = vdla("--help")
    assert outcome.code == 0
    for command in ("run", "demo", "models", "sim", "asm", "disasm", "check", "isa", "config"):
        assert command in outcome.out
        assert vdla(command, "--help").code == 0


def test_json_is_one_object(vdla) -> None:
    out = vdla("config", "vta", "--json").out
    assert isinstance(json.loads(out), dict)

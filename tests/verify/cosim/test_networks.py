"""Networks whose programs are mutated in co-simulation: they use all features of their machines."""

import pytest

from vdla.compiler.codegen.vdla import link
from vdla.isa.config import Config
from vdla.isa.decoding import decode_one, format_names
from vdla.isa.registers import REGISTERS
from vdla.verify.cosim.machines import default_machines
from vdla.verify.cosim.networks import compiled

MACHINES = {machine.name: machine for machine in default_machines()}
WHOLE = MACHINES["8x8, 2 folds, every extension and chain memory"]
SHAPE = next(item for item in REGISTERS if item.name == "FOLD")


def instructions(config: Config, source: str) -> list[tuple[str, dict[str, int]]]:
    program = compiled(config, source, 2)
    assert program is not None
    return [decode_one(config, *words) for words in program.instructions.tolist()]


def test_blocks_fold_sweep_and_write_pads_ahead(monkeypatch: pytest.MonkeyPatch):
    compiled.cache_clear()
    found: list[int] = []
    pads_ahead = link.pads_ahead

    def counted(*arguments: object):
        ahead = pads_ahead(*arguments)  # type: ignore[arg-type]
        found.extend(len(item) for item in ahead)
        return ahead

    monkeypatch.setattr(link, "pads_ahead", counted)
    made = instructions(WHOLE, "blocks")
    assert sum(found) == 2  # of each block's expanded channels
    registers = [values for name, values in made if name == "CONFIG"]
    shapes = {
        item["value"] for item in registers if (item["unit"], item["register"]) == (SHAPE.unit, SHAPE.index)
    }
    assert 1 in shapes
    assert "TAPS" in [name for name, _ in made]
    assert {values.get("chain", 0) for name, values in made if name == "STORE.POST"} == {0, 1}


def test_attention_is_one_kernel_with_a_chain_memory_and_three_without():
    program = compiled(WHOLE, "attention", 2)
    assert program is not None and len(program.groups) == 1
    assert {"ROWS", "GEMM", "STORE.POST"} <= set(format_names(program.instructions))
    program = compiled(MACHINES["4x4, rows in two passes"], "attention", 2)
    assert program is not None and len(program.groups) == 3


def test_machines_without_rows_or_a_square_array_have_no_attention():
    for name in ("tiny", "4x8, 512-bit bus, look-up tables, chain memory and taps"):
        assert compiled(MACHINES[name], "attention", 2) is None

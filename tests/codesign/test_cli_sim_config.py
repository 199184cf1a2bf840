"""`vdla sim --config`: names the machine for a program file that contains none; refused for a program file that
contains its machine.
"""

from pathlib import Path

from vdla.isa.config import load_config
from vdla.isa.program_file import save_program
from vdla.isa.program_text import from_text

TEXT = """\
.image 4096
.data 0x40 f6fffffff7fffffff8fffffff9fffffffafffffffbfffffffcfffffffdffffff00000000010000000200000003000000
LOAD.UOP dram_base=0 y_size=1 x_size=1 x_stride=1
LOAD.ACC dram_base=4 y_size=1 x_size=1 x_stride=1
ALU uop_end=1 iter_out=1 iter_in=1 dst_factor_in=1 src_factor_in=1 alu_opcode=MAX use_imm=1 imm=0 push_next
STORE.OUT dram_base=64 y_size=1 x_size=1 x_stride=1 pop_prev
FINISH
"""


def test_a_text_runs_on_the_machine_that_is_named(vdla, tmp_path: Path) -> None:
    text = tmp_path / "relu.asm"
    text.write_text(TEXT)
    found = {
        name: vdla("sim", "--insns", text, "--config", name, "--json").document() for name in ("tiny", "vta")
    }
    assert [document["config"] for document in found.values()] == ["tiny", "vta"]
    assert found["tiny"]["cycles"] != found["vta"]["cycles"]
    assert vdla("sim", "--insns", text, "--json").document() == found["vta"]


def test_a_machine_that_does_not_exist_is_refused(vdla, tmp_path: Path) -> None:
    text = tmp_path / "relu.asm"
    text.write_text(TEXT)
    assert "nosuch" in vdla("sim", "--insns", text, "--config", "nosuch").message()


def test_a_machine_with_separate_data_channels_is_named_by_a_field(vdla, tmp_path: Path) -> None:
    text, machine = tmp_path / "relu.asm", tmp_path / "machine.toml"
    text.write_text(TEXT)
    machine.write_text('[memory]\ndata_channels = "separate"\n')
    assert vdla("sim", "--insns", text, "--config", machine, "--json").document()["cycles"] > 0
    machine.write_text('[memory]\ndata_channels = "seperate"\n')
    line = vdla("sim", "--insns", text, "--config", machine).message()
    assert "memory.data_channels = 'seperate': give 'shared' or 'separate'" in line


def test_a_program_that_holds_its_machine_takes_no_other(vdla, tmp_path: Path) -> None:
    program = tmp_path / "relu.vdla"
    save_program(from_text(TEXT, "relu.asm", load_config("tiny")), program)
    assert vdla("sim", "--insns", program, "--json").document()["config"] == "tiny"
    assert "contains its own configuration" in vdla("sim", "--insns", program, "--config", "vta").message()

"""Custom instructions: encoding, text, reference, checker, digests and files of machines that have them."""

from __future__ import annotations

import pickle
import sys
from dataclasses import replace

import numpy as np
import pytest
from own_instruction import XOR

from vdla.isa.alu import alu_codes
from vdla.isa.assembler import assemble, disassemble
from vdla.isa.check import check
from vdla.isa.config import Config, load_config, parse_config
from vdla.isa.config_text import toml_text
from vdla.isa.custom import MOST_CUSTOM, AluInstruction, find_instruction
from vdla.isa.describe import c_header, markdown
from vdla.isa.errors import ConfigError, EncodingError, ProgramError
from vdla.isa.program import bare_program
from vdla.isa.program_file import load_program, save_program
from vdla.isa.reference import run_reference
from vdla.sim import simulate

TINY = load_config("tiny")
NARROW = replace(XOR, name="NARROW", immediates=(0, 7), cycles=3)
MACHINE = replace(TINY, name="own", instructions=(XOR, NARROW))
TEXT = """LOAD.UOP y_size=1 x_size=1 x_stride=1
LOAD.ACC dram_base=4 y_size=1 x_size=8 x_stride=8
ALU uop_end=1 iter_out=1 iter_in=8 dst_factor_in=1 src_factor_in=1 alu_opcode=XOR use_imm=1 imm=-3
FINISH
"""


def program() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    values = np.random.default_rng(0).integers(-(2**31), 2**31, (8, 1, 4), np.int32)
    image = np.zeros(4096, np.uint8)
    image[4 * TINY.acc_bytes :][: values.nbytes] = values.view(np.uint8).ravel()
    return assemble(TEXT, MACHINE), image, values


def test_codes_follow_those_of_every_machine():
    assert [(code.name, code.value) for code in alu_codes(MACHINE)][-2:] == [("XOR", 6), ("NARROW", 7)]
    assert [code.name for code in alu_codes(TINY)] == [code.name for code in alu_codes(MACHINE)][:-2]


def test_text_and_documents_name_them():
    words = assemble(TEXT, MACHINE)
    assert disassemble(words, MACHINE) == TEXT
    assert "alu_opcode=6" in disassemble(words, TINY)
    with pytest.raises(EncodingError, match="alu_opcode=XOR: expected one of MIN"):
        assemble(TEXT, TINY)
    assert "#define VDLA_ALU_XOR 6" in c_header(MACHINE) and "XOR 6, NARROW 7" in markdown(MACHINE)
    assert "XOR" not in c_header(TINY)


def test_reference_and_simulator_compute_them():
    words, image, values = program()
    expected = (values ^ -3).ravel()
    for run in (run_reference(MACHINE, words, image).acc, simulate(MACHINE, words, image).scratchpads.acc):
        np.testing.assert_array_equal(run[:8].ravel(), expected)


def test_machines_without_them_refuse_the_opcode():
    words, image, _ = program()
    (finding,) = check(TINY, words, image)
    assert "alu_opcode 6 is unknown; known are 0 MIN" in finding.message
    for run in (run_reference, simulate):
        with pytest.raises(ProgramError, match="instruction 2"):
            run(TINY, words, image)


@pytest.mark.parametrize(("immediate", "problems"), [(7, 0), (8, 1), (-1, 1)])
def test_immediates_outside_the_range_are_refused(immediate: int, problems: int):
    words = assemble(TEXT.replace("XOR", "NARROW").replace("imm=-3", f"imm={immediate}"), MACHINE)
    findings = check(MACHINE, words, np.zeros(4096, np.uint8))
    assert len(findings) == problems
    assert not problems or f"imm = {immediate}: NARROW takes immediates from 0 to 7" in findings[0].message


def test_digests_depend_on_the_definition():
    assert replace(MACHINE, instructions=()).digest == TINY.digest != MACHINE.digest
    slower = replace(MACHINE, instructions=(replace(XOR, cycles=2), NARROW))
    assert slower.digest != MACHINE.digest == replace(MACHINE, name="another").digest


def test_files_name_them_by_module(tmp_path):
    words, image, _ = program()
    machine = replace(TINY, instructions=(XOR,))
    assert parse_config(toml_text(machine), "text") == machine
    assert parse_config(toml_text(TINY), "text") == TINY and "instructions" not in toml_text(TINY)
    path = tmp_path / "program.npz"
    save_program(bare_program(machine, words, image), path)
    assert load_program(path).config == machine
    assert pickle.loads(pickle.dumps(machine)) == machine


def test_a_file_imports_nothing(monkeypatch):
    text = 'instructions = ["own_instruction:XOR"]'
    monkeypatch.delitem(sys.modules, "own_instruction")
    with pytest.raises(
        ConfigError, match="machine: instructions: 'own_instruction:XOR': module 'own_instruction' is not "
    ):
        parse_config(text, "machine")
    assert "own_instruction" not in sys.modules


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("own_instruction", 'expected "module:NAME"'),
        ("own_instruction:AND", "module 'own_instruction' has no instruction 'AND'; it has XOR"),
        ("no_such_module:AND", "give the command the option --import no_such_module"),
    ],
)
def test_unknown_references_are_refused(reference: str, message: str):
    with pytest.raises(ConfigError, match=message):
        find_instruction(reference)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"name": "xor"}, "expected a name of capital letters"),
        ({"name": "X Y"}, "expected a name of capital letters"),
        ({"name": "ADD"}, "every machine's ALU has this operation"),
        ({"cycles": 0}, "cycles = 0: must be 1 to 16"),
        ({"cycles": 17}, "cycles = 17: must be 1 to 16"),
        ({"immediates": (3, 2)}, r"immediates = \(3, 2\)"),
        ({"immediates": (0, 1 << 15)}, "both -32768 to 32767"),
        ({"compute": 3}, "compute = 3: must be a function of two operands"),
        ({"rtl": None}, "rtl = None: must be a class of an Amaranth component"),
    ],
)
def test_wrong_instructions_are_refused(values: dict[str, object], message: str):
    with pytest.raises(ConfigError, match=message):
        replace(XOR, **values)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("instructions", "message"),
    [
        ((XOR, replace(XOR, cycles=2)), "two have the name XOR"),
        (tuple(replace(XOR, name=f"N{k}") for k in range(MOST_CUSTOM + 1)), f"room for {MOST_CUSTOM}"),
        ((3,), "expected a tuple of vdla.AluInstruction"),
        ([XOR], "expected a tuple of vdla.AluInstruction"),
    ],
)
def test_wrong_lists_of_instructions_are_refused(instructions: tuple[AluInstruction, ...], message: str):
    with pytest.raises(ConfigError, match=message):
        replace(TINY, instructions=instructions)


@pytest.mark.parametrize("value", ['"XOR"', "[1]", "{}"])
def test_wrong_lists_in_files_are_refused(value: str):
    with pytest.raises(ConfigError, match='expected a list of names as "module:NAME"'):
        parse_config(f"instructions = {value}", "machine")


def test_the_default_is_none():
    assert Config().instructions == ()

"""Widths of micro-ops and instructions follow from the configuration; VTA's widths are used wherever they suffice."""

from dataclasses import replace

import numpy as np
import pytest

from vdla.isa.assembler import assemble, assemble_uops, disassemble_uops
from vdla.isa.check import check
from vdla.isa.config import PRESETS, Config, load_config
from vdla.isa.decoding import decode_uops
from vdla.isa.describe import c_header, markdown
from vdla.isa.errors import EncodingError, ProgramError
from vdla.isa.layout import encode_uops, formats, uop_dtype, uop_fields
from vdla.isa.program import bare_program
from vdla.isa.program_file import from_bytes, hex_lines, read_hex, to_bytes
from vdla.isa.program_text import from_text, to_text
from vdla.verify.random_programs import random_config

KIB = 1024


def machine(acc: int, inp: int, wgt: int, uop: int = 7) -> Config:
    """A 4x4 configuration whose scratchpads of accumulators, inputs, weights and micro-ops need indices of these widths
    in bits.
    """
    size = 4 if acc + inp + wgt <= 32 else 8
    return Config(
        block_in=4,
        block_out=4,
        acc_buffer_bytes=16 << acc,
        inp_buffer_bytes=4 << inp,
        wgt_buffer_bytes=16 << wgt,
        uop_buffer_bytes=size << uop,
    )


WIDE = machine(12, 12, 12)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_have_vtas_widths(name: str):
    config = load_config(name)
    assert (config.instruction_bytes, config.uop_bytes) == (16, 4)


@pytest.mark.parametrize(
    ("bits", "instruction", "uop"),
    [
        ((11, 11, 10, 13), 16, 4),  # all that 128 bits hold
        ((11, 11, 11, 7), 32, 8),
        ((11, 12, 4, 7), 32, 4),  # the factors of an ALU instruction
        ((11, 11, 4, 14), 32, 4),  # its loops
        ((16, 16, 16, 16), 32, 8),
    ],
)
def test_the_least_widths_that_hold_all_indices(bits: tuple[int, int, int, int], instruction: int, uop: int):
    config = machine(*bits)
    assert (config.instruction_bytes, config.uop_bytes) == (instruction, uop)
    assert config.uop_depth == 1 << bits[3]


@pytest.mark.parametrize(
    "config", [WIDE, machine(16, 16, 16, 16), machine(16, 16, 1), *map(random_config, range(40))]
)
def test_fields_have_bits_of_their_own_within_a_word(config: Config):
    for layout in formats(config).values():
        taken: set[int] = set()
        for item in layout.fields:
            assert item.low // 64 == item.high // 64 < config.instruction_words, (layout.name, item)
            bits = set(range(item.low, item.high + 1))
            assert not taken & bits, (layout.name, item)
            taken |= bits
    assert uop_fields(config)[-1].high < 8 * config.uop_bytes


def test_where_fields_lie_in_256_bits():
    """Instructions of 256 bits differ from those of 128 bits only in the places of the factors of GEMM and ALU, as
    isa/README.md states. The factors begin at bit 128, and a field that would cross a 64-bit word begins at the next
    word.
    """
    narrow, wide, widest = (formats(item) for item in (machine(11, 11, 10), WIDE, machine(16, 16, 16, 16)))
    for name in ("LOAD.INP", "STORE.POST", "CONFIG", "FINISH"):
        assert narrow[name] == wide[name] == widest[name]
    assert [item.low for item in narrow["GEMM"].fields[-6:]] == [64, 75, 86, 97, 108, 118]
    assert [item.low for item in wide["GEMM"].fields[-6:]] == [128, 140, 152, 164, 176, 192]
    for name in ("alu_opcode", "use_imm", "imm"):
        assert narrow["ALU"].field(name) == wide["ALU"].field(name) == widest["ALU"].field(name)
    # GEMM and ALU have loops and factors in the same places: the RTL reads them once.
    for name in ("uop_end", "iter_in", "dst_factor_in", "src_factor_out"):
        assert widest["GEMM"].field(name) == widest["ALU"].field(name)
    assert widest["GEMM"].field("iter_in").low == 64


def test_programs_of_wide_instructions_round_trip(tmp_path):
    text = "LOAD.UOP y_size=1 x_size=2 x_stride=2\nGEMM uop_end=2 iter_out=1 iter_in=1 wgt_factor_in=4095\nFINISH\n"
    words = assemble(text, WIDE)
    program = bare_program(WIDE, words, np.zeros(64, np.uint8))
    assert from_bytes(to_bytes(program), "x") == from_text(to_text(program), "x") == program
    assert check(WIDE, words, program.image) == []
    path = tmp_path / "p.hex"
    path.write_text(hex_lines(words))
    assert np.array_equal(read_hex(path, WIDE), words)
    with pytest.raises(ProgramError, match="expected 32 hexadecimal digits"):
        read_hex(path, load_config("vta"))
    path.write_text("0" * 32)
    with pytest.raises(
        ProgramError, match="expected 64 hexadecimal digits, as instructions of configuration"
    ):
        read_hex(path, WIDE)
    with pytest.raises(EncodingError, match="expected 64 hexadecimal digits"):
        assemble(".word 00", WIDE)


def test_micro_ops_of_64_bits_round_trip():
    columns = [np.array([0, 4095]), np.array([4095, 1]), np.array([7, 4095])]
    words = encode_uops(WIDE, *columns)
    assert words.dtype == uop_dtype(WIDE) == np.uint64
    assert all(np.array_equal(*pair) for pair in zip(decode_uops(WIDE, words), columns, strict=True))
    assert np.array_equal(assemble_uops(disassemble_uops(words, WIDE), WIDE), words)


def test_documents_say_how_wide_they_are():
    assert "256 bits, four little-endian" in markdown(WIDE) and "begin at bit 128" in markdown(WIDE)
    assert "uint64_t word[4];" in c_header(WIDE) and "{{0, 0, 0, 0}}" in c_header(WIDE)
    assert "#define VDLA_INSTRUCTION_BYTES 32" in c_header(WIDE) and "#define VDLA_UOP_BYTES 8" in c_header(
        WIDE
    )


def test_a_program_has_the_words_of_its_configuration():
    with pytest.raises(ProgramError, match=r"expected uint64 of \(1, 4\)"):
        bare_program(WIDE, assemble("FINISH", load_config("tiny")))
    assert replace(WIDE, uop_buffer_bytes=64 * KIB).instruction_bytes == 32

import numpy as np
import pytest
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.isa.assembler import (
    assemble,
    assemble_uops,
    disassemble,
    disassemble_uops,
    format_of,
    instruction_text,
)
from vdla.isa.config import load_config
from vdla.isa.decoding import decode_one, format_names
from vdla.isa.errors import EncodingError
from vdla.isa.fields import extract
from vdla.isa.layout import encode, encode_many, encode_uops, formats, uop_dtype
from vdla.isa.registers import REGISTERS, register_at, register_value
from vdla.verify.random_programs import random_config, random_program

VTA = load_config("vta")
configs = st.integers(0, 50).map(random_config) | st.sampled_from(["vta", "osdi18", "edge8", "tiny"]).map(
    load_config
)


@st.composite
def instructions(draw):
    """Draws (configuration, name of an instruction format, a value for each of its free fields)."""
    config = draw(configs)
    name = draw(st.sampled_from(sorted(formats(config))))
    values = {
        item.name: draw(st.integers(item.minimum, item.maximum))
        for item in formats(config)[name].fields
        if item.name not in ("opcode", "memory_type")
    }
    return config, name, values


@given(instructions())
@settings(max_examples=examples(400), deadline=None)
def test_encode_decode_and_text_round_trip_for_every_format(case):
    config, name, values = case
    row = encode(config, name, **values)
    decoded_name, decoded = decode_one(config, *row)
    assert decoded_name == name
    assert {key: decoded[key] for key in values} == values
    words = np.array([row], np.uint64)
    text = disassemble(words, config)
    assert not text.startswith(".word")
    assert np.array_equal(assemble(text, config), words)


@given(instructions())
@settings(max_examples=examples(200), deadline=None)
def test_vectorised_encoder_equals_the_scalar_one(case):
    config, name, values = case
    columns = {
        key: np.array([value] * 3, np.uint64 if key == "value" else np.int64) for key, value in values.items()
    }
    words = encode_many(config, name, columns)
    assert words.tolist() == [list(encode(config, name, **values))] * 3
    assert format_names(words) == [name] * 3
    for item in formats(config)[name].fields:
        if item.name in values:
            assert extract(words, item).tolist() == [values[item.name]] * 3


@given(configs, st.lists(st.integers(0, 2**64 - 1), min_size=4, max_size=4))
@settings(max_examples=examples(400), deadline=None)
def test_any_word_at_all_round_trips(config, row):
    words = np.array([row[: config.instruction_words]], np.uint64)
    assert np.array_equal(assemble(disassemble(words, config), config), words)


@given(st.sampled_from(REGISTERS), st.data())
def test_register_values_round_trip_with_their_names(item, data):
    values = {part.name: data.draw(st.integers(part.minimum, part.maximum)) for part in item.fields}
    word = register_value(item.name, **values)
    low, high = encode(VTA, "CONFIG", unit=item.unit, register=item.index, value=word)
    text = instruction_text(VTA, low, high)
    assert text.startswith(f"CONFIG {item.name}")
    assert assemble(text, VTA).tolist() == [[low, high]]
    assert register_at(item.unit, item.index) == item


@given(configs, st.lists(st.integers(0, 2**64 - 1), max_size=5))
@settings(deadline=None)
def test_micro_ops_round_trip(config, words):
    array = np.array(words, np.uint64).astype(uop_dtype(config))
    assert np.array_equal(assemble_uops(disassemble_uops(array, config), config), array)


def test_whole_random_programs_round_trip():
    for seed in range(5):
        config = random_config(seed)
        words = random_program(config, seed).instructions
        assert np.array_equal(assemble(disassemble(words, config), config), words)


def test_text_is_what_the_manual_shows():
    text = "GEMM uop_end=36 iter_out=14 iter_in=1 overwrite=1 dst_factor_out=1 pop_prev push_next"
    (row,) = assemble(f"# a comment\n\n{text}  # another", VTA)
    assert instruction_text(VTA, *row.tolist()) == text
    line = "CONFIG RATIO ratio_self=0.125 ratio_operand=1e-05"
    (row,) = assemble(line, VTA)
    assert instruction_text(VTA, *row.tolist()) == line
    assert decode_one(VTA, *row.tolist())[1]["value"] == 0x3727C5AC3E000000


def test_format_of_knows_what_is_no_instruction():
    assert format_of(VTA, 1) is None  # STORE to micro-op memory


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("GEMN", ["no instruction 'GEMN'", "GEMM", "LOAD.PATCH"]),
        ("GEMM uop_bgn=9000", ["uop_bgn = 9000", "0..8191"]),
        ("GEMM colour=1", ["no field 'colour'", "uop_bgn"]),
        ("GEMM uop_bgn", ["'uop_bgn' is not a field or flag", "push_next"]),
        ("GEMM uop_bgn=x", ["uop_bgn=x", "integer"]),
        ("GEMM uop_bgn=1 uop_bgn=2", ["uop_bgn is given twice"]),
        ("GEMM opcode=1", ["no field 'opcode'"]),
        ("ALU alu_opcode=DIV", ["alu_opcode=DIV", "MIN, MAX"]),
        ("CONFIG BASIS", ["no configuration register 'BASIS'", "WINDOW"]),
        ("CONFIG BASE sum=1", ["CONFIG BASE has no field 'sum'", "acc_base"]),
        ("CONFIG RATIO ratio_self=big", ["ratio_self=big", "float"]),
        (".word 12", [".word", "32 hexadecimal"]),
    ],
)
def test_errors_name_line_field_and_what_is_allowed(line, parts):
    with pytest.raises(EncodingError) as error:
        assemble(f"FINISH\n{line}", VTA, "prog.s")
    assert str(error.value).startswith("prog.s:2: ")
    for part in parts:
        assert part in str(error.value)


@pytest.mark.parametrize("line", ["UOP dst=99999", "UOP x=1", "MOP dst=1", "UOP dst", ".word xyz"])
def test_micro_op_errors_name_the_line(line):
    with pytest.raises(EncodingError, match="micro-ops:1: "):
        assemble_uops(line, VTA)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint64])
def test_vectorised_encoder_names_the_value_that_does_not_fit(dtype):
    columns = {"x_size": np.array([1, 70000, 2], dtype)}
    with pytest.raises(
        EncodingError, match=r"LOAD.INP number 1: x_size = 70000 does not fit 16 bits \(0..65535\)"
    ):
        encode_many(VTA, "LOAD.INP", columns)
    with pytest.raises(EncodingError, match=r"micro-op: src index -1 does not fit 11 bits \(0..2047\)"):
        encode_uops(VTA, np.array([0]), np.array([-1]), np.array([0]))

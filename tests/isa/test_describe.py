import shutil
import subprocess

import numpy as np
import pytest

from vdla.isa.config import load_config
from vdla.isa.control_registers import COUNTERS_AT, REGISTERS, STATUS_BITS
from vdla.isa.describe import c_header, markdown
from vdla.isa.layout import encode, encode_uops, formats, uop_fields
from vdla.isa.registers import register_value, registers_of
from vdla.verify.random_programs import random_config

CONFIGS = [load_config("vta"), load_config("tiny"), random_config(5)]


def literal(value: int) -> str:
    return f"UINT64_C({value & 0xFFFFFFFFFFFFFFFF})"


def random_values(rng: np.random.Generator, fields) -> dict[str, int]:
    return {
        item.name: int.from_bytes(rng.bytes(8), "little") % (item.maximum - item.minimum + 1) + item.minimum
        for item in fields
    }


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_the_c_compiler_encodes_what_the_encoder_does(config, tmp_path):
    rng = np.random.default_rng(1)
    lines, expected = [], []
    for item in formats(config).values():
        macro = item.name.replace(".", "_")
        for _ in range(3):
            values = random_values(rng, item.fields) | {"opcode": int(item.opcode)}
            if item.memory_type is not None:
                values["memory_type"] = int(item.memory_type)
            puts = " ".join(
                f"VDLA_PUT(i, VDLA_{macro}_{name.upper()}, {literal(value)});"
                for name, value in values.items()
            )
            lines.append(f"{{ vdla_instruction i = {{{{0, 0}}}}; {puts} show(i.word[0], i.word[1]); }}")
            free = {key: value for key, value in values.items() if key not in ("opcode", "memory_type")}
            expected.append(encode(config, item.name, **free))
    for item in registers_of(config):
        values = random_values(rng, item.fields)
        bits = " | ".join(
            f"VDLA_BITS(VDLA_REGISTER_{item.name}_{name.upper()}, {literal(value)})"
            for name, value in values.items()
        )
        lines.append(f"show({bits}, VDLA_REGISTER_{item.name}_INDEX);")
        expected.append((register_value(item.name, **values), item.index))
    values = random_values(rng, uop_fields(config))
    bits = " | ".join(
        f"VDLA_BITS(VDLA_UOP_{name.upper()}, {literal(value)})" for name, value in values.items()
    )
    lines.append(f"show({bits}, VDLA_ACC_DEPTH);")
    columns = [np.array([values[name]]) for name in ("dst", "src", "wgt")]
    expected.append((int(encode_uops(config, *columns)[0]), config.acc_depth))

    (tmp_path / "vdla_isa.h").write_text(c_header(config))
    source = '#include <stdio.h>\n#include <inttypes.h>\n#include "vdla_isa.h"\n'
    source += 'static void show(uint64_t a, uint64_t b) { printf("%" PRIu64 " %" PRIu64 "\\n", a, b); }\n'
    source += "int main(void) {\n" + "\n".join(lines) + "\nreturn 0;\n}\n"
    (tmp_path / "main.c").write_text(source)
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler, "the project needs a C compiler"
    command = [compiler, "-std=c99", "-Wall", "-Werror", "main.c", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    output = subprocess.run([tmp_path / "main"], check=True, capture_output=True, text=True).stdout
    assert [tuple(map(int, line.split())) for line in output.splitlines()] == expected


def test_the_header_names_every_field_once():
    defines = [line.split()[1] for line in c_header(CONFIGS[0]).splitlines() if line.startswith("#define")]
    assert len(defines) == len(set(defines))
    assert "VDLA_GEMM_OVERWRITE_SHIFT" in defines
    assert "VDLA_REGISTER_REQUANTIZE_OPERAND_ZERO_POINT_MASK" in defines


def test_the_header_has_the_control_registers():
    lines = c_header(CONFIGS[0]).splitlines()
    words = [line.split(maxsplit=2) for line in lines if line.startswith("#define")]
    defines = {name: value for _, name, *rest in words for value in rest}
    for name, address in REGISTERS.items():
        assert int(defines[f"VDLA_CONTROL_{name}"], 0) == address
    assert int(defines["VDLA_CONTROL_COUNTERS"], 0) == COUNTERS_AT
    assert [defines[f"VDLA_STATUS_BIT_{name}"] for name in STATUS_BITS] == ["1", "2", "4", "8"]
    digest = [int(word, 0) for word in defines["VDLA_DIGEST_WORDS"].strip("{}").split(",")]
    assert b"".join(word.to_bytes(4, "little") for word in digest).hex() == CONFIGS[0].digest
    assert any("PROGRAM is relative to BASE" in line for line in lines)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_the_reference_shows_every_field_where_it_lies(config):
    text = markdown(config)
    for item in formats(config).values():
        assert item.name in text
        for field in item.fields:
            place = str(field.low) if field.width == 1 else f"{field.low}..{field.high}"
            assert f"| {field.name} | {place} | {field.minimum}..{field.maximum} |" in text
    for item in registers_of(config):
        assert f"### {item.name}: unit {int(item.unit)}" in text
    assert f"| acc | {config.acc_bytes} | {config.acc_depth} |" in text


def test_vtas_positions_are_those_of_its_specification():
    text = markdown(load_config("vta"))
    for row in (
        "| uop_end | 21..34 |",
        "| wgt_factor_in | 118..127 |",
        "| imm | 112..127 |",
        "| dram_base | 26..57 |",
    ):
        assert row in text

"""Describes the instruction set of a configuration, as a C header and as a Markdown reference, from the tables of this
package.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .alu import alu_codes
from .config import Config, Memory
from .control_registers import CONTROL_BITS, COUNTERS_AT, IDENTITY, REGISTERS, STATUS_BITS, VERSION
from .extensions import EXTENSIONS
from .fields import Field
from .layout import (
    MATRIX,
    POST,
    ROWS,
    TABLE,
    TOKEN_QUEUES,
    Format,
    MemoryType,
    Opcode,
    Unit,
    formats,
    uop_fields,
)
from .parameters import declared
from .program import INSTRUCTION_ALIGNMENT
from .registers import registers_of
from .rows import ENTRY_BITS
from .store_stages import TABLE_BYTES
from .widths import VTA_INSTRUCTION_BYTES

_KINDS = ("uop", "inp", "wgt", "acc", "acc8", "out", "post", "par", "patch")
_DEPTHS = ("uop", "inp", "wgt", "acc", "par")
_SHAPE = ("batch", "block_in", "block_out", "acc_banks", "command_queue_depth", "token_queue_depth")

CHAIN = "chain memory"
"""Name, in descriptions, of the chain memory (on-chip buffer between layers): an optional part of a machine, but no
extension.
"""

_COUNTS = {2: "two", 4: "four"}
_WIDE = (
    "The loops or the factors of this configuration do not fit instructions of 128 bits, so these have twice as many: "
    "loads, stores, CONFIG and FINISH use the lower half alone, as in 128 bits; the factors of GEMM, DEPTHWISE, TAPS "
    "and ALU begin at bit 128; a field that would cross from one word of 64 bits into the next begins there."
)

_PREAMBLE = """\
/* The instruction set of configuration {name}, digest {digest}.
 * Written by `vdla isa --config NAME --header`; do not edit.
 *
 * An instruction is {count} little-endian 64-bit words. Build one from zero:
 *     vdla_instruction i = {{{{{zeros}}}}};
 *     VDLA_PUT(i, VDLA_GEMM_OPCODE, VDLA_OPCODE_GEMM);
 *     VDLA_PUT(i, VDLA_GEMM_UOP_END, 36);
 * Registers (a 64-bit value) and micro-ops ({uop_bits} bits) are built with VDLA_BITS and |.
 */
#ifndef VDLA_ISA_H
#define VDLA_ISA_H
#include <stdint.h>

typedef struct {{
    uint64_t word[{words}];
}} vdla_instruction;

/* FIELD without its suffix; values are cut to the field's width, so negative ones are two's complement. */
#define VDLA_BITS(FIELD, value) (((uint64_t)(value) & FIELD##_MASK) << FIELD##_SHIFT)
#define VDLA_PUT(instruction, FIELD, value) ((instruction).word[FIELD##_WORD] |= VDLA_BITS(FIELD, value))
#define VDLA_GET(instruction, FIELD) ((instruction).word[FIELD##_WORD] >> FIELD##_SHIFT & FIELD##_MASK)
"""


def _macro(*parts: str) -> str:
    return "_".join(("VDLA", *(part.replace(".", "_").upper() for part in parts)))


def _define(name: str, value: int | str) -> str:
    return f"#define {name} {value}"


def _field_defines(prefix: str, fields: Iterable[Field], word: bool) -> list[str]:
    lines = []
    for item in fields:
        name = f"{prefix}_{item.name.upper()}"
        if word:
            lines.append(_define(f"{name}_WORD", item.low // 64))
        lines.append(_define(f"{name}_SHIFT", item.low % 64))
        lines.append(_define(f"{name}_MASK", f"UINT64_C({(1 << item.width) - 1:#x})"))
    return lines


def c_header(config: Config) -> str:
    """A C header (C99 and C++) for `config`: opcodes, sizes, and word, shift and mask of each field."""
    # The name is in a comment, which it must not end.
    name = config.name.replace("*/", "* /").replace("/*", "/ *")
    words = config.instruction_words
    preamble = _PREAMBLE.format(
        name=name,
        digest=config.digest,
        words=words,
        count=_COUNTS[words],
        zeros=", ".join("0" * words),
        uop_bits=8 * config.uop_bytes,
    )
    lines = [preamble]
    lines += [_define(_macro("opcode", item.name), int(item)) for item in Opcode]
    lines += [_define(_macro("memory", item.name), int(item)) for item in MemoryType]
    lines.append(_define(_macro("memory", "post"), POST))
    lines += _present(config, ("table", _macro("memory", "table"), TABLE))
    lines += [_define(_macro("alu", item.name), item.value) for item in alu_codes(config)]
    lines += [_define(_macro("unit", item.name), int(item)) for item in Unit]
    lines += ["", _define("VDLA_INSTRUCTION_BYTES", config.instruction_bytes)]
    lines.append(_define("VDLA_INSTRUCTION_ALIGNMENT", INSTRUCTION_ALIGNMENT))
    lines += [_define(_macro(name), getattr(config, name)) for name in _SHAPE]
    lines += _present(config, ("fold", _macro("folds"), config.folds))
    lines += [_define(_macro(kind, "bytes"), config.element_bytes(kind)) for kind in _KINDS]
    lines += [_define(_macro(kind, "depth"), getattr(config, f"{kind}_depth")) for kind in _DEPTHS]
    lines += _present(
        config,
        (CHAIN, _macro("chain", "depth"), config.chain_depth),
        (CHAIN, _macro("chain", "base"), config.chain_base),
        ("table", "VDLA_TABLE_BYTES", TABLE_BYTES),
        ("table", "VDLA_TABLE_DEPTH", config.table_depth),
        ("rows", _macro("memory", "rows"), ROWS),
        ("rows", "VDLA_ROW_DEPTH", config.row_depth),
    )
    for item in formats(config).values():
        lines += ["", f"/* {item.name} */", *_field_defines(_macro(item.name), item.fields, True)]
    lines += ["", "/* micro-op */", *_field_defines("VDLA_UOP", uop_fields(config), False)]
    for item in registers_of(config):
        name = _macro("register", item.name)
        lines += ["", f"/* register {item.name} */", _define(f"{name}_UNIT", int(item.unit))]
        lines += [_define(f"{name}_INDEX", item.index), *_field_defines(name, item.fields, False)]
    return "\n".join([*lines, *_control_defines(config), "", "#endif", ""])


def _present(config: Config, *defines: tuple[str, str, int]) -> list[str]:
    """C lines `#define name value` for each (part, name, value) of `defines` whose part the machine has. A part is an
    extension, or CHAIN for the chain memory.
    """
    return [_define(name, value) for part, name, value in defines if _has(config, part)]


def _has(config: Config, part: str) -> bool:
    return config.chain_buffer_bytes > 0 if part == CHAIN else config.has(part)


def _control_defines(config: Config) -> list[str]:
    """Lines for the control registers: byte addresses, bits of CONTROL and STATUS, values of ID, VERSION and DIGEST."""
    digest = bytes.fromhex(config.digest)
    words = [int.from_bytes(digest[at : at + 4], "little") for at in range(0, len(digest), 4)]
    return [
        "",
        "/* Control registers: byte addresses of 32-bit words over AXI4-Lite; of 64 bits the low word comes first.",
        " * PROGRAM is relative to BASE: an image at byte address A with its instructions at offset P has BASE = A and",
        " * PROGRAM = P, multiples of 4096. A counter has two words from VDLA_CONTROL_COUNTERS + 8 * number on. */",
        *(_define(_macro("control", name), f"{place:#05x}") for name, place in REGISTERS.items()),
        _define("VDLA_CONTROL_COUNTERS", f"{COUNTERS_AT:#05x}"),
        *(_define(_macro("control", "bit", name), 1 << bit) for bit, name in enumerate(CONTROL_BITS)),
        *(_define(_macro("status", "bit", name), 1 << bit) for bit, name in enumerate(STATUS_BITS)),
        _define("VDLA_IDENTITY", f"{IDENTITY:#x}"),
        _define("VDLA_MAP_VERSION", VERSION),
        _define("VDLA_DIGEST_WORDS", "{" + ", ".join(f"{word:#010x}" for word in words) + "}"),
    ]


# --- Markdown -------------------------------------------------------------------------------------------


def _bits(item: Field) -> str:
    return str(item.low) if item.width == 1 else f"{item.low}..{item.high}"


def _table(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> list[str]:
    lines = [head, tuple("---" for _ in head), *rows]
    return ["| " + " | ".join(str(cell) for cell in line) + " |" for line in lines] + [""]


def _field_table(fields: Iterable[Field]) -> list[str]:
    return _table(
        ("field", "bits", "values"),
        ((item.name, _bits(item), f"{item.minimum}..{item.maximum}") for item in fields),
    )


def _same_fields(config: Config) -> list[list[Format]]:
    """Groups the formats that have the same fields; groups are in the order of their first formats."""
    groups: dict[tuple[Field, ...], list[Format]] = {}
    for item in formats(config).values():
        groups.setdefault(item.fields, []).append(item)
    return list(groups.values())


def _format_section(group: list[Format]) -> list[str]:
    lines = [f"### {', '.join(item.name for item in group)}", ""]
    for item in group:
        kind = "" if item.memory_type is None else f", memory_type = {int(item.memory_type)}"
        lines.append(f"- {item.name}: opcode = {int(item.opcode)}{kind}")
    return [*lines, "", *_field_table(group[0].fields)]


def _sentences(config: Config) -> dict[str, str]:
    """A sentence about the memories of each optional part that has memories, by name of the part (an extension, or
    CHAIN).
    """
    last = config.chain_base + config.chain_depth - 1
    return {
        CHAIN: f"The chain memory holds {config.chain_depth} more input vectors, written by STORE.POST with `chain`; "
        f"`src` indices {config.chain_base} to {last} of {_listed(MATRIX)} read them.",
        "fold": f"A weight tile has {config.columns} rows; {config.folds} that follow each other are what a whole "
        "input and a whole output vector take, in the shape that register FOLD says.",
        "table": f"{config.tables} look-up tables of {TABLE_BYTES} bytes, loaded by LOAD.TABLE; STORE.POST with "
        "`table` looks up in table `table_index`.",
        "rows": f"{config.row_depth} entries of rows, which ROWS fills and STORE.POST with `rows` uses; the rows' "
        f"table of 256 entries of {ENTRY_BITS} bits is tables {config.tables} to {config.table_depth - 1}, low bytes "
        "first.",
    }


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def markdown(config: Config) -> str:
    """The instruction reference of `config` in Markdown: sizes, bits of fields, registers and token queues.
    isa/README.md explains the meaning of the fields.
    """
    lines = [f"# Instruction set of configuration `{config.name}`", ""]
    lines += [
        f"{config.batch} x {config.block_in} x {config.columns} multiplies a cycle. Instructions are "
        f"{8 * config.instruction_bytes} bits, {_COUNTS[config.instruction_words]} little-endian 64-bit words; "
        "bit positions are inclusive. "
        f"Extensions: {', '.join(config.extensions) or 'none'}. Digest `{config.digest}`.",
        "",
        "## Sizes",
        "",
    ]
    depths = {kind: getattr(config, f"{kind}_depth") for kind in _DEPTHS}
    lines += _table(
        ("element", "bytes in DRAM", "elements in its scratchpad"),
        ((kind, config.element_bytes(kind), depths.get(kind, "")) for kind in _KINDS),
    )
    lines += [line for part, text in _sentences(config).items() if _has(config, part) for line in (text, "")]
    lines += ["## Codes", ""]
    for title, codes in (
        ("opcode", Opcode),
        ("memory_type", MemoryType),
        ("alu_opcode", alu_codes(config)),
        ("unit", Unit),
    ):
        listing = ", ".join(f"{item.name} {item.value}" for item in codes)
        shared = (
            f", POST {POST} and ROWS {ROWS} (stores), TABLE {TABLE} (loads)" if codes is MemoryType else ""
        )
        lines += [f"- `{title}`: {listing}{shared}"]
    lines += ["", "## Instructions", ""]
    if config.instruction_bytes > VTA_INSTRUCTION_BYTES:
        lines += [_WIDE, ""]
    for group in _same_fields(config):
        lines += _format_section(group)
    lines += ["## Micro-op", "", *_field_table(uop_fields(config)), "## Configuration registers", ""]
    for item in registers_of(config):
        place = f"unit {int(item.unit)} ({item.unit.name.lower()}), register {item.index}"
        lines += [f"### {item.name}: {place}", "", *_field_table(item.fields)]
    lines += ["## Token queues", ""]
    lines += _table(
        ("queue", "pushed by", "popped by"),
        (
            (
                queue.name,
                f"{queue.producer.name.lower()} {queue.push_flag}",
                f"{queue.consumer.name.lower()} {queue.pop_flag}",
            )
            for queue in TOKEN_QUEUES
        ),
    )
    return "\n".join(lines)


def field_table() -> str:
    """A Markdown table of all fields of a configuration: default, unit, legal values and meaning, as declared."""
    rows = []
    for prefix, kind in (("", Config), ("memory.", Memory)):
        for name, default, item in declared(kind):
            given = "" if default is None else default
            rows.append((f"`{prefix}{name}`", given, item.unit, item.legal, item.doc))
        if kind is Config:
            meaning = (
                "optional hardware, a list of names; left out: what suits the shape, as `vdla config` shows"
            )
            rows.append(("`extensions`", "", "", ", ".join(EXTENSIONS), meaning))
    return "\n".join(_table(("field", "default", "unit", "legal values", "meaning"), rows)).strip() + "\n"

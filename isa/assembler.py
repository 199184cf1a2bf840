"""Converts instructions to assembler text and back: one line an instruction, zero fields left out. Every instruction
word has a text.

    LOAD.INP sram_base=0 dram_base=256 y_size=4 x_size=14 x_stride=14 push_next
    CONFIG BASE acc_base=128 inp_base=12
    GEMM uop_bgn=0 uop_end=36 iter_out=14 iter_in=1 dst_factor_out=1 overwrite=1 pop_prev push_next
    ALU uop_end=1 iter_out=64 iter_in=1 alu_opcode=SHR use_imm=1 imm=7

Values are decimal or 0x hexadecimal; float fields of registers are float literals, or 0x followed by their bits. Token
flags are words without a value. A word that is no instruction, or has unused bits set, is written as `.word` and its
hexadecimal digits (32, or 64 if instructions have 256 bits). `#` begins a comment.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .alu import alu_code, alu_names
from .config import Config
from .decoding import join_words
from .errors import EncodingError
from .fields import Field, pack_fields, unpack_fields
from .layout import FLAGS, Format, Unit, formats, split_words, uop_dtype, uop_fields
from .registers import register, register_at

FLOAT_FIELDS = ("ratio_self", "ratio_operand", "offset")
"""Names of the register fields that are the bits of a float32."""

_FIXED = ("opcode", "memory_type")


@lru_cache(maxsize=64)
def _table(config: Config) -> dict[tuple[int, int], Format]:
    """The format of each instruction, by the values of its bits 0..2 (opcode) and bits 7..9 (memory type). A format
    without memory type has an entry for each value of bits 7..9.
    """
    table = {}
    for item in formats(config).values():
        kinds = range(8) if item.memory_type is None else (item.memory_type,)
        table.update({(int(item.opcode), int(kind)): item for kind in kinds})
    return table


def format_of(config: Config, low: int) -> Format | None:
    """The format of the instruction whose lowest 64-bit word is `low`; None if the word is no instruction."""
    return _table(config).get((low & 7, low >> 7 & 7))


@lru_cache(maxsize=256)
def used_bits(fields: tuple[Field, ...]) -> int:
    """An integer in which exactly the bits that belong to `fields` are 1; bit numbers count from the lowest word on."""
    mask = 0
    for item in fields:
        mask |= ((1 << item.width) - 1) << item.low
    return mask


# --- to text --------------------------------------------------------------------------------------------


def _float_text(bits: int) -> str:
    value = np.uint32(bits).view(np.float32)
    text = str(value)
    if np.isfinite(value) and np.float32(float(text)).view(np.uint32) == bits:
        return text
    return f"0x{bits:08x}"


def _assignments(config: Config, fields: tuple[Field, ...], values: dict[str, int]) -> list[str]:
    parts = []
    for item in fields:
        value = values[item.name]
        if item.name in _FIXED or item.name in FLAGS or value == 0:
            continue
        if item.name in FLOAT_FIELDS:
            parts.append(f"{item.name}={_float_text(value)}")
        elif item.name == "alu_opcode" and (code := alu_code(config, value)) is not None:
            parts.append(f"{item.name}={code.name}")
        else:
            parts.append(f"{item.name}={value}")
    return parts


def instruction_text(config: Config, *words: int) -> str:
    """The assembler line of the instruction with the 64-bit `words`; raises no errors."""
    word = join_words(words)
    layout = format_of(config, words[0])
    if layout is None or word & ~used_bits(layout.fields):
        return f".word {word:0{2 * config.instruction_bytes}x}"
    values = unpack_fields(layout.fields, word)
    parts = [layout.name]
    target = register_at(values["unit"], values["register"]) if layout.name == "CONFIG" else None
    if target is not None and not values["value"] & ~used_bits(target.fields):
        parts.append(target.name)
        parts += _assignments(config, target.fields, unpack_fields(target.fields, values["value"]))
    else:
        parts += _assignments(config, layout.fields, values)
    return " ".join(parts + [flag for flag in FLAGS if values[flag]])


def disassemble(instructions: NDArray[np.uint64], config: Config) -> str:
    """The text of `instructions`, uint64 (n, words), a line each; `assemble` returns the same words."""
    return "".join(f"{instruction_text(config, *words)}\n" for words in instructions.tolist())


# --- from text ------------------------------------------------------------------------------------------


def _integer(name: str, text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise EncodingError(f"{name}={text}: expected a decimal or 0x hexadecimal integer") from None


def _value(config: Config, name: str, text: str) -> int:
    if name in FLOAT_FIELDS and not text.startswith("0x"):
        try:
            with np.errstate(over="ignore"):
                return int(np.float32(float(text)).view(np.uint32))
        except ValueError:
            raise EncodingError(f"{name}={text}: expected a float literal, or 0x and its 32 bits") from None
    if name == "alu_opcode" and not text[:1].isdigit():
        names = alu_names(config)
        if text not in names:
            raise EncodingError(f"{name}={text}: expected one of {', '.join(names)} or a number")
        return names[text]
    return _integer(name, text)


def _parse(
    config: Config, words: list[str], where: str, allowed: tuple[str, ...], flags: tuple[str, ...]
) -> dict[str, int]:
    """Parses the operands of an instruction and returns field values by name. A word is `name=value` with a name in
    `allowed`, or just a name in `flags` (value 1). `where`: name of the instruction in messages. Raises EncodingError,
    also for a name that occurs twice.
    """
    values: dict[str, int] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals and name in flags:
            value = 1
        elif not equals:
            what = (
                f"allowed are the flags {', '.join(flags)} and name=value" if flags else "expected name=value"
            )
            raise EncodingError(f"{where}: {word!r} is not a field or flag; {what}")
        elif name not in allowed:
            raise EncodingError(f"{where} has no field {name!r}; it has {', '.join(allowed)}")
        else:
            value = _value(config, name, text)
        if name in values:
            raise EncodingError(f"{where}: {name} is given twice")
        values[name] = value
    return values


def _line(words: list[str], config: Config) -> int:
    """Returns the instruction of one line of text, split at blanks into `words`, as one integer of 128 or 256 bits.
    Raises EncodingError.
    """
    name = words[0]
    if name == ".word":
        digits = words[1] if len(words) == 2 else ""
        count = 2 * config.instruction_bytes
        if len(digits) != count or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
            found = " ".join(words[1:])[:80]
            raise EncodingError(
                f".word {found}: expected {count} hexadecimal digits, the most significant first"
            )
        return int(digits, 16)
    layout = formats(config).get(name)
    if layout is None:
        raise EncodingError(f"no instruction {name!r}; there are {', '.join(formats(config))}")
    allowed = tuple(item.name for item in layout.fields if item.name not in _FIXED and item.name not in FLAGS)
    fixed = {"opcode": int(layout.opcode)}
    if layout.memory_type is not None:
        fixed["memory_type"] = int(layout.memory_type)
    if name == "CONFIG" and len(words) > 1 and "=" not in words[1] and words[1] not in FLAGS:
        target = register(words[1])
        names = tuple(item.name for item in target.fields)
        values = _parse(config, words[2:], f"CONFIG {target.name}", names, FLAGS)
        fixed |= {flag: 1 for flag in FLAGS if values.pop(flag, 0)}
        value = pack_fields(f"CONFIG {target.name}", target.fields, values)
        fixed |= {"unit": int(target.unit), "register": target.index, "value": value}
        return pack_fields(name, layout.fields, fixed)
    return pack_fields(name, layout.fields, _parse(config, words[1:], name, allowed, FLAGS) | fixed)


def assemble_line(line: str, config: Config) -> tuple[int, ...]:
    """The 64-bit words of the instruction in one line of text. Raises EncodingError, which names the field and its
    allowed values.
    """
    words = line.partition("#")[0].split()
    if not words:
        raise EncodingError("the line contains no instruction")
    return split_words(config, _line(words, config))


def assemble(text: str, config: Config, where: str = "assembly") -> NDArray[np.uint64]:
    """The instructions of `text`, uint64 (n, words). Raises EncodingError, which names `where`, line, field and allowed
    values.
    """
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.partition("#")[0].strip():
            continue
        try:
            rows.append(assemble_line(line, config))
        except EncodingError as error:
            raise EncodingError(f"{where}:{number}: {error}") from None
    return np.array(rows, dtype=np.uint64).reshape(-1, config.instruction_words)


# --- micro-ops ------------------------------------------------------------------------------------------


def disassemble_uops(words: NDArray[np.unsignedinteger], config: Config) -> str:
    """The text of micro-ops (`layout.uop_dtype`), a line each, with all fields: `UOP dst=3 src=1 wgt=0`; a micro-op
    with unused bits set is `.word` and its hexadecimal digits.
    """
    fields = uop_fields(config)
    lines = []
    for word in words.tolist():
        if word & ~used_bits(fields):
            lines.append(f".word {word:0{2 * config.uop_bytes}x}\n")
        else:
            parts = " ".join(f"{name}={value}" for name, value in unpack_fields(fields, word).items())
            lines.append(f"UOP {parts}\n")
    return "".join(lines)


def assemble_uops(text: str, config: Config, where: str = "micro-ops") -> NDArray[np.unsignedinteger]:
    """The micro-ops (`layout.uop_dtype`) of `text`. Raises EncodingError, which names `where`, line, field and allowed
    values.
    """
    fields = uop_fields(config)
    result = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        try:
            match words:
                case []:
                    continue
                case [".word", digits]:
                    result.append(_integer(".word", f"0x{digits}") & (1 << 8 * config.uop_bytes) - 1)
                case ["UOP", *rest]:
                    values = _parse(config, rest, "UOP", tuple(item.name for item in fields), ())
                    result.append(pack_fields("UOP", fields, values))
                case _:
                    raise EncodingError(f"{words[0]!r} is not a micro-op; expected UOP dst=.. src=.. wgt=..")
        except EncodingError as error:
            raise EncodingError(f"{where}:{number}: {error}") from None
    return np.array(result, dtype=uop_dtype(config))


def unit_name(unit: int) -> str:
    """The unit's name in messages and text: load, compute or store."""
    return Unit(unit).name.lower()

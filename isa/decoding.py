"""Decodes instructions and micro-ops, and finds the extensions that an instruction needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .alu import alu_extension
from .config import Config
from .errors import EncodingError
from .fields import unpack_fields
from .layout import EXTENSION_OF, absent_fields, formats, uop_dtype, uop_fields
from .opcodes import POST, ROWS, TABLE, MemoryType, Opcode
from .registers import register_at
from .widths import WORD_BITS


def extension_of(name: str, values: Mapping[str, int]) -> str | None:
    """The extension that an instruction (format `name`, field values `values`) needs for its format, for its ALU
    operation or for the register that it sets; None if it needs none. Single fields may need other extensions
    (`lacking`).
    """
    if name == "ALU":
        return alu_extension(values["alu_opcode"])
    if name == "CONFIG":
        item = register_at(values["unit"], values["register"])
        return None if item is None else item.extension
    return EXTENSION_OF.get(name)


def lacking(config: Config, name: str, values: Mapping[str, int]) -> str | None:
    """Checks whether `config` has the optional hardware that an instruction of format `name` with fields `values`
    needs. Returns None if it does, otherwise an error message to which the caller adds the subject ("instruction 3
    ...").
    """
    extension = extension_of(name, values)
    if extension is not None and not config.has(extension):
        return f"needs the extension {extension!r}, which configuration {config.name!r} lacks; add it to `extensions`"
    if name == "STORE.POST" and values["chain"] and not config.chain_buffer_bytes:
        return (
            f"chain = 1 needs a chain memory, which configuration {config.name!r} lacks; set `chain_buffer_bytes`, or "
            "store to DRAM"
        )
    for item in absent_fields(config).get(name, ()):
        if values[item.name]:
            return (
                f"{item.name} = {values[item.name]} needs the extension {item.extension!r}, which {config.name!r} "
                "lacks; add it to `extensions`"
            )
    if name == "CONFIG" and (target := register_at(values["unit"], values["register"])) is not None:
        lacked = target.absent(config)
        if any(unpack_fields(lacked, values["value"]).values()):
            plain = " and ".join(item.name for item in target.fields if item not in lacked)
            return (
                f"sets more of {target.name} than {plain}, which needs the extension {lacked[0].extension!r}; "
                f"{config.name!r} lacks it, add it to `extensions`"
            )
    return None


def join_words(words: Sequence[int]) -> int:
    """The integer whose 64-bit words are `words`, the lowest word first."""
    return sum(word << WORD_BITS * place for place, word in enumerate(words))


def format_names(words: np.ndarray) -> list[str]:
    """The format name of each instruction in `words`, uint64 (n, words). Raises EncodingError for bits that encode no
    instruction.
    """
    opcodes = (words[:, 0] & np.uint64(7)).astype(np.int64)
    types = (words[:, 0] >> np.uint64(7) & np.uint64(7)).astype(np.int64)
    names = []
    for index, (opcode, kind) in enumerate(zip(opcodes.tolist(), types.tolist(), strict=True)):
        match opcode:
            case Opcode.LOAD:
                names.append("LOAD.TABLE" if kind == TABLE else f"LOAD.{MemoryType(kind).name}")
            case Opcode.STORE if kind == MemoryType.OUT:
                names.append("STORE.OUT")
            case Opcode.STORE if kind == POST:
                names.append("STORE.POST")
            case Opcode.STORE if kind == ROWS:
                names.append("ROWS")
            case Opcode.STORE:
                raise EncodingError(
                    f"instruction {index}: {Opcode(opcode).name} cannot have memory type {kind}"
                )
            case _:
                names.append(Opcode(opcode).name)
    return names


def decode_one(config: Config, *words: int) -> tuple[str, dict[str, int]]:
    """Format name and field values of the instruction `words` (64 bits each, lowest first). Raises EncodingError for
    bits that encode no instruction.
    """
    name = format_names(np.array([words], dtype=np.uint64))[0]
    return name, unpack_fields(formats(config)[name].fields, join_words(words))


def decode_uops(config: Config, words: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The fields (dst, src, wgt) of micro-ops (`uop_dtype`), int64 arrays of the shape of `words`."""
    dtype = uop_dtype(config)
    raw = np.asarray(words, dtype=dtype)
    columns = [
        (raw >> dtype.type(item.low) & dtype.type((1 << item.width) - 1)).astype(np.int64)
        for item in uop_fields(config)
    ]
    return columns[0], columns[1], columns[2]

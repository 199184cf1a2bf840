"""Checks a configuration: raises ConfigError, with a remedy, for a machine that cannot be encoded or built."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .custom import check_instructions
from .errors import ConfigError
from .extensions import EXTENSION_TABLE, EXTENSIONS, extensions_of
from .fifos import FIFO_WORDS, FIFOS, default_bytes
from .parameters import check_declared, is_power_of_two
from .widths import SRAM_BASE_BITS

if TYPE_CHECKING:
    from .config import Config


def check_fields(config: Config) -> None:
    """Checks the name, and each declared field against its range; raises ConfigError."""
    if not isinstance(config.name, str) or not config.name or not config.name.isprintable():
        raise ConfigError(f"name = {config.name!r}: expected at least one character, all printable")
    check_declared(config)


def check_machine(config: Config) -> None:
    """Checks extensions, instructions, shape and memories of a machine after `check_fields`; raises ConfigError."""
    if config.post_lanes is not None:
        _check_post_lanes(config, config.post_lanes)
    _check_extensions(config)
    if config.instructions:
        check_instructions(config)
    _check_chain(config)
    _check_buffers(config)


def _check_extensions(config: Config) -> None:
    unknown = [name for name in config.extensions if name not in EXTENSIONS]
    if unknown:
        raise ConfigError(f"extensions: {unknown[0]!r} is unknown; there are {', '.join(EXTENSIONS)}")
    if twice := [name for name in config.extensions if config.extensions.count(name) > 1]:
        raise ConfigError(f"extensions: {twice[0]!r} is named twice; name it once")
    for extension in extensions_of(config):
        if extension.check is not None:
            extension.check(config)
    for name in config.extensions:
        needed = EXTENSION_TABLE[name].needs
        if needed is not None and needed not in config.extensions:
            why = "is a part of the post-processing store" if needed == "post" else f"needs {needed}"
            raise ConfigError(
                f"extensions: {name} {why}; add {needed!r} to `extensions`, or leave {name!r} out"
            )


def _check_post_lanes(config: Config, value: object) -> None:
    most = config.batch * config.block_out
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or not (is_power_of_two(value) and value <= most)
    ):
        raise ConfigError(
            f"post_lanes = {value!r}: must be a power of two from 1 to batch * block_out = {most}; "
            "leave it out for all of these lanes"
        )


def _check_chain(config: Config) -> None:
    """Raises ConfigError for an illegal size of the chain memory (on-chip buffer between layers). Other memories are
    checked later, because the widths of input indices and micro-ops depend on this size.
    """
    value, word = config.chain_buffer_bytes, config.chain_word_bytes
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigError(
            f"chain_buffer_bytes = {value!r}: expected a number of bytes, 0 for no chain memory"
        )
    if value == 0:
        return
    if not config.has("post"):
        raise ConfigError(
            f"chain_buffer_bytes = {value}: STORE.POST fills the chain memory; add 'post' to `extensions`, or "
            "leave chain_buffer_bytes out"
        )
    if value % word or value < 2 * word:
        near = max(2, value // word) * word
        raise ConfigError(
            f"chain_buffer_bytes = {value}: must be 0, or at least {2 * word} and a multiple of {word}, the bytes of "
            f"the larger of an input and an output vector; {near} and {near + word} are"
        )


def _check_chain_indices(config: Config) -> None:
    """Raises ConfigError unless `inp_base` is wide enough for the indices of the chain memory (on-chip buffer between
    layers), which follow those of the input scratchpad. The size of that scratchpad must be checked before.
    """
    most, word = (1 << SRAM_BASE_BITS) - config.chain_base, config.chain_word_bytes
    if config.chain_depth > most:
        room = most * config.inp_bytes // word * word
        remedy = f"at most {room} bytes" if room >= 2 * word else "use a smaller inp_buffer_bytes"
        raise ConfigError(
            f"chain_buffer_bytes = {config.chain_buffer_bytes}: {config.chain_depth} vectors from index "
            f"{config.chain_base} on cannot be addressed by {SRAM_BASE_BITS} bits; {remedy}"
        )


def _check_buffers(config: Config) -> None:
    bus = config.memory.bus_bytes
    for kind in ("inp", "wgt", "acc", "uop"):  # The first three memories decide the width of micro-ops.
        size, element = getattr(config, f"{kind}_buffer_bytes"), config.element_bytes(kind)
        _check_whole(config, f"{kind}_buffer_bytes", element)
        if size < 2 * element:
            raise ConfigError(
                f"{kind}_buffer_bytes = {size}: must hold at least two {kind} elements of {element} bytes"
            )
        if size // element > 1 << SRAM_BASE_BITS:
            raise ConfigError(
                f"{kind}_buffer_bytes = {size}: {size // element} elements of {element} bytes cannot be "
                f"addressed by the {SRAM_BASE_BITS}-bit sram_base; at most {element << SRAM_BASE_BITS} bytes"
            )
        if kind == "inp":
            _check_chain_indices(config)
    for extension in extensions_of(config):
        if extension.check_memories is not None:
            extension.check_memories(config)
    if config.acc_banks > config.acc_depth:
        raise ConfigError(
            f"acc_banks = {config.acc_banks}: must be at most {config.acc_depth}, the number of accumulator vectors"
        )
    _check_whole(config, "par_buffer_bytes", config.par_bytes)
    for fifo in FIFOS:
        name = f"{fifo}_fifo_bytes"
        if getattr(config, name) is None:
            continue
        _check_size(config, name, config.least_fifo_bytes(fifo))
        if config.fifo_bytes(fifo) > FIFO_WORDS * bus:
            raise ConfigError(
                f"{name} = {getattr(config, name)}: at most {FIFO_WORDS * bus} bytes, {FIFO_WORDS} words of the bus; "
                f"leave it out for {default_bytes(config, fifo)}, enough for this bus"
            )


def _check_whole(config: Config, name: str, element: int) -> None:
    """Raises ConfigError unless field `name`, the size of a memory, is a positive multiple of `element` bytes."""
    value = getattr(config, name)
    if isinstance(value, bool) or not isinstance(value, int) or value < element or value % element:
        near = max(1, value // element if isinstance(value, int) else 1) * element
        raise ConfigError(
            f"{name} = {value!r}: must be a multiple of {element}, the bytes of one element; {near} and "
            f"{near + element} are"
        )


def _check_size(config: Config, name: str, at_least: int) -> None:
    value = getattr(config, name)
    if isinstance(value, bool) or not isinstance(value, int) or not is_power_of_two(value):
        raise ConfigError(f"{name} = {value!r}: must be a power of two")
    if value < at_least:
        raise ConfigError(f"{name} = {value}: must be at least {at_least}, the bytes of two words or vectors")

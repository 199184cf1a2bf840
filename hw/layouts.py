"""Amaranth layouts of instructions, micro-ops and configuration registers, from the tables of `vdla.isa.layout`."""

from __future__ import annotations

from amaranth.hdl import Value, signed, unsigned
from amaranth.lib import data

from vdla.isa.config import Config
from vdla.isa.fields import Field
from vdla.isa.layout import formats, uop_fields
from vdla.isa.registers import register

REGISTER_BITS = 64


def layout_of(fields: tuple[Field, ...], size: int) -> data.FlexibleLayout:
    """Layout of a word of `size` bits with `fields`. It is a FlexibleLayout, because there may be unused bits between
    fields.
    """
    return data.FlexibleLayout(
        size,
        {
            item.name: data.Field(signed(item.width) if item.signed else unsigned(item.width), item.low)
            for item in fields
        },
    )


def instruction_layout(config: Config, name: str) -> data.FlexibleLayout:
    """The layout of an instruction of format `name`, such as LOAD.INP or GEMM. Raises KeyError for an unknown name."""
    return layout_of(formats(config)[name].fields, 8 * config.instruction_bytes)


def uop_layout(config: Config) -> data.FlexibleLayout:
    """The layout of a micro-op, a word of `config.uop_bytes` bytes."""
    return layout_of(uop_fields(config), 8 * config.uop_bytes)


def register_layout(name: str) -> data.FlexibleLayout:
    """The layout of configuration register `name`, 64 bits. Raises EncodingError if there is no such register."""
    return layout_of(register(name).fields, REGISTER_BITS)


def view(layout: data.Layout, bits: Value) -> data.View:
    """Views `bits` as a record with the fields of `layout`, which must have the same width."""
    return data.View(layout, bits)

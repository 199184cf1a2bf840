"""Widths of micro-ops and instructions: VTA's 32 and 128 bits if a machine's indices fit, else twice these widths.

The fields of a machine have as many bits as its memories need; `layout.py` has their positions. A machine with small
scratchpads has VTA's widths and runs VTA's programs unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .sizes import Sizes

SRAM_BASE_BITS = 16
"""Width in bits of `sram_base`, the base registers and the strides of STORE.POST; memories have at most
2^16 elements.
"""

WORD_BITS = 64
"""Bits of a word of an instruction; no field crosses from one word to the next."""

VTA_UOP_BYTES = 4
VTA_INSTRUCTION_BYTES = 16
_FACTOR_BITS = 64
"""Bits for the six factors of a GEMM of 128 bits: the upper word."""
_ALU_FACTOR_BITS = 44
"""Bits for the four factors of an ALU instruction of 128 bits: the upper word without alu_opcode, use_imm and imm."""
_UOP_INDEX_BITS = 13
"""Largest width in bits of a micro-op index for which the lower word has room for opcode, flags, reset, uop_bgn,
uop_end, two loop counts and overwrite.
"""


def uop_bytes(config: Sizes) -> int:
    """Bytes of a micro-op: 4, or 8 if the indices dst, src and wgt of `config` need more than 32 bits together."""
    bits = config.acc_index_bits + config.inp_index_bits + config.wgt_index_bits
    return VTA_UOP_BYTES if bits <= 8 * VTA_UOP_BYTES else 2 * VTA_UOP_BYTES


def instruction_bytes(config: Sizes) -> int:
    """Bytes of an instruction: 16, or 32 if the loops or the factors of `config` do not fit in 128 bits."""
    acc, inp, wgt = config.acc_index_bits, config.inp_index_bits, config.wgt_index_bits
    fits = (
        2 * (acc + inp + wgt) <= _FACTOR_BITS
        and 2 * (acc + inp) <= _ALU_FACTOR_BITS
        and config.uop_index_bits <= _UOP_INDEX_BITS
    )
    return VTA_INSTRUCTION_BYTES if fits else 2 * VTA_INSTRUCTION_BYTES

"""Sizes computed from a configuration: bytes of elements, depths of memories, widths of indices, size of the array."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .array_modes import TAPS
from .errors import ConfigError
from .rows import PLANES
from .store_stages import TABLE_BYTES
from .widths import ALU_FACTOR_BITS, FACTOR_BITS, UOP_INDEX_BITS, VTA_INSTRUCTION_BYTES, VTA_UOP_BYTES

if TYPE_CHECKING:
    from .config import Memory


def _index_bits(depth: int) -> int:
    """Number of bits of an index in 0..`depth` - 1."""
    return (depth - 1).bit_length()


class Sizes:
    """Base class of `Config`: computes sizes from the fields that `Config` declares."""

    __slots__ = ()

    if TYPE_CHECKING:
        batch: int
        block_in: int
        block_out: int
        uop_buffer_bytes: int
        inp_buffer_bytes: int
        wgt_buffer_bytes: int
        acc_buffer_bytes: int
        acc_banks: int
        par_buffer_bytes: int
        chain_buffer_bytes: int
        tables: int
        row_entries: int
        folds: int
        post_lanes: int | None
        extensions: tuple[str, ...]
        memory: Memory

    def has(self, extension: str) -> bool:
        """Whether the machine has the optional hardware `extension`."""
        return extension in self.extensions

    @property
    def inp_bytes(self) -> int:
        """Bytes of one input vector, [batch][block_in] int8."""
        return self.batch * self.block_in

    @property
    def inp_step_vectors(self) -> int:
        """Largest number of input vectors that a step (write) of LOAD.INP puts into the input scratchpad: one or, with
        the extension `wide_loads`, the number of vectors in a bus word, limited by the banks of the scratchpad.

        The vectors of a step have consecutive indices, and the first may have any index. If a bank's word is one
        vector, a step reaches TAPS vectors, one in each bank. If a bank's word has several vectors, a step may start in
        the middle of a word, so it reaches half of the vectors that a word of every bank has together.
        """
        if not self.has("wide_loads"):
            return 1
        banks = TAPS if self.position_inputs == 1 else TAPS * self.position_inputs // 2
        return max(1, min(self.memory.bus_bytes // self.inp_bytes, banks))

    @property
    def wgt_bytes(self) -> int:
        """Bytes of one weight tile, [columns][block_in] int8."""
        return self.columns * self.block_in

    @property
    def tile_parts(self) -> int:
        """Number of weight tiles in [block_out][block_in] weights: `folds` with the extension `fold`, else 1."""
        return self.folds if self.has("fold") else 1

    @property
    def whole_tile_bytes(self) -> int:
        """Bytes of a whole tile, the `tile_parts` weight tiles of a [block_out][block_in] block of int8 weights."""
        return self.tile_parts * self.wgt_bytes

    @property
    def whole_tile_rows(self) -> int:
        """Rows of min(block_in, block_out) weights in a whole weight tile (for DEPTHWISE and TAPS)."""
        return self.tile_parts * self.tile_rows

    @property
    def whole_tiles(self) -> int:
        """Number of whole weight tiles that the weight scratchpad holds; with the extension `fold`, a whole tile has
        several parts.
        """
        return self.wgt_depth // self.tile_parts

    @property
    def columns(self) -> int:
        """Number of columns of the array (rows of a weight tile): an operation makes batch x `columns` dot products."""
        return self.block_out // self.tile_parts

    @property
    def position_inputs(self) -> int:
        """Number of input vectors in a position (the data of one pixel for DEPTHWISE and TAPS): block_out / block_in,
        so that a position has as many elements as an output vector, but at least 1.
        """
        return max(1, self.block_out // self.block_in)

    @property
    def position_outputs(self) -> int:
        """Number of output vectors that together are as long as an input vector, at least 1 (DEPTHWISE, TAPS)."""
        return max(1, self.block_in // self.block_out)

    @property
    def tile_rows(self) -> int:
        """Rows of min(block_in, block_out) weights into which DEPTHWISE and TAPS divide a weight tile."""
        return max(self.block_in, self.block_out) // self.tile_parts

    @property
    def acc_bytes(self) -> int:
        """Bytes of one accumulator vector, [batch][block_out] int32."""
        return 4 * self.batch * self.block_out

    @property
    def out_bytes(self) -> int:
        """Bytes of one output vector, [batch][block_out] int8."""
        return self.batch * self.block_out

    @property
    def par_bytes(self) -> int:
        """Bytes of one parameter entry: block_out int32 biases, then block_out float32 scales."""
        return 8 * self.block_out

    @property
    def uop_bytes(self) -> int:
        """Bytes of one micro-op: 4, or 8 if the indices dst, src and wgt need more than 32 bits together."""
        bits = self.acc_index_bits + self.inp_index_bits + self.wgt_index_bits
        return VTA_UOP_BYTES if bits <= 8 * VTA_UOP_BYTES else 2 * VTA_UOP_BYTES

    @property
    def instruction_bytes(self) -> int:
        """Bytes of one instruction: 16, or 32 if the loops or the factors do not fit in 128 bits."""
        acc, inp, wgt = self.acc_index_bits, self.inp_index_bits, self.wgt_index_bits
        fits = (
            2 * (acc + inp + wgt) <= FACTOR_BITS
            and 2 * (acc + inp) <= ALU_FACTOR_BITS
            and self.uop_index_bits <= UOP_INDEX_BITS
        )
        return VTA_INSTRUCTION_BYTES if fits else 2 * VTA_INSTRUCTION_BYTES

    @property
    def instruction_words(self) -> int:
        """Number of 64-bit words of one instruction, 2 or 4."""
        return self.instruction_bytes // 8

    def element_bytes(self, kind: str) -> int:
        """DRAM bytes of an element of `kind`: uop, wgt, inp, acc, out, acc8, par, patch, post or table."""
        match kind:
            case "uop":
                return self.uop_bytes
            case "wgt":
                return self.wgt_bytes
            case "inp":
                return self.inp_bytes
            case "acc":
                return self.acc_bytes
            case "out" | "acc8" | "post":
                return self.out_bytes
            case "par":
                return self.par_bytes
            case "patch":
                return 1
            case "table":
                return TABLE_BYTES
            case _:
                raise ConfigError(f"{kind!r} is not a kind of element")

    def least_fifo_bytes(self, fifo: str) -> int:
        """Smallest legal size of FIFO `fifo`: two bus words; FIFOs of output vectors must hold two of these, too."""
        out = self.out_bytes if fifo in ("operand", "store") else 0
        return 2 * max(self.memory.bus_bytes, out)

    @property
    def uop_depth(self) -> int:
        """Number of micro-ops in the micro-op scratchpad."""
        return self.uop_buffer_bytes // self.uop_bytes

    @property
    def inp_depth(self) -> int:
        """Number of vectors in the input scratchpad."""
        return self.inp_buffer_bytes // self.inp_bytes

    @property
    def chain_depth(self) -> int:
        """Number of input vectors in the chain memory (on-chip memory between layers); 0 without chain memory."""
        return self.chain_buffer_bytes // self.inp_bytes

    @property
    def chain_base(self) -> int:
        """Index of the first vector of the chain memory (on-chip buffer between layers) for the instructions of the
        array. Smaller indices are in the input scratchpad. The result is the least power of two from inp_depth on, so
        the upper bits of an index select the memory.
        """
        return 1 << _index_bits(self.inp_depth)

    @property
    def chain_word_bytes(self) -> int:
        """Bytes of a word of chain memory (on-chip, between layers): the wider of an input and an output vector."""
        return max(self.inp_bytes, self.out_bytes)

    @property
    def chain_granule(self) -> int:
        """Bytes of a granule of the chain memory (on-chip buffer between layers). A granule is the narrower of an input
        and an output vector; each access is of whole granules.
        """
        return min(self.inp_bytes, self.out_bytes)

    @property
    def wgt_depth(self) -> int:
        """Number of tiles in the weight scratchpad."""
        return self.wgt_buffer_bytes // self.wgt_bytes

    @property
    def acc_depth(self) -> int:
        """Number of vectors in the accumulator scratchpad."""
        return self.acc_buffer_bytes // self.acc_bytes

    @property
    def par_depth(self) -> int:
        """Number of entries in the parameter table, at most 64, since the field par_index has 6 bits."""
        return min(self.par_buffer_bytes // self.par_bytes, 64)

    @property
    def table_depth(self) -> int:
        """Number of 256-byte tables that LOAD.TABLE fills: `tables` look-up tables and, with the extension `rows`,
        PLANES more, one for each byte of the ROWS table's 256 entries; 0 without the extension `table`.
        """
        return self.tables + PLANES * self.has("rows") if self.has("table") else 0

    @property
    def row_depth(self) -> int:
        """Number of rows whose reductions (results of ROWS) the machine can store; 0 without the extension `rows`."""
        return self.row_entries if self.has("rows") else 0

    @property
    def acc_bank_depth(self) -> int:
        """Number of vectors in an accumulator bank; bank = index // acc_bank_depth.

        It is a power of two, so that the upper bits of an index are its bank. If acc_depth is no power of two, the last
        banks have fewer vectors or none.
        """
        return 1 << (self.acc_index_bits - _index_bits(self.acc_banks))

    @property
    def uop_index_bits(self) -> int:
        """Width in bits of an index into the micro-op scratchpad."""
        return _index_bits(self.uop_depth)

    @property
    def inp_index_bits(self) -> int:
        """Width in bits of the index of an input vector. The indices of the chain memory (on-chip buffer between
        layers) follow those of the input scratchpad.
        """
        depth = self.chain_base + self.chain_depth if self.chain_buffer_bytes else self.inp_depth
        return _index_bits(depth)

    @property
    def wgt_index_bits(self) -> int:
        """Width in bits of an index into the weight scratchpad."""
        return _index_bits(self.wgt_depth)

    @property
    def acc_index_bits(self) -> int:
        """Width in bits of an index into the accumulator scratchpad."""
        return _index_bits(self.acc_depth)

    @property
    def multiplies_per_cycle(self) -> int:
        """Number of multiplications of the array in a cycle."""
        return self.batch * self.block_in * self.columns

    @property
    def post_passes(self) -> int:
        """Passes of an output vector through STORE.POST's arithmetic, a cycle each; 1 without the extension `post`."""
        lanes = self.batch * self.block_out
        return lanes // (self.post_lanes or lanes) if self.has("post") else 1

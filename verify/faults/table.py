"""38 one-line faults in RTL and simulator, each of which co-simulation must notice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """In `file` of package `package` (hw or sim), `line` (without its indentation, once there) becomes `faulty`.

    `breaks` says what the design or the simulator then does wrong. `machine` is the machine of `vdla cosim` that
    shows it.
    """

    name: str
    package: str
    file: str
    line: str
    faulty: str
    breaks: str
    machine: str


TINY: Final = "tiny"
SHORT: Final = "4x4 without extensions, smallest queues"
ZEROS: Final = "4x8, 256-bit bus, patch"
CHAIN: Final = "4x4, batch 2, chain memory"
TABLES: Final = "4x4, batch 2, look-up tables"
ROWS: Final = "4x4, rows in two passes"


def _rtl(name: str, file: str, line: str, faulty: str, breaks: str, machine: str = TINY) -> Fault:
    return Fault(name=name, package="hw", file=file, line=line, faulty=faulty, breaks=breaks, machine=machine)


def _simulator(name: str, file: str, line: str, faulty: str, breaks: str, machine: str = TINY) -> Fault:
    return Fault(
        name=name, package="sim", file=file, line=line, faulty=faulty, breaks=breaks, machine=machine
    )


FAULTS: Final = (
    _rtl(
        "token queue",
        "tokens.py",
        "full.eq(will_be_full(taken, depth, up=self.push.reserve, down=self.pop.pop)),",
        "full.eq(will_be_full(taken, depth + 1, up=self.push.reserve, down=self.pop.pop)),",
        "a token queue takes one token more than it has places for",
        SHORT,
    ),
    _rtl(
        "token pop",
        "tokens.py",
        "tokens.eq(Mux(self.pop.pop, tokens - 1, tokens) + self.push.push),",
        "tokens.eq(tokens + self.push.push),",
        "a token stays in its queue after its pop",
    ),
    _rtl(
        "address length",
        "memory_port.py",
        "axi.arlen.eq(chosen.beats - 1),",
        "axi.arlen.eq(chosen.beats),",
        "a read burst is a beat too long",
    ),
    _rtl(
        "outstanding reads",
        "memory_port.py",
        "full.eq(will_be_full(outstanding, limit, up=accept, down=last)),",
        "full.eq(~last & (outstanding == limit)),",
        "one read more is outstanding than allowed",
        SHORT,
    ),
    _rtl(
        "read order",
        "memory_port.py",
        "client.beat_valid.eq(axi.rvalid & (read.data == index)),",
        "client.beat_valid.eq(axi.rvalid & (owner == index)),",
        "read data goes to the client whose request shows, not to the one that asked",
    ),
    _rtl(
        "room of a FIFO",
        "read_requests.py",
        "moves.eq(pending & ~shown & (left >= 0)),",
        "moves.eq(pending & ~shown & (left > 0)),",
        "a request waits for a word more of room than it needs",
        SHORT,
    ),
    _rtl(
        "bytes of a burst",
        "read_requests.py",
        "self.burst.payload.bytes.eq((beats << shift) - (address[:shift] + left_out)),",
        "self.burst.payload.bytes.eq((beats << shift) - address[:shift]),",
        "a burst with an unaligned end counts its last word whole",
    ),
    _rtl(
        "pad of one element",
        "element_writer.py",
        'size, behind = phase("data", self.size, no_behind), phase("behind", self.behind, Const(1))',
        'size, behind = phase("data", self.size, no_behind), phase("behind", self.behind + 1, Const(1))',
        "pads behind a row are counted wrongly",
    ),
    _rtl(
        "window of a patch",
        "patch_writer.py",
        "happens.eq(there.step.valid & self.may & (~there.short | (there.one_short & self.words.valid))),",
        "happens.eq(there.step.valid & self.may & (~there.short | self.words.valid)),",
        "a patch step that needs several words happens with the first",
    ),
    _rtl(
        "last micro-op",
        "compute/operations.py",
        "before_last_uop.eq(self.loops.uop_end - 2),",
        "before_last_uop.eq(self.loops.uop_end - 1),",
        "a loop over several micro-ops takes one too many",
    ),
    _rtl(
        "weights",
        "compute/columns.py",
        "m.d.sync += product.eq(vector[i] * weights[i])",
        "m.d.sync += product.eq(vector[i] * weights[i - 1])",
        "every product takes the weight of its neighbour",
    ),
    _rtl(
        "zero point of the inputs",
        "compute/array.py",
        "vectors = [differences(item, inp_zero) for item in vectors]",
        "vectors = [differences(item, self.inp_zero if zeros else None) for item in vectors]",
        "the zero point of the next operation is taken off the inputs of this one",
        ZEROS,
    ),
    _rtl(
        "end of an ALU instruction",
        "compute/ends.py",
        "if k == length - ALU_LATENCY:",
        "if k == length - ALU_LATENCY + 1:",
        "an ALU instruction ends one cycle early",
    ),
    _rtl(
        "window of the store unit",
        "store/reader.py",
        "place = corner + windows.x_stride",
        "place = corner + windows.y_stride",
        "the store unit steps by the stride of rows from column to column",
    ),
    _simulator(
        "unaligned burst",
        "memory.py",
        "return min(left, longest - address % bus, BOUNDARY - address % BOUNDARY)",
        "return min(left, longest, BOUNDARY - address % BOUNDARY)",
        "a burst that starts inside a bus word has a beat more than allowed",
    ),
    _simulator(
        "beats",
        "memory.py",
        "return (address + length - 1) // bus - address // bus + 1",
        "return (length - 1) // bus + 1",
        "beats are counted as if every burst were aligned",
    ),
    _simulator(
        "memory noise",
        "memory.py",
        "return np.int64(((z ^ (z >> np.uint64(31))) >> np.uint64(33)) % np.uint64(limit + 1))",
        "return np.int64(((z ^ (z >> np.uint64(31))) >> np.uint64(33)) % np.uint64(limit))",
        "random latencies never reach their limit",
    ),
    _simulator(
        "rows of a transfer",
        "memory.py",
        "C[c, C_NEXT] += C[c, C_PITCH]",
        "C[c, C_NEXT] += C[c, C_LENGTH]",
        "rows of a transfer are read as if they followed each other",
    ),
    _simulator(
        "full token queue",
        "units.py",
        "X[i, X_FULL_0 + side] = popped[q, number] + 1",
        "X[i, X_FULL_0 + side] = popped[q, number]",
        "the place of a token is free in the cycle of its pop",
        SHORT,
    ),
    _simulator(
        "full command queue",
        "units.py",
        "cycle = max(cycle, X[order[u, ahead], X_BEGIN] + 1)",
        "cycle = max(cycle, X[order[u, ahead], X_BEGIN])",
        "a place in a command queue is free in the cycle in which its instruction begins",
        SHORT,
    ),
    _simulator(
        "room in the store FIFO",
        "store.py",
        "return W[number & (W.shape[0] - 1), W_LAST] + 1",
        "return W[number & (W.shape[0] - 1), W_LAST]",
        "bytes of a write burst are free in the cycle of its last beat",
        SHORT,
    ),
    _simulator(
        "columns of a window",
        "store.py",
        "V[V_COLUMNS] = (here[1] >> 8 & 0xFF) + 1",
        "V[V_COLUMNS] = (here[1] & 0xFF) + 1",
        "a window takes the time of a square one",
    ),
    _rtl(
        "chain memory's vector",
        "compute/pipeline.py",
        "m.d.sync += arriving.eq(chained)",
        "m.d.comb += arriving.eq(chained)",
        "the array takes its vector from the memory that the next operation reads",
        CHAIN,
    ),
    _rtl(
        "TAPS' neighbours",
        "compute/array.py",
        "moved = [vectors[(t + (1 << distance)) % TAPS] for t in range(TAPS)]",
        "moved = [vectors[(t - (1 << distance)) % TAPS] for t in range(TAPS)]",
        "TAPS takes its vectors in another order where the first one's index is odd",
        CHAIN,
    ),
    _rtl(
        "chain memory's rows",
        "store/unit.py",
        "x_ends.eq(x_left == 2),",
        "x_ends.eq(x_left == 1),",
        "a row of a store to the chain memory is a vector too long",
        CHAIN,
    ),
    _simulator(
        "chained store's end",
        "store.py",
        "X[V[V_INSTRUCTION], X_DONE] = cycle + V[V_LATENCY]",
        "X[V[V_INSTRUCTION], X_DONE] = cycle + P[P_STORE_LATENCY]",
        "a store to the chain memory ends as early as STORE.OUT would",
        CHAIN,
    ),
    _rtl(
        "look-up table's half",
        "store/tables.py",
        "entry.eq(Cat(self.value[:7], ~self.value[7], self.index)),",
        "entry.eq(Cat(self.value[:7], self.value[7], self.index)),",
        "a look-up finds positive values' entries for negative ones",
        TABLES,
    ),
    _rtl(
        "look-up table's place",
        "store/unit.py",
        "tables.at.eq(Cat(loader.part[:part_bits], loader.address)),",
        "tables.at.eq(Cat(loader.part[:part_bits], loader.address[:1])),",
        "the third look-up table is loaded over the first",
        TABLES,
    ),
    _rtl(
        "repeated operand",
        "store/unit.py",
        'taken &= ~operand["repeat"] | reader.row_ends',
        'taken &= ~operand["repeat"] | reader.last_row',
        "a row's only operand stays for the rows behind it",
        TABLES,
    ),
    _simulator(
        "rows of operands that touch",
        "store.py",
        "first += PRODUCT_CYCLES if row[Y_SIZE] > 1 else 0",
        "first += PRODUCT_CYCLES",
        "an operand of one row waits for a product of lengths",
        TABLES,
    ),
    _rtl(
        "sum of a row at once",
        "store/rows.py",
        "m.d.comb += again.eq(written_z & (row_z == row_a))",
        "m.d.comb += again.eq(0)",
        "the second pass of a vector misses what the first added to its row",
        ROWS,
    ),
    _rtl(
        "places of a radicand",
        "store/row_factors.py",
        "moves.eq(zeros & self.look_up if step == 1 else zeros),",
        "moves.eq(zeros),",
        "a root is taken of a number that was moved by an odd number of places",
        ROWS,
    ),
    _rtl(
        "lanes without an element",
        "store/row_lanes.py",
        "m.d.sync += element_4.eq(Mux(off_3, 0, whole))",
        "m.d.sync += element_4.eq(whole)",
        "what lies in the spare lanes of a row's last vector goes into its sums",
        ROWS,
    ),
    _simulator(
        "lanes of a row's other vectors",
        "rows.py",
        "return min(wanted, lanes) if is_last and wanted > 0 else lanes",
        "return min(wanted, lanes) if wanted > 0 else lanes",
        "every vector of a row has no more elements than its last one",
        ROWS,
    ),
    _simulator(
        "mean of a row",
        "rows.py",
        "w -= value if register >> 9 & 1 else 0",
        "w -= value",
        "the sum comes off rows that keep their mean",
        ROWS,
    ),
    _simulator(
        "look-up's zero point",
        "post.py",
        "own_zero_point = _signed(here[2], 48, 16) if row[TABLE] else zero_point",
        "own_zero_point = zero_point",
        "what a look-up finds has the zero point of what it looked up",
        TABLES,
    ),
    _simulator(
        "pad value",
        "loads.py",
        "return here[0] << 56 >> 56",
        "return here[0] & 0x7F",
        "negative pad values lose their sign",
    ),
    _simulator(
        "products",
        "compute.py",
        "second = np.int32(source[b, 2 * pair + 1]) - inp_zero",
        "second = np.int32(source[b, 2 * pair]) - inp_zero",
        "every second weight meets its neighbour's input",
    ),
    _simulator(
        "stall cause",
        "timeline.py",
        "used, at = _add(segments, used, at, begin - BEGIN_DELAY - 1, _UNIT, i)",
        "used, at = _add(segments, used, at, begin - BEGIN_DELAY - 1, _INSTRUCTION, i)",
        "waiting for the unit is counted as waiting for an instruction",
    ),
    _simulator(
        "bias",
        "post.py",
        "total = np.int32(np.int64(reduced[b, j]) + np.int64(bias[j]))",
        "total = np.int32(np.int64(reduced[b, j]) + np.int64(bias[b]))",
        "all lanes of a row take one lane's bias",
    ),
)
"""The faults, those in the RTL first."""

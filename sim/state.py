"""Names of the columns of the simulator's state arrays; numba compiles these indices as constants.

Times are int64 cycles. `NEVER` is a time that is not known yet.
"""

from __future__ import annotations

from vdla.isa.array_modes import is_by_lane, positions_of
from vdla.isa.layout import names_of

NEVER = 1 << 60
BLOCKED = -1

# --- rows: one int64 row for each instruction, written by decode.py; formats share columns ---------------

KIND, UNIT, POP_PREV, POP_NEXT, PUSH_PREV, PUSH_NEXT = range(6)
REGISTERS_AT = 6  # row of the register log that the instruction sees
SRAM_BASE, DRAM_BASE, Y_SIZE, X_SIZE, X_STRIDE, Y_PAD_0, Y_PAD_1, X_PAD_0, X_PAD_1 = range(7, 16)
(
    PAR_INDEX,
    COMBINE,
    OPERAND,
    MULTIPLY,
    SWAP,
    UNSIGNED,
    PAR_BY_X,
    PAR_BY_Y,
    CHAIN,
    TABLE,
    TABLE_INDEX,
    WITH_ROWS,
) = range(12, 24)
MAXIMUM = 12  # ROWS
UOP_BGN, UOP_END, ITER_OUT, ITER_IN, RESET, OVERWRITE = range(7, 13)
DST_OUT, DST_IN, SRC_OUT, SRC_IN, WGT_OUT, WGT_IN = range(13, 19)
ALU_OPCODE, USE_IMM, IMM = 17, 18, 19
REGISTER, VALUE = 7, 8
LOAD_BEFORE = 20  # load unit: the load that must have ended before this one enters the job queue, or -1
ROW_COLUMNS = 24


# Kinds of instruction: their indices in the table of instructions.
KIND_NAMES = names_of()
KINDS = dict(zip(KIND_NAMES, range(len(KIND_NAMES)), strict=True))
LOAD_UOP, LOAD_WGT, LOAD_INP, LOAD_ACC = (
    KINDS["LOAD.UOP"],
    KINDS["LOAD.WGT"],
    KINDS["LOAD.INP"],
    KINDS["LOAD.ACC"],
)
LOAD_ACC8, LOAD_PAR, LOAD_PATCH = KINDS["LOAD.ACC8"], KINDS["LOAD.PAR"], KINDS["LOAD.PATCH"]
LOAD_TABLE, STORE_OUT, STORE_POST = KINDS["LOAD.TABLE"], KINDS["STORE.OUT"], KINDS["STORE.POST"]
ROWS, GEMM, DEPTHWISE, TAPS = KINDS["ROWS"], KINDS["GEMM"], KINDS["DEPTHWISE"], KINDS["TAPS"]
FINISH, ALU, CONFIG = KINDS["FINISH"], KINDS["ALU"], KINDS["CONFIG"]
MATRIX = tuple(map(KIND_NAMES.index, names_of("matrix")))
OPERATIONS = tuple(map(KIND_NAMES.index, names_of("matrix", "vector")))
POSITIONS = tuple(map(positions_of, KIND_NAMES))
"""For each kind of instruction, the number of window positions whose inputs an operation reads (several for TAPS); 0
for kinds that the array does not execute.
"""
BY_LANE = tuple(map(is_by_lane, KIND_NAMES))
"""For each kind of instruction, whether it multiplies each lane by its own weight (DEPTHWISE, TAPS)."""

LOAD, COMPUTE, STORE = range(3)  # units, in the order of isa.layout.Unit

# --- clients of the read address arbiter, in order of priority -------------------------------------------

FETCH_CLIENT, COMPUTE_CLIENT, STORE_CLIENT, LOAD_CLIENT = range(4)

(
    C_FIFO,  # bytes of the FIFO
    C_BURST,  # bytes of the longest aligned burst
    C_RUNS,  # runs after the current one
    C_NEXT,  # address of the next run
    C_LENGTH,  # bytes of every run
    C_PITCH,  # bytes from run to run
    C_ADDRESS,  # address of the next burst
    C_LEFT,  # bytes of the current run not requested yet
    C_KIND,  # traffic kind
    C_EARLIEST,  # first cycle in which the next request may show
    C_SHOWN,  # cycle from which the current request shows, or NEVER
    C_BYTES,  # data bytes of the shown request
    C_BEATS,
    C_ACCEPTED,  # cycle of the last acceptance
    C_ISSUED,  # requests shown since launch
    C_SERVED,  # bursts whose data cycles are known
    C_TAKEN,  # bursts whose FIFO room is free again
    C_RESERVED,  # bytes reserved since launch
    C_FREE_AT,  # burst whose room must be free before the next request may show
    C_ACTIVE,  # the writer is inside an instruction
    C_STEP_TIME,  # cycle of the writer's last step
    C_STEP,  # that step's number in the instruction
    C_DATA,  # data steps done
    C_ROW,  # PATCH: row, patch, vector in the patch's row
    C_PATCH,
    C_VECTOR,
    C_WORDS,  # PATCH: words of the current burst in the window
    C_WINDOW,  # PATCH: position in the row up to which the window holds bytes (exclusive)
) = range(28)
C_SIZE = 28

# R[client, number of the burst modulo R.shape[1], a power of two]: a client's bursts.
R_ADDRESS, R_BYTES, R_RESERVED, R_START, R_FREE = range(5)
R_SIZE = 5

# Q[number of the read & QUEUE_MASK]: accepted reads; W[number of the burst modulo len(W), a power of two]: write
# bursts.
QUEUE = 128
QUEUE_MASK = QUEUE - 1
Q_CLIENT, Q_READY, Q_BEATS, Q_LAST = range(4)
Q_SIZE = 4
# W_SHOWN: first cycle in which the burst may show, since its vectors are in the FIFO. W_BEGIN: begin of the store, for
# its first burst; else NEVER. W_PRODUCT: cycles to compute the length of the store's runs. W_END: bytes of all bursts
# up to the end of this one. W_RESPONSE: cycle of the memory's response; NEVER until it is known.
# W_WORD: its first bus word.
W_SHOWN, W_READY, W_BEATS, W_LAST, W_END, W_BEGIN, W_PRODUCT, W_RESPONSE, W_WORD = range(9)
W_SIZE = 9

# --- M: memory and fetch state ---------------------------------------------------------------------------

(
    M_ACCEPTED,  # numbers of reads accepted and served
    M_SERVED,
    M_LAST_ACCEPT,
    M_WRITE_SHOWN,  # numbers of write bursts shown, accepted and served
    M_WRITE_ACCEPTED,
    M_WRITE_SERVED,
    M_LAST_WRITE_ACCEPT,
    M_WRITE_FIRST,  # cycle in which the last accepted write first showed, and that of the write before it
    M_WRITE_FIRST_BEFORE,
    M_CUT_FROM,  # cycle from which the store's runs are cut into bursts, and cycles to compute the length of its runs
    M_CUT_PRODUCT,
    M_READ_FREE,  # first cycles in which the channels for read data and for write data are free; equal if shared
    M_WRITE_FREE,
    M_LAST_WAS_WRITE,
    M_REQUESTED,  # numbers of instructions requested and dispatched
    M_DISPATCHED,
    M_LAST_DISPATCH,
    M_TOTAL,  # end of FINISH, or NEVER
    M_OPENED,  # of a DRAM: rows opened, rows closed, refreshes, changes from reads to writes
    M_CLOSED,
    M_REFRESHES,
    M_TURNS,
) = range(22)
# Of a DRAM, from M_CYCLES on: cycles by what the controller does, in the order of `DRAM_CYCLES`.
DRAM_CYCLES = ("words", "refresh", "precharge", "activate", "turnaround", "bank", "latency", "idle")
M_CYCLES = 22
M_SIZE = M_CYCLES + len(DRAM_CYCLES)
# The columns from M_OPENED on, once more for each further channel of the DRAM.
M_COUNTS = M_SIZE - M_OPENED

# --- U[unit]: progress of the units ----------------------------------------------------------------------

(
    U_COUNT,  # instructions of the unit up to the first FINISH
    U_DISPATCHED,
    U_BEGUN,
    U_ENDED,
    U_PREVIOUS_BEGIN,
    U_POPPED,  # pops that the head instruction has done: bit 0 pop_prev, bit 1 pop_next
    U_READY,  # ready_cycle of the head instruction, BLOCKED while unknown
    U_LAST_END,  # largest end so far
    U_FREE,  # load: last busy cycle of the address side
    U_ISSUED,  # compute: cycle of the last GEMM operation
    U_OTHER_END,  # compute: largest end of instructions that do not use the array
    U_HARD_END,  # compute: largest end of ALU, LOAD and FINISH
) = range(12)
U_SIZE = 12

# --- V: the store that reads accumulators now, and totals of the stores before it --------------------------

(
    V_INSTRUCTION,  # the store's index in the program
    V_INDEX,  # next vector to read; V_COUNT of them
    V_COUNT,
    V_READ,  # next read of the vector's window; V_ROWS x V_COLUMNS of them
    V_ROWS,
    V_COLUMNS,
    V_BASE,
    V_Y_STRIDE,
    V_X_STRIDE,
    V_X_SIZE,
    V_ROW_STRIDE,
    V_COLUMN_STRIDE,
    V_LATENCY,
    V_EARLIEST,  # first cycle in which the next read may happen
    V_LAST_READ,  # cycle of the last accumulator read of any store
    V_BEGIN,  # begin of the store if its first write burst is not cut yet, else NEVER; cycles to compute its run length
    V_PRODUCT,
    V_ADDRESS,  # byte address of the next burst
    V_LEFT,  # bytes left in the current output run; number of runs after it
    V_RUNS,
    V_NEXT,
    V_LENGTH,
    V_PITCH,
    V_STORED,  # bytes of all stores whose vectors have been read
    V_CUT,  # bytes of all stores up to and including the burst being filled
    V_CUT_BEATS,
    V_ROOM,  # bursts whose room is known to be free
    V_OPERAND,
    V_OPERAND_END,  # operand bytes up to the end of the oldest operand burst
    V_PORT,  # compute instruction whose accumulator reads are checked next
    V_REST,  # cycles after a vector's last read in which the next vector's first read may not happen
    V_CHAIN,  # the store writes the chain memory, or nothing (ROWS): it has no bursts and needs no room
    V_REPEAT,  # vectors that share an operand: 1, or all of a row
    V_STORE_KIND,  # kind and flags of the last store that has begun: stores of the same ones overlap (section 8)
    V_OPEN,  # the youngest instruction allows others to begin before its end: a plain store or a LOAD.PAR
    V_LOAD,  # LOAD.PAR or LOAD.TABLE with steps to do, or BLOCKED; the last such load that has begun
    V_LAST_LOAD,
) = range(37)
V_SIZE = 37

# --- T[queue]: token queues ------------------------------------------------------------------------------

T_PUSHED, T_RESERVED, T_POPPED = range(3)
T_SIZE = 3

# --- X[instruction]: record of each instruction ------------------------------------------------------------

X_HEAD, X_POP_0, X_POP_1, X_FULL_0, X_FULL_1, X_BEGIN, X_END, X_ISSUES = range(8)
X_DISPATCH = 8
X_DONE = (
    9  # store unit: cycle in which a load is complete; write bursts up to a store's last one once it is read
)
RECORD_COLUMNS = 10

# --- traffic kinds ---------------------------------------------------------------------------------------

TRAFFIC = ("instruction", "uop", "wgt", "inp", "acc", "par", "operand", "out")
T_INSTRUCTION, T_UOP, T_WGT, T_INP, T_ACC, T_PAR, T_OPERAND, T_OUT = range(8)

OK, DEADLOCK, LIMIT = range(3)

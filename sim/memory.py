"""Timing of the AXI4 memory (hw/README.md sections 1 to 3): which read or write address the memory accepts next, which
burst it transfers next, and when.
"""

from __future__ import annotations

import numpy as np

from vdla.isa.noise import NOISE_READ, NOISE_STALL, NOISE_WRITE, NOISE_WRITE_STALL

from .cache import timing_code
from .parameters import (
    P_BUS,
    P_JITTER,
    P_READ_LATENCY,
    P_READS,
    P_REQUEST_GAP,
    P_SEED,
    P_SEPARATE,
    P_STALL,
    P_WRITE_DELAY,
    P_WRITE_LATENCY,
    P_WRITES,
)
from .state import (
    C_ACCEPTED,
    C_ADDRESS,
    C_BEATS,
    C_BURST,
    C_BYTES,
    C_EARLIEST,
    C_FIFO,
    C_FREE_AT,
    C_ISSUED,
    C_KIND,
    C_LEFT,
    C_LENGTH,
    C_NEXT,
    C_PITCH,
    C_RESERVED,
    C_RUNS,
    C_SERVED,
    C_SHOWN,
    M_ACCEPTED,
    M_CUT_FROM,
    M_CUT_PRODUCT,
    M_LAST_ACCEPT,
    M_LAST_WAS_WRITE,
    M_LAST_WRITE_ACCEPT,
    M_READ_FREE,
    M_SERVED,
    M_WRITE_ACCEPTED,
    M_WRITE_FIRST,
    M_WRITE_FIRST_BEFORE,
    M_WRITE_FREE,
    M_WRITE_SERVED,
    M_WRITE_SHOWN,
    NEVER,
    Q_BEATS,
    Q_CLIENT,
    Q_LAST,
    Q_READY,
    QUEUE_MASK,
    R_ADDRESS,
    R_BYTES,
    R_FREE,
    R_RESERVED,
    R_START,
    STORE_CLIENT,
    W_BEATS,
    W_BEGIN,
    W_LAST,
    W_PRODUCT,
    W_READY,
    W_RESPONSE,
    W_SHOWN,
)

BOUNDARY = 4096


@timing_code
def noise(seed, index, stream, limit):  # type: ignore[no-untyped-def]
    """Pseudo-random number of additional cycles of burst number `index`, uniform on 0..`limit`. Equals
    `isa.noise.memory_noise`, with uint64 arithmetic that numba compiles. `stream`: selects one of four sequences, for
    the latency of reads or of writes, or for the delay before the first beat of a read or of a write.
    """
    if limit == 0:
        return np.int64(0)
    z = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15)
    z += np.uint64(2 * index + stream + 1) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64(((z ^ (z >> np.uint64(31))) >> np.uint64(33)) % np.uint64(limit + 1))


@timing_code
def burst_bytes(address, left, longest, bus):  # type: ignore[no-untyped-def]
    """Data bytes of the next burst of a run (contiguous bytes to transfer): `left` bytes remain from `address` on.
    `longest`: largest number of bytes in a burst that starts at a bus word. `bus`: bytes of a bus word.
    """
    return min(left, longest - address % bus, BOUNDARY - address % BOUNDARY)


@timing_code
def beats_of(address, length, bus):  # type: ignore[no-untyped-def]
    """Number of bus words, of `bus` bytes each, that contain the `length` bytes from `address` on."""
    return (address + length - 1) // bus - address // bus + 1


@timing_code
def start_transfer(C, c, kind, address, runs, length, pitch, earliest):  # type: ignore[no-untyped-def]
    """Starts a transfer of traffic `kind`: client `c` (a row of the array C) reads `runs` runs of `length` bytes (both
    above 0). The first begins at byte `address`, and the begins of two runs are `pitch` bytes apart. The first request
    is on the bus in cycle `earliest` or later.
    """
    C[c, C_KIND] = kind
    C[c, C_ADDRESS] = address
    C[c, C_LEFT] = length
    C[c, C_RUNS] = runs - 1
    C[c, C_NEXT] = address + pitch
    C[c, C_LENGTH] = length
    C[c, C_PITCH] = pitch
    C[c, C_EARLIEST] = earliest


@timing_code
def requests_left(C, c):  # type: ignore[no-untyped-def]
    """Whether client `c` (a row of the array C) has a request that the memory has not accepted yet."""
    return C[c, C_LEFT] > 0 or C[c, C_SHOWN] != NEVER


@timing_code
def show_request(P, C, R, c):  # type: ignore[no-untyped-def]
    """Puts the next request of client `c` on the bus. Does so only if the client has a next request, no other request
    of the client is on the bus, and the cycle in which its FIFO has room is known. Returns whether the request was put
    on the bus. State arrays: P (parameters of the run), C (read clients), R (their bursts).
    """
    if C[c, C_LEFT] == 0 or C[c, C_SHOWN] != NEVER:
        return False
    bus = P[P_BUS]
    address = C[c, C_ADDRESS]
    length = burst_bytes(address, C[c, C_LEFT], C[c, C_BURST], bus)
    beats = beats_of(address, length, bus)
    shown = max(C[c, C_EARLIEST], C[c, C_ACCEPTED] + P[P_REQUEST_GAP])
    reserved = C[c, C_RESERVED] + beats * bus
    if reserved > C[c, C_FIFO]:
        while R[c, C[c, C_FREE_AT] & (R.shape[1] - 1), R_RESERVED] < reserved - C[c, C_FIFO]:
            C[c, C_FREE_AT] += 1
        free = R[c, C[c, C_FREE_AT] & (R.shape[1] - 1), R_FREE]
        if free == NEVER:
            return False
        shown = max(shown, free)
    burst = R[c, C[c, C_ISSUED] & (R.shape[1] - 1)]
    burst[R_ADDRESS] = address
    burst[R_BYTES] = length
    burst[R_RESERVED] = reserved
    burst[R_START] = NEVER
    burst[R_FREE] = NEVER
    C[c, C_ISSUED] += 1
    C[c, C_RESERVED] = reserved
    C[c, C_SHOWN] = shown
    C[c, C_BYTES] = length
    C[c, C_BEATS] = beats
    C[c, C_LEFT] -= length
    C[c, C_ADDRESS] = address + length
    if C[c, C_LEFT] == 0 and C[c, C_RUNS] > 0:
        C[c, C_RUNS] -= 1
        C[c, C_ADDRESS] = C[c, C_NEXT]
        C[c, C_LEFT] = C[c, C_LENGTH]
        C[c, C_NEXT] += C[c, C_PITCH]
    return True


@timing_code
def next_accept(P, M, C, Q):  # type: ignore[no-untyped-def]
    """Cycle in which the memory accepts the next read address, given the requests on the bus so far; NEVER if there are
    none. State arrays: P (parameters of the run), M (memory and fetch), C (read clients), Q (accepted reads).
    """
    shown = min(min(C[0, C_SHOWN], C[1, C_SHOWN]), min(C[2, C_SHOWN], C[3, C_SHOWN]))
    if shown == NEVER:
        return NEVER
    cycle = max(shown, M[M_LAST_ACCEPT] + 1)
    oldest = M[M_ACCEPTED] - P[P_READS]
    if oldest >= 0:
        if oldest >= M[M_SERVED]:
            return NEVER
        cycle = max(cycle, Q[oldest & QUEUE_MASK, Q_LAST] + 1)
    return cycle


@timing_code
def accept_read(P, M, C, Q, cycle, moved, beats):  # type: ignore[no-untyped-def]
    """Accepts a read request in `cycle`. If several clients have a request on the bus, the memory accepts the one of
    the client with the lowest number, which has the highest priority. Returns the client's number. State arrays: P
    (parameters of the run), M (memory and fetch), C (read clients), Q (accepted reads). `moved`, `beats`: counts of
    data bytes and of bus beats by kind of data, updated.
    """
    c = 0
    while C[c, C_SHOWN] > cycle:
        c += 1
    read = Q[M[M_ACCEPTED] & QUEUE_MASK]
    read[Q_CLIENT] = c
    read[Q_READY] = cycle + P[P_READ_LATENCY] + noise(P[P_SEED], M[M_ACCEPTED], NOISE_READ, P[P_JITTER])
    read[Q_BEATS] = C[c, C_BEATS]
    read[Q_LAST] = NEVER
    M[M_ACCEPTED] += 1
    M[M_LAST_ACCEPT] = cycle
    C[c, C_SHOWN] = NEVER
    C[c, C_ACCEPTED] = cycle
    moved[C[c, C_KIND]] += C[c, C_BYTES]
    beats[C[c, C_KIND]] += C[c, C_BEATS]
    return c


@timing_code
def _cut(P, M, burst):  # type: ignore[no-untyped-def]
    """Returns two numbers about the store to which `burst`, a row of array W, belongs: the cycle from which the store's
    runs of bytes are cut into bursts, and the number of cycles spent on multiplying to get the length of a run. State
    arrays: P (parameters of the run), M (memory and fetch).
    """
    cut, product = M[M_CUT_FROM], M[M_CUT_PRODUCT]
    if burst[W_BEGIN] != NEVER:
        # The RTL's unit that cuts runs into bursts is free after the last burst of the previous store.
        left = max(cut + product + P[P_WRITE_DELAY] - 2, M[M_WRITE_FIRST_BEFORE])
        cut, product = max(burst[W_BEGIN], left + 1), burst[W_PRODUCT]
    return cut, product


@timing_code
def first_show(P, M, W):  # type: ignore[no-untyped-def]
    """First cycle in which the next write address can be on the bus, as far as the store unit and the previous write
    address delay it. The limit of outstanding writes is not considered. State arrays: P (parameters of the run), M
    (memory and fetch), W (write bursts).
    """
    burst = W[M[M_WRITE_ACCEPTED] & (W.shape[0] - 1)]
    cut, product = _cut(P, M, burst)
    return max(burst[W_SHOWN], M[M_LAST_WRITE_ACCEPT] + P[P_REQUEST_GAP], cut + product + P[P_WRITE_DELAY])


@timing_code
def note_write(P, M, W, first, cycle):  # type: ignore[no-untyped-def]
    """Records that the memory accepts the next write address in `cycle`; the address was on the bus from cycle `first`
    on. State arrays: P (parameters of the run), M (memory and fetch), W (write bursts).
    """
    M[M_CUT_FROM], M[M_CUT_PRODUCT] = _cut(P, M, W[M[M_WRITE_ACCEPTED] & (W.shape[0] - 1)])
    M[M_LAST_WRITE_ACCEPT] = cycle
    M[M_WRITE_FIRST_BEFORE] = M[M_WRITE_FIRST]
    M[M_WRITE_FIRST] = first
    M[M_WRITE_ACCEPTED] += 1


@timing_code
def accept_writes(P, M, W):  # type: ignore[no-untyped-def]
    """Accepts write addresses on the bus, in order, until the acceptance of one depends on a response whose cycle is
    not known yet; returns whether any was accepted. State arrays: P (parameters of the run), M (memory and fetch), W
    (write bursts).
    """
    progress = False
    while M[M_WRITE_ACCEPTED] < M[M_WRITE_SHOWN]:
        number = M[M_WRITE_ACCEPTED]
        cycle = first = first_show(P, M, W)
        oldest = number - P[P_WRITES]
        if oldest >= 0:
            if oldest >= M[M_WRITE_SERVED]:
                break
            cycle = max(cycle, W[oldest & (W.shape[0] - 1), W_RESPONSE] + 1)
        ready = cycle + 1
        if P[P_SEPARATE]:
            ready += noise(P[P_SEED], number, NOISE_WRITE, P[P_JITTER])
        W[number & (W.shape[0] - 1), W_READY] = ready
        note_write(P, M, W, first, cycle)
        progress = True
    return progress


@timing_code
def next_slot(M, Q, W):  # type: ignore[no-untyped-def]
    """Cycle in which the memory picks the next burst, given the bursts accepted so far; NEVER if there are none. State
    arrays: M (memory and fetch), Q (accepted reads), W (write bursts).
    """
    slot = NEVER
    if M[M_SERVED] < M[M_ACCEPTED]:
        slot = max(Q[M[M_SERVED] & QUEUE_MASK, Q_READY], M[M_READ_FREE])
    if M[M_WRITE_SERVED] < M[M_WRITE_ACCEPTED]:
        slot = min(slot, max(W[M[M_WRITE_SERVED] & (W.shape[0] - 1), W_READY], M[M_WRITE_FREE]))
    return slot


@timing_code
def serve(P, M, C, R, Q, W, cycle):  # type: ignore[no-untyped-def]
    """Picks the burst that the memory transfers from `cycle` on and sets the cycles of its beats; returns its client.
    With separate data channels, a second call for the same `cycle` may pick a burst of the other direction. State
    arrays: P (parameters of the run), M (memory and fetch), C (read clients), R (their bursts), Q (accepted reads), W
    (write bursts).
    """
    read = Q[M[M_SERVED] & QUEUE_MASK]
    write = W[M[M_WRITE_SERVED] & (W.shape[0] - 1)]
    read_ready = M[M_SERVED] < M[M_ACCEPTED] and max(read[Q_READY], M[M_READ_FREE]) <= cycle
    write_ready = M[M_WRITE_SERVED] < M[M_WRITE_ACCEPTED] and max(write[W_READY], M[M_WRITE_FREE]) <= cycle
    writes = write_ready and not (read_ready and M[M_LAST_WAS_WRITE] == 1)
    number, stream = M[M_SERVED] + M[M_WRITE_SERVED], NOISE_STALL
    if P[P_SEPARATE]:
        number = M[M_WRITE_SERVED] if writes else M[M_SERVED]
        stream = NOISE_WRITE_STALL if writes else NOISE_STALL
    first = cycle + noise(P[P_SEED], number, stream, P[P_STALL])
    free = first + (write[W_BEATS] if writes else read[Q_BEATS])
    if writes or not P[P_SEPARATE]:
        M[M_WRITE_FREE] = free
    if not (writes and P[P_SEPARATE]):
        M[M_READ_FREE] = free
    if writes:
        write[W_LAST] = free - 1
        write[W_RESPONSE] = write[W_LAST] + P[P_WRITE_LATENCY]
        M[M_WRITE_SERVED] += 1
        M[M_LAST_WAS_WRITE] = 1
        return np.int64(STORE_CLIENT)
    read[Q_LAST] = free - 1
    M[M_SERVED] += 1
    M[M_LAST_WAS_WRITE] = 0
    c = read[Q_CLIENT]
    R[c, C[c, C_SERVED] & (R.shape[1] - 1), R_START] = first
    C[c, C_SERVED] += 1
    return c

"""A cycle-by-cycle model of the store unit, section 8 of the timing contract (hw/README.md)."""

from dataclasses import dataclass, field

from vdla.hw.interfaces import Kind
from vdla.isa.config import Config
from vdla.isa.registers import operand_shape
from vdla.isa.timing import (
    FIFO_LATENCY,
    PRODUCT_CYCLES,
    REQUEST_DELAY,
    REQUEST_GAP,
    ROOM_DELAY,
    STEP_DELAY,
    STEP_LATENCY,
    STORES_IN_FLIGHT,
    WRITE_DELAY,
    parameter_cycles,
    post_latency,
    read_burst_beats,
    store_latency,
    write_burst_beats,
)

LOADS = ("LOAD.PAR", "LOAD.TABLE")


@dataclass(eq=False)
class Burst:
    """A read or write burst. `vectors`: number of vectors, of all stores since the start, that must have entered the
    FIFO before the burst's request is shown; `moved`: cycles of the burst's beats.
    """

    address: int
    size: int
    bus: int
    vectors: int = 0
    kind: Kind = Kind.OUT
    accepted: int = -1
    moved: list[int] = field(default_factory=list)
    returned: int = -1
    response: int = -1
    shown: int = -1
    due: int = -1
    """The cycle from which a write burst is answered, once its data have moved."""

    @property
    def beats(self) -> int:
        return (self.address + self.size - 1) // self.bus - self.address // self.bus + 1

    def gone(self, now: int) -> bool:
        return len(self.moved) == self.beats and self.moved[-1] < now

    def has(self, byte: int, now: int) -> bool:
        beat = byte // self.bus - self.address // self.bus
        return len(self.moved) > beat and self.moved[beat] + FIFO_LATENCY <= now


def cut(start: int, length: int, bus: int, most: int, kind: Kind) -> list[Burst]:
    bursts = []
    while length:
        size = min(length, most * bus - start % bus, 4096 - start % 4096)
        bursts.append(Burst(start, size, bus, kind=kind))
        start, length = start + size, length - size
    return bursts


@dataclass
class Step:
    name: str
    values: dict[str, int]
    registers: dict[str, dict[str, int]]
    words: tuple[int, int]
    visible: int = 0

    @property
    def plain(self) -> bool:
        values = self.values
        if not self.name.startswith("STORE.") or not values["y_size"] * values["x_size"]:
            return False
        return not values.get("operand")

    @property
    def likeness(self) -> list[object]:
        flags = ("combine", "unsigned", "chain", "table", "table_index", "rows")
        return [self.name, *(self.values.get(flag, 0) for flag in flags)]


@dataclass(eq=False)
class Flight:
    """An instruction that has begun and not ended; `complete`: the cycle in which it is complete, once known
    (else -1).
    """

    step: Step
    begin: int
    complete: int = -1
    writes: list[Burst] = field(default_factory=list)
    product: int = 0
    cut_from: int = -1


class Model:
    """The expected outputs of the store unit in a cycle, from the events of earlier cycles (and the grant of this
    cycle).
    """

    def __init__(self, config: Config) -> None:
        self.config, self.bus = config, config.memory.bus_bytes
        self.flights: list[Flight] = []
        self.overlapping = 0
        self.last_end = -1
        self.store: Flight | None = None  # whose accumulators are read, or were last
        self.last_read = -100
        self.load: Flight | None = None  # that has begun last
        self.waiting: list[Burst] = []
        self.shown: Burst | None = None
        self.held: list[Burst] = []
        self.first_request = 0
        self.accepted = self.write_accepted = -REQUEST_GAP
        self.operands: list[Burst] = []
        self.writes: list[tuple[Burst, Flight]] = []  # of all stores
        self.loads: list[tuple[Burst, int] | None] = []
        self.count = self.vector = self.position = 0
        self.next_vector = self.rests = 0
        self.stored = 0  # vectors of all stores that have a place in the FIFO
        self.ready: list[int] = []

    def may_begin(self, step: Step, now: int) -> bool:
        """Whether `step`, the oldest waiting instruction, may begin in cycle `now`, by the store unit's own conditions.
        Its tokens are checked elsewhere.
        """
        if not self.flights:
            return True
        youngest, loads = self.flights[-1].step, [item for item in self.flights if item.step.name in LOADS]
        if len(self.flights) == STORES_IN_FLIGHT:
            return False
        if step.name == "LOAD.PAR":
            return youngest.plain and not loads
        if not step.plain or not (youngest.plain or youngest.name == "LOAD.PAR") or self.store is None:
            return False
        alike = step.likeness == self.store.step.likeness
        return alike and self.vector == self.count and all(0 <= item.complete < now for item in loads)

    def start(self, step: Step, now: int) -> None:
        config, values = self.config, step.values
        flight = Flight(step, now)
        self.overlapping += bool(self.flights)
        self.flights.append(flight)
        if step.name == "CONFIG":
            flight.complete = now + 1
            return
        size = config.element_bytes(step.name.partition(".")[2].lower())
        base, length, pitch = values["dram_base"] * size, values["x_size"] * size, values["x_stride"] * size
        runs = [(base + y * pitch, length) for y in range(values["y_size"])]
        product = PRODUCT_CYCLES if values["x_stride"] == values["x_size"] and values["y_size"] > 1 else 0
        if values["x_stride"] == values["x_size"]:
            runs = [(base, length * values["y_size"])]
        reads = read_burst_beats(config, config.fifo_bytes("operand"))
        if step.name in LOADS:
            self.first_request = now + REQUEST_DELAY + product
            self.waiting = [b for at, bytes_ in runs for b in cut(at, bytes_, self.bus, reads, Kind.PAR)]
            self.loads = self.load_steps(values, size, list(self.waiting))
            self.load = flight
            return
        if not values["y_size"] * values["x_size"]:
            flight.complete = now + 1
            return
        self.store, flight.product = flight, product
        self.count = values["y_size"] * values["x_size"]
        self.vector = self.position = 0
        self.next_vector = max(self.next_vector, now + 1)
        most = write_burst_beats(config)
        if not values.get("chain"):
            flight.writes = [b for at, bytes_ in runs for b in cut(at, bytes_, self.bus, most, Kind.OUT)]
        for burst in flight.writes:
            before = self.writes[-1][0].vectors if self.writes else 0
            burst.vectors = before + burst.size // size
            self.writes.append((burst, flight))
        if values.get("operand"):
            first, pitch, width = operand_shape(values, step.registers["OPERAND"])
            rows = values["y_size"]
            runs, product = [((first + y * pitch) * size, width * size) for y in range(rows)], 0
            if pitch == width:
                runs, product = [(first * size, width * rows * size)], PRODUCT_CYCLES * (rows > 1)
            self.first_request = now + REQUEST_DELAY + product
            self.waiting = [b for at, bytes_ in runs for b in cut(at, bytes_, self.bus, reads, Kind.OPERAND)]

    def load_steps(
        self, values: dict[str, int], size: int, bursts: list[Burst]
    ) -> list[tuple[Burst, int] | None]:
        width = min(size, self.bus)
        columns = values["x_pad_0"] + values["x_size"] + values["x_pad_1"]
        bytes_ = [(b, at) for b in bursts for at in range(b.address, b.address + b.size)][width - 1 :: width]
        steps: list[tuple[Burst, int] | None] = []
        if values["x_size"]:
            steps += [None] * (values["y_pad_0"] * columns)
            row = values["x_size"] * size // width
            for y in range(values["y_size"]):
                steps += [None] * values["x_pad_0"] + bytes_[y * row : y * row + row]
                steps += [None] * values["x_pad_1"]
            steps += [None] * (values["y_pad_1"] * columns)
        return steps or [None]

    def show(self, now: int) -> None:
        if self.shown or not self.waiting or now < max(self.first_request, self.accepted + REQUEST_GAP):
            return
        self.held = [b for b in self.held if b.returned < 0 or b.returned + ROOM_DELAY > now]
        burst = self.waiting[0]
        if sum(b.beats * b.bus for b in [*self.held, burst]) <= self.config.fifo_bytes("operand"):
            self.shown = self.waiting.pop(0)
            self.held.append(burst)

    def request(self, now: int) -> int | None:
        """Index of the accumulator that the unit requests in cycle `now`; None if it requests none."""
        if self.store is None or self.vector == self.count or now <= self.store.begin:
            return None
        step, out = self.store.step, self.config.out_bytes
        if self.position == 0:
            if now < self.next_vector:
                self.rests += 1
                return None
            gone = sum(b.size for b, _ in self.writes if b.gone(now))
            room = self.config.fifo_bytes("store") + gone
            if not step.values.get("chain") and (self.stored + 1) * out > room:
                return None
            if step.values.get("operand") and not self.operand(now):
                return None
        if step.name == "STORE.OUT":
            return step.values["sram_base"] + self.vector
        y, x = divmod(self.vector, step.values["x_size"])
        address, window = step.registers["ADDRESS"], step.registers["WINDOW"]
        r, c = divmod(self.position, window["columns_minus_1"] + 1)
        corner = step.values["sram_base"] + y * address["y_stride"] + x * address["x_stride"]
        return (corner + r * window["row_stride"] + c * window["column_stride"]) % self.config.acc_depth

    def share(self) -> int:
        """Number of vectors that use the same operand."""
        assert self.store is not None
        step = self.store.step
        return step.values["x_size"] if step.registers["OPERAND"]["repeat"] else 1

    def wanted(self) -> int:
        """Returns the number of operand bytes that must have arrived before the current vector is read: those of all
        operands up to and including the vector's own, which may serve several vectors.
        """
        return (self.vector // self.share() + 1) * self.config.out_bytes

    def operand(self, now: int) -> bool:
        done, wanted = 0, self.wanted()
        for burst in self.operands:
            if done + burst.size >= wanted:
                return burst.has(burst.address + wanted - done - 1, now)
            done += burst.size
        return False

    def read(self, now: int) -> None:
        assert self.store is not None
        step, chained = self.store.step, self.store.step.values.get("chain")
        if self.position == 0:
            self.stored += not chained
            if step.values.get("operand") and (self.vector + 1) % self.share() == 0:
                done = 0
                for burst in self.operands:
                    done += burst.size
                    if done <= self.wanted() and burst.returned < 0:
                        burst.returned = now
        window = step.registers["WINDOW"]
        reads = (window["rows_minus_1"] + 1) * (window["columns_minus_1"] + 1)
        latency = post_latency(self.config)
        if step.name == "STORE.OUT":
            reads, latency = 1, store_latency(self.config)
        lanes = self.config.out_bytes
        passes = 1 if step.name == "STORE.OUT" else lanes // (self.config.post_lanes or lanes)
        self.position += 1
        self.last_read = now
        if self.position == reads:
            self.position, self.vector = 0, self.vector + 1
            if not chained:
                self.ready.append(now + latency + 1)
            elif self.vector == self.count:
                self.store.complete = now + latency + 1
            self.next_vector = now + max(1, passes - reads + 1)

    def step_load(self, now: int) -> None:
        """Simulates cycle `now` of the part of the unit that writes loaded data: it writes the next word of the load in
        progress if the word's data have arrived.
        """
        if self.load is None or not self.loads or now < self.load.begin + STEP_DELAY:
            return
        # A store that has begun later waits for the load.
        if self.vector < self.count or now < self.last_read + parameter_cycles(self.config):
            return
        need = self.loads[0]
        if need is not None and not need[0].has(need[1], now):
            return
        self.loads.pop(0)
        if need is not None and all(other is None or other[0] is not need[0] for other in self.loads):
            need[0].returned = now
        if not self.loads:
            self.load.complete = now + STEP_LATENCY

    def write_request(self, now: int) -> Burst | None:
        index = next((i for i, (b, _) in enumerate(self.writes) if b.accepted < 0), None)
        if index is None or now < self.write_accepted + REQUEST_GAP:
            return None
        burst, flight = self.writes[index]
        if flight.cut_from < 0:
            flight.cut_from = flight.begin
            if index:
                before = self.writes[index - 1][1]
                leaves = before.cut_from + WRITE_DELAY - 2 + before.product
                if index > 1:
                    leaves = max(leaves, self.writes[index - 2][0].shown)
                flight.cut_from = max(flight.begin, leaves + 1)
        there = sum(cycle <= now for cycle in self.ready)
        if now < flight.cut_from + WRITE_DELAY + flight.product or burst.vectors > there:
            return None
        return burst

    def ends(self, now: int) -> bool:
        """Whether the oldest instruction in flight ends in cycle `now`; False if none is in flight."""
        if not self.flights:
            return False
        oldest = self.flights[0]
        if oldest.writes and all(b.response >= 0 for b in oldest.writes):
            oldest.complete = max(b.response for b in oldest.writes)
        return 0 <= oldest.complete <= now and now > self.last_end

"""The store unit alone, in lockstep with a cycle-by-cycle model of section 8 of the timing contract (hw/README.md).

The bench takes the place of the rest of the machine: instructions, tokens, grants of the accumulators' read ports,
beats and responses come in random cycles. All outputs of the unit are compared with the model in every cycle; at the
end, DRAM is compared with the reference.
"""

import dataclasses

import numpy as np
import pytest
from amaranth.sim import Simulator
from campaign import representatives
from store_model import Burst, Model, Step

from vdla.hw.interfaces import Activity, Kind
from vdla.hw.store import StoreUnit
from vdla.isa.access import AccessError, accesses, advance, start_trace
from vdla.isa.config import Config, load_config
from vdla.isa.layout import Unit, encode, formats, unit_of
from vdla.isa.reference import ReferenceResult, run_reference
from vdla.isa.registers import register
from vdla.verify.random_images import random_image
from vdla.verify.random_instructions import Source, random_instruction
from vdla.verify.random_sequences import alike_stores

TINY = dataclasses.replace(
    load_config("tiny"),
    acc_buffer_bytes=64 * 16, par_buffer_bytes=4 * 32, store_fifo_bytes=32, operand_fifo_bytes=32,
)  # fmt: skip
CONFIGS = {
    "4 lanes, bus 8": TINY,
    "4 lanes, bus 64": dataclasses.replace(
        TINY, memory=dataclasses.replace(TINY.memory, bus_bytes=64, outstanding_writes=1),
        store_fifo_bytes=256, operand_fifo_bytes=128,
    ),
    "2x8 lanes, bus 8, 4 banks": dataclasses.replace(
        TINY, batch=2, block_out=8, acc_banks=4, acc_buffer_bytes=64 * 64, par_buffer_bytes=64,
        inp_buffer_bytes=64 * 8, wgt_buffer_bytes=32 * 32, store_fifo_bytes=64, operand_fifo_bytes=128,
        extensions=("post",),
    ),
    "4 lanes in 2 passes": dataclasses.replace(TINY, post_lanes=2),
    "2x8 lanes in 4 passes": dataclasses.replace(
        TINY, batch=2, block_out=8, post_lanes=4, acc_banks=4, acc_buffer_bytes=64 * 64, par_buffer_bytes=64,
        inp_buffer_bytes=64 * 8, wgt_buffer_bytes=32 * 32, store_fifo_bytes=128, operand_fifo_bytes=128,
        extensions=("post",),
    ),
    "2x4 lanes in 8 passes": dataclasses.replace(
        TINY, batch=2, post_lanes=1, acc_buffer_bytes=64 * 32, inp_buffer_bytes=64 * 8, store_fifo_bytes=128,
    ),
    "4 lanes, chain memory": dataclasses.replace(TINY, chain_buffer_bytes=4 * 77),
    "2x8 lanes, chain memory of 16 lanes": dataclasses.replace(
        TINY, batch=2, block_in=16, block_out=8, post_lanes=4, acc_buffer_bytes=64 * 64, par_buffer_bytes=64 * 3,
        wgt_buffer_bytes=32 * 128, store_fifo_bytes=64, operand_fifo_bytes=128, extensions=("post",),
        chain_buffer_bytes=32 * 9,
    ),
    "4 lanes in 2 passes, chain memory of 8 lanes": dataclasses.replace(
        TINY, block_in=8, post_lanes=2, wgt_buffer_bytes=32 * 32, chain_buffer_bytes=8 * 37,
    ),
    "2x4 lanes in 4 passes, look-up tables": dataclasses.replace(
        TINY, batch=2, post_lanes=2, acc_buffer_bytes=64 * 32, inp_buffer_bytes=64 * 8, store_fifo_bytes=128,
        extensions=("post", "table", "broadcast"), tables=3,
    ),
    "8 lanes, no post": dataclasses.replace(
        TINY, block_out=8, acc_buffer_bytes=64 * 32, wgt_buffer_bytes=32 * 32, extensions=(),
    ),
}  # fmt: skip
SIDES = ("prev", "next")


def program(config: Config, seed: int, length: int) -> tuple[list[Step], ReferenceResult, np.ndarray]:
    """A random program: `length` steps of the store unit, the reference's result for them after the accumulators have
    been loaded, and the initial DRAM image.
    """
    rng = np.random.default_rng((seed, 12))
    image, regions = random_image(config, rng)
    source = Source(
        config=config, rng=rng, regions=regions, trace=start_trace(config, image), wide=False, uops_at=0
    )
    load = {"y_size": 1, "x_size": config.acc_depth, "x_stride": config.acc_depth}
    base = regions.data // config.acc_bytes
    everything = [encode(config, "LOAD.ACC", dram_base=base, **load)]
    steps: list[Step] = []
    names = {"STORE.OUT"}
    if config.has("post"):
        count = config.par_depth
        fill = {"y_size": 1, "x_size": count, "x_stride": count}
        first = [("LOAD.PAR", fill | {"dram_base": regions.parameters // config.par_bytes})]
        names = {"CONFIG", "LOAD.PAR", "STORE.OUT", "STORE.POST"}
        if config.has("table"):
            names.add("LOAD.TABLE")
            first.append(("LOAD.TABLE", {"y_size": 1, "x_size": 1, "x_stride": 1, "dram_base": 40}))
    else:
        first = []
    alike: list[tuple[str, dict[str, int]]] = []
    while len(steps) < length:
        if not first and not alike and len(steps) >= 20 and source.chance(0.2):
            alike = alike_stores(source)
        overlaps = bool(alike) and not first
        name, values = first.pop() if first else alike.pop(0) if alike else random_instruction(source)
        if unit_of(name, values) is not Unit.STORE or name not in names:
            continue
        # Twenty times registers above all, then every kind.
        if not overlaps and len(steps) >= 20 and name in ("CONFIG", "STORE.OUT") and source.chance(0.6):
            continue
        if 1 < len(steps) < 20 and name != "CONFIG" and len(names) > 1:
            continue
        if name == "STORE.POST" and not overlaps and source.chance(0.6):
            values |= {"combine": 1, "operand": 1}
        if name == "STORE.POST" and source.chance(0.4):
            values["x_stride"] = values["x_size"]
        if name == "CONFIG" and values["register"] == register("WINDOW").index and source.chance(0.5):
            values["value"] = 0  # one accumulator a vector: a read every cycle
        values = {item.name: 0 for item in formats(config)[name].fields} | values
        values |= {
            flag: int(source.chance(0.2)) for flag in ("pop_prev", "pop_next", "push_prev", "push_next")
        }
        try:
            touched = accesses(source.trace, name, values)
        except AccessError:
            continue
        fields = {k: v for k, v in values.items() if k not in ("opcode", "memory_type")}
        registers = {k: dict(v) for k, v in source.trace.registers.items()}
        step = Step(name=name, values=values, registers=registers, words=encode(config, name, **fields))
        advance(source.trace, name, values, touched)
        steps.append(step)
        everything.append(step.words)
    everything.append(encode(config, "FINISH"))
    final = run_reference(config, np.array(everything, np.uint64), image)
    cycle = 1
    for step in steps:
        cycle += int(rng.integers(1, 60)) if rng.random() < 0.2 else 1
        step.visible = cycle
    return steps, final, image


class Bench:
    """Drives the store unit and the model; `busy`: probability that memory or accumulators refuse in a cycle, which
    changes over time.
    """

    def __init__(self, config: Config, seed: int, length: int) -> None:
        self.config, self.busy = config, 0.0
        self.steps, self.final, self.image = program(config, seed, length)
        self.rng = np.random.default_rng((seed, 13))
        self.memory = self.image.copy()
        self.chain = np.zeros(config.chain_buffer_bytes, np.uint8)
        self.unit = StoreUnit(config=config)
        self.model = Model(config)
        self.begun = 0

    def no(self) -> bool:
        return bool(self.rng.random() < self.busy)

    async def run(self, ctx) -> None:
        unit, config, rng = self.unit, self.config, self.rng
        model = self.model
        bus = config.memory.bus_bytes
        acc = [int.from_bytes(v.tobytes(), "little") for v in self.final.acc]
        available, arrived = dict.fromkeys(SIDES, False), dict.fromkeys(SIDES, False)
        reads: list[Burst] = []  # accepted, not all moved
        served: list[Burst] = []  # writes shown, with beats to move
        open_: list[Burst] = []  # writes accepted, not answered
        data = next_data = 0
        room, begins = dict.fromkeys(SIDES, False), False
        now = 0
        while self.begun < len(self.steps) or model.flights:
            now += 1
            assert now < 30_000, "the unit waits forever"
            if now % 100 == 0:
                self.busy = float(rng.choice([0.0, 0.2, 0.7]))
            # Instructions and tokens.
            head = self.steps[self.begun] if self.begun < len(self.steps) else None
            visible = head is not None and head.visible <= now
            ctx.set(unit.commands.valid, visible)
            if head is not None and visible:
                ctx.set(unit.commands.payload, head.words[0] | head.words[1] << 64)
            for side in SIDES:
                available[side] = available[side] or not self.no()
                room[side] = room[side] or not self.no()  # it goes with the begin alone
                ctx.set(getattr(unit, f"pop_{side}").available, available[side])
                ctx.set(getattr(unit, f"push_{side}").room, room[side])
            ready = visible and not begins and head is not None and model.may_begin(head, now)
            if head is not None and visible:
                for side in SIDES:
                    pops = bool(head.values[f"pop_{side}"]) and not arrived[side] and available[side]
                    assert bool(ctx.get(getattr(unit, f"pop_{side}").pop)) == pops
                    if pops:
                        arrived[side], available[side] = True, False
                    ready = ready and (arrived[side] or not head.values[f"pop_{side}"])
                    ready = ready and (room[side] or not head.values[f"push_{side}"])
            # Reads: what is shown, then what the memory does.
            model.show(now)
            assert bool(ctx.get(unit.read.request.valid)) == (model.shown is not None), now
            ctx.set(unit.read.request.ready, 0)
            if model.shown is not None:
                burst = model.shown
                shown = ctx.get(unit.read.request.payload)
                wanted = (burst.address, burst.size, burst.beats, burst.kind)
                assert (shown.address, shown.bytes, shown.beats, shown.kind) == wanted, now
                if not self.no():
                    ctx.set(unit.read.request.ready, 1)
                    burst.accepted = model.accepted = now
                    reads.append(burst)
                    model.shown = None
            beat = bool(reads) and reads[0].accepted + 2 < now and not self.no()
            ctx.set(unit.read.beat_valid, beat)
            # Accumulators.
            address = model.request(now)
            assert bool(ctx.get(unit.accumulators.request)) == (address is not None), now
            ctx.set(unit.accumulators.data, data)
            data, next_data = next_data, int(rng.integers(0, 2**31))
            ctx.set(unit.accumulators.grant, 0)
            if address is not None:
                assert ctx.get(unit.accumulators.address) == address, now
                if not self.no():
                    ctx.set(unit.accumulators.grant, 1)
                    next_data = acc[address]
                    model.read(now)
            model.step_load(now)
            if beat:
                burst = reads[0]
                word = burst.address // bus + len(burst.moved)
                burst.moved.append(now - 1)  # the port shows it a cycle later
                last = len(burst.moved) == burst.beats
                ctx.set(unit.read.beat_last, last)
                ctx.set(
                    unit.read.beat_data,
                    int.from_bytes(self.memory[word * bus : word * bus + bus].tobytes(), "little"),
                )
                if last:
                    reads.pop(0)
            # Writes.
            moving = next((b for b in served if b.shown < now), None)
            assert bool(ctx.get(unit.write.beat.valid)) == (moving is not None), now
            ctx.set(unit.write.beat.ready, 0)
            if moving is not None and not self.no():
                self.take_beat(ctx, moving, now)
                if len(moving.moved) == moving.beats:
                    served.remove(moving)
                    moving.due = now + 1 + int(rng.integers(0, 12))
            burst = model.write_request(now)
            assert bool(ctx.get(unit.write.request.valid)) == (burst is not None), now
            ctx.set(unit.write.request.ready, 0)
            if burst is not None:
                shown = ctx.get(unit.write.request.payload)
                wanted = (burst.address, burst.size, burst.beats, Kind.OUT)
                assert (shown.address, shown.bytes, shown.beats, shown.kind) == wanted, now
                if burst.shown < 0:
                    burst.shown = now
                    served.append(burst)
                if not self.no() and len(open_) < config.memory.outstanding_writes:
                    ctx.set(unit.write.request.ready, 1)
                    burst.accepted = model.write_accepted = now
                    open_.append(burst)
            if config.chain_buffer_bytes:
                self.write_chain(ctx)
            answered = bool(open_) and open_[0].accepted < now and 0 <= open_[0].due <= now
            ctx.set(unit.write.response, answered)
            if answered:
                open_.pop(0).response = now
            # Begin and end.
            running, ends = bool(model.flights), model.ends(now)
            oldest = model.flights[0].step if model.flights else None
            assert bool(ctx.get(unit.trace.begin)) == begins, now
            is_config = oldest is not None and oldest.name == "CONFIG"
            assert ctx.get(unit.trace.end) == (ends and not is_config), now
            assert ctx.get(unit.trace.end_config) == (ends and is_config), now
            assert ctx.get(unit.idle) == (not running)
            assert (ctx.get(unit.activity) == Activity.BUSY) == running
            for side in SIDES:
                port = getattr(unit, f"push_{side}")
                pushes = oldest is not None and ends and oldest.values[f"push_{side}"]
                assert ctx.get(port.push) == int(pushes), now
                assert ctx.get(port.reserve) == int(
                    begins and head is not None and head.values[f"push_{side}"]
                )
            if ends:
                model.flights.pop(0)
                model.last_end = now
            if begins and head is not None:
                model.start(head, now)
                model.operands = list(model.waiting)
                arrived, room = dict.fromkeys(SIDES, False), dict.fromkeys(SIDES, False)
                self.begun += 1
            begins = ready  # BEGIN_DELAY
            await ctx.tick()

    def write_chain(self, ctx) -> None:
        port, size = self.unit.chain, self.config.out_bytes
        enable, word = ctx.get(port.enable), ctx.get(port.address) * self.config.chain_word_bytes
        for lane in range(self.config.chain_word_bytes // size):
            if enable >> lane & 1:
                start = word + lane * size
                self.chain[start : start + size] = list(ctx.get(port.data).to_bytes(size, "little"))

    def take_beat(self, ctx, burst: Burst, now: int) -> None:
        unit, bus = self.unit, self.config.memory.bus_bytes
        ctx.set(unit.write.beat.ready, 1)
        beat = ctx.get(unit.write.beat.payload)
        word = (burst.address // bus + len(burst.moved)) * bus
        burst.moved.append(now)
        inside = [burst.address <= word + k < burst.address + burst.size for k in range(bus)]
        assert beat.strobe == sum(1 << k for k in range(bus) if inside[k]), now
        assert beat.last == (len(burst.moved) == burst.beats), now
        content = beat.data.to_bytes(bus, "little")
        for k in range(bus):
            if inside[k]:
                self.memory[word + k] = content[k]


@pytest.mark.parametrize(
    ("name", "seed"),
    representatives(
        zip(CONFIGS, (1, 1, 1, 1, 1, 1, 5, 1, 5, 1, 1), strict=True),
        0,
        always=[
            ("2x4 lanes in 8 passes", 1),
            ("4 lanes in 2 passes, chain memory of 8 lanes", 5),
            ("2x4 lanes in 4 passes, look-up tables", 1),
            ("8 lanes, no post", 1),
        ],
    ),
)
def test_the_unit_equals_the_model_in_every_cycle_and_byte(name: str, seed: int) -> None:
    bench = Bench(CONFIGS[name], seed=seed, length=50)
    simulator = Simulator(bench.unit)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench.run)
    simulator.run()
    assert bench.begun == len(bench.steps)
    assert bench.model.overlapping > 4
    assert (bench.model.rests > 20) == (CONFIGS[name].post_passes > 1)
    written = np.flatnonzero(bench.image != bench.final.memory)
    assert len(written) > 20
    assert (bench.memory == bench.final.memory).all()
    assert (bench.chain == bench.final.chain.reshape(-1).view(np.uint8)).all()
    assert bench.chain.any() == bool(CONFIGS[name].chain_buffer_bytes)

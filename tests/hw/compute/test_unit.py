"""The compute unit alone, under random tokens, memory and store unit, against the formulas of the timing contract
(hw/README.md) and the reference.

The bench takes the place of the rest of the machine: it shows instructions and tokens at random cycles, serves reads,
contains the input and weight memories, and requests accumulators as the store unit does. Expected cycles are computed
here from hw/README.md.
"""

import dataclasses
import itertools
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
from amaranth.sim import Simulator
from campaign import in_campaigns, representatives

from vdla.hw.compute.unit import ComputeUnit
from vdla.hw.interfaces import Activity
from vdla.isa.access import AccessError, accesses, advance, start_trace
from vdla.isa.array_modes import TAPS
from vdla.isa.config import Config, load_config
from vdla.isa.decoding import decode_uops
from vdla.isa.extensions import EXTENSIONS
from vdla.isa.layout import MATRIX, Unit, encode, formats, unit_of
from vdla.isa.reference import ReferenceResult, run_reference
from vdla.isa.scratchpads import scratchpad_sizes
from vdla.isa.timing import (
    BEGIN_DELAY,
    FIFO_LATENCY,
    STEP_DELAY,
    STEP_LATENCY,
    alu_cycles,
    alu_latency,
    alu_read_stage,
    gemm_latency,
    gemm_read_stage,
)
from vdla.verify.random_images import UOPS, random_image
from vdla.verify.random_instructions import Source, random_instruction
from vdla.verify.random_roundings import setting
from vdla.verify.random_sequences import chained_product, folded_products

SIDES = ("prev", "next")
TINY = dataclasses.replace(
    load_config("tiny"),
    acc_buffer_bytes=64 * 16,
    inp_buffer_bytes=64 * 4,
    wgt_buffer_bytes=32 * 16,
    uop_buffer_bytes=4 * 128,
    token_queue_depth=2,
    compute_fifo_bytes=64,
)
CONFIGS = {
    "4x4": TINY,
    "4x4, every extension": dataclasses.replace(
        TINY, extensions=tuple(name for name in EXTENSIONS if name != "fold")
    ),
    "batch 2, 4x8, 4 banks": dataclasses.replace(
        TINY, batch=2, block_out=8, acc_banks=4, acc_buffer_bytes=64 * 64, inp_buffer_bytes=64 * 8,
        wgt_buffer_bytes=32 * 32, extensions=("post", "patch"),
    ),
    "8x8, one bank, wide bus, 4 multiplier stages": dataclasses.replace(
        TINY, block_in=8, block_out=8, acc_banks=1, acc_buffer_bytes=64 * 32, inp_buffer_bytes=64 * 8,
        multiplier_stages=4, wgt_buffer_bytes=32 * 64, compute_fifo_bytes=128, token_queue_depth=3,
        memory=dataclasses.replace(TINY.memory, bus_bytes=64),
    ),
    "batch 2, chain memory": dataclasses.replace(
        TINY, batch=2, inp_buffer_bytes=61 * 8, acc_buffer_bytes=64 * 32, chain_buffer_bytes=200 * 8,
    ),
    "4x16, chain memory": dataclasses.replace(
        TINY, block_out=16, acc_buffer_bytes=64 * 64, wgt_buffer_bytes=32 * 64, extensions=("post",),
        chain_buffer_bytes=9 * 16,
    ),
    "batch 2, 8x8, 2 folds": dataclasses.replace(
        TINY, batch=2, block_in=8, block_out=8, folds=2, acc_banks=4, acc_buffer_bytes=64 * 64,
        inp_buffer_bytes=64 * 16, wgt_buffer_bytes=40 * 32, extensions=("depthwise", "fold"),
    ),
    "16x16, 4 folds, taps": dataclasses.replace(
        TINY, block_in=16, block_out=16, folds=4, acc_buffer_bytes=64 * 64, inp_buffer_bytes=64 * 16,
        wgt_buffer_bytes=50 * 64, extensions=("depthwise", "taps", "sweep", "zero_points", "fold"),
    ),
}  # fmt: skip


@dataclass
class Step:
    """An instruction of the compute unit, the accumulators that it accesses, and its expected cycles."""

    name: str
    values: dict[str, int]
    words: tuple[int, int]
    visible: int = 0
    indices: list[tuple[int, int]] = field(default_factory=list)  # (dst, src) of GEMM and ALU operations
    adds: list[bool] = field(
        default_factory=list
    )  # of a GEMM's: whether they add although `overwrite` is set
    begin: int = -1
    end: int = -1
    issues: int = 0


def program(
    config: Config, seed: int, length: int, dense: bool = False
) -> tuple[list[Step], ReferenceResult, np.ndarray]:
    """A random program: its `length` steps, the reference's final state, the initial DRAM image. `dense`: GEMMs have 0
    to 2 operations.
    """
    rng = np.random.default_rng((seed, 9))
    image, regions = random_image(config, rng)
    start = len(image)
    image = np.concatenate([image, rng.integers(0, 256, config.inp_depth * config.inp_bytes, np.uint8)])
    image = np.pad(image, (0, -len(image) % config.wgt_bytes))
    weights = len(image)
    image = np.concatenate([image, rng.integers(0, 256, config.wgt_depth * config.wgt_bytes, np.uint8)])
    trace = start_trace(config, image)
    source = Source(config=config, rng=rng, regions=regions, trace=trace, wide=False, uops_at=0)
    everything = []
    for kind, base in (("inp", start), ("wgt", weights)):
        depth = getattr(config, f"{kind}_depth")
        values = {"y_size": 1, "x_size": depth, "x_stride": depth}
        everything.append(
            encode(config, f"LOAD.{kind.upper()}", dram_base=base // config.element_bytes(kind), **values)
        )
    steps: list[Step] = []

    def append(name: str, values: dict[str, int]) -> None:
        blank = {item.name: 0 for item in formats(config)[name].fields}
        values = blank | values
        if name != "FINISH":
            flags = ("pop_prev", "pop_next", "push_prev", "push_next")
            values |= {flag: int(source.chance(0.25)) for flag in flags}
        if dense and name in MATRIX:
            count = source.number(2)
            values |= {
                "iter_out": 1,
                "iter_in": 1,
                "uop_end": values["uop_bgn"] + count,
                "pop_prev": 0,
                "pop_next": 0,
            }
        try:
            touched = accesses(trace, name, values)
        except AccessError:
            return
        step = Step(
            name=name,
            values=values,
            words=encode(
                config, name, **{k: v for k, v in values.items() if k not in ("opcode", "memory_type")}
            ),
        )
        if name in (*MATRIX, "ALU"):
            base, tile = (trace.registers["BASE"][name] for name in ("acc_base", "wgt_base"))
            dst, src, wgt = decode_uops(config, trace.uop[values["uop_bgn"] : values["uop_end"]])
            step.indices = [
                (
                    base + d + y * values["dst_factor_out"] + x * values["dst_factor_in"],
                    base + s + y * values["src_factor_out"] + x * values["src_factor_in"],
                )
                for y in range(values["iter_out"])
                for x in range(values["iter_in"])
                for d, s in zip(dst.tolist(), src.tolist(), strict=True)
            ]
            if name == "GEMM":
                groups = 1 << trace.registers["FOLD"]["shape"] if config.has("fold") else 1
                step.adds = [
                    (tile + w + y * values["wgt_factor_out"] + x * values["wgt_factor_in"]) % groups != 0
                    for y in range(values["iter_out"])
                    for x in range(values["iter_in"])
                    for w in wgt.tolist()
                ]
        advance(trace, name, values, touched)
        steps.append(step)
        everything.append(step.words)

    first = regions.uops // config.uop_bytes
    append("LOAD.UOP", {"y_size": 1, "x_size": UOPS, "x_stride": UOPS, "dram_base": first})
    chain: dict[str, np.ndarray] = {}
    if config.chain_buffer_bytes:
        chain["chain"] = rng.integers(0, 256, scratchpad_sizes(config)["chain"], np.uint8)
    drawn: list[tuple[str, dict[str, int]]] = []
    if config.has("fold"):
        # All parts of a tile into one accumulator: each finds the results of those before it, in its own lanes.
        loops = {"uop_bgn": UOPS - 1, "uop_end": UOPS, "iter_out": 1, "iter_in": config.folds}
        drawn = [setting("FOLD", {"shape": 1}), ("GEMM", {**loops, "wgt_factor_in": 1, "overwrite": 1})]
    while len(steps) < length:
        if not drawn:
            drawn = [random_instruction(source)]
            if chain and source.chance(0.4):
                drawn = chained_product(source)
            if config.has("fold") and source.chance(0.4):
                drawn = folded_products(source)
        name, values = drawn.pop(0)
        if unit_of(name, values) is Unit.COMPUTE and (not dense or name in (*MATRIX, "CONFIG")):
            append(name, values)
    append("FINISH", {})
    everything.append(steps[-1].words)
    cycle = 1
    for step in steps:
        cycle += int(rng.integers(1, 60)) if rng.random() < (0.05 if dense else 0.2) else 1
        step.visible = cycle
    final = run_reference(config, np.array(everything, np.uint64), image, scratchpads=chain)
    return steps, final, image


class Bench:
    """The rest of the machine around the compute unit; logs the unit's events by cycle."""

    def __init__(self, config: Config, steps: list[Step], final: ReferenceResult, image: np.ndarray) -> None:
        self.config, self.steps, self.final, self.image = config, steps, final, image
        self.rng = np.random.default_rng(len(steps))
        self.unit = ComputeUnit(config=config)
        self.shown = 0
        # Tokens that the other units push, in order, and when; enough of them for every pop.
        self.arrivals = {
            side: np.cumsum(self.rng.integers(0, 60, sum(s.values[f"pop_{side}"] for s in steps))).tolist()
            for side in SIDES
        }
        self.pops: dict[str, list[int]] = {side: [] for side in SIDES}
        self.reserved: Counter[str] = Counter()
        self.held: Counter[str] = Counter()
        self.pushes: dict[str, Counter[int]] = {side: Counter() for side in SIDES}
        self.room: dict[str, list[bool]] = {side: [False] for side in SIDES}
        self.begins: list[int] = []
        self.ends: Counter[int] = Counter()
        self.config_ends: Counter[int] = Counter()
        self.activity: list[Activity] = [Activity.INSTRUCTION]
        self.idle: list[bool] = [True]
        self.grants: dict[int, tuple[int, bool]] = {}
        self.beats: list[
            tuple[int, int, bool]
        ] = []  # to come: bus word's address, earliest cycle, last of burst
        self.moved: list[tuple[int, int]] = []
        self.others_idle_from: int | None = None
        self.total = 0
        self.acc: list[int] = []
        self.chained = 0

    async def run(self, ctx) -> None:
        unit, bus = self.unit, self.config.memory.bus_bytes
        inp = [int.from_bytes(v.tobytes(), "little") for v in self.final.inp]
        wgt = [int.from_bytes(v.tobytes(), "little") for v in self.final.wgt]
        memories = [(unit.inp, inp), (unit.wgt, wgt)]
        if self.config.chain_buffer_bytes:
            words = self.final.chain.reshape(-1, self.config.chain_word_bytes)
            memories.append((unit.chain, [int.from_bytes(word.tobytes(), "little") for word in words]))
        now = 0
        await ctx.tick()
        while not self.total:
            now += 1
            assert now < 20_000, "the unit waits forever"
            # Inputs of the cycle.
            visible = self.shown < len(self.steps) and self.steps[self.shown].visible <= now
            ctx.set(unit.commands.valid, visible)
            if visible:
                low, high = self.steps[self.shown].words
                ctx.set(unit.commands.payload, low | high << 64)
            for side in SIDES:
                place = len(self.pops[side])
                there = place < len(self.arrivals[side]) and self.arrivals[side][place] < now
                ctx.set(getattr(unit, f"pop_{side}").available, there)
                self.room[side].append(self.reserved[side] < self.config.token_queue_depth)
                ctx.set(getattr(unit, f"push_{side}").room, self.room[side][now])
            if self.shown == len(self.steps) - 1 and self.others_idle_from is None:
                self.others_idle_from = now + int(self.rng.integers(0, 100))
            ctx.set(unit.others_idle, self.others_idle_from is not None and now >= self.others_idle_from)
            beat = bool(self.beats) and self.beats[0][1] <= now
            ctx.set(unit.read.beat_valid, beat)
            if beat:
                word, _, last = self.beats.pop(0)
                ctx.set(
                    unit.read.beat_data, int.from_bytes(self.image[word : word + bus].tobytes(), "little")
                )
                ctx.set(unit.read.beat_last, last)
                self.moved.append((word, now))
            accept = bool(self.rng.random() < 0.5)
            ctx.set(unit.read.request.ready, accept)
            address = int(self.rng.integers(self.config.acc_depth))
            ctx.set(unit.accumulators.request, 1)
            ctx.set(unit.accumulators.address, address)
            # Outputs of the cycle.
            self.grants[now] = address, bool(ctx.get(unit.accumulators.grant))
            self.activity.append(Activity(ctx.get(unit.activity)))
            self.idle.append(bool(ctx.get(unit.idle)))
            if ctx.get(unit.trace.begin):
                assert ctx.get(unit.commands.ready)
                self.begins.append(now)
                self.shown += 1
            else:
                assert not ctx.get(unit.commands.ready)
            self.ends[now] += ctx.get(unit.trace.end)
            self.config_ends[now] += ctx.get(unit.trace.end_config)
            for side in SIDES:
                if ctx.get(getattr(unit, f"pop_{side}").pop):
                    self.pops[side].append(now)
                push = getattr(unit, f"push_{side}")
                if ctx.get(push.reserve):
                    self.reserved[side] += 1
                self.held[side] += ctx.get(push.push)
                self.pushes[side][now] += ctx.get(push.push)
                if self.held[side] and self.rng.random() < 0.1:  # the other unit pops
                    self.held[side] -= 1
                    self.reserved[side] -= 1
            if accept and ctx.get(unit.read.request.valid):
                burst = unit.read.request.payload
                first = ctx.get(burst.address) // bus * bus
                count = ctx.get(burst.beats)
                start = now + 1 + int(self.rng.integers(0, 20))
                self.beats += [(first + k * bus, start, k == count - 1) for k in range(count)]
            reads = [(port, ctx.get(port.enable), ctx.get(port.address)) for port, _ in memories]
            self.chained += len(reads) > 2 and reads[2][1]
            if ctx.get(unit.finished):
                self.total = now
            await ctx.tick()
            for (port, enable, address), (_, content) in zip(reads, memories, strict=True):
                if self.config.has("taps") and port is not unit.wgt:
                    ctx.set(port.data, _of_banks(enable, address, content, ctx.get(port.data), port))
                elif enable:
                    ctx.set(port.data, content[address])
        for address in range(self.config.acc_depth):
            ctx.set(unit.accumulators.address, address)
            assert ctx.get(unit.accumulators.grant)
            await ctx.tick().repeat(2)
            self.acc.append(ctx.get(unit.accumulators.data))


def _of_banks(enable: int, address: int, content: list[int], before: int, port) -> int:
    """The output of a memory with several banks after a read. Bit k of `enable` says whether bank k reads the word at
    its part of `address`. A bank that does not read keeps its word of the previous output `before`. `content`: the
    words of the memory; `port`: the read port, which gives the widths.
    """
    width, bits = len(port.data) // TAPS, len(port.address) // TAPS
    data = 0
    for bank in range(TAPS):
        word = before >> bank * width & (1 << width) - 1
        if enable >> bank & 1:
            word = content[TAPS * (address >> bank * bits & (1 << bits) - 1) + bank]
        data |= word << bank * width
    return data


# --- the contract ---------------------------------------------------------------------------------------------


def load_end(config: Config, step: Step, begin: int, moved: list[tuple[int, int]]) -> int:
    """The cycle in which the load `step`, which begins in cycle `begin`, ends by hw/README.md, section 6. `moved`:
    (address, cycle) of each bus word that moved on the bus after `begin`, in order.
    """
    values, kind = step.values, step.name.removeprefix("LOAD.").lower()
    size, bus = config.element_bytes(kind), config.memory.bus_bytes
    width = min(size, bus)
    if not values["x_size"]:
        return begin + STEP_DELAY + STEP_LATENCY
    columns = values["x_pad_0"] + values["x_size"] + values["x_pad_1"]
    one_run = values["x_stride"] == values["x_size"]
    origin = values["dram_base"] * size
    needs: list[int | None] = [None] * (values["y_pad_0"] * columns)  # place among the words moved
    words_before = 0  # of the rows above, which move words of their own unless all rows are one run
    for y in range(values["y_size"]):
        start = origin + y * values["x_stride"] * size
        first = (origin if one_run else start) // bus
        needs += [None] * values["x_pad_0"]
        for last_byte in range(start + width - 1, start + values["x_size"] * size, width):
            needs.append(words_before + last_byte // bus - first)
            assert moved[words_before + last_byte // bus - first][0] == last_byte // bus * bus
        needs += [None] * values["x_pad_1"]
        if not one_run:
            words_before += (start + values["x_size"] * size - 1) // bus - first + 1
    needs += [None] * (values["y_pad_1"] * columns)
    time = begin + STEP_DELAY - 1
    for place in needs:  # a beat reaches the unit a cycle after the bus
        time = max(time + 1, -1 if place is None else moved[place][1] - 1 + FIFO_LATENCY)
    return max(time, begin + STEP_DELAY) + STEP_LATENCY


def predict(bench: Bench) -> None:
    """Computes for every step of the bench, an instruction, the cycles in which it begins and ends and the number of
    operations that it issues, by sections 5 and 7 of hw/README.md. Stores them in the steps.
    """
    config, steps = bench.config, bench.steps
    latency = gemm_latency(config)
    arrivals = {side: list(bench.arrivals[side]) for side in SIDES}
    for number, step in enumerate(steps):
        before = steps[:number]
        matrix = step.name in MATRIX
        cycle = max(step.visible, before[-1].begin + 1 if before else 0)
        for side in SIDES:
            if step.values[f"pop_{side}"]:
                cycle = max(cycle, arrivals[side].pop(0) + 1)

        def all_end(which, default: int = -1, before: list[Step] = before) -> int:
            return max((s.end for s in before if which(s)), default=default)

        if matrix:
            cycle = max(cycle, all_end(lambda s: s.name not in MATRIX) + 1)
            matrices = [s for s in before if s.name in MATRIX]
            issued = (s.begin + s.issues - BEGIN_DELAY for s in matrices)
            cycle = max(cycle, *issued, 0)
        elif step.name == "CONFIG" and not step.values["push_prev"] | step.values["push_next"]:
            cycle = max(cycle, all_end(lambda s: s.name == "ALU" or s.name.startswith("LOAD")) + 1)
        else:
            cycle = max(cycle, all_end(lambda s: True) + 1)
        if step.name == "FINISH":
            assert bench.others_idle_from is not None
            cycle = max(cycle, bench.others_idle_from)
        while any(step.values[f"push_{side}"] and not bench.room[side][cycle] for side in SIDES):
            cycle += 1
        cycle += BEGIN_DELAY
        step.begin = cycle
        count = len(step.indices)
        if matrix:
            step.issues = count
            step.end = cycle + count + latency if count else max(cycle + 1, all_end(lambda s: True))
        elif step.name == "ALU":
            step.issues = count * alu_cycles(config, step.values["alu_opcode"], step.values["use_imm"])
            step.end = cycle + step.issues + alu_latency(config) if count else cycle + 1
        elif step.name.startswith("LOAD"):
            moved = [item for item in bench.moved if item[1] > cycle]
            step.end = load_end(config, step, cycle, moved)
        else:
            step.end = cycle + 1


def expected_activity(steps: list[Step], now: int) -> Activity | None:
    """The counted activity of a busy cycle `now`, by section 9 of hw/README.md; None if the cycle is stalled."""
    begun = [s for s in steps if s.begin < now]
    if any(s.name in MATRIX and now <= s.begin + s.issues for s in begun):
        return Activity.GEMM
    if any(s.name == "ALU" and now <= s.begin + s.issues for s in begun):
        return Activity.ALU
    if any(s.name == "LOAD.UOP" and now <= s.end for s in begun):
        return Activity.LOAD_UOP
    if any(s.name.startswith("LOAD") and now <= s.end for s in begun):
        return Activity.LOAD_ACC
    if any(not s.name.startswith("LOAD") and not s.issues and now == s.begin + 1 for s in begun):
        return Activity.OTHER
    return Activity.DRAIN if any(now <= s.end for s in begun) else None


def expected_stall(bench: Bench, now: int) -> Activity:
    number = next((n for n, s in enumerate(bench.steps) if s.begin >= now), None)
    if number is None or bench.steps[number].visible > now:
        return Activity.INSTRUCTION
    step, earlier = bench.steps[number], bench.steps[:number]
    for side, activity in zip(SIDES, (Activity.TOKEN_PREV, Activity.TOKEN_NEXT), strict=True):
        place = sum(s.values[f"pop_{side}"] for s in earlier)
        if step.values[f"pop_{side}"] and bench.arrivals[side][place] >= now:
            return activity
    for side, activity in zip(SIDES, (Activity.FULL_PREV, Activity.FULL_NEXT), strict=True):
        if step.values[f"push_{side}"] and not bench.room[side][now]:
            return activity
    return Activity.BEGIN if now >= step.begin - BEGIN_DELAY else Activity.UNIT


def ports(config: Config, steps: list[Step]) -> set[tuple[int, int]]:
    """The (cycle, bank) pairs of all accumulators that the unit reads."""
    used = set()
    for step in steps:
        two = step.name == "ALU" and not step.values["use_imm"]
        each = alu_cycles(config, step.values["alu_opcode"], not two) if step.name == "ALU" else 1
        for number, (dst, src) in enumerate(step.indices):
            if step.name == "ALU":
                cycle = step.begin + 1 + number * each + alu_read_stage(config)
                if two:
                    used.add((cycle, src // config.acc_bank_depth))
                used.add((cycle + two, dst // config.acc_bank_depth))
            elif not step.values["reset"] and (
                not step.values["overwrite"] or (step.adds and step.adds[number])
            ):
                used.add((step.begin + 1 + number + gemm_read_stage(config), dst // config.acc_bank_depth))
    return used


# The first is what short instructions run on below, the second has what two others have one by one; the last takes the
# interpreted simulator half a minute.
RARE = ("4x4", "batch 2, chain memory", "16x16, 4 folds, taps")


@pytest.mark.parametrize(
    ("name", "seed"),
    representatives(
        itertools.product(CONFIGS, range(3)), 0, always=[(name, 0) for name in CONFIGS if name not in RARE]
    ),
)
def test_cycles_and_results_follow_the_contract(name: str, seed: int) -> None:
    compare(CONFIGS[name], *program(CONFIGS[name], seed, in_campaigns(24, 16)))


@pytest.mark.parametrize("seed", representatives(range(2), 0, always=[1]))
def test_short_instructions_back_to_back(seed: int) -> None:
    config = dataclasses.replace(TINY, token_queue_depth=64)
    steps, final, image = program(config, seed, 120, dense=True)
    ends = compare(config, steps, final, image)
    # Otherwise the program does not test what it is here for.
    assert max(ends.values()) >= 4
    assert len({s.begin + 1 + BEGIN_DELAY for s in steps} & {s.begin for s in steps}) > 40


def compare(config: Config, steps: list[Step], final: ReferenceResult, image: np.ndarray) -> Counter[int]:
    """Runs a program in the RTL of the compute unit, and asserts that its timing is that of hw/README.md and its
    accumulators are those of the reference. `steps`: the expected instructions and cycles; `final`: the reference's
    result; `image`: the contents of memory. Returns the number of instructions that ended in each cycle.
    """
    bench = Bench(config, steps, final, image)
    simulator = Simulator(bench.unit)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench.run)
    simulator.run()
    predict(bench)
    assert bench.begins == [s.begin for s in steps], _first(bench)
    ended = [s for s in steps if s.name != "CONFIG"]
    assert +bench.ends == Counter(s.end for s in ended)
    assert +bench.config_ends == Counter(s.end for s in steps if s.name == "CONFIG")
    for side in SIDES:
        assert +bench.pushes[side] == Counter(s.end for s in steps if s.values[f"push_{side}"])
    assert bench.total == steps[-1].end
    for now in range(1, bench.total + 1):
        wanted = expected_activity(steps, now)
        stall = wanted is None
        assert bench.idle[now] == stall, now
        assert bench.activity[now] == (expected_stall(bench, now) if stall else wanted), now
    used = ports(config, steps)
    for now, (address, grant) in bench.grants.items():
        assert grant == ((now, address // config.acc_bank_depth) not in used), now
    assert (bench.chained > 5) == bool(config.chain_buffer_bytes)
    kept = [s.adds for s in steps if s.values.get("overwrite") and not s.values["reset"]]
    assert any(map(any, kept)) == config.has("fold")
    acc = np.frombuffer(b"".join(v.to_bytes(config.acc_bytes, "little") for v in bench.acc), np.int32)
    np.testing.assert_array_equal(acc.reshape(final.acc.shape), final.acc)
    return bench.ends


def _first(bench: Bench) -> str:
    for number, step in enumerate(bench.steps):
        got = bench.begins[number] if number < len(bench.begins) else None
        if got != step.begin:
            return f"instruction {number}, {step}: began in {got}"
    return "more instructions began"

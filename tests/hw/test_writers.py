"""The RTL's writers of rectangular and of patch loads follow section 6 of hw/README.md: what they write, and when."""

import dataclasses
from random import Random

import pytest
from amaranth.sim import Simulator
from campaign import representatives

from vdla.hw.element_writer import ElementWriter, step_width
from vdla.hw.patch_writer import PatchWriter
from vdla.isa.config import Config, load_config
from vdla.isa.timing import PATCH_STEP_DELAY, PRODUCT_CYCLES, STEP_DELAY

TINY = load_config("tiny")


def config_of(bus: int, block: int) -> Config:
    return dataclasses.replace(
        TINY,
        block_in=block,
        block_out=block,
        wgt_buffer_bytes=block * block * 16,
        inp_buffer_bytes=block * 64,
        acc_buffer_bytes=4 * block * 64,
        memory=dataclasses.replace(TINY.memory, bus_bytes=bus),
        operand_fifo_bytes=512,
        store_fifo_bytes=512,
    )


def simulate(dut, bench):
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


def words_of(memory: bytes, rows: list[tuple[int, int]], bus: int) -> list[int]:
    """The bus words, as integers, that contain the runs of bytes `rows` (start, length) of `memory`, run after run. The
    words at the ends of a run also have the bytes around it. `bus`: bytes of a bus word.
    """
    return [
        int.from_bytes(memory[bus * word : bus * (word + 1)], "little")
        for start, length in rows
        for word in range(start // bus, (start + length - 1) // bus + 1)
        if length
    ]


class Follow:
    """Drives a writer, the part of the load unit that writes arriving data to a scratchpad. It offers bus words to the
    writer, and collects the writes that the writer makes, each with its cycle.

    A write of a step in cycle s appears in cycle s + 2. `fields`: names of the ports that are recorded.
    """

    def __init__(self, ctx, dut, fields: tuple[str, ...], chance: float, random: Random) -> None:
        self.ctx, self.dut, self.fields, self.chance, self.random = ctx, dut, fields, chance, random
        self.now = 0
        self.words: list[int] = []
        self.offered: dict[int, bool] = {}  # by cycle: whether a word was shown
        self.popped: dict[int, int] = {}  # by cycle: words popped up to and with it
        self.count = 0
        self.steps: list[tuple[int, dict[str, int]]] = []
        self.lasts: list[int] = []  # cycles of loads' last steps

    async def cycle(self) -> None:
        ctx, dut = self.ctx, self.dut
        shown = bool(self.words) and self.random.random() < self.chance
        ctx.set(dut.words.valid, shown)
        ctx.set(dut.words.payload.data, self.words[0] if self.words else 0)
        self.offered[self.now] = shown
        if shown and ctx.get(dut.words.ready):
            self.words.pop(0)
            self.count += 1
        self.popped[self.now] = self.count
        if ctx.get(dut.steps_last):
            self.lasts.append(self.now)
        if ctx.get(dut.last):
            assert self.now - 2 in self.lasts
        if ctx.get(dut.write):
            self.steps.append((self.now - 2, {name: ctx.get(getattr(dut, name)) for name in self.fields}))
        await ctx.tick()
        self.now += 1

    async def job(self, set_job, delay: int) -> int:
        """Starts a load in the writer and runs the simulation until the load's last word is written. `set_job` offers
        (1) or withdraws (0) the load. Returns the first cycle in which the writer may write: `delay` cycles after it
        took the load. Asserts that the load ends.
        """
        set_job(1)
        assert self.ctx.get(self.dut.job.ready)
        taken = self.now
        await self.cycle()
        set_job(0)
        done = len(self.lasts)
        for _ in range(20_000):
            await self.cycle()
            if len(self.lasts) > done and self.now > self.lasts[-1] + 2:
                break
        else:
            raise AssertionError("the load does not end")
        return taken + delay


@pytest.mark.parametrize(
    ("bus", "together"),
    representatives([(8, 1), (64, 1), (8, 2), (64, 4), (64, 16)], 0, always=[(8, 2), (64, 16)]),
)
@pytest.mark.parametrize("chance", [1.0, 0.6])
def test_rectangular_loads(bus: int, together: int, chance: float):
    random = Random(bus)
    config = config_of(bus, 4)
    sizes = (4, 16)
    dut = ElementWriter(config=config, element_bytes=sizes, together=together)
    memory = bytes(random.randrange(256) for _ in range(1 << 14))
    seen_pads = seen_data = 0

    async def bench(ctx):
        nonlocal seen_pads, seen_data
        fields = ("address", "pad", "part", "data", *(("count",) if together > 1 else ()))
        follow = Follow(ctx, dut, fields, chance, random)
        for _ in range(25):
            kind = random.randrange(2)
            size, width = sizes[kind], step_width(config, sizes[kind])
            job = {name: random.randrange(3) for name in ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")}
            job |= {
                "y_size": random.randrange(4),
                "x_size": random.randrange(6 if together == 1 else 40),
                "sram_base": random.randrange(99),
            }
            stride = random.choice([job["x_size"], max(9, job["x_size"] + 1)])
            start = size * random.randrange(100)
            one_run = stride == job["x_size"]
            rows = [(start + y * stride * size, job["x_size"] * size) for y in range(job["y_size"])]
            runs = [(start, job["y_size"] * job["x_size"] * size)] if one_run else rows
            words = words_of(memory, runs, bus)
            expected = []
            columns = job["x_pad_0"] + job["x_size"] + job["x_pad_1"]
            for y in range(-job["y_pad_0"], job["y_size"] + job["y_pad_1"]):
                for x in range(-job["x_pad_0"], job["x_size"] + job["x_pad_1"]):
                    address = job["sram_base"] + (y + job["y_pad_0"]) * columns + x + job["x_pad_0"]
                    if kind == 0 and together > 1 and 0 <= y < job["y_size"] and 0 <= x < job["x_size"]:
                        at = rows[y][0] + x * size
                        if (
                            x == 0 or at % (size * together) == 0
                        ):  # one step takes what its block has of the row
                            count = min(together - at // size % together, job["x_size"] - x)
                            expected.append((address, 0, memory[at : at + size * count]))
                    elif 0 <= y < job["y_size"] and 0 <= x < job["x_size"]:
                        for part in range(size // width):
                            at = rows[y][0] + x * size + part * width
                            expected.append((address, part, memory[at : at + width]))
                    else:
                        expected.append((address, None, b""))
            if job["x_size"] == 0:
                expected = []
            places = {"kind": kind, "offset": start % bus, "pitch": stride * size % bus, "one_run": one_run}
            given = {**job, **places}

            def set_job(valid: int, given: dict[str, int] = given) -> None:
                ctx.set(dut.job.valid, valid)
                ctx.set(dut.job.payload, given)

            follow.words, follow.steps, follow.lasts = list(words), [], []
            cycle = await follow.job(set_job, STEP_DELAY - 1)  # a job is taken in the cycle after the begin
            assert not follow.words and len(follow.steps) == len(expected)
            for (address, part, data), (happened, step) in zip(expected, follow.steps, strict=True):
                while part is not None and not follow.offered[cycle]:
                    cycle += 1
                assert happened == cycle
                cycle += 1
                assert (step["address"], step["pad"]) == (address, part is None)
                seen_pads += part is None
                if part is not None:
                    seen_data += 1
                    assert step["part"] == part
                    assert step["data"] & (1 << 8 * len(data)) - 1 == int.from_bytes(data, "little")
                    if together > 1:
                        assert step["count"] == (len(data) // size if kind == 0 else 1)
            assert follow.lasts == [cycle - 1 if expected else cycle]

    simulate(dut, bench)
    assert seen_pads > 50 and seen_data > 50


@pytest.mark.parametrize(
    ("bus", "block"), representatives([(8, 4), (8, 16), (16, 4), (64, 8)], 0, always=[(8, 16), (64, 8)])
)
@pytest.mark.parametrize("chance", [1.0, 0.7])
def test_patch_loads(bus: int, block: int, chance: float):
    random = Random(bus + block)
    dut = PatchWriter(config=config_of(bus, block))
    memory = bytes(random.randrange(256) for _ in range(1 << 13))
    compared = 0

    async def bench(ctx):
        nonlocal compared
        follow = Follow(ctx, dut, ("address", "lanes", "from_dram", "data"), chance, random)
        for _ in range(40):
            run = random.choice([0, 1, 5, 21, random.randrange(256)])
            patch = {
                "run": run,
                "step": random.randrange(1, 12),
                "pitch": random.randrange(8),
                "batch_row": 0,
            }
            patch |= {
                "pad_left": random.choice([0, 3, random.randrange(256)]),
                "row_bytes": random.randrange(300),
            }
            sizes = {
                "x_size": random.randrange(5),
                "y_size": random.randrange(4),
                "sram_base": random.randrange(50),
            }
            sizes |= {"y_pad_0": random.randrange(2), "y_pad_1": random.randrange(2)}
            stride, start = random.randrange(400), random.randrange(1000)
            reach = (sizes["x_size"] - 1) * patch["step"] + run - patch["pad_left"]
            length = max(0, min(patch["row_bytes"], reach)) if run and sizes["x_size"] else 0
            starts = [start + y * stride for y in range(sizes["y_size"])]
            words = words_of(memory, [(at, length) for at in starts], bus)
            expected = []  # address, {lane: byte or None for a pad}, words that must have been taken
            taken = 0
            for y in range(-sizes["y_pad_0"], sizes["y_size"] + sizes["y_pad_1"]):
                row = y + sizes["y_pad_0"]
                reads = 0 <= y < sizes["y_size"] and length > 0
                for w in range(sizes["x_size"]):
                    vectors: dict[int, dict[int, int | None]] = {}
                    needs: dict[int, int] = {}
                    for i in range(run):
                        k, c = row * run + i, w * patch["step"] + i - patch["pad_left"]
                        byte = memory[starts[y] + c] if reads and 0 <= c < patch["row_bytes"] else None
                        vectors.setdefault(k // block, {})[k % block] = byte
                        needs[k // block] = min(c, length - 1)
                    for vector, lanes in sorted(vectors.items()):
                        need = taken
                        if reads and needs[vector] >= 0:
                            need = taken + (starts[y] + needs[vector]) // bus - starts[y] // bus + 1
                        address = sizes["sram_base"] + w * patch["pitch"] + vector
                        expected.append((address, lanes, need))
                if reads:
                    taken += (starts[y] + length - 1) // bus - starts[y] // bus + 1
            fields = {
                "kind": 0,
                "offset": start % bus,
                "pitch": stride % bus,
                "one_run": 0,
                "x_pad_0": 0,
                "x_pad_1": 0,
            }
            given, given_patch = {**sizes, **fields}, {**patch, "length": length}

            def set_job(valid: int, given=given, given_patch=given_patch) -> None:
                ctx.set(dut.job.valid, valid)
                ctx.set(dut.job.payload.sizes, given)
                ctx.set(dut.job.payload.patch, given_patch)

            follow.words, follow.steps, follow.lasts = list(words), [], []
            start_count = follow.count
            cycle = await follow.job(set_job, PATCH_STEP_DELAY - PRODUCT_CYCLES - 1)
            assert not follow.words and len(follow.steps) == len(expected)
            have = 0
            for (address, lanes, need), (happened, step) in zip(expected, follow.steps, strict=True):
                # A word a cycle is taken as long as some are missing; the step comes with the last of them.
                while True:
                    missing = need > have
                    have += missing and follow.offered[cycle]
                    if have >= need:
                        break
                    cycle += 1
                assert happened == cycle and follow.popped[cycle] - start_count == have
                cycle += 1
                assert step["address"] == address
                got = {
                    lane: step["data"] >> 8 * lane & 255 if step["from_dram"] >> lane & 1 else None
                    for lane in range(block)
                    if step["lanes"] >> lane & 1
                }
                assert got == lanes
                compared += len(lanes)
            assert follow.lasts == [cycle - 1 if expected else cycle]

    simulate(dut, bench)
    assert compared > 300

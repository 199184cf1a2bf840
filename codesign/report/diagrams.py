"""Block diagrams of the machine and of the compiler's stages, drawn from the tables that the code uses."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from vdla.compiler.rewrites.floating.pipeline import graph_passes
from vdla.compiler.templates.vdla.lower import pipeline
from vdla.isa.config import Config
from vdla.isa.layout import EXTENSION_OF, TOKEN_QUEUES, Unit, formats, unit_of
from vdla.isa.timing import SEPARATE

from .canvas import INK, MUTED, new_figure
from .palette import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION

UNIT_COLORS = {Unit.LOAD: SKY, Unit.COMPUTE: BLUE, Unit.STORE: GREEN}
TOKEN, DATA, COMMAND = VERMILLION, INK, ORANGE
_CLEAR = {"boxstyle": "square,pad=0.05", "facecolor": "white", "edgecolor": "none"}


@dataclass(frozen=True, slots=True)
class _Box:
    """A rectangle of a diagram by its edges, in the diagram's units."""

    left: float
    bottom: float
    right: float
    top: float

    @property
    def x(self) -> float:
        """Horizontal centre of the box, in the diagram's units."""
        return (self.left + self.right) / 2

    @property
    def y(self) -> float:
        """Vertical centre of the box, in the diagram's units."""
        return (self.bottom + self.top) / 2


def _draw(
    axes: Axes,
    box: _Box,
    title: str,
    lines: Sequence[str] = (),
    *,
    edge: str = INK,
    fill: str = "white",
    size: float = 10.5,
) -> None:
    axes.add_patch(
        FancyBboxPatch(
            (box.left, box.bottom),
            box.right - box.left,
            box.top - box.bottom,
            boxstyle="round,pad=0,rounding_size=0.08",
            edgecolor=edge,
            facecolor=fill,
            linewidth=1.4,
            zorder=2,
        )
    )
    rows = title.count("\n") + 1
    height = box.y if not lines else box.top - 0.1 - 0.1 * rows * size / 8
    axes.text(box.x, height, title, ha="center", va="center", fontsize=size + 1, color=INK, fontweight="bold")
    if lines:
        body = (box.bottom + box.top - 0.25 * rows * size / 8) / 2
        axes.text(
            box.x,
            body,
            "\n".join(lines),
            ha="center",
            va="center",
            fontsize=size - 1,
            color=INK,
            linespacing=1.3,
        )


def _arrow(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], color: str = DATA, width: float = 1.4
) -> None:
    axes.annotate(
        "",
        end,
        start,
        arrowprops={"arrowstyle": "-|>", "color": color, "linewidth": width, "shrinkA": 0, "shrinkB": 0},
        zorder=3,
    )


def _sheet(width: float, height: float) -> tuple[Figure, Axes]:
    figure = new_figure(width, height, 130)
    axes = figure.subplots()
    axes.set_xlim(0, width)
    axes.set_ylim(0, height)
    axes.set_axis_off()
    return figure, axes


def _kib(size: int) -> str:
    return f"{size / 1024:g} KiB"


def instructions_of(config: Config, unit: Unit) -> tuple[str, ...]:
    """Names of the instructions of `config` that `unit` executes, without CONFIG, which every unit has."""
    names = (name for name in formats(config) if not name.startswith("CONFIG"))
    there = (name for name in names if name not in EXTENSION_OF or config.has(EXTENSION_OF[name]))
    return tuple(name for name in there if unit_of(name, {}) is unit)


def machine_figure(config: Config) -> Figure:
    """A block diagram of the machine: memory, units with their instructions, scratchpads, command queues and token
    queues.

    All numbers, and the names of instructions and token queues, come from `config` and from the tables of the
    instruction set.
    """
    figure, axes = _sheet(13.2, 8.2)
    memory, queue = config.memory, config.command_queue_depth
    dram, port = _Box(0.2, 7.45, 13.0, 8.0), _Box(0.2, 6.55, 13.0, 7.05)
    _draw(axes, dram, "DRAM: memory image and, behind it, the instructions")
    _draw(axes, port, "one AXI4 port; reads by priority: fetch, compute, store, load")
    _arrow(axes, (6.4, dram.bottom), (6.4, port.top))
    _arrow(axes, (6.7, port.top), (6.7, dram.bottom))
    each = " each way" if memory.data_channels == SEPARATE else ""
    bus = f"{memory.bus_bytes} bytes a cycle{each}, read latency {memory.read_latency} cycles"
    axes.text(6.85, 7.25, bus, va="center", fontsize=9.5, color=INK)

    fetch = _Box(0.2, 3.6, 1.6, 5.7)
    units = {
        Unit.LOAD: _Box(2.2, 3.6, 4.0, 5.7),
        Unit.COMPUTE: _Box(6.1, 3.6, 8.7, 5.7),
        Unit.STORE: _Box(10.9, 3.6, 12.9, 5.7),
    }
    _draw(axes, fetch, "fetch", [f"buffer of {config.fetch_buffer_depth}", "instructions"], edge=COMMAND)
    _arrow(axes, (fetch.x, port.bottom), (fetch.x, fetch.top))
    array = f"{config.batch} x {config.block_in} x {config.columns}"
    work = {
        Unit.LOAD: [],
        Unit.COMPUTE: [f"array: {array} multiplies a cycle", f"vector ALU: {config.block_out} lanes"],
        Unit.STORE: ["requantize and store" if config.has("post") else "store"],
    }
    for unit, box in units.items():
        names = list(instructions_of(config, unit))
        per = 2 if unit is not Unit.COMPUTE else 3
        shown = [", ".join(names[k : k + per]) for k in range(0, len(names), per)]
        _draw(axes, box, unit.name.lower(), [*work[unit], *shown], edge=UNIT_COLORS[unit])
        _arrow(axes, (box.x - 0.15, port.bottom), (box.x - 0.15, box.top))
    store = units[Unit.STORE]
    _arrow(axes, (store.x + 0.25, store.top), (store.x + 0.25, port.bottom))
    for x, text in (
        (units[Unit.LOAD].x + 0.0, "inputs, weights"),
        (units[Unit.COMPUTE].x + 0.0, "micro-ops, accumulators"),
    ):
        axes.text(x - 0.05, 6.12, text, fontsize=9, color=INK, va="center")
    axes.text(store.x - 0.3, 6.12, "scales,\noperands", fontsize=9, color=INK, va="center", ha="right")
    axes.text(store.x + 0.35, 6.12, "outputs", fontsize=9, color=INK, va="center")

    pads = [
        ("inp", _Box(4.4, 4.75, 5.7, 5.6), units[Unit.LOAD], units[Unit.COMPUTE]),
        ("wgt", _Box(4.4, 3.7, 5.7, 4.55), units[Unit.LOAD], units[Unit.COMPUTE]),
        ("acc", _Box(9.2, 4.2, 10.5, 5.1), units[Unit.COMPUTE], store),
    ]
    for kind, box, source, sink in pads:
        size = getattr(config, f"{kind}_buffer_bytes")
        banks = [f"{config.acc_banks} banks"] if kind == "acc" else []
        lines = [_kib(size), f"{getattr(config, f'{kind}_depth'):,} elements", *banks]
        _draw(axes, box, kind, lines, edge=PURPLE, fill="#faf1f6", size=9)
        _arrow(axes, (source.right, box.y), (box.left, box.y))
        _arrow(axes, (box.right, box.y), (sink.left, box.y))
    _arrow(axes, (9.2, 4.35), (8.7, 4.35))
    inner = [("uop", _Box(6.2, 2.95, 8.6, 3.4), units[Unit.COMPUTE])]
    if config.has("post"):
        inner.append(("par", _Box(11.0, 2.95, 12.8, 3.4), store))
    for kind, box, unit_box in inner:
        size = getattr(config, f"{kind}_buffer_bytes")
        _draw(axes, box, f"{kind}: {_kib(size)}", edge=PURPLE, fill="#faf1f6", size=9)
        _arrow(axes, (box.x, unit_box.bottom), (box.x, box.top))
        _arrow(axes, (box.x + 0.15, box.top), (box.x + 0.15, unit_box.bottom))

    rail = 2.62
    axes.plot([fetch.x, fetch.x], [fetch.bottom, rail], color=COMMAND, linewidth=1.6, zorder=1)
    axes.plot([fetch.x, store.left + 0.05], [rail, rail], color=COMMAND, linewidth=1.6, zorder=1)
    for box in units.values():
        x = box.left + 0.05
        _arrow(axes, (x, rail), (x, box.bottom), COMMAND, 1.6)
    axes.text(
        fetch.x + 0.1,
        rail + 0.16,
        f"command queues: {queue} instructions for each unit",
        fontsize=9.5,
        color=INK,
        va="center",
    )
    _tokens(axes, config, units)
    return figure


def _tokens(axes: Axes, config: Config, units: dict[Unit, _Box]) -> None:
    levels: dict[frozenset[Unit], float] = {}
    for item in TOKEN_QUEUES:
        source, sink = units[item.producer], units[item.consumer]
        pair = frozenset((item.producer, item.consumer))
        far = abs(int(item.producer) - int(item.consumer)) > 1
        first = pair not in levels
        levels.setdefault(pair, 0.75 if far else 1.85)
        y = levels[pair] if first else levels[pair] - 0.42
        right = sink.x > source.x
        inset = 0.35 if far else 0.75
        start = source.x + (inset if right else -inset)
        end = sink.x - (inset if right else -inset)
        _arrow(axes, (start, y), (end, y), TOKEN)
        text = f"{item.name.replace('->', ' → ')}  ({item.push_flag}, {item.pop_flag})"
        axes.text(
            (start + end) / 2, y + 0.12, text, ha="center", fontsize=9, color=INK, bbox=_CLEAR, zorder=4
        )
    for unit, box in units.items():
        axes.plot(
            [box.x, box.x], [0.15, 2.15], color=UNIT_COLORS[unit], linewidth=1.2, linestyle=":", zorder=0
        )
        axes.text(box.x, 2.24, unit.name.lower(), ha="center", fontsize=9.5, color=MUTED)
    axes.text(
        0.2,
        1.1,
        f"token queues:\n{config.token_queue_depth} tokens each\n(who pushes, who pops)",
        fontsize=9.5,
        color=INK,
        va="center",
    )


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of the compiler: its result (`makes`), its module (without `vdla.`), and a few words on its method."""

    makes: str
    module: str
    words: str


def accelerator_stages(config: Config) -> tuple[Stage, ...]:
    """The compiler's stages from a quantized model to a memory image; passes are named as in the code."""
    passes = ", ".join(item.name for item in pipeline(config, {}))
    return (
        Stage(
            "integer graph", "compiler.frontends.onnx.integer_importer", "one function for each ONNX operator"
        ),
        Stage("fused graph", "compiler.rewrites.fuse", "bias, ReLU, add, pool join their convolution"),
        Stage("legal graph", "compiler.templates.vdla.legalize", "layouts, pools that fit the scratchpads"),
        Stage("kernels", "compiler.templates.vdla.lower", "workload, tensor expression, knobs"),
        Stage("schedules", "compiler.templates.vdla.conv2d", "tiles, scratchpads, tensorized units"),
        Stage("loop programs", "compiler.passes.pipeline", passes),
        Stage("instructions", "compiler.codegen.vdla.emit", "inner loops become instructions"),
        Stage("memory image", "compiler.codegen.vdla.link", "tokens, addresses, one program"),
    )


def processor_stages() -> tuple[Stage, ...]:
    """The compiler's stages from a float model to machine code; passes are named as in the code."""
    names = [item.name for item in graph_passes(16).rows]
    middle = -(-len(names) // 2)
    return (
        Stage("float graph", "compiler.frontends.onnx.float_importer", "one function for each ONNX operator"),
        Stage("passes", "compiler.rewrites.floating.pipeline", ", ".join(names[:middle])),
        Stage("passes, continued", "compiler.rewrites.floating.pipeline", ", ".join(names[middle:])),
        Stage("schedules", "compiler.templates.cpu.lower", "template or sketch, knobs by cost model"),
        Stage("kernels", "compiler.kernel_launches", "equal programs become one"),
        Stage("LLVM IR", "compiler.codegen.cpu.module", "vectors, unrolled tiles, threads"),
        Stage("machine code", "compiler.codegen.cpu.machine_code", "in memory, or ahead of time as C"),
    )


def compiler_figure(config: Config) -> Figure:
    """A diagram of the compiler's stages for the accelerator and for processors, and of their common parts."""
    figure, axes = _sheet(13.2, 6.8)
    shared = "both: te (what is computed), ir (loops, interpreter), schedule (primitives, traces), templates (knobs)"
    lanes = (
        ("accelerator", 6.3, 3.9, ("int8 ONNX", *accelerator_stages(config), "simulator, RTL"), BLUE),
        ("processor", 2.65, 0.2, ("float ONNX", *processor_stages(), "arrays"), GREEN),
    )
    for name, top, bottom, stages, color in lanes:
        axes.text(0.1, top + 0.22, name, fontsize=10, color=INK, fontweight="bold", va="center")
        room = 13.0 / len(stages)
        boxes = [_Box(0.1 + room * k, bottom, 0.1 + room * k + room - 0.28, top) for k in range(len(stages))]
        for stage, box in zip(stages, boxes, strict=True):
            if isinstance(stage, str):
                _draw(axes, box, stage.replace(" ", "\n"), edge=MUTED, size=8.6)
                continue
            words = [*_folded(stage.words, 14), "", *_path(stage.module, 15)]
            _draw(axes, box, "\n".join(_folded(stage.makes, 11)), words, edge=color, size=8.6)
        for before, after in pairwise(boxes):
            _arrow(axes, (before.right, before.y), (after.left, after.y))
    _draw(axes, _Box(0.1, 3.25, 13.0, 3.65), shared, edge=PURPLE, fill="#faf1f6", size=9)
    return figure


def _folded(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False)


def _path(module: str, width: int) -> list[str]:
    """A module's name below `vdla.compiler`, split after dots or before underscores into lines of at most `width`."""
    name = module.removeprefix("compiler.")
    return [
        line.replace(" ", "") for line in textwrap.wrap(name.replace(".", ". ").replace("_", " _"), width)
    ]

from dataclasses import replace

import pytest
from rich.console import Console

from vdla.codesign.report.canvas import new_figure, plain_ticks, short
from vdla.codesign.report.cycle_breakdown import LayerAccount, RunAccount, TotalAccount
from vdla.codesign.report.memory_roofs import memory_roofs
from vdla.codesign.report.plots import (
    LARGEST_CAUSES,
    layers_png,
    number_ranges,
    roofline_figure,
    roofline_png,
    stacked_causes,
)
from vdla.codesign.report.table import layer_table, main_causes
from vdla.isa.config import load_config


def layer(name: str, begin: int, gemm: int, stalls: dict[str, int], macs: int) -> LayerAccount:
    return LayerAccount(
        name=name,
        op="Convolution",
        members=(name,),
        macs=macs,
        started=begin,
        begin=begin,
        end=begin + gemm + sum(stalls.values()),
        roofline_cycles=macs / 256,
        bound="compute",
        gemm_cycles=gemm,
        stalls=stalls,
        dram={"inp": 1000 if macs else 0},
        compulsory_bytes=1000,
        excess={},
    )


def account(layers: tuple[LayerAccount, ...]) -> RunAccount:
    total = TotalAccount(
        macs=sum(item.macs for item in layers),
        cycles=layers[-1].end,
        roofline_cycles=sum(item.roofline_cycles for item in layers),
        instructions=10,
        dram_read_bytes=sum(item.dram_bytes for item in layers),
        dram_write_bytes=0,
        clock_hertz=1e8,
        seconds_at_clock=1e-5,
        compile_seconds=0.1,
        simulate_seconds=0.1,
    )
    return RunAccount(model="made-up", config="vta", total=total, layers=layers, check=None)


MANY = tuple(
    layer(f"layer{n}", 1000 * n, 900, {f"cause{c}": 10 * (c + 1) for c in range(4)}, 200_000)
    for n in range(60)
)


def test_same_account_gives_the_same_picture() -> None:
    run = account((layer("a", 0, 90, {"drain": 10}, 20_000), layer("pool", 100, 0, {"alu": 50}, 0)))
    assert roofline_png(run, load_config("vta")) == roofline_png(run, load_config("vta"))
    assert layers_png(run) == layers_png(run)


def test_many_layers_at_one_spot_are_still_drawn() -> None:
    run = account(MANY)
    assert roofline_png(run, load_config("vta")).startswith(b"\x89PNG")
    assert layers_png(run).startswith(b"\x89PNG")


VTA = load_config("vta")


@pytest.mark.parametrize(
    "memory", [{}, {"data_channels": "separate"}, {"kind": "dram", "part": "MT41K256M8"}]
)
def test_the_roofline_plot_draws_each_slope_of_the_memory(memory: dict[str, str]) -> None:
    config = replace(VTA, memory=replace(VTA.memory, **memory))
    axes = roofline_figure(account(MANY), config).axes[0]
    slopes = [line.get_ydata()[0] / line.get_xdata()[0] for line in axes.get_lines()]  # type: ignore[index]
    roofs = memory_roofs(config)
    assert slopes == pytest.approx([roof.bytes_per_cycle for roof in roofs])
    assert {roof.words for roof in roofs} <= {text.get_text() for text in axes.texts}


def test_network_without_multiplies_is_drawn() -> None:
    run = account((layer("pool", 0, 0, {"alu": 50}, 0),))
    assert roofline_png(run, load_config("tiny")).startswith(b"\x89PNG")
    assert layers_png(run).startswith(b"\x89PNG")


def test_small_causes_are_drawn_together_and_none_is_lost() -> None:
    stalls = {f"cause{n}": n + 1 for n in range(10)}
    stacks = stacked_causes((layer("a", 0, 5, stalls, 0),))
    assert len(stacks) == LARGEST_CAUSES + 1
    assert next(iter(stacks)) == "cause9" and list(stacks)[-1] == "all other causes"
    assert sum(values[0] for values in stacks.values()) == sum(stalls.values())


def test_main_causes_come_largest_first() -> None:
    assert main_causes({"drain": 5, "alu": 1000, "unit": 7}) == "alu 1,000, unit 7"
    assert main_causes({"drain": 0}) == ""


def test_layers_at_one_spot_share_a_label() -> None:
    assert number_ranges([3]) == "3"
    assert number_ranges([3, 5, 6, 7]) == "3, 5-7"
    assert number_ranges(range(1, 61)) == "1-60"
    assert number_ranges(range(1, 61, 2)) == "30 layers"


def test_layers_below_their_roofline_are_marked_with_the_reason() -> None:
    plain = layer("plain", 0, 100, {}, 20_000)
    overlap = replace(layer("early", 100, 50, {}, 20_000), started=20)
    fused = replace(layer("fused", 150, 50, {}, 20_000), started=140)
    assert [item.below_roofline for item in (plain, overlap, fused)] == [None, "overlap", "fusion"]
    console = Console(width=160)
    with console.capture() as capture:
        console.print(layer_table(account((plain, overlap, fused))))
    shown = capture.get()
    assert " *50 " in shown and " +50 " in shown and " 100 " in shown
    assert "* below its roofline: it began while" in shown and "+ below its roofline, which counts" in shown
    with console.capture() as capture:
        console.print(layer_table(account((plain,))))
    assert "below its roofline" not in capture.get()


def test_numbers_on_axes_have_no_powers():
    figure = new_figure(4, 3)
    axes = figure.subplots()
    axes.plot([20, 400], [1e5, 7e6])
    axes.set_xscale("log")
    plain_ticks(axes.xaxis)
    plain_ticks(axes.yaxis)
    figure.draw_without_rendering()
    across, up = ([tick.get_text() for tick in axis.get_ticklabels()] for axis in (axes.xaxis, axes.yaxis))
    assert {"20", "50", "100", "200"} <= {*across} and {"2M", "4M"} <= {*up}
    assert [short(value) for value in (0.0, 0.25, 1500.0, 60_000.0, 1.5e9)] == [
        "0",
        "0.25",
        "1,500",
        "60k",
        "1.5G",
    ]

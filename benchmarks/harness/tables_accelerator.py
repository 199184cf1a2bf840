"""Writes tables about the accelerator for the project's pages, from the files of results. The tables show the
demonstration, the correctness of outputs, the speed of networks, and how many seeded faults and mutations the tests
find.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vdla.codesign.report.console import PlainConsole
from vdla.codesign.report.cycle_breakdown import run_account
from vdla.codesign.report.table import Variant, comparison_table, layer_table, summary

from .page import Document, Row, Table, Where, at

DEMO_WIDTH = 150
"""Width in characters of the tables that `vdla demo` prints, as they are shown on the page."""
LATENCIES = (60, 120, 240)


def demo_text(document: Document) -> str:
    """The text that `vdla demo` prints, made from the committed report."""
    report = document["report"]
    account = run_account(report)
    variants = [
        Variant(name=v["name"], cycles=v["cycles"], utilization=v["utilization"]) for v in report["variants"]
    ]
    console = PlainConsole(width=DEMO_WIDTH, color=False)
    with console.capture() as capture:
        console.print(layer_table(account))
        for line in summary(account):
            console.print(line, soft_wrap=True)
        console.print(comparison_table(account, variants))
    lines = [line.rstrip() for line in capture.get().splitlines()]
    return "\n".join(["```", *lines, "```"])


def outputs_row(prefix: str, measure: str) -> Row:
    """A table row with the text `measure`: whether outputs agree, over all figures of network.json whose names begin
    with `prefix`.
    """

    def worst(document: Document) -> int:
        return max(row["max_lsb"] for row in _starting(document, prefix))

    def equal(document: Document) -> str:
        return "equal" if all(row["top1_equal"] for row in _starting(document, prefix)) else "DIFFERENT"

    def own(document: Document) -> str:
        return "equal to" if all(row["equals_interpreter"] for row in _starting(document, prefix)) else "NOT"

    return Row(
        measure,
        "{0} LSB, top-1 {1}, {2} our interpreter",
        tuple(at("network", then=part) for part in (worst, equal, own)),
    )


def _starting(document: Document, prefix: str) -> list[Any]:
    return [value for name, value in document.items() if name.startswith(prefix)]


ACCELERATOR = Table(
    note="Thread CPU time, medians of 5.",
    rows=(
        outputs_row(
            "resnet18 outputs", "ResNet-18 outputs against ONNX Runtime, 8 inputs, `vta` and `osdi18`"
        ),
        outputs_row(
            "small_cnn outputs", "the small CNN on `vta`, `tiny`, `osdi18`, 32x32, batch 2, 512-bit bus"
        ),
        Row(
            "utilization, ResNet-18, `vta`",
            "{0:.3f} ({1:,} cycles)",
            (at("network", "utilization, vta"), at("network", "cycles, vta")),
        ),
        Row(
            "the same tuned in place, with the records that come with the package",
            "{0:.3f} ({1:,} cycles)",
            (at("network", "utilization, vta, tuned"), at("network", "cycles, vta, tuned")),
        ),
        Row(
            "with one virtual thread (no latency hiding)",
            "{0:.3f}",
            (at("network", "utilization, vta, one virtual thread"),),
        ),
        Row(
            "at read latencies " + ", ".join(map(str, LATENCIES)),
            ", ".join(f"{{{k}:.3f}}" for k in range(len(LATENCIES))),
            tuple(at("network", f"utilization, vta, read latency {latency}") for latency in LATENCIES),
        ),
        Row("utilization, ResNet-18, `osdi18`", "{0:.3f}", (at("network", "utilization, osdi18"),)),
        Row(
            "simulation with data", "{0:.0f} M cycles/s", (at("network", "simulation with data, M cycles/s"),)
        ),
        Row("timing alone, whole ResNet-18", "{0:.3f} s", (at("network", "timing alone, s"),)),
        Row("compile ResNet-18", "{0:.2f} s", (at("network", "compile ResNet-18, s"),)),
        Row(
            "lowering one convolution, verification off",
            "{0:.1f} ms",
            (at("network", "lower one convolution, ms"),),
        ),
        Row(
            "ResNet-18 on the RTL (Verilator) against the simulator: cycles, differences; thread CPU time",
            "{0:,}, {1}; {2:.0f} s against {3:.2f} s with data",
            (
                at("rtl", "cycles"),
                at("rtl", "differences", then=lambda found: len(found) or "none"),
                at("rtl", "RTL, CPU s"),
                at("rtl", "simulator with data, CPU s"),
            ),
        ),
        Row(
            "`vdla rtl` (seconds on the clock): `vta`; 64x64 on a 64-byte bus; 16x16 with batch 4; 64x64 with batch 4",
            "{0:.1f}; {1:.1f}; {2:.1f}; {3:.1f}",
            tuple(
                at("rtl_emission", "machines", name, "seconds")
                for name in ("vta", "64x64", "batch 4", "64x64, batch 4")
            ),
        ),
    ),
)


def campaigns_text(document: Document) -> str:
    """A table with a line for each campaign of RTL mutations; a campaign is one machine with one random seed."""
    lines = [
        "| machine | seed | programs improved on it | mutations | caught | proven equivalent | caught of the others |",
        "|---|---|---|---|---|---|---|",
    ]
    for item in document["campaigns"]:
        lines.append(
            f"| {item['config']} | {item['seed']} | {'yes' if item['programs_were_improved_on_it'] else 'no'} | "
            f"{item['mutations']} | {item['caught']} | {item['proven_equivalent']} | "
            f"{item['caught_fraction_of_those_not_equivalent']:.1%} |"
        )
    written = document["written"]
    last = (
        f"- benchmarks/results/mutations.json: last written by `{written['command']}`, commit {written['commit']}, "
        f"{written['date']}"
    )
    return "\n".join([*lines, "", last])


_DAMAGED = (
    "damaged {}: cases; refused in one line, results right; tracebacks, crashes, hangs and wrong results"
)
FUZZED = (
    ("models", _DAMAGED.format("models"), "{0:,}; {1:,}, {2:,}; {3}"),
    (
        "float_graphs",
        "random float graphs over every operator of the importers: cases; refused, right; wrong, tracebacks, hangs",
        "{0:,}; {1:,}, {2:,}; {3}",
    ),
    (
        "qdq_graphs",
        "random quantized graphs, on the accelerator, beside it and on the processor: cases; refused, right; wrong, "
        "tracebacks, hangs",
        "{0:,}; {1:,}, {2:,}; {3}",
    ),
    (
        "attributes",
        "random graphs with an attribute that the operator does not have: cases; refused by its name; ignored, "
        "tracebacks",
        "{0:,}; {2:,}; {3}",
    ),
    ("configurations", _DAMAGED.format("configurations"), "{0:,}; {1:,}, {2:,}; {3}"),
    ("programs", _DAMAGED.format("raw programs"), "{0:,}; {1:,}, {2:,}; {3}"),
    ("archives", _DAMAGED.format("compiled networks"), "{0:,}; {1:,}, {2:,}; {3}"),
    ("tflite", _DAMAGED.format("or intact TFLite files"), "{0:,}; {1:,}, {2:,}; {3}"),
    (
        "tflite_graphs",
        "random TFLite graphs over every operator of the frontend, beside LiteRT: cases; refused, right; wrong, "
        "tracebacks, hangs",
        "{0:,}; {1:,}, {2:,}; {3}",
    ),
    ("records", _DAMAGED.format("tuning records"), "{0:,}; {1:,}, {2:,}; {3}"),
    ("inputs", _DAMAGED.format("files of inputs"), "{0:,}; {1:,}, {2:,}; {3}"),
    (
        "kills",
        "killed commands: cases; right afterwards; incomplete files or wrong results",
        "{0:,}; {2:,}; {3}",
    ),
    (
        "streams",
        "outputs of every command that are full, closed or missing: cases; told in one line, not needed; tracebacks, "
        "successes without a result",
        "{0:,}; {1:,}, {2:,}; {3}",
    ),
    (
        "interrupts",
        "every command, interrupted or terminated at some moment: cases; ended in one line; tracebacks, processes or "
        "files left behind",
        "{0:,}; {2:,}; {3}",
    ),
)
"""Kinds of test cases of the fuzzing benchmark, one table row each: (kind, text on the page, format of four numbers:
all cases, rejected cases, right cases and failed cases).
"""


def _fuzzed_row(kind: str, name: str, shown: str) -> Row:
    """The table row for one `kind` of fuzzing cases (numbers of all cases, rejected, right and failed cases), with the
    text `name` and the number format `shown`. The row is left out if fuzz.json lacks the kind.
    """
    row = (Where("kind", kind),)
    return Row(
        name,
        shown,
        (
            at("fuzz", "kinds", *row, "cases"),
            at("fuzz", "kinds", *row, "refused"),
            at("fuzz", "kinds", *row, "right"),
            at("fuzz", "kinds", *row, "failures", then=len),
        ),
        optional=True,
    )


def _more_cycles(rows: Sequence[Document]) -> str:
    """A text with the percentage of cycles that a DRAM adds to those of a fixed memory, for each network."""
    return ", ".join(f"{row['cycles'] / row['cycles_fixed_memory'] - 1:+.1%}" for row in rows)


def _by_chip(figure: Callable[[Document], str]) -> Callable[[Sequence[Document]], str]:
    """A function from rows to one text. It lists the texts that `figure` makes of the networks' rows, chip by chip; the
    chip with the narrowest bus comes first.
    """

    def texts(rows: Sequence[Document]) -> str:
        widths = sorted({row["bus_bytes"] for row in rows})
        return "; ".join(
            ", ".join(figure(row) for row in rows if row["bus_bytes"] == width) for width in widths
        )

    return texts


FAULTS = Table(
    rows=(
        Row(
            "one-line faults in RTL and simulator, caught by co-simulation",
            "{0} of {1}",
            (at("faults", "caught"), at("faults", "faults")),
        ),
        Row(
            "faults in scheduled GPU kernels, caught by emulation and its race and bounds checks",
            "{0} of {1}",
            (at("gpu_faults", "caught"), at("gpu_faults", "faults")),
        ),
        Row(
            "random programs on simulator and RTL: programs, mismatches",
            "{0:,}, {1}",
            (at("cosim", "programs"), at("cosim", "mismatches")),
        ),
        Row(
            "the same on machines with SDR, DDR2, DDR3 or DDR4 as memory, the RTL on LiteDRAM's RTL",
            "{0:,}, {1}",
            (at("dram_cosim", "programs"), at("dram_cosim", "differences")),
        ),
        Row(
            "the MLP, a GPT-2 step, a BERT layer, MobileNet-v1 and v2, ResNet-18 behind one DDR3 chip, likewise: "
            "differences; cycles beside a fixed memory",
            "{0}; {1}",
            (
                at("dram_networks", "rows", then=lambda rows: sum(len(row["differences"]) for row in rows)),
                at("dram_networks", "rows", then=_more_cycles),
            ),
        ),
        Row(
            "these networks behind DDR3-800 with 8 data lines; with 16: fewer cycles than without placement",
            "{0}",
            (at("dram_placement", "rows", then=_by_chip(lambda row: f"{row['fewer']:.1%}")),),
        ),
        Row(
            "their utilization, roofline of the part's peak / cycles",
            "{0}",
            (at("dram_placement", "rows", then=_by_chip(lambda row: f"{row['utilization']:.1%}")),),
        ),
        *(_fuzzed_row(*names) for names in FUZZED),
    ),
)

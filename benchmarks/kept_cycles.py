"""Compares the cycles of networks in files of results with newly simulated cycles.

    python benchmarks/kept_cycles.py [--only FILE ...] [--quick]

Each row is compiled and simulated again (without data) in the same way as by the benchmark that wrote it: ResNet-18,
ResNet-50 and MobileNets on the machines of `grid`, networks that others publish (`outside`, `vision_transformers`),
language models (`language`), BERT's encoder (`encoders`). `--quick`: only networks that take a few seconds to quantize
and compile. Exit code 1: some cycles differ; the command recorded in the file updates it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from vdla.benchmarks import encoders, grid, language, outside
from vdla.benchmarks.harness.command_line import ONLY, Given, Option, run_script
from vdla.benchmarks.harness.quantized import TAPS_EXTENSIONS, vta_with
from vdla.benchmarks.harness.results import read_results
from vdla.codesign.explore.networks import Network
from vdla.codesign.models.transformers.bert import BertSizes
from vdla.compiler.pipeline import compile_program
from vdla.compiler.runtime.accelerator import run
from vdla.isa.config import Config, load_config
from vdla.sim import simulate

QUICK_NETWORKS = ("squeezenet1_1", "mobilenet_v2", "mnasnet", "shufflenet_v2", "resnet50")
"""Networks of `outside` whose quantization and compilation take a few seconds together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCycles:
    """A number of cycles in a file of results. `file`: the file's name without ending; `row`: the network and machine
    in words; `kept`: the number in the file; `today`: a function that simulates the number again; `quick`: whether the
    simulation takes only seconds.
    """

    file: str
    row: str
    kept: int
    today: Callable[[], int]
    quick: bool

    def __str__(self) -> str:
        return f"benchmarks/results/{self.file}.json: {self.row}"


def kept_cycles() -> Iterator[KeptCycles]:
    """Yields every number of cycles, from the files of results, that this script can compute again by simulation."""
    for file in ("grid", "grid_mobilenets"):
        yield from _of_grid(file)
    for file in ("outside", "vision_transformers"):
        document = read_results(file)
        for row in document["rows"]:
            if "cycles" in row:
                yield KeptCycles(
                    file=file,
                    row=f"{row['name']}, {row['size']}x{row['size']}",
                    kept=row["cycles"],
                    today=partial(_of_others, row, tuple(document["extensions"])),
                    quick=file == "outside" and row["name"] in QUICK_NETWORKS,
                )
    document = read_results("language")
    for row in document["rows"]:
        if "cycles" in row:
            today = partial(_of_language, row["name"], tuple(document["extensions"]))
            yield KeptCycles(file="language", row=row["name"], kept=row["cycles"], today=today, quick=False)
    document = read_results("encoders")
    for name, chain in (("cycles", document["chain_buffer_bytes"]), ("cycles_unchained", 0)):
        today = partial(_of_encoder, document, chain)
        yield KeptCycles(file="encoders", row=name, kept=document[name], today=today, quick=False)


def _of_grid(file: str) -> Iterator[KeptCycles]:
    document = read_results(file)
    rows: list[tuple[Config, str, Mapping[str, Any]]] = []
    for_depthwise = () if file == "grid" else TAPS_EXTENSIONS
    for part in ("cells", "unfolded"):
        for cell in document.get(part, ()):
            block_in, block_out = map(int, cell["array"].split("x"))
            shape = (block_in, block_out, cell["bus_bytes"], cell["read_latency"])
            config = grid.machine(
                *shape, for_depthwise=for_depthwise, folds=part == "cells" and file != "grid"
            )
            if file != "grid":
                config = grid.for_mobilenets(config)
            where = f"{cell['array']}, {cell['bus_bytes']} bytes, latency {cell['read_latency']}"
            rows.append((config, where + ", unfolded" * (part == "unfolded"), cell))
    for size, what in ((512, "512 bytes"), (1024, "1 KiB")):
        name = f"vta, store FIFO of {what}"
        if name in document:
            rows.append((replace(load_config("vta"), name=name, store_fifo_bytes=size), name, document[name]))
    for config, where, cell in rows:
        for name, figures in cell.items():
            if isinstance(figures, Mapping):
                yield KeptCycles(
                    file=file,
                    row=f"{name}, {where}",
                    kept=figures["cycles"],
                    today=partial(_on_grid, name, config, figures["virtual_threads"]),
                    quick=name in ("resnet18", "mobilenet"),
                )


@cache
def _network(name: str) -> Network:
    with tempfile.TemporaryDirectory() as folder:
        return grid.network_of(name, Path(folder))


def _on_grid(name: str, config: Config, virtual_threads: int) -> int:
    compiled = compile_program(
        _network(name).graph, config, virtual_threads=virtual_threads, data=False
    ).program
    return simulate(config, compiled.instructions, compiled.image, data=False).cycles


def _of_file(path: Path, config: Config) -> int:
    return run(compile_program(path, config), {}, data=False).simulation.cycles


def _of_others(row: Mapping[str, Any], extensions: tuple[str, ...]) -> int:
    config = replace(vta_with(extensions), chain_buffer_bytes=row["chain_buffer_bytes"])
    return _of_file(outside.quantized(row["name"], row["size"]), config)


def _of_language(name: str, extensions: tuple[str, ...]) -> int:
    part, feeds = language.from_embeddings(language.MODELS[name].build(), language.MODELS[name])
    return _of_file(language.quantized(name, part, feeds), vta_with(extensions))


def _of_encoder(document: Mapping[str, Any], chain: int) -> int:
    sizes = BertSizes(**{name: document[name] for name in ("layers", "width", "heads")})
    with tempfile.TemporaryDirectory() as folder:
        path = encoders.quantized(sizes, document["sequence"], Path(folder))
        return _of_file(path, replace(vta_with(), chain_buffer_bytes=chain))


OPTIONS = (
    ONLY.but(metavar="FILE", help="results files to compare"),
    Option("--quick", "only networks that take seconds to quantize and compile", flag=True),
)


def main(options: Given) -> int:
    stale = 0
    for figure in kept_cycles():
        if (options.only and figure.file not in options.only) or (options.quick and not figure.quick):
            continue
        today = figure.today()
        stale += today != figure.kept
        if today != figure.kept:
            print(f"{figure}: {figure.kept:,} there, {today:,} today", flush=True)
    return stale > 0


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)

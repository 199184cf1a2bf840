"""Digests of the integer and float graphs of many models, one a line, to verify that a change of the importers alters
no graph.

    python tests/helpers/graph_digests.py MODEL.onnx... > before.txt     # at one commit
    python tests/helpers/graph_digests.py MODEL.onnx... > after.txt      # at the other; then compare the two files

A line has the model, the target, and the digest of all fields of the graph, or the reason why there is no graph. Lines
with the target `survey` state how the accelerator's survey classifies each node. Without models, `--random` graphs of
the fuzzer are used.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vdla.benchmarks.fuzzing.drawing import Draw
from vdla.benchmarks.fuzzing.float_graphs import outputs_of
from vdla.benchmarks.fuzzing.qdq_graphs import random_qdq_graph, small_machine
from vdla.compiler.frontends.onnx.float_importer import import_float_model
from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.frontends.onnx.model.load import load_model
from vdla.compiler.frontends.onnx.survey import survey_model
from vdla.compiler.graph.abilities import EVERYTHING, PROCESSOR, Abilities
from vdla.isa.config import load_config

TARGETS = {
    "tiny": Abilities.of(load_config("tiny")),
    "small": Abilities.of(small_machine()),
    "processor": PROCESSOR,
    "everything": EVERYTHING,
}


def written(value: Any) -> bytes:
    """All fields of a value as bytes, recursively; equal values give equal bytes."""
    if is_dataclass(value):
        parts = [f"{field.name}=".encode() + written(getattr(value, field.name)) for field in fields(value)]
        return type(value).__name__.encode() + b"(" + b",".join(parts) + b")"
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}".encode() + hashlib.sha256(value.tobytes()).digest()
    if isinstance(value, Mapping):
        return b"{" + b",".join(written(key) + b":" + written(value[key]) for key in sorted(value)) + b"}"
    if isinstance(value, tuple | list):
        return b"[" + b",".join(map(written, value)) + b"]"
    return repr(value).encode()


def digest(value: Any) -> str:
    """A digest (24 hexadecimal digits) of a value and all its fields."""
    return hashlib.sha256(written(value)).hexdigest()[:24]


def lines(data: bytes) -> Iterator[str]:
    """Yields, for each target, a line with the digest of the model's graph, or the error."""
    for name, abilities in TARGETS.items():
        try:
            yield f"{name} {digest(import_model(data, abilities=abilities, batch=1))}"
        except Exception as error:
            yield f"{name} {type(error).__name__}: {error}"
    try:
        yield f"float {digest(import_float_model(data))}"
    except Exception as error:
        yield f"float {type(error).__name__}: {error}"
    try:
        loaded = load_model(data, batch=1)
        survey = survey_model(loaded.label, loaded.whole(), abilities=TARGETS["tiny"])
        kinds = [f"{item.kind} {item.refusal}".strip() for item in survey.nodes]
        yield f"survey {digest((survey.nodes, survey.constants, survey.types))} {'; '.join(kinds)}"
    except Exception as error:
        yield f"survey {type(error).__name__}: {error}"


def drawn(count: int) -> Iterator[tuple[str, bytes]]:
    """Yields (name, bytes of the model) of the fuzzer's random quantized graphs 0 to `count` - 1, except those that the
    fuzzer gives up.
    """
    for index in range(count):
        builder = random_qdq_graph(Draw("qdq_graphs", 1, index), index)
        if builder is not None:
            yield f"random-{index}", builder.model(outputs_of(builder)).SerializeToString()


def main() -> None:
    """Prints the digest lines of the models given on the command line, by default of random graphs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", type=Path, help="models, .onnx")
    parser.add_argument("--random", type=int, default=1000, help="random graphs, if no models are given")
    options = parser.parse_args()
    models = ((path.name, path.read_bytes()) for path in options.models)
    for name, data in models if options.models else drawn(options.random):
        for line in lines(data):
            print(name, line.replace("\n", " | "), flush=True)


if __name__ == "__main__":
    main()

"""Networks that others publish, quantized by ONNX Runtime, on the accelerator: whether a network runs entirely on it,
or else the first node that cannot.

    python benchmarks/outside.py [NAME ...] [--size N] [--run] [--write] [--again] [--extensions NAME ...]
        [--chain BYTES] [--results NAME]

Each network of codesign/models/originals is quantized as a new user would (`outside_networks.quantize`); the file is
cached by its content. It is compiled for `vta` with the extensions that these networks need. `--run` also simulates the
networks that run entirely on the accelerator, and compares their outputs with the interpreter and ONNX Runtime. With
`--write` each row goes to benchmarks/results/NAME.json as soon as it is measured; rows that the file has are measured
again only with `--again`. The row of a network that crashes has the error.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vdla.benchmarks import outside_networks
from vdla.benchmarks.harness.command_line import AGAIN, SIMULATE, WRITE, Given, Option, names_of, run_script
from vdla.benchmarks.harness.quantized import NEEDED, vta_with
from vdla.benchmarks.harness.results import RESULTS, read_results, write_results
from vdla.codesign.evaluate import (
    compare_layers,
    interpreter_outputs,
    largest_difference,
    onnxruntime_outputs,
    sample_arrays,
)
from vdla.codesign.models.originals import NAMES, build_original, original
from vdla.compiler.frontends.onnx.float_importer import OLDEST_OPSET
from vdla.compiler.frontends.onnx.partition import partition_model
from vdla.compiler.frontends.onnx.submodel import prepare_model
from vdla.compiler.graph.abilities import Abilities
from vdla.compiler.pipeline import compile_program
from vdla.compiler.runtime.accelerator import run
from vdla.compiler.runtime.layers import layers_of
from vdla.isa.config import Config
from vdla.isa.extensions import EXTENSIONS
from vdla.util.errors import UserError
from vdla.util.user_cache import cache_directory

RESULTS_NAME = "outside"


def quantized(name: str, size: int) -> Path:
    """Path of the network `name` for images of `size` rows and columns, quantized: a file in the cache, which is made
    if it does not exist.
    """
    content = build_original(name, size=size).SerializeToString(deterministic=True)
    folder = cache_directory("outside")
    folder.mkdir(parents=True, exist_ok=True)
    key = hashlib.sha256(content).hexdigest()[:16]
    path = folder / f"{name}-{size}-{key}.onnx"
    if not path.exists():
        plain = folder / f"{path.stem}.float.onnx"
        plain.write_bytes(content)
        try:
            outside_networks.quantize(name, plain, path, size=size)
        finally:
            plain.unlink()
    return path


def measure(name: str, config: Config, size: int, simulate: bool) -> dict[str, Any]:
    """Measures the network `name` for images of `size` rows and columns on the machine `config`; returns its row of the
    results. `simulate`: also runs a network that the accelerator takes whole. After an error, the row has the error's
    message; `crashed` marks an error that users should never see.
    """
    row: dict[str, Any] = {"name": name, "size": size, "chain_buffer_bytes": config.chain_buffer_bytes}
    try:
        path = quantized(name, size)
        label, model = prepare_model(path, least_opset=OLDEST_OPSET)
        partition = partition_model(label, model, abilities=Abilities.of(config))
        operators = {node.name: node.op_type for node in model.graph.node}
        refused = Counter(operators[node] for node in partition.refusals)
        row |= {"regions": len(partition.regions), "refused": dict(refused.most_common())}
        if partition.refusals:
            node, reason = next(iter(partition.refusals.items()))
            row |= {"first": {"node": node, "operator": operators[node], "reason": reason}}
        row["whole"] = False
        compiled = compile_program(path, config)
        row["whole"] = True
        if simulate:
            arrays = dict(sample_arrays(compiled.graph, 1)[0])
            result = run(compiled, arrays)
            ours = dict(result.outputs)
            own = interpreter_outputs(compiled.graph, arrays)
            theirs = onnxruntime_outputs(path, compiled.graph, [arrays])[0]
            cycles = result.simulation.cycles
            row |= {
                "interpreter_steps": largest_difference(compiled.graph, ours, own),
                "onnxruntime_steps": largest_difference(compiled.graph, ours, theirs),
                "layer_steps": compare_layers(path, [arrays]).largest,
                "cycles": cycles,
                "utilization": sum(layer.roofline_cycles for layer in layers_of(compiled)) / cycles,
            }
    except UserError as error:
        # Messages begin with the file's path, which is specific to this computer.
        row |= {"whole": False, "error": str(error).replace(f"{cache_directory('outside')}/", "")}
    except Exception as error:
        row |= {"whole": False, "error": f"{type(error).__name__}: {error}", "crashed": True}
    return row


def geomean(values: Sequence[float]) -> float | None:
    """The geometric mean; None if there are no values."""
    return math.exp(math.fsum(map(math.log, values)) / len(values)) if values else None


def line(row: dict[str, Any]) -> str:
    """A network's row of results as a line of text."""
    first = row.get("first")
    why = f"{first['operator']} {first['node']}: {first['reason']}" if first else row.get("error", "")
    verdict = "whole" if row["whole"] else "stops"
    if "utilization" in row:
        why = (
            f"{row['cycles']:>11,} cycles, {row['utilization']:.3f} of the roofline, steps from the interpreter "
            f"{row['interpreter_steps']}, from ONNX Runtime {row['onnxruntime_steps']}, of a layer {row['layer_steps']}"
        )
    return f"{row['name']:20}{row['size']:5} {verdict:6}{row.get('regions', ''):>5} {why}"


def size_of(name: str, wanted: int | None) -> int:
    """Rows and columns of the images of the network `name`: `wanted`, or the next larger size that the network accepts;
    if `wanted` is None, the network's own size.
    """
    network = original(name)
    if wanted is None:
        return network.size
    least = max(wanted, network.least)
    return -(-least // network.multiple) * network.multiple


OPTIONS = (
    names_of(NAMES, "network"),
    Option(
        "--size",
        "rows and columns of images, at least the smallest size that a network accepts (default: the original size)",
        int,
    ),
    SIMULATE,
    WRITE.but(help="write the rows to benchmarks/results/NAME.json, with NAME from --results"),
    Option(
        "--results",
        f"name of the results file, without .json (default: {RESULTS_NAME})",
        default=RESULTS_NAME,
        metavar="NAME",
    ),
    AGAIN,
    Option(
        "--extensions",
        f"extensions of the machine in addition to vta's (default: {', '.join(NEEDED)})",
        nargs="*",
        default=NEEDED,
        choices=EXTENSIONS,
        metavar="NAME",
    ),
    Option("--chain", "size of the chain memory (default: 0, no chain memory)", int, 0, metavar="BYTES"),
)


def main(options: Given) -> None:
    config = replace(vta_with(options.extensions), chain_buffer_bytes=options.chain)
    rows: dict[str, dict[str, Any]] = {}
    if options.write and (RESULTS / f"{options.results}.json").exists():
        rows = {row["name"]: row for row in read_results(options.results)["rows"]}
    for name in options.names or NAMES:
        size = size_of(name, options.size)
        known = rows.get(name, {})
        same = known.get("size") == size and known.get("chain_buffer_bytes", 0) == options.chain
        if options.again or not same:
            rows[name] = measure(name, config, size, options.run)
        print(line(rows[name]), flush=True)
        if options.write:
            whole = sum(row["whole"] for row in rows.values())
            document = {
                "extensions": list(config.extensions),
                "whole": whole,
                "utilization": geomean([row["utilization"] for row in rows.values() if "utilization" in row]),
                "networks": len(rows),
                "rows": list(rows.values()),
            }
            write_results(options.results, json.loads(json.dumps(document)))


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)

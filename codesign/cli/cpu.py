"""`vdla compile`, and `vdla run` of what it writes: networks on processors."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from vdla.isa.errors import UserError
from vdla.isa.program import write_whole

from ..files import check_destination, whole_directory
from .output import JsonOption, note, print_json, steps, text_console

if TYPE_CHECKING:
    from vdla.compiler.runtime.cpu_network import CpuNetwork, LaunchTime


def compile_model(
    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="An ONNX model, float32 or quantized.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE.tar", help="Where to write the compiled network.")
    ],
    target: Annotated[
        str,
        typer.Option(
            metavar="TARGET",
            help='llvm (this machine), or "llvm -mtriple=T -mcpu=NAME -mattr=+FEATURE,..." in LLVM\'s names.',
        ),
    ] = "llvm",
    batch: Annotated[int, typer.Option(min=1, help="What a dynamic first dimension becomes.")] = 1,
    dump_passes: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The graph after each compiler pass, and every kernel before and after its schedule.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Compiles an ONNX model, float32 or quantized, for a processor into one file, which `vdla run FILE.tar` runs."""
    check_destination(output)
    if target.split()[:1] == ["vdla"]:
        raise UserError(
            "--target vdla: for the accelerator, `vdla run MODEL.onnx --program-out FILE` writes the program; "
            "here the target begins with llvm"
        )
    from vdla.compiler.cpu_driver import compile_cpu_ahead
    from vdla.compiler.runtime.network_archive import save_network
    from vdla.compiler.target.cpu.options import parse_target

    processor = parse_target(target)
    started = time.perf_counter()
    with whole_directory(dump_passes) as dumps, steps() as progress:
        progress.begin(f"compiling {model.name} for {processor.cpu}")
        network = compile_cpu_ahead(model, processor, batch=batch, dump_passes=dumps)
        save_network(output, network)
    seconds = time.perf_counter() - started
    kernels = 0 if network.code is None else len(network.code.modules)
    size = output.stat().st_size
    if json:
        print_json(
            {
                "model": model.stem,
                "target": {
                    "triple": processor.triple,
                    "cpu": processor.cpu,
                    "vector_bits": processor.vector_bits,
                },
                "file": str(output),
                "bytes": size,
                "kernels": kernels,
                "launches": len(network.launches),
                "arena_bytes": network.plan.bytes,
                "compile_seconds": seconds,
            }
        )
    else:
        note(
            f"wrote {output}: {model.stem} for {processor.cpu} ({processor.triple}), {kernels} kernels, "
            f"{len(network.launches)} launches, {size:,} bytes"
        )


def run_compiled(
    path: Path,
    *,
    inputs: Path | None,
    outputs: Path | None,
    repeat: int,
    threads: int,
    profile: bool,
    json: bool,
) -> None:
    """`vdla run` of a compiled network: one inference, then `repeat` timed ones. Raises UserError."""
    check_destination(outputs)
    from vdla.compiler.runtime.network_archive import load_network
    from vdla.compiler.target.cpu.errors import KernelArgumentError

    with steps() as progress:
        progress.begin(f"loading {path.name}")
        network = load_network(path)
        with network:
            arrays = _inputs(network, inputs)
            progress.begin("running", total=repeat)
            try:
                results = network.run(arrays, threads=threads)
            except KernelArgumentError as error:
                # The network knows arrays by name only.
                raise UserError(f"{inputs or path}: {error}") from None
            times: list[float] = []
            for _ in range(repeat):
                start = time.perf_counter()
                network.run(arrays, threads=threads)
                times.append((time.perf_counter() - start) * 1e3)
                progress.advance()
            rows: tuple[LaunchTime, ...] = ()
            if profile:
                progress.begin("profiling")
                rows = network.profile(arrays, threads=threads, repeat=repeat)
    if outputs is not None:
        from ..network_run import npz_bytes

        write_whole(outputs, npz_bytes(results))
    if json:
        print_json(
            {
                "model": network.graph.name,
                "device": "cpu",
                "target": {"triple": network.target.triple, "cpu": network.target.cpu},
                "threads": threads,
                "repeat": repeat,
                "milliseconds": {"median": median(times), "least": min(times), "most": max(times)},
                "inputs": _shapes(arrays),
                "outputs": _shapes(results),
                "profile": [
                    {
                        "name": row.name,
                        "operator": row.operator,
                        "members": list(row.members),
                        "milliseconds": row.milliseconds,
                        "gflops": row.gflops,
                    }
                    for row in rows
                ]
                if profile
                else None,
            }
        )
        return
    console = text_console()
    if profile:
        from ..report.cpu_table import profile_table

        console.print(profile_table(network.graph.name, rows))
    runs = "1 run" if repeat == 1 else f"{repeat} runs"
    workers = "1 thread" if threads == 1 else f"{threads} threads"
    console.print(
        f"{network.graph.name} on {network.target.cpu}, {workers}: {median(times):.3f} ms in the median of {runs}, "
        f"{min(times):.3f} to {max(times):.3f} ms",
        markup=False,
    )
    for name, array in results.items():
        console.print(f"output {name}: {array.dtype} {list(array.shape)}", markup=False)


def _inputs(network: CpuNetwork, path: Path | None) -> Mapping[str, np.ndarray]:
    """The arrays of the file, or seeded samples: of a normal distribution, for integers evenly distributed ones."""
    if path is not None:
        from ..evaluate import load_arrays

        return load_arrays(path)
    generator = np.random.default_rng(0)
    arrays: dict[str, np.ndarray] = {}
    for name, shape in network.input_shapes.items():
        dtype = network.input_types[name]
        if dtype == np.float32:
            arrays[name] = generator.standard_normal(shape, dtype=np.float32)
        else:
            limits = np.iinfo(dtype)
            arrays[name] = generator.integers(limits.min, limits.max + 1, shape, dtype=dtype)
    return arrays


def _shapes(arrays: Mapping[str, np.ndarray]) -> list[dict[str, object]]:
    return [
        {"name": name, "dtype": str(array.dtype), "shape": list(array.shape)}
        for name, array in arrays.items()
    ]
